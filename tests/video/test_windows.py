"""Windows and parts of pictures, in main memory: judged by Pillow, and by cutting what is scaled as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqpipe.errors import ParameterError
from seqpipe.video.convert.chroma import ChromaAxis
from seqpipe.video.convert.color import resolve
from seqpipe.video.convert.converter import Converter, HostPainter
from seqpipe.video.convert.geometry import Stretch
from seqpipe.video.convert.orient import make_bands
from seqpipe.video.convert.output import OutputSpec
from tests.support.filter_table import window_table
from tests.support.pictures import assert_rounded, frame_info, picture, surface_format, xy_output
from tests.support.windows import exact_window, scaled_window

SIZE = (147, 67)
DTYPES = ["uint8", "uint16"]
COLORS = ["YCbCr", "RGB", "BGR", "GRAY"]
FORMS = [
    ("4:2:0", 8),
    ("4:2:0", 10),
    ("4:2:2", 8),
    ("4:4:0", 8),
    ("4:1:1", 8),
    ("4:4:4", 12),
    ("gray", 8),
    ("rgb", 8),
]


def converted(output: OutputSpec, chroma: str = "4:2:0", bits: int = 8, **changes: Any) -> Any:
    """The picture, and what it is to be before it is rounded."""
    form = surface_format(chroma, bits)
    info = frame_info(*SIZE, form, **changes)
    surface = picture(*SIZE, form, resolve(info))
    converter = Converter(info, output)
    out = np.empty(converter.shape, converter.dtype)
    converter(surface, out)
    return out, None if output.color == "YCbCr" or output.size is None else exact_window(
        surface, info, output
    )


@st.composite
def boxes(draw: st.DrawFn, width: int, height: int) -> tuple[int, int, int, int]:
    x, y = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
    return x, y, draw(st.integers(1, width - x)), draw(st.integers(1, height - y))


@st.composite
def windows(draw: st.DrawFn, upright: tuple[int, int]) -> OutputSpec:
    crop = draw(st.one_of(st.none(), boxes(*upright)))
    shown = upright if crop is None else crop[2:]
    size = draw(st.tuples(st.integers(1, 90), st.integers(1, 90)))
    return xy_output(
        crop=crop,
        window=draw(boxes(*shown)),
        size=size,
        part=draw(st.one_of(st.none(), boxes(*size))),
        mirror=draw(st.booleans()),
    )


@given(st.data(), st.sampled_from(FORMS), st.sampled_from([0, 90, 180, 270]), st.booleans())
@settings(max_examples=60)
def test_a_window_is_scaled_as_pillow_does_it(
    data: st.DataObject, form: tuple[str, int], rotation: int, flipped: bool
) -> None:
    upright = SIZE if rotation % 180 == 0 else SIZE[::-1]
    output = data.draw(windows(upright))
    found, wanted = converted(output, *form, rotation_degrees=rotation, flipped=flipped)
    placement = output.placement(frame_info(*upright, surface_format()))
    if placement.is_scaled:
        assert_rounded(found, wanted, 0.03)  # planes have 1/256 of a level
    else:
        # a window of full size: 8 bits of chroma are rounded before they are mixed, as test_convert proves
        assert np.abs(found - wanted).max() <= 2.5


@given(st.data(), st.sampled_from(FORMS), st.sampled_from([0, 90, 180, 270]), st.booleans())
@settings(max_examples=60)
def test_rounded_pictures_are_those_of_full_size_scaled_by_pillow(
    data: st.DataObject, form: tuple[str, int], rotation: int, flipped: bool
) -> None:
    """So that they are what operators make of the reader's pictures."""
    upright = SIZE if rotation % 180 == 0 else SIZE[::-1]
    drawn = data.draw(windows(upright))
    color, dtype = (
        data.draw(st.sampled_from(COLORS[form[0] == "rgb" :])),
        data.draw(st.sampled_from(DTYPES)),
    )
    output = replace(drawn, color=color, dtype=dtype, rounded=dtype)
    stream = {"rotation_degrees": rotation, "flipped": flipped}
    found, _ = converted(output, *form, **stream)
    whole, _ = converted(
        xy_output(color=color, dtype=dtype, window=(0, 0, *upright), size=upright), *form, **stream
    )
    for number in range(output.channels):
        wanted = scaled_window(whole[..., number], output)
        # 1/256 of a level of 8 bits
        assert_rounded(found[..., number], wanted, 0.01 if dtype == "uint8" else 0.75)


@pytest.mark.parametrize("layout", ["FHWC", "FCHW"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rounded_pictures_as_floats(dtype: Any, layout: Any) -> None:
    output = xy_output(window=(11, 5, 93, 60), size=(40, 31), rounded="uint8")
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 0.2)
    found, _ = converted(replace(output, dtype=dtype, mean=mean, std=std, layout=layout))
    whole, _ = converted(xy_output(window=(0, 0, *SIZE), size=SIZE))
    levels = np.stack([scaled_window(whole[..., number], output) for number in range(3)], axis=-1)
    found = np.moveaxis(found, 0, -1) if layout == "FCHW" else found
    np.testing.assert_allclose(found, (levels / 255 - mean) / std, atol=2e-4 if dtype == "float32" else 4e-3)


@pytest.mark.parametrize("color", ["RGB", "GRAY", "BGR"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_types_and_colors(color: Any, dtype: Any) -> None:
    output = xy_output(color=color, dtype=dtype, window=(11, 5, 93, 60), size=(40, 31), layout="FHWC")
    found, wanted = converted(output)
    wanted = wanted[..., ::-1] if color == "BGR" else wanted
    # 1/256 of a level of 8 bits
    np.testing.assert_allclose(found, wanted, atol={"uint8": 0.51, "uint16": 3, "float32": 5e-5}[dtype])


def test_what_lies_beside_a_window_counts_and_beyond_the_crop_nothing_does() -> None:
    """The three ways to scale the same pixels differ at the borders, and only there."""
    alone, _ = converted(xy_output(crop=(40, 20, 80, 40), size=(20, 10)))
    seen, _ = converted(xy_output(window=(40, 20, 80, 40), size=(20, 10)))
    ended, _ = converted(xy_output(crop=(40, 20, 80, 40), window=(0, 0, 80, 40), size=(20, 10)))
    apart = np.abs(seen.astype(int) - ended.astype(int))
    assert apart.max() > 1
    assert apart[2:-2, 2:-2].max() == 0
    assert np.abs(alone.astype(int) - ended.astype(int))[[0, -1]].max() > 1


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("output", [{"short_side": 40}, {"size": (33, 21), "crop": (4, 6, 60, 41)}, {}])
def test_a_part_is_cut_out_of_the_scaled_picture(output: dict[str, Any], rotation: int, mirror: bool) -> None:
    form = surface_format()
    info = frame_info(*SIZE, form, rotation_degrees=rotation)
    surface = picture(*SIZE, form, resolve(info))
    made = []
    for part in (None, (3, 5, 17, 11)):
        converter = Converter(info, xy_output(part=part, mirror=mirror and part is not None, **output))
        made.append(np.empty(converter.shape, converter.dtype))
        converter(surface, made[-1])
    wanted = made[0][5:16, 3:20]
    np.testing.assert_array_equal(made[1], wanted[:, ::-1] if mirror else wanted)


@pytest.mark.parametrize("output", [{}, {"short_side": 60}, {"color": "GRAY", "size": (90, 61)}])
@pytest.mark.parametrize("bits", [8, 10])
def test_a_crop_is_what_is_cut_out_of_the_whole_picture(bits: int, output: dict[str, Any]) -> None:
    """To the last bit, wherever it lies: OpenCV rounds the last pixels of a row otherwise, so there are none."""
    form, apart = surface_format(bits=bits), 0
    info = frame_info(*SIZE, form)
    for seed in range(4):
        surface = picture(*SIZE, form, resolve(info), seed)

        def made(surface: Any = surface, **box: Any) -> Any:
            converter = Converter(info, xy_output(**output, **box))
            out = np.empty(converter.shape, converter.dtype)
            converter(surface, out)
            return out

        whole = made()
        for left in range(0, whole.shape[1] - 44, 3):
            found = made(**{"part" if output else "crop": (left, 7, 44, 40)})
            apart += int((found != whole[7:47, left : left + 44]).sum())
    assert apart == 0


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_weights_are_those_of_the_table(shift: int) -> None:
    random = np.random.default_rng(shift)
    for _ in range(40):
        shown, size = (int(n) for n in random.integers(1, 200, 2))
        begin = int(random.integers(0, shown))
        first = int(random.integers(0, size))
        length, count = int(random.integers(1, shown - begin + 1)), int(random.integers(1, size - first + 1))
        start, offset = int(random.integers(0, 20)), float(random.choice([0, 0.5, 1])) * ((1 << shift) - 1)
        axis = ChromaAxis(shift, offset, start, shown, -(-(start + shown + 3) >> shift))
        stretch = Stretch(begin, length, size, first, count, ends=True)
        made, found = make_bands(axis, stretch), np.zeros((count, axis.samples))
        for pixels, samples, weights in made.bands:
            found[pixels, samples] = weights
        np.testing.assert_allclose(found, window_table(axis, stretch), atol=1e-7, err_msg=f"{axis} {stretch}")


def test_where_chroma_is_scaled_without_the_luma_grid() -> None:
    """From twice as many whole samples or more; and its window there, by positions of samples' edges."""
    axis = ChromaAxis(1, 0.0, 4, 40, 30)
    assert [axis.skips_luma_grid(size) for size in (5, 10, 11)] == [True, True, False]
    assert not ChromaAxis(1, 0.0, 4, 41, 30).skips_luma_grid(5)
    assert ChromaAxis(0, 0.0, 4, 40, 60).skips_luma_grid(80)
    assert axis.extent == (2.25, 20)  # the first sample lies at 0.5 of luma, not at 1
    assert ChromaAxis(1, 0.5, 4, 40, 30).extent == (2, 20)


def test_a_frame_of_another_size_gives_the_same_picture() -> None:
    """The window moves with the picture; what is scaled to the same size stays alike."""
    output = xy_output(crop=(20, 4, 120, 60), window=(10, 6, 80, 50), size=(40, 25))
    info = frame_info(*SIZE)
    large = picture(2 * SIZE[0], 2 * SIZE[1], surface_format(), resolve(info))
    converter = Converter(info, output)
    found = np.empty(converter.shape, converter.dtype)
    converter(large, found)
    twice = xy_output(crop=(40, 8, 240, 120), window=(20, 12, 160, 100), size=(40, 25))
    other = Converter(frame_info(2 * SIZE[0], 2 * SIZE[1]), twice)
    wanted = np.empty(other.shape, other.dtype)
    other(large, wanted)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window": (0, 0, 5)}, r"window=\(0, 0, 5\) is not valid; allowed: 4 values"),
        ({"window": (0, 0, 5, 0)}, r"window=\(0, 0, 5, 0\) is empty"),
        ({"part": (0, -1, 5, 5)}, r"part=-1 is not valid"),
        ({"rounded": "uint8"}, r"rounded='uint8' with window=None and dtype='uint8'; allowed: a window"),
        (
            {"rounded": "uint8", "dtype": "uint16", "window": (0, 0, 5, 5)},
            "a dtype that is the same or a float",
        ),
        ({"rounded": "float16", "window": (0, 0, 5, 5)}, r"rounded='float16' is not valid; allowed: 'uint8'"),
    ],
)
def test_values_that_cannot_be_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        OutputSpec(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"crop": (10, 0, 50, 50), "window": (1, 0, 50, 50)},
            "exceeds the crop of 50x50 pixels.*in pixels of the crop",
        ),
        (
            {"size": (20, 10), "part": (0, 1, 20, 10)},
            "exceeds the scaled frame of 20x10 pixels.*pixels of the scaled frame",
        ),
    ],
)
def test_boxes_that_leave_what_they_are_a_part_of(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Converter(frame_info(*SIZE), xy_output(**values))


def test_converters_of_one_painter_share_their_memory() -> None:
    """Each request may have a window of its own: what is made on the way is not kept for each of them."""
    form, random, painter = surface_format(), np.random.default_rng(0), HostPainter()
    info = frame_info(*SIZE, form)
    surface = picture(*SIZE, form, resolve(info))
    outputs = [xy_output(), xy_output(short_side=40, mirror=True)]
    for _ in range(12):
        x, y, width, height = (int(n) for n in random.integers((0, 0, 20, 10), (100, 40, 47, 27)))
        window = xy_output(window=(x, y, width, height), size=(30, 20))
        outputs += [window, replace(window, rounded="uint8", layout="FCHW")]
    for output in outputs * 2:
        alone, converter = Converter(info, output), painter.converter(info, output)
        found, wanted = (np.empty(alone.shape, alone.dtype) for _ in range(2))
        painter.put(surface, [(converter, found)])
        alone(surface, wanted)
        np.testing.assert_array_equal(found, wanted)
        assert converter._scratch is painter._scratch
    held = sum(memory.nbytes for memory in painter._scratch._memory.values())
    assert 0 < held < 40 * SIZE[0] * SIZE[1]
