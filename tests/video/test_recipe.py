"""Kinds of output, crop and rotation."""

from __future__ import annotations

import subprocess

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_scripts.media_encode import ffmpeg_exe
from seqpipe.errors import SourceError
from seqpipe.video.convert.color import ColorSpec, chroma_offset, resolve
from seqpipe.video.convert.surface import Surface
from tests.support import media
from tests.support.ffmpeg import to_rgb
from tests.support.pictures import differences, frame_info, made, on_luma_grid, picture, surface_format

SIZE = (320, 180)


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_bgr_is_rgb_backwards(bits: int, dtype: str) -> None:
    info = frame_info(*SIZE, form := surface_format("4:2:0", bits))
    surface = picture(*SIZE, form, resolve(info))
    np.testing.assert_array_equal(
        made(surface, info, color="BGR", dtype=dtype), made(surface, info, dtype=dtype)[..., ::-1]
    )


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("bits", [8, 10, 16])
def test_gray_is_full_range_luma(bits: int, full: bool) -> None:
    info = frame_info(*SIZE, form := surface_format("4:2:0", bits), full_range=full)
    surface = picture(*SIZE, form, resolve(info))
    low, span = (0, 2**bits - 1) if full else (16 << (bits - 8), 219 << (bits - 8))
    exact = np.clip((surface.planes[0].astype(float) - low) / span, 0, 1)[..., None]
    assert differences(made(surface, info, color="GRAY"), exact * 255)[2] <= 0.51
    assert differences(made(surface, info, color="GRAY", dtype="uint16"), exact * 65535)[2] <= 0.51


@pytest.mark.parametrize("bits", [8, 10])
def test_gray_surfaces(bits: int) -> None:
    info = frame_info(*SIZE, form := surface_format("gray", bits))
    surface = picture(*SIZE, form, resolve(info))
    gray = made(surface, info, color="GRAY")
    np.testing.assert_array_equal(made(surface, info), np.repeat(gray, 3, axis=2))
    codes = made(surface, info, color="YCbCr", dtype="uint16")
    np.testing.assert_array_equal(codes[..., 0], surface.planes[0])
    assert (codes[..., 1:] == 1 << (bits - 1)).all()


@pytest.mark.parametrize("bits", [8, 10, 16])
def test_rgb_surfaces(bits: int) -> None:
    info = frame_info(*SIZE, form := surface_format("rgb", bits), matrix=0)
    surface = picture(*SIZE, form, resolve(info))
    exact = np.stack(surface.planes, axis=-1) / (2**bits - 1)
    assert differences(made(surface, info), exact * 255)[2] <= (0 if bits == 8 else 0.502)
    assert differences(made(surface, info, color="BGR"), exact[..., ::-1] * 255)[2] <= (
        0 if bits == 8 else 0.502
    )
    assert differences(made(surface, info, dtype="uint16"), exact * 65535)[2] <= 0.51
    luma = exact @ [0.2126, 0.7152, 0.0722]
    assert differences(made(surface, info, color="GRAY"), luma[..., None] * 255)[2] <= 0.55
    with pytest.raises(SourceError, match=r"made\.mp4: the stream is coded as RGB.*allowed: color='RGB'"):
        made(surface, info, color="YCbCr")


def test_rgb_surfaces_tagged_limited_are_full_as_ffmpeg_has_it() -> None:
    info = frame_info(*SIZE, form := surface_format("rgb"), matrix=0, full_range=False)
    surface = picture(*SIZE, form, resolve(info))
    red, green, blue = surface.planes
    judged = to_rgb((green, blue, red), "gbrp", matrix="bt709", full_range=False)
    np.testing.assert_array_equal(made(surface, info), judged)


@pytest.mark.parametrize("chroma", ["4:2:0", "4:2:2", "4:4:4"])
@pytest.mark.parametrize("bits", [8, 10])
def test_ycbcr_holds_the_streams_own_values(chroma: str, bits: int) -> None:
    info = frame_info(*SIZE, form := surface_format(chroma, bits))
    surface = picture(*SIZE, form, resolve(info))
    shape, offset = (SIZE[1], SIZE[0]), chroma_offset(resolve(info), form)
    exact = [on_luma_grid(plane, shape, form, offset) for plane in surface.planes[1:]]

    codes = made(surface, info, color="YCbCr", dtype="uint16")
    np.testing.assert_array_equal(codes[..., 0], surface.planes[0])
    assert differences(codes[..., 1:], np.stack(exact, axis=-1))[2] <= 1.01

    eight = made(surface, info, color="YCbCr")
    expected = np.minimum(np.rint(codes / 2 ** (bits - 8)), 255)
    np.testing.assert_array_equal(eight, expected)


def test_an_unknown_matrix_names_the_source_but_leaves_gray() -> None:
    info = frame_info(*SIZE, matrix=14)
    surface = picture(*SIZE, surface_format(), ColorSpec(1, False, 0, 0.5))
    with pytest.raises(SourceError, match=r"made\.mp4: matrix coefficients 14 of H\.273 are not supported"):
        made(surface, info)
    assert made(surface, info, color="GRAY").std() > 10


@given(st.data(), st.integers(1, 6), st.sampled_from(["4:2:0", "4:2:2", "4:1:0"]))
@settings(max_examples=60)
def test_a_crop_is_a_part_of_the_whole(data: st.DataObject, location: int, chroma: str) -> None:
    width, height = data.draw(st.tuples(st.integers(1, 40), st.integers(1, 40)))
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    w, h = data.draw(st.integers(1, width - x)), data.draw(st.integers(1, height - y))
    form = surface_format(chroma)
    info = frame_info(width, height, form, chroma_location=location)
    rng = np.random.default_rng(width * 41 + height)
    shape = (-(-height >> form.shift_y), -(-width >> form.shift_x))
    planes = [rng.integers(16, 236, size, np.uint8) for size in ((height, width), shape, shape)]
    surface = Surface(0, tuple(planes), form)
    np.testing.assert_array_equal(
        made(surface, info, crop=(x, y, w, h)), made(surface, info)[y : y + h, x : x + w]
    )


@pytest.mark.parametrize("color", ["RGB", "GRAY"])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("turns", range(4))
def test_mirroring_then_turning_counter_clockwise(turns: int, flipped: bool, color: str) -> None:
    info = frame_info(*SIZE, rotation_degrees=90 * turns, flipped=flipped)
    surface = picture(*SIZE, surface_format(), resolve(info))
    plain = made(surface, info, rotate=False, color=color)
    expected = np.rot90(plain[:, ::-1] if flipped else plain, turns)
    np.testing.assert_array_equal(made(surface, info, color=color), expected)
    assert made(surface, info, color=color, size=(40, 30)).shape[:2] == (30, 40)


@pytest.mark.parametrize(
    ("name", "degrees"), [("rotated_90", 90), ("rotated_180", 180), ("rotated_270", 270)]
)
def test_turned_as_ffmpeg_turns(name: str, degrees: int) -> None:
    path = media.made(name)
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    assert frame.rotation % 360 in (degrees, 360 - degrees)
    info = frame_info(frame.width, frame.height, rotation_degrees=frame.rotation % 360)
    luma = made(Surface.of(frame, 0), info, color="YCbCr")[..., 0]
    done = subprocess.run(
        [
            ffmpeg_exe(),
            "-v",
            "error",
            "-i",
            path,
            "-frames:v",
            "1",
            "-pix_fmt",
            "yuv420p",
            "-f",
            "rawvideo",
            "-",
        ],
        capture_output=True,
        check=True,
    )
    judged = np.frombuffer(done.stdout, np.uint8)[: luma.size].reshape(luma.shape)
    np.testing.assert_array_equal(luma, judged)
