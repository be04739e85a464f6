"""The conversion kernel against float64 arithmetic and the CPU converter; the same on a GPU and emulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqpipe.errors import ParameterError, SourceError
from seqpipe.video.convert.color import ColorSpec, chroma_offset, gray_matrix, resolve, rgb_matrix
from seqpipe.video.convert.surface import Surface, SurfaceFormat
from seqpipe.video.cuda import conversion
from seqpipe.video.cuda.conversion import FRAMES, KERNEL, Conversion, SurfaceKind
from seqpipe.video.cuda.device_surface import DeviceSurface, SurfaceShape
from seqpipe.video.cuda.painter import DeviceConverter
from seqpipe.video.probe.info import StreamInfo
from tests.support.benches import Bench, EmulatedBench
from tests.support.deep import combined, deep, deep_but
from tests.support.emulated import EmulatedDevice
from tests.support.pictures import (
    assert_rounded,
    differences,
    frame_info,
    made,
    on_luma_grid,
    picture,
    surface_format,
    xy_output,
)

SIZE = (147, 67)
CROP = (13, 7, 101, 45)
PEAKS = {"uint8": 255, "uint16": 65535, "float16": 1, "float32": 1}
# (chroma, bits, chroma interleaved, samples in the high bits)
STORED = {
    "nv12": ("4:2:0", 8, True, False),
    "p010": ("4:2:0", 10, True, True),
    "p012": ("4:2:0", 12, True, True),
    "p016": ("4:2:0", 16, True, False),
    "yuv420p": ("4:2:0", 8, False, False),
    "yuv420p10": ("4:2:0", 10, False, False),
    "nv16": ("4:2:2", 8, True, False),
    "yuv422p10": ("4:2:2", 10, False, False),
    "yuv440p": ("4:4:0", 8, False, False),
    "yuv411p": ("4:1:1", 8, False, False),
    "yuv444p": ("4:4:4", 8, False, False),
    "yuv444p10 high": ("4:4:4", 10, False, True),
    "yuv444p16": ("4:4:4", 16, False, False),
    "gray": ("gray", 8, False, False),
    "gray10": ("gray", 10, False, False),
    "gbrp": ("rgb", 8, False, False),
}


def made_there(bench: Bench, surface: DeviceSurface, info: StreamInfo, **output: Any) -> NDArray[Any]:
    """The picture that a fresh converter makes, with the memory around it looked after."""
    converter = DeviceConverter(info, xy_output(**output), bench.device)
    size = int(np.prod(converter.shape))
    whole = bench.array(np.full(size + 128, 77, converter.dtype))
    converter([surface], [whole[64 : 64 + size].reshape(converter.shape)])
    found = bench.numpy(whole)
    assert (found[:64] == 77).all()
    assert (found[-64:] == 77).all()
    return found[64:-64].reshape(converter.shape)


def given(
    bench: Bench, stored: str = "nv12", size: tuple[int, int] = SIZE, pitch: int = 256, **changes: Any
) -> tuple[Surface, DeviceSurface, StreamInfo]:
    """A surface here and there, and its stream."""
    chroma, bits, interleaved, high = STORED[stored]
    form = surface_format(chroma, bits)
    info = frame_info(*size, form, **changes)
    surface = picture(*size, form, resolve(info))
    return surface, bench.surface(surface, interleaved=interleaved, high=high, pitch=pitch), info


# ------------------------------------------------------------------------------------------ what is exact


def exact(surface: Surface, info: StreamInfo, **output: Any) -> NDArray[np.float64]:
    """The picture in float64, HWC, before mean and std and before it is rounded: dense matrices, one step each."""
    spec, color = xy_output(**output), resolve(info)
    placement = spec.placement(info)
    rounded = surface.format.bits == 8 and spec.dtype == "uint8" and placement.size == placement.box[2:]
    planes = exact_planes(surface, color, placement.box, placement.size, rounded=rounded)
    if spec.color == "YCbCr":
        scale = 2 ** (surface.format.bits - 8) if spec.dtype == "uint8" else 1
        middle = np.full_like(planes[0], 2 ** (surface.format.bits - 1))
        values = np.stack(planes if len(planes) == 3 else [planes[0], middle, middle], axis=-1) / scale
    else:
        make = gray_matrix if spec.color == "GRAY" else rgb_matrix
        matrix = make(color, surface.format, 16)
        matrix = matrix[::-1] if spec.color == "BGR" else matrix
        used = planes[: matrix.shape[1] - 1]
        values = np.stack([*used, np.ones_like(planes[0])], axis=-1) @ matrix.T * (PEAKS[spec.dtype] / 65535)
    values = np.clip(values, 0, PEAKS[spec.dtype])
    return np.rot90(values[:, ::-1] if placement.flipped else values, placement.quarter_turns)


def exact_planes(
    surface: Surface, color: ColorSpec, box: tuple[int, ...], size: tuple[int, int], *, rounded: bool
) -> list[NDArray[np.float64]]:
    left, top, width, height = box
    form, shape = surface.format, surface.planes[0].shape
    offset = chroma_offset(color, form)
    halved = (form.shift_x or form.shift_y) and all(
        not shift or (length % (1 << shift) == 0 and length >> shift >= 2 * wanted)
        for shift, length, wanted in zip((form.shift_x, form.shift_y), (width, height), size, strict=True)
    )
    planes = []
    for number, plane in enumerate(surface.planes):
        if number == 0 or form.chroma == "rgb":
            grid = plane[top : top + height, left : left + width].astype(float)
        elif halved:
            # whole chroma samples from where the stretch begins, not rounded to a sample
            columns = (left - offset[0] - 0.5) / (1 << form.shift_x) + 0.5 if form.shift_x else left
            rows = (top - offset[1] - 0.5) / (1 << form.shift_y) + 0.5 if form.shift_y else top
            down = linear(plane.astype(float), rows + np.arange(height >> form.shift_y), 0)
            grid = linear(down, columns + np.arange(width >> form.shift_x), 1)
        else:
            whole = on_luma_grid(plane, (shape[0], shape[1]), form, offset)
            if rounded:
                whole = twice_rounded(plane, (shape[0], shape[1]), form, offset)
            grid = whole[top : top + height, left : left + width]
        planes.append(triangle(grid.shape[0], size[1]) @ grid @ triangle(grid.shape[1], size[0]).T)
    return planes


def twice_rounded(
    plane: NDArray[Any], shape: tuple[int, int], form: SurfaceFormat, offset: tuple[float, float]
) -> NDArray[np.float64]:
    """Chroma on the luma grid as the CPU makes it in 8 bits: rounded, and along the rows before that if some columns
    have a sample right on them."""
    only_rows = replace(form, shift_x=0)
    down = on_luma_grid(plane, (shape[0], plane.shape[1]), only_rows, (0, offset[1]))
    if form.shift_x == 0 or (form.shift_x == 1 and offset[0] == 0):
        down = np.rint(down)
    only_columns = replace(form, shift_y=0)
    return np.rint(on_luma_grid(down, shape, only_columns, (offset[0], 0)))


def linear(plane: NDArray[np.float64], places: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    return np.apply_along_axis(lambda line: np.interp(places, np.arange(len(line)), line), axis, plane)


def triangle(count: int, size: int) -> NDArray[np.float64]:
    """(size, count): pixel centers at half integers, the last sample repeated, widened to shrink."""
    scale = count / size
    reach, around = max(scale, 1.0), int(np.ceil(scale)) + 2
    centers = (np.arange(size) + 0.5) * scale - 0.5
    places = np.arange(-around, count + around)
    weights = np.maximum(0, 1 - np.abs(places - centers[:, None]) / reach)
    weights /= weights.sum(axis=1, keepdims=True)
    inside = weights[:, around : around + count].copy()
    inside[:, 0] += weights[:, :around].sum(axis=1)
    inside[:, -1] += weights[:, around + count :].sum(axis=1)
    return inside


# ------------------------------------------------------------------------------------------ full size


@pytest.mark.parametrize(("stored", "crop"), combined([*STORED], [None, CROP]))
def test_full_size_is_the_exact_picture_rounded(
    bench: Bench, stored: str, crop: tuple[int, int, int, int] | None
) -> None:
    surface, there, info = given(bench, stored)
    assert_rounded(made_there(bench, there, info, crop=crop), exact(surface, info, crop=crop))


@pytest.mark.parametrize(("location", "crop"), combined(range(1, 7), [None, CROP, (12, 7, 99, 40)]))
def test_chroma_lies_where_the_stream_says(
    bench: Bench, location: int, crop: tuple[int, int, int, int] | None
) -> None:
    surface, there, info = given(bench, chroma_location=location)
    assert_rounded(made_there(bench, there, info, crop=crop), exact(surface, info, crop=crop))
    other = replace(info, chroma_location=location % 6 + 1)
    assert np.abs(exact(surface, info, crop=crop) - exact(surface, other, crop=crop)).max() > 4


@pytest.mark.parametrize(
    ("size", "pitch"),
    combined([(1, 1), (2, 3), (5, 4), (128, 16), (129, 17), (127, 15), (256, 33)], [2, 256]),
)
def test_pictures_of_any_size(bench: Bench, size: tuple[int, int], pitch: int) -> None:
    """Tiles that are cut off, rows that cannot be read or written in words."""
    surface, there, info = given(bench, size=size, pitch=pitch)
    assert_rounded(made_there(bench, there, info), exact(surface, info))
    assert_rounded(made_there(bench, there, info, layout="FCHW"), np.moveaxis(exact(surface, info), -1, 0))


@pytest.mark.parametrize(("matrix", "full"), combined([1, 4, 6, 7, 8, 9], [False, True]))
def test_matrices_and_ranges(bench: Bench, matrix: int, full: bool) -> None:
    surface, there, info = given(bench, "p010", matrix=matrix, full_range=full)
    assert_rounded(made_there(bench, there, info), exact(surface, info))


# ------------------------------------------------------------------------------------------ scaled


@pytest.mark.parametrize(
    "stored", deep_but(["p010", "yuv422p10", "yuv440p", "yuv444p16", "gray", "gbrp"], STORED)
)
def test_scaled_pictures_are_exact(bench: Bench, stored: str) -> None:
    surface, there, info = given(bench, stored)
    for output in ({"size": (53, 31)}, {"size": (40, 21), "crop": (13, 7, 96, 44)}, {"short_side": 90}):
        assert_rounded(made_there(bench, there, info, **output), exact(surface, info, **output), 5e-3)


@pytest.mark.parametrize(
    ("location", "size"),
    combined(range(1, 7), [(147, 31), (53, 67), (300, 20), (9, 150), (7, 3), (1, 1), (146, 66), (33, 16)]),
)
def test_scaled_chroma_lies_where_the_stream_says(bench: Bench, location: int, size: tuple[int, int]) -> None:
    surface, there, info = given(bench, chroma_location=location)
    for crop in (None, CROP, (12, 8, 100, 40)):
        found = made_there(bench, there, info, size=size, crop=crop)
        assert_rounded(found, exact(surface, info, size=size, crop=crop), 5e-3)


@pytest.mark.parametrize(
    ("size", "stored", "wanted"),
    [
        ((64, 700), "nv12", (5, 4)),
        ((8200, 40), "p010", (3, 9)),
        *(deep((700, 64), stored, (4, 5)) for stored in ("nv12", "p010", "yuv420p")),
        *(deep((40, 8200), stored, (20, 2)) for stored in ("nv12", "p010", "yuv420p")),
    ],
)
def test_shrinking_that_takes_more_than_fits_into_shared_memory(
    bench: Bench, stored: str, size: tuple[int, int], wanted: tuple[int, int]
) -> None:
    surface, there, info = given(bench, stored, size)
    assert_rounded(made_there(bench, there, info, size=wanted), exact(surface, info, size=wanted), 5e-3)


# ------------------------------------------------------------------------------------------ turns


@pytest.mark.parametrize(
    ("rotation", "flipped", "output"),
    combined(
        [0, 90, 180, 270],
        [False, True],
        [{"size": (43, 37)}, {}, {"crop": (5, 3, 50, 61), "layout": "FCHW"}],
    ),
)
def test_turns_flips_and_mirrors(bench: Bench, rotation: int, flipped: bool, output: dict[str, Any]) -> None:
    _, there, info = given(bench, rotation_degrees=rotation, flipped=flipped)
    surface = given(bench)[0]
    for mirror in (False, True):
        found = made_there(bench, there, info, mirror=mirror, **output)
        if output.get("layout") == "FCHW":
            found = np.moveaxis(found, 0, -1)
        wanted = exact(surface, info, **output)
        assert_rounded(found, wanted[:, ::-1] if mirror else wanted, 5e-3)


# ------------------------------------------------------------------------------------------ types


@pytest.mark.parametrize(
    ("pictures", "dtype", "layout"),
    combined(
        [("nv12", "RGB"), ("nv12", "GRAY"), ("p010", "BGR"), ("nv12", "YCbCr"), ("p010", "YCbCr")],
        ["uint8", "float16", "float32", "uint16"],
        ["FHWC", "FCHW"],
    ),
    ids=str,
)
def test_types_layouts_and_colors(bench: Bench, pictures: tuple[str, str], dtype: str, layout: str) -> None:
    stored, color = pictures
    if color == "YCbCr" and dtype.startswith("float"):
        pytest.skip("OutputSpec refuses it, as its own tests prove")
    surface, there, info = given(bench, stored)
    for size in (None, (60, 30)):
        output = {"color": color, "dtype": dtype, "size": size}
        found = made_there(bench, there, info, layout=layout, **output)
        found = np.moveaxis(found, 0, -1) if layout == "FCHW" else found
        wanted = exact(surface, info, **output)
        if dtype.startswith("float"):
            # float32 is worked in; float16 has 11 bits
            np.testing.assert_allclose(found, wanted, rtol=2**-11 if dtype == "float16" else 0, atol=4e-6)
        else:
            assert_rounded(found, wanted, 0.1 if dtype == "uint16" else 5e-3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_mean_and_std(bench: Bench, dtype: str) -> None:
    surface, there, info = given(bench)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    found = made_there(bench, there, info, dtype=dtype, mean=mean, std=std, layout="FCHW")
    wanted = np.moveaxis((exact(surface, info, dtype=dtype) - mean) / std, -1, 0)
    rounding = 2**-11 if dtype == "float16" else 1e-6
    np.testing.assert_allclose(found, wanted, rtol=rounding, atol=3e-5)


# ------------------------------------------------------------------------------------------ many frames


def test_a_batch_of_many_frames(bench: Bench) -> None:
    info = frame_info(40, 30)
    surfaces = [picture(40, 30, surface_format(), resolve(info), seed) for seed in range(FRAMES + 6)]
    there = [
        bench.surface(surface, interleaved=True, pitch=64 + 64 * (number % 2))
        for number, surface in enumerate(surfaces)
    ]
    for output in ({}, {"size": (16, 9)}):
        converter = DeviceConverter(info, xy_output(**output), bench.device)
        batch = bench.array(np.zeros((len(surfaces), *converter.shape), converter.dtype))
        before = bench.device.launches if isinstance(bench.device, EmulatedDevice) else 0
        converter(there, list(batch))
        if isinstance(bench.device, EmulatedDevice):
            assert bench.device.launches - before == 2
        for surface, found in zip(surfaces, bench.numpy(batch), strict=True):
            assert_rounded(found, exact(surface, info, **output), 5e-3)


@pytest.mark.parametrize("output", [{"layout": "FCHW"}, {"mirror": True}, {"crop": (3, 5, 120, 51)}])
def test_blocks_that_make_their_tile_of_several_frames(
    bench: Bench, output: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all do where there are more tiles than a GPU takes at once; each frame is what it is alone."""
    info = frame_info(*SIZE)
    surfaces = [picture(*SIZE, surface_format(), resolve(info), seed) for seed in range(5)]
    there = [bench.surface(surface, interleaved=True) for surface in surfaces]
    converter = DeviceConverter(info, xy_output(size=(70, 40), **output), bench.device)
    alone, together = (bench.array(np.zeros((5, *converter.shape), converter.dtype)) for _ in range(2))
    for surface, out in zip(there, list(alone), strict=True):
        converter([surface], [out])
    monkeypatch.setattr(conversion, "_BLOCKS", 13)  # six tiles: two frames at once
    assert Conversion.of(info, xy_output(size=(70, 40)), SurfaceKind.of(there[0])).grid(5) == (3, 2, 2)
    converter(there, list(together))
    np.testing.assert_array_equal(bench.numpy(together), bench.numpy(alone))
    assert len({frame.tobytes() for frame in bench.numpy(alone)}) == 5


def test_frames_of_other_sizes_and_formats_among_the_others(bench: Bench) -> None:
    surface, there, info = given(bench)
    _, smaller, _ = given(bench, "p010", (80, 40))
    converter = DeviceConverter(info, xy_output(crop=CROP, size=(50, 30)), bench.device)
    batch = bench.array(np.zeros((3, *converter.shape), converter.dtype))
    converter([there, smaller, there], [batch[0], bench.address(batch[1]), batch[2]])
    found = bench.numpy(batch)
    assert_rounded(found[0], exact(surface, info, crop=CROP, size=(50, 30)), 5e-3)
    np.testing.assert_array_equal(found[0], found[2])
    assert np.abs(found[1].astype(float) - found[0]).mean() > 1
    assert found[1].std() > 20


# ------------------------------------------------------------------------------------------ the CPU path


@pytest.mark.parametrize(
    ("stored", "dtype", "output"),
    combined(
        ["nv12", "p010", "yuv444p", "yuv444p16", "yuv422p10"],
        ["uint8", "uint16"],
        [{}, {"crop": CROP}, {"size": (112, 60)}, {"size": (50, 24)}],
    ),
)
def test_pictures_are_those_of_the_cpu(bench: Bench, stored: str, dtype: str, output: dict[str, Any]) -> None:
    """In levels of 8 bits."""
    surface, there, info = given(bench, stored)
    found, wanted = (
        f(*args, info, dtype=dtype, **output)
        for f, args in ((made_there, (bench, there)), (made, (surface,)))
    )
    level = 1 if dtype == "uint8" else 257
    mean, most, largest = differences(found / level, wanted / level)
    if surface.format.bits == 8 and dtype == "uint8":
        assert mean < 0.06
        assert largest <= 1
    else:
        assert mean < 0.02
        assert most <= 1


# ------------------------------------------------------------------------------------------ refusals


def test_memory_that_does_not_fit_is_refused(emulated: EmulatedBench) -> None:
    _, there, info = given(emulated)
    converter = DeviceConverter(info, xy_output(dtype="uint16"), emulated.device)
    good = np.zeros(converter.shape, np.uint16)
    for bad in (good[:-1], good.astype(np.uint8), np.zeros((67, 294, 3), np.uint16)[:, ::2]):
        with pytest.raises(
            ParameterError, match=r"contiguous memory of shape \(67, 147, 3\) and dtype uint16"
        ):
            converter([there], [bad])
    with pytest.raises(ParameterError, match="2 surfaces, but 1 outs"):
        converter([there, there], [good])
    with pytest.raises(ParameterError, match=r"out begins at 0x.*multiples of 2 bytes"):
        converter([there], [good.ctypes.data + 1])


def test_planes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="yuv420p with 3 planes; allowed: 2 planes"):
        SurfaceShape(64, 64, 32, surface_format(), interleaved=True).surface(0, (0, 0, 0))
    with pytest.raises(ParameterError, match="multiples of 4 bytes"):
        SurfaceShape(128, 64, 32, surface_format("4:2:0", 10), interleaved=True).surface(0, (64, 130))
    with pytest.raises(ParameterError, match=r"rows of 128 and 66 bytes; allowed: .* multiples of 4 bytes"):
        SurfaceShape(128, 64, 32, surface_format("4:2:0", 10), True, 6, 66).surface(0, (64, 128))


@pytest.mark.parametrize(
    ("changes", "output", "message"),
    [
        ({"matrix": 14}, {}, r"made\.mp4: matrix coefficients 14 of H\.273 are not supported"),
        ({"matrix": 0}, {"color": "YCbCr"}, r"made\.mp4: the stream is coded as RGB"),
    ],
)
def test_colors_that_cannot_be_made_are_refused(
    emulated: EmulatedBench, changes: dict[str, Any], output: dict[str, Any], message: str
) -> None:
    _, there, info = given(emulated, "yuv444p")
    converter = DeviceConverter(replace(info, **changes), xy_output(**output), emulated.device)
    with pytest.raises(SourceError, match=message):
        converter([there], [np.zeros(converter.shape, np.uint8)])


@pytest.mark.parametrize(
    ("transfer", "wanted"),
    [
        (18, "sdr"),
        *(
            pytest.param(*case, marks=pytest.mark.deep)
            for case in ((16, "sdr"), (16, "linear"), (18, "linear"))
        ),
        pytest.param(1, "linear", marks=pytest.mark.deep),
    ],
)
def test_transfer_functions_change_as_on_the_cpu(bench: Bench, transfer: int, wanted: str) -> None:
    here, there, info = given(bench, "p010", (52, 30), matrix=9, transfer=transfer)
    outputs: list[dict[str, Any]] = [{"dtype": "float32", "transfer": wanted}]
    if wanted == "sdr":
        outputs += [{"color": "BGR", "transfer": wanted, "size": (20, 32)}]
    for output in outputs:
        found, expected = made_there(bench, there, info, **output), made(here, info, **output)
        scale = PEAKS[found.dtype.name]
        mean, most, _ = differences(found / scale, expected / scale)
        assert mean < 2e-3 * max(1, expected.max() / scale)
        assert most < 1e-2 * max(1, expected.max() / scale)


def test_the_variants_that_are_compiled_for_all_gpus_are_sets_of_macros_that_occur() -> None:
    occurring: dict[str, set[int]] = {}
    for stored, (chroma, bits, interleaved, _) in STORED.items():
        form = surface_format(chroma, bits)
        for rotation in (0, 90, 180, 270):
            for output in (
                {},
                {"size": (8, 9)},
                {"dtype": "float16", "layout": "FCHW"},
                {"dtype": "float32"},
            ):
                info = frame_info(
                    40, 30, form, rotation_degrees=rotation, chroma_location=len(stored) % 6 + 1
                )
                kind = SurfaceKind(form, 40, 30, interleaved, 0, aligned=True)
                for name, value in Conversion.of(info, xy_output(**output), kind).defines.items():
                    occurring.setdefault(name, set()).add(value)
    assert len(KERNEL.variants) >= 8
    for variant in KERNEL.variants:
        assert variant.keys() == occurring.keys()
        assert variant["JOB_BYTES"] in occurring["JOB_BYTES"]
        assert (variant["TILE_U"], variant["TILE_V"]) == (
            (32, 32) if variant["SCALED"] else (64, 32) if variant["TRANSPOSED"] else (128, 16)
        )
    for name, values in occurring.items():
        assert {variant[name] for variant in KERNEL.variants} >= values - {name == "JOB_BYTES"}
