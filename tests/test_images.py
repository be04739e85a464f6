"""Still images against Pillow: channels, depth and EXIF orientation."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from seqpipe.errors import ParameterError, UnreadableSourceError
from seqpipe.images import decode_image

_ORIENTATION = 274


def encoded(image: Image.Image, file_format: str, orientation: int = 1) -> bytes:
    exif, file = Image.Exif(), io.BytesIO()
    exif[_ORIENTATION] = orientation
    image.save(file, file_format, exif=exif, **({"lossless": True} if file_format == "WEBP" else {}))
    return file.getvalue()


@pytest.mark.parametrize("color", ["any", "RGB"])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("file_format", ["PNG", "WEBP", "JPEG"])
def test_exif_orientation_is_applied_unless_refused(file_format, orientation, color):
    """With "any" it was ignored."""
    rng = np.random.default_rng(orientation)
    image = Image.fromarray(np.kron(rng.integers(0, 256, (2, 3, 3)), np.ones((16, 16, 1))).astype(np.uint8))
    data = encoded(image, file_format, orientation)
    stored = Image.open(io.BytesIO(data))
    tolerance = 3 if file_format == "JPEG" else 0
    for orient, expected in ((True, ImageOps.exif_transpose(stored)), (False, stored)):
        pixels = decode_image(data, color, orient=orient)
        assert pixels.shape == np.asarray(expected).shape
        assert np.abs(pixels.astype(int) - np.asarray(expected).astype(int)).max() <= tolerance


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "I;16"])
def test_any_keeps_channels_and_depth(mode):
    rng = np.random.default_rng(0)
    if mode == "I;16":
        pixels = rng.integers(0, 65536, (5, 7), dtype=np.uint16)
    else:
        pixels = rng.integers(0, 256, (5, 7, len(mode)), dtype=np.uint8)
    data = encoded(Image.fromarray(pixels.squeeze()), "PNG")
    np.testing.assert_array_equal(decode_image(data, "any"), pixels.reshape(5, 7, -1))


def test_refusals_name_the_file_and_the_fact():
    with pytest.raises(UnreadableSourceError, match=r"^a\.jpg: these 4 bytes are not an image"):
        decode_image(b"text", source="a.jpg")
    with pytest.raises(ParameterError, match=r"color='HSV' is not valid; allowed: 'RGB', 'BGR'"):
        decode_image(b"text", "HSV")
    with pytest.raises(ParameterError, match=r"an array of float32 with 1 axes; allowed: the bytes"):
        decode_image(np.zeros(3, np.float32))
    with pytest.raises(ParameterError, match=r"an array of uint8 with 2 axes; allowed: the bytes"):
        decode_image(np.zeros((3, 3), np.uint8))


def test_ycbcr_is_that_of_video():
    """BT.601 with limited range, as ffmpeg writes it; not the full range of JPEG."""
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    red, green, blue = np.moveaxis(np.asarray(image) / 255, -1, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    judge = [16 + 219 * luma, 128 + 224 * (blue - luma) / 1.772, 128 + 224 * (red - luma) / 1.402]
    np.testing.assert_allclose(decode_image(encoded(image, "PNG"), "YCbCr"), np.stack(judge, -1), atol=0.501)


def test_bitmaps_with_the_header_of_os2_are_decoded():
    """Width and height are 16 bits there; taken for 32 they declared a thousand million pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 3), dtype=np.uint8)
    head = b"BM" + struct.pack("<IHHI", 26 + pixels.size, 0, 0, 26) + struct.pack("<IHHHH", 12, 4, 2, 1, 24)
    np.testing.assert_array_equal(decode_image(head + pixels[::-1, :, ::-1].tobytes()), pixels)


@pytest.mark.parametrize("file_format", ["PNG", "JPEG", "JPEG with a comment", "BMP"])
def test_a_small_file_that_declares_more_pixels_than_the_limit_is_refused_before_it_is_decoded(
    file_format, monkeypatch
):
    image = Image.fromarray(np.zeros((70, 90, 3), np.uint8))
    data = _bitmap(image) if file_format == "BMP" else encoded(image, file_format[:4].strip())
    if "comment" in file_format:  # fill bytes, and a segment of more than 255 bytes, stand before the size
        data = data[:2] + b"\xff\xff\xfe" + struct.pack(">H", 602) + bytes(600) + data[2:]
    assert decode_image(data).shape == (70, 90, 3)
    monkeypatch.setenv("SEQPIPE_MAX_PIXELS", "6299")
    with pytest.raises(
        UnreadableSourceError, match=r"a.x: it declares frames of 90×70 pixels; allowed: up to 6299"
    ):
        decode_image(data, source="a.x")
    monkeypatch.setenv("SEQPIPE_MAX_PIXELS", "6300")
    assert decode_image(data).shape == (70, 90, 3)


def _bitmap(image: Image.Image) -> bytes:
    image.save(file := io.BytesIO(), "BMP")
    return file.getvalue()


def test_headers_that_end_early_are_no_images():
    whole = encoded(Image.fromarray(np.zeros((20, 30, 3), np.uint8)), "JPEG")
    for length in range(1, 200):
        with pytest.raises(UnreadableSourceError):
            decode_image(whole[:length])
