"""Conversion without scaling, against float64 arithmetic, swscale and zimg; and one converter for many frames."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from seqpipe.errors import ParameterError
from seqpipe.video.convert.color import resolve
from seqpipe.video.convert.converter import Converter
from seqpipe.video.convert.surface import Surface
from tests.support import media
from tests.support.deep import combined
from tests.support.ffmpeg import ChromaLocation, said, to_rgb
from tests.support.pictures import (
    differences,
    exact_rgb,
    frame_info,
    made,
    picture,
    stored_name,
    surface_format,
    xy_output,
)

SIZE = (320, 180)
MATRICES = {"bt601": 6, "bt709": 1, "bt2020": 9, "smpte240m": 7, "fcc": 4}
LOCATIONS: dict[int, ChromaLocation] = {
    1: "left",
    2: "center",
    3: "topleft",
    4: "top",
    5: "bottomleft",
    6: "bottom",
}
SUBSAMPLED = ["4:2:0", "4:2:2", "4:4:4"]


@pytest.mark.parametrize(
    ("sited", "bits", "size"),
    combined(
        [
            *(("4:2:0", location) for location in LOCATIONS),
            *((chroma, at) for chroma in ("4:2:2", "4:4:0", "4:1:1", "4:1:0") for at in (1, 2, 3)),
            ("4:4:4", 1),
        ],
        [8, 9, 10, 12, 16],
        [(96, 64), (97, 63)],
    ),
)
def test_rgb_is_the_exact_one_rounded(sited: tuple[str, int], bits: int, size: tuple[int, int]) -> None:
    chroma, location = sited
    form = surface_format(chroma, bits)
    info = frame_info(*size, form, chroma_location=location)
    surface = picture(*size, form, resolve(info))

    eight = differences(made(surface, info), exact_rgb(surface, resolve(info), 8))
    sixteen = differences(made(surface, info, dtype="uint16"), exact_rgb(surface, resolve(info), 16))

    if bits == 8:
        # chroma is rounded to 8 bits once or twice on its way, and weighs up to 2.1 in a channel
        assert eight[0] < 0.53
        assert eight[2] < 2.6
    else:
        # one rounding to 1/257 of a level, one to a level
        assert eight[2] <= 0.5 + 1.1 / 257 * 2
    # in 16 bits there is one rounding only, where the source leaves room for the weights below its last bit
    assert sixteen[2] < (0.55 if bits <= 10 else 2.8)


@pytest.mark.parametrize("bits", [8, 10])
def test_rounding_has_no_bias(bits: int) -> None:
    info = frame_info(*SIZE, form := surface_format("4:2:0", bits))
    surface = picture(*SIZE, form, resolve(info))
    bias = (made(surface, info) - exact_rgb(surface, resolve(info), 8)).mean(axis=(0, 1))
    assert np.abs(bias).max() < 0.1


@pytest.mark.parametrize(
    ("chroma", "bits", "full", "matrix"),
    combined([*SUBSAMPLED], [8, 10, 12, 16], [False, True], [*MATRICES]),
)
def test_eight_bits_against_swscale(chroma: str, bits: int, full: bool, matrix: str) -> None:
    form = surface_format(chroma, bits)
    info = frame_info(*SIZE, form, matrix=MATRICES[matrix], full_range=full)
    surface = picture(*SIZE, form, resolve(info))
    judged = to_rgb(surface.planes, stored_name(surface), matrix=matrix, full_range=full)
    mean, most, _ = differences(made(surface, info), judged)
    assert mean <= 0.6
    assert most <= 2


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("bits", [8, 10])
def test_chroma_siting_against_swscale(location: int, bits: int) -> None:
    form = surface_format("4:2:0", bits)
    info = frame_info(*SIZE, form, chroma_location=location)
    surface = picture(*SIZE, form, resolve(info))

    def judged(name: ChromaLocation) -> NDArray[Any]:
        return to_rgb(
            surface.planes, stored_name(surface), matrix="bt709", full_range=False, chroma_location=name
        )

    picture_made = made(surface, info)
    mean, most, _ = differences(picture_made, judged(LOCATIONS[location]))
    assert mean <= 0.6
    assert most <= 2
    for other in set(LOCATIONS.values()) - {LOCATIONS[location]}:
        assert differences(picture_made, judged(other))[1] > 4, "a wrong siting would have passed too"


def zimg(surface: Surface, matrix: str, full: bool, location: str) -> NDArray[np.uint16]:
    """16-bit RGB by zimg, an implementation that shares nothing with swscale."""
    codes = {"bt601": ("smpte170m", "170m"), "bt709": ("bt709", "709"), "bt2020": ("bt2020nc", "2020_ncl")}[
        matrix
    ]
    levels = "full" if full else "limited"
    chain = (
        f"setparams=colorspace={codes[0]}:range={levels}:color_primaries=bt709:color_trc=bt709,"
        f"zscale=matrixin={codes[1]}:rangein={levels}:chromalin={location}:matrix=gbr:range=full:filter=bilinear,"
        "format=gbrp16le"
    )
    height, width = surface.planes[0].shape
    given_ = ["-f", "rawvideo", "-pix_fmt", stored_name(surface), "-s", f"{width}x{height}", "-i", "pipe:0"]
    data = b"".join(plane.tobytes() for plane in surface.planes)
    packed, _ = said(*given_, "-vf", chain, "-f", "rawvideo", "-", stdin=data)
    green, blue, red = np.frombuffer(packed, "<u2").reshape(3, height, width)
    return np.stack([red, green, blue], axis=-1)


@pytest.mark.parametrize(
    ("chroma", "bits"),
    # zimg upsamples deeper 4:2:2 in the source's own depth, too roughly for a judge
    [
        *((chroma, bits) for chroma in ("4:2:0", "4:4:4") for bits in (8, 10, 12, 16)),
        ("4:2:2", 8),
        ("gray", 8),
    ],
)
@pytest.mark.parametrize(
    ("matrix", "full", "location"), [("bt709", False, 1), ("bt601", True, 2), ("bt2020", False, 3)]
)
def test_sixteen_bits_against_zimg(chroma: str, bits: int, matrix: str, full: bool, location: int) -> None:
    form = surface_format(chroma, bits)
    info = frame_info(*SIZE, form, matrix=MATRICES[matrix], full_range=full, chroma_location=location)
    surface = picture(*SIZE, form, resolve(info))
    mean, most, _ = differences(
        made(surface, info, dtype="uint16"), zimg(surface, matrix, full, LOCATIONS[location])
    )
    assert mean <= 0.6
    assert most <= 2


@pytest.mark.parametrize("name", ["actions/juggling_soccer_ball/juggle.mp4", "codec/hevc10_hlg_848x464.mkv"])
def test_real_frames_against_swscale(name: str) -> None:
    with av.open(str(media.shared_media() / "video" / name)) as container:
        surface = Surface.of(next(container.decode(video=0)), 0)
    info = frame_info(surface.width, surface.height, surface.format)
    judged = to_rgb(surface.planes, stored_name(surface), matrix="bt709", full_range=False)
    mean, most, _ = differences(made(surface, info), judged)
    assert mean <= 0.6
    assert most <= 2


def test_buffers_carry_nothing_from_frame_to_frame() -> None:
    info = frame_info(*SIZE, rotation_degrees=90)
    converter = Converter(info, xy_output(crop=(3, 5, 101, 77)))
    batch = np.zeros((6, *converter.shape), converter.dtype)
    surfaces = [picture(*SIZE, surface_format(), resolve(info), seed) for seed in range(6)]
    for surface, out in zip(surfaces, batch, strict=True):
        converter(surface, out)
    for surface, out in zip(surfaces, batch, strict=True):
        np.testing.assert_array_equal(out, made(surface, info, crop=(3, 5, 101, 77)))


def test_threads_give_the_same_pictures() -> None:
    info = frame_info(*SIZE)
    surfaces = [picture(*SIZE, surface_format(), resolve(info), seed) for seed in range(4)] * 6
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda surface: made(surface, info, size=(50, 40)), surfaces))
    for number, out in enumerate(together):
        np.testing.assert_array_equal(out, made(surfaces[number % 4], info, size=(50, 40)))


@pytest.mark.parametrize("output", [{}, {"crop": (32, 20, 160, 90)}, {"size": (64, 48)}])
def test_a_frame_of_another_size_or_format_becomes_the_same_picture(output: dict[str, Any]) -> None:
    """Streams may change their size; the picture keeps its own."""
    info = frame_info(*SIZE)
    converter = Converter(info, xy_output(**output))
    out, usual = np.zeros(converter.shape, np.uint8), np.zeros(converter.shape, np.uint8)
    converter(picture(*SIZE, surface_format(), resolve(info)), usual)
    half = picture(*SIZE, surface_format("4:4:4", 10), resolve(info))
    smaller = Surface(1, tuple(np.ascontiguousarray(plane[::2, ::2]) for plane in half.planes), half.format)
    converter(smaller, out)
    assert np.abs(out.astype(float) - usual).mean() < 12
    again = np.zeros_like(usual)
    converter(picture(*SIZE, surface_format(), resolve(info)), again)
    np.testing.assert_array_equal(again, usual)


def test_memory_that_does_not_fit_is_refused() -> None:
    info = frame_info(*SIZE)
    converter = Converter(info, xy_output())
    surface = picture(*SIZE, surface_format(), resolve(info))
    for out in (
        np.zeros((SIZE[1], SIZE[0], 1), np.uint8),
        np.zeros((SIZE[1], SIZE[0], 3), np.uint16),
        np.zeros((SIZE[1], SIZE[0] * 2, 3), np.uint8)[:, ::2],
    ):
        with pytest.raises(
            ParameterError, match=r"contiguous memory of shape \(180, 320, 3\) and dtype uint8"
        ):
            converter(surface, out)


def test_one_pixel() -> None:
    info = frame_info(1, 1)
    white = Surface(0, tuple(np.full((1, 1), value, np.uint8) for value in (235, 128, 128)), surface_format())
    assert made(white, info).tolist() == [[[255, 255, 255]]]
    assert made(white, replace(info, rotation_degrees=90), size=(3, 2)).min() == 255
