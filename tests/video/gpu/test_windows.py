"""Windows and parts of pictures by the kernel, on a GPU and emulated: judged by Pillow, and by cutting the whole."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from seqpipe.video.convert.color import resolve
from seqpipe.video.convert.converter import Converter
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.convert.surface import Surface
from seqpipe.video.cuda.painter import DeviceConverter
from seqpipe.video.probe.info import StreamInfo
from tests.support.benches import Bench
from tests.support.deep import combined, deep, deep_but
from tests.support.pictures import assert_rounded, frame_info, picture, surface_format, xy_output
from tests.support.windows import exact_window, scaled_window

SIZE = (147, 67)
# (chroma, bits, chroma interleaved, samples in the high bits)
STORED = [
    ("4:2:0", 8, True, False),
    ("4:2:0", 10, True, True),
    ("4:2:2", 8, False, False),
    ("4:1:1", 8, False, False),
    ("4:4:4", 8, False, False),
    ("gray", 8, False, False),
]


def made_there(
    bench: Bench, stored: Any, output: OutputSpec, size: tuple[int, int] = SIZE, **changes: Any
) -> tuple[Any, Surface, StreamInfo]:
    """The picture that the kernel makes, with the surface and its stream."""
    chroma, bits, interleaved, high = stored
    form = surface_format(chroma, bits)
    info = frame_info(*size, form, **changes)
    surface = picture(*size, form, resolve(info))
    converter = DeviceConverter(info, output, bench.device)
    out = bench.array(np.zeros(converter.shape, converter.dtype))
    converter([bench.surface(surface, interleaved=interleaved, high=high)], [out])
    return bench.numpy(out), surface, info


@pytest.mark.parametrize(("stored", "rotation"), combined(STORED, [0, 90, 180, 270]), ids=str)
def test_a_window_is_scaled_as_pillow_does_it(bench: Bench, stored: Any, rotation: int) -> None:
    random = np.random.default_rng(rotation)
    upright = SIZE if rotation % 180 == 0 else SIZE[::-1]
    for number in range(4):
        size = int(random.integers(1, 70)), int(random.integers(1, 60))
        left, top = (int(random.integers(0, side)) for side in upright)
        crop = None if number % 2 else (left // 2, top // 2, upright[0] - left // 2, upright[1] - top // 2)
        shown = upright if crop is None else crop[2:]
        x, y = (int(random.integers(0, side)) for side in shown)
        window = (x, y, int(random.integers(1, shown[0] - x + 1)), int(random.integers(1, shown[1] - y + 1)))
        if window[2:] == size:
            continue
        part = (
            (size[0] // 4, size[1] // 3, size[0] - size[0] // 4, size[1] - size[1] // 3)
            if number > 1
            else None
        )
        output = xy_output(crop=crop, window=window, size=size, part=part, mirror=bool(number % 2))
        found, surface, info = made_there(
            bench, stored, output, rotation_degrees=rotation, flipped=number == 3
        )
        assert_rounded(found, exact_window(surface, info, output), 5e-3)


# all places of chroma with the type that training asks for, which the kernel finds as it does with the other
@pytest.mark.parametrize(
    ("stored", "typed"),
    combined(STORED, [*(("uint8", at) for at in (1, 2, 3, 5)), ("uint16", 2), ("uint16", 5)]),
    ids=str,
)
def test_rounded_pictures_are_those_of_full_size_scaled_by_pillow(
    bench: Bench, stored: Any, typed: tuple[Any, int]
) -> None:
    """So that they are what operators make of the reader's pictures, though these are never there."""
    dtype, location = typed
    stream: dict[str, Any] = {
        "chroma_location": location,
        "rotation_degrees": 90 * (location % 4),
        "flipped": location == 5,
    }
    upright = (SIZE[1], SIZE[0]) if location % 2 else SIZE
    whole, *_ = made_there(bench, stored, xy_output(dtype=dtype), **stream)
    for window, size, part in (
        ((3, 9, 50, 51), (20, 33), None),
        ((0, 0, *upright), (9, 70), (1, 20, 8, 41)),
        ((11, 30, 2, 20), (5, 4), None),
    ):
        output = xy_output(dtype=dtype, window=window, size=size, part=part, rounded=dtype)
        found, *_ = made_there(bench, stored, output, **stream)
        for channel in range(3):
            doubt = 1e-3 if dtype == "uint8" else 0.05
            assert_rounded(found[..., channel], scaled_window(whole[..., channel], output), doubt)


@pytest.mark.parametrize(
    ("stored", "dtype"),
    [
        (STORED[-1], "uint16"),
        *(deep(stored, "uint8") for stored in STORED),
        deep(STORED[0], "uint16"),
    ],
    ids=str,
)
def test_rounded_pictures_of_which_a_tile_needs_more_than_there_is_room_for(
    bench: Bench, stored: Any, dtype: Any
) -> None:
    """Levels, weights of columns, and weights of rows: each alone, and all of them."""
    doubt = 1e-3 if dtype == "uint8" else 0.05
    for whole_size, wanted_sizes in (
        ((1300, 60), ((100, 50), (40, 70), (9, 5))),
        ((31, 400), ((50, 3),)),
        ((700, 310), ((3, 2),)),
    ):
        whole, *_ = made_there(bench, stored, xy_output(dtype=dtype), whole_size)
        for size in wanted_sizes:
            output = xy_output(dtype=dtype, window=(0, 0, *whole_size), size=size, rounded=dtype)
            found, *_ = made_there(bench, stored, output, whole_size)
            for channel in range(3):
                assert_rounded(found[..., channel], scaled_window(whole[..., channel], output), doubt)


@pytest.mark.parametrize(
    ("location", "range_"), deep_but([(2, "full")], itertools.product([1, 2, 3], ["limited", "full"]))
)
def test_rounded_pictures_whose_channels_lie_apart(bench: Bench, location: int, range_: str) -> None:
    """What training asks for: there is more at a time of them, so that borders are elsewhere."""
    stream: dict[str, Any] = {"chroma_location": location, "full_range": range_ == "full"}
    for whole_size, window, size in (
        ((147, 67), (0, 0, 147, 67), (33, 40)),
        ((146, 66), (5, 3, 141, 63), (70, 33)),
        ((1300, 60), (0, 0, 1299, 60), (40, 30)),
        ((1300, 60), (1, 1, 1299, 59), (9, 5)),
        ((31, 400), (0, 0, 31, 400), (50, 9)),
        ((9, 7), (0, 0, 9, 7), (64, 40)),
        ((700, 310), (2, 0, 698, 310), (3, 2)),
    ):
        whole, *_ = made_there(bench, STORED[0], xy_output(), whole_size, **stream)
        output = xy_output(layout="FCHW", window=window, size=size, rounded="uint8", mirror=location == 2)
        found, *_ = made_there(bench, STORED[0], output, whole_size, **stream)
        for channel in range(3):
            assert_rounded(found[channel], scaled_window(whole[..., channel], output), 1e-3)


def test_rounded_pictures_of_one_channel(bench: Bench) -> None:
    for window, size in (((0, 0, 147, 67), (3, 50)), ((0, 0, 147, 67), (70, 2)), ((0, 0, 147, 67), (1, 1))):
        output = xy_output(window=window, size=size, rounded="uint8", color="GRAY")
        whole, *_ = made_there(bench, STORED[0], xy_output(color="GRAY"))
        found, *_ = made_there(bench, STORED[0], output)
        assert_rounded(found[..., 0], scaled_window(whole[..., 0], output), 1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rounded_pictures_as_floats(bench: Bench, dtype: Any) -> None:
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 0.2)
    output = xy_output(
        dtype=dtype, mean=mean, std=std, layout="FCHW", window=(11, 5, 93, 60), size=(40, 31), rounded="uint8"
    )
    found, *_ = made_there(bench, STORED[0], output)
    whole, *_ = made_there(bench, STORED[0], xy_output())
    levels = np.stack([scaled_window(whole[..., number], output) for number in range(3)])
    wanted = (levels / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    np.testing.assert_allclose(found, wanted, atol=2e-5 if dtype == "float32" else 2e-3)


@pytest.mark.parametrize("dtype", ["uint16", "float16", "float32"])
def test_types(bench: Bench, dtype: Any) -> None:
    output = xy_output(dtype=dtype, window=(11, 5, 93, 60), size=(40, 31), layout="FCHW")
    found, surface, info = made_there(bench, STORED[0], output)
    wanted = np.moveaxis(exact_window(surface, info, output), -1, 0)
    if dtype == "uint16":
        assert_rounded(found, wanted, 0.1)
    else:
        np.testing.assert_allclose(found, wanted, rtol=2**-11 if dtype == "float16" else 0, atol=4e-6)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("output", [{"short_side": 40}, {"size": (33, 21), "crop": (4, 6, 60, 41)}, {}])
def test_a_part_is_cut_out_of_the_scaled_picture(bench: Bench, output: dict[str, Any], mirror: bool) -> None:
    for rotation in (0, 90):
        whole, *_ = made_there(bench, STORED[0], xy_output(**output), rotation_degrees=rotation)
        asked = xy_output(part=(3, 5, 17, 11), mirror=mirror, **output)
        part, *_ = made_there(bench, STORED[0], asked, rotation_degrees=rotation)
        wanted = whole[5:16, 3:20]
        np.testing.assert_array_equal(part, wanted[:, ::-1] if mirror else wanted)


@pytest.mark.parametrize("rounded", [None, "uint8"])
def test_windows_are_those_of_the_cpu(bench: Bench, rounded: Any) -> None:
    """Which rounds planes to 1/256 of a level before it mixes them."""
    output = xy_output(
        crop=(3, 2, 140, 61), window=(11, 5, 93, 50), size=(40, 31), part=(5, 3, 30, 20), rounded=rounded
    )
    found, surface, info = made_there(bench, STORED[0], output)
    here = Converter(info, output)
    wanted = np.empty(here.shape, here.dtype)
    here(surface, wanted)
    apart = np.abs(found.astype(int) - wanted.astype(int))
    assert apart.max() <= 1
    assert apart.mean() < (0.02 if rounded is None else 0.05)
