from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from seqpipe.errors import UnreadableSourceError
from seqpipe.video.convert.surface import Surface, SurfaceFormat
from tests.support import media
from tests.support.ffmpeg import planes as judged_planes
from tests.support.pictures import surface_format

# one item for each way that samples lie in memory
STORED = [
    "h264",
    "h264_high10",
    "h264_422",
    "h264_422_10",
    "h264_444",
    "h264_gray",
    "h264_rgb",
    "hevc_12",
    "mjpeg",
    "odd_vp9",
    "cropped_h264",
    "ffv1_odd",
    "ffv1_bgr0",
    "ffv1_gbrp10",
    "ffv1_gray16",
    "ffv1_444_16",
    "ffv1_410",
    "ffv1_411",
    "ffv1_440",
    "ffv1_alpha",
    "prores_444",
    "raw_yuyv",
    "raw_uyvy",
    "raw_bgr24",
    "raw_nv12",
    "png",
    "qtrle",
]


def first_frame(path: Path) -> av.VideoFrame:
    with av.open(path) as container:
        return next(container.decode(video=0))


def filled(
    name: str, width: int, height: int, seed: int = 0
) -> tuple[av.VideoFrame, list[NDArray[np.uint8]]]:
    """A frame of random bytes, and those bytes by plane as (rows, bytes of a row) without padding."""
    frame = av.VideoFrame(width, height, name)
    rng = np.random.default_rng(seed)
    written = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(plane.height, -1)
        rows[:] = rng.integers(0, 256, rows.shape, np.uint8)
        written.append(rows)
    return frame, written


@pytest.mark.parametrize("name", STORED)
def test_planes_are_those_of_ffmpeg(name: str) -> None:
    path = media.made(name)
    surface = Surface.of(first_frame(path), 0)
    judged = judged_planes(path, 0)
    assert len(surface.planes) == len(judged)
    for plane, expected in zip(surface.planes, judged, strict=True):
        np.testing.assert_array_equal(plane, expected)
        assert plane.dtype == (np.uint8 if surface.format.bits == 8 else np.uint16)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("yuv420p", surface_format("4:2:0")),
        ("yuvj422p", surface_format("4:2:2")),
        ("yuva444p10le", surface_format("4:4:4", 10)),
        ("yuv440p12be", surface_format("4:4:0", 12)),
        ("yuv411p", surface_format("4:1:1")),
        ("yuv410p", surface_format("4:1:0")),
        ("nv12", surface_format("4:2:0")),
        ("p010le", surface_format("4:2:0", 10)),
        ("p416be", surface_format("4:4:4", 16)),
        ("y210le", surface_format("4:2:2", 10)),
        ("gray12le", surface_format("gray", 12)),
        ("ya8", surface_format("gray")),
        ("monob", surface_format("gray")),
        ("gbrap12le", surface_format("rgb", 12)),
        ("pal8", surface_format("rgb")),
        ("x2rgb10le", surface_format("rgb", 10)),
        ("bgr0", surface_format("rgb")),
        ("rgb565le", surface_format("rgb")),
        ("bayer_rggb8", surface_format("rgb")),
        ("yuv444p10msble", surface_format("4:4:4", 10)),
        ("gbrpf32le", surface_format("rgb", 16)),
    ],
)
def test_every_format_has_a_planar_form(name: str, expected: SurfaceFormat) -> None:
    surface = Surface.of(av.VideoFrame(33, 17, name), 5)
    assert surface.format == expected
    assert (surface.number, surface.width, surface.height) == (5, 33, 17)
    chroma = (-(-17 >> expected.shift_y), -(-33 >> expected.shift_x))
    shapes = {"gray": [(17, 33)], "rgb": [(17, 33)] * 3}.get(expected.chroma, [(17, 33), chroma, chroma])
    assert [plane.shape for plane in surface.planes] == shapes


def test_planar_planes_are_views_that_keep_the_frame_alive() -> None:
    frame, written = filled("yuv420p", 33, 17)
    expected = [rows.copy() for rows in written]
    surface = Surface.of(frame, 0)
    for plane, source in zip(surface.planes, frame.planes, strict=True):
        assert plane.ctypes.data == source.buffer_ptr
        assert not plane.flags.writeable
    del frame, written
    others = [
        filled("yuv420p", 33, 17, seed)[0] for seed in range(1, 20)
    ]  # would take the memory, were it free
    for plane, rows in zip(surface.planes, expected, strict=True):
        np.testing.assert_array_equal(plane, rows[:, : plane.shape[1]])
    assert len(others) == 19


@pytest.mark.parametrize(("name", "first"), [("nv12", 1), ("nv21", 2), ("nv16", 1), ("nv24", 1), ("nv42", 2)])
def test_interleaved_chroma_is_split(name: str, first: int) -> None:
    frame, (luma, chroma) = filled(name, 34, 18)
    surface = Surface.of(frame, 0)
    columns = surface.planes[1].shape[1]
    np.testing.assert_array_equal(surface.planes[0], luma[:, :34])
    np.testing.assert_array_equal(surface.planes[first], chroma[:, 0 : 2 * columns : 2])
    np.testing.assert_array_equal(surface.planes[3 - first], chroma[:, 1 : 2 * columns : 2])
    assert np.shares_memory(surface.planes[1], chroma)


@pytest.mark.parametrize(("name", "bits"), [("p010le", 10), ("p010be", 10), ("p012le", 12), ("p016le", 16)])
def test_samples_in_the_high_bits_are_brought_down(name: str, bits: int) -> None:
    frame, (luma, chroma) = filled(name, 34, 18)
    order = "<u2" if name.endswith("le") else ">u2"
    surface = Surface.of(frame, 0)
    np.testing.assert_array_equal(surface.planes[0], luma.view(order)[:, :34] >> (16 - bits))
    np.testing.assert_array_equal(surface.planes[1], chroma.view(order)[:, 0:34:2] >> (16 - bits))
    np.testing.assert_array_equal(surface.planes[2], chroma.view(order)[:, 1:34:2] >> (16 - bits))
    assert all(plane.dtype.isnative and plane.max() < 2**bits for plane in surface.planes)


def test_big_endian_samples_become_native() -> None:
    frame, written = filled("yuv422p16be", 33, 17)
    for plane, rows in zip(Surface.of(frame, 0).planes, written, strict=True):
        np.testing.assert_array_equal(plane, rows.view(">u2")[:, : plane.shape[1]])
        assert plane.dtype == np.uint16
        assert plane.dtype.isnative


PACKED = {
    # name: bytes or words of a pixel, and the place of each plane's sample in it
    "rgb24": (np.uint8, 3, (0, 1, 2)),
    "bgr24": (np.uint8, 3, (2, 1, 0)),
    "bgr0": (np.uint8, 4, (2, 1, 0)),
    "argb": (np.uint8, 4, (1, 2, 3)),
    "rgb48le": ("<u2", 3, (0, 1, 2)),
    "rgb48be": (">u2", 3, (0, 1, 2)),
    "rgba64le": ("<u2", 4, (0, 1, 2)),
    "ya8": (np.uint8, 2, (0,)),
    "vuyx": (np.uint8, 4, (2, 1, 0)),
    "ayuv64le": ("<u2", 4, (1, 2, 3)),
}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("seed", range(3))
def test_packed_pixels_are_unpacked_without_loss(name: str, seed: int) -> None:
    dtype, parts, places = PACKED[name]
    frame, (rows,) = filled(name, 33, 17, seed)
    pixels = rows.view(dtype)[:, : 33 * parts].reshape(17, 33, parts)
    surface = Surface.of(frame, 0)
    assert len(surface.planes) == len(places)
    for plane, place in zip(surface.planes, places, strict=True):
        np.testing.assert_array_equal(plane, pixels[..., place])


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize(
    ("name", "bits"),
    [("rgb444", (4, 4, 4)), ("bgr555", (5, 5, 5)), ("rgb555", (5, 5, 5)), ("rgb565", (5, 6, 5))],
)
def test_shallow_rgb_goes_from_black_to_white(name: str, bits: tuple[int, int, int], order: str) -> None:
    """Within the level that repeating the bits is from the exact share of white."""
    frame, (rows,) = filled(f"{name}{order}", 33, 17)
    words = rows.view("<u2" if order == "le" else ">u2")[:, :33].astype(int)
    shifts = (bits[1] + bits[2], bits[2], 0)
    shares = [(words >> shift & (1 << n) - 1) / ((1 << n) - 1) for n, shift in zip(bits, shifts, strict=True)]
    for plane, share in zip(
        Surface.of(frame, 0).planes, shares if name.startswith("rgb") else shares[::-1], strict=True
    ):
        assert np.abs(plane - 255 * share).max() < 1
        assert {0, 255} <= set(plane.ravel().tolist())


@pytest.mark.parametrize(
    ("name", "places"), [("yuyv422", (0, 1, 3)), ("uyvy422", (1, 0, 2)), ("yvyu422", (0, 3, 1))]
)
def test_packed_422_is_unpacked_without_loss(name: str, places: tuple[int, int, int]) -> None:
    frame, (rows,) = filled(name, 34, 17)
    surface = Surface.of(frame, 0)
    luma, blue, red = places
    np.testing.assert_array_equal(surface.planes[0], rows[:, luma:68:2])
    np.testing.assert_array_equal(surface.planes[1], rows[:, blue:68:4])
    np.testing.assert_array_equal(surface.planes[2], rows[:, red:68:4])


def test_a_palette_is_looked_up() -> None:
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 256, (17, 33), np.uint8)
    palette = rng.integers(0, 256, (256, 4), np.uint8)
    palette[:, 0] = 255
    surface = Surface.of(av.VideoFrame.from_ndarray((indices, palette), "pal8"), 0)
    for number, plane in enumerate(surface.planes):
        np.testing.assert_array_equal(plane, palette[indices, number + 1])


def test_bottom_up_rows_are_turned_over() -> None:
    frame, written = filled("yuv420p", 33, 17)
    graph = av.filter.Graph()
    source = graph.add_buffer(width=33, height=17, format="yuv420p", time_base=frame.time_base or 1)
    flip, sink = graph.add("vflip"), graph.add("buffersink")
    source.link_to(flip)
    flip.link_to(sink)
    graph.configure()
    graph.vpush(frame)
    flipped: Any = graph.vpull()
    assert flipped.planes[0].line_size < 0, "the filter no longer flips by a negative stride"
    for plane, rows in zip(Surface.of(flipped, 0).planes, written, strict=True):
        np.testing.assert_array_equal(plane, rows[::-1, : plane.shape[1]])


def test_a_format_that_swscale_cannot_read_is_named() -> None:
    with pytest.raises(UnreadableSourceError, match="pixel format 'rgb96le'"):
        Surface.of(av.VideoFrame(16, 16, "rgb96le"), 0)
