"""Decoding of still images: JPEG, PNG, BMP, TIFF, WebP, JPEG 2000 and PNM, by OpenCV."""

from __future__ import annotations

import struct
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..core.limits import check_image_size
from ..errors import ParameterError, UnreadableSourceError

__all__ = ["ImageColor", "decode_image", "image_extensions"]

ImageColor: TypeAlias = Literal["RGB", "BGR", "GRAY", "YCbCr", "any"]
"""Channels of the result; "any" keeps those of the file: gray, RGB or RGBA."""

_JPEG_FRAMES: Final = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # start of frame, of any process
_EXIF_MARKS: Final = (b"Exif", b"eXIf", b"EXIF")  # of JPEG, PNG, WebP

image_extensions: Final = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff"),
    *(".webp", ".jp2", ".pnm", ".ppm", ".pgm", ".pbm"),
)
"""File name extensions that are treated as images, in lower case."""


def decode_image(
    data: bytes | npt.NDArray[np.uint8], color: ImageColor = "RGB", *, orient: bool = True, source: str = ""
) -> npt.NDArray[Any]:
    """Decode an image.

    Args:
        data: the bytes of the file.
        color: channels of the result.
        orient: whether to apply the EXIF orientation; images with an alpha channel keep it only for colors other than
            "any".
        source: name of the file, for messages.

    Returns:
        uint8 ``HWC`` with 3 channels, or 1 for "GRAY"; with "any" the channels and the depth of the file.

    Raises:
        ParameterError: the color is unknown, or the data are not bytes.
        UnreadableSourceError: the data are not an image, or damaged, or declare more pixels than
            :data:`seqpipe.core.limits.IMAGE_PIXELS` allows (JPEG, PNG, BMP; OpenCV refuses more than 2^30 of others).
    """
    import cv2

    if color not in get_args(ImageColor):
        raise ParameterError(
            f"color={color!r} is not valid", allowed=", ".join(map(repr, get_args(ImageColor)))
        )
    raw = (
        np.frombuffer(data, np.uint8)
        if isinstance(data, (bytes, bytearray, memoryview))
        else np.ascontiguousarray(data)
    )
    if raw.dtype != np.uint8 or raw.ndim != 1:
        raise ParameterError(
            f"an array of {raw.dtype} with {raw.ndim} axes",
            source=source,
            allowed="the bytes of an image file, uint8",
        )
    if (declared := _declared_size(raw)) is not None:
        check_image_size(*declared, source)
    if color == "any":
        image = _decode(raw, cv2.IMREAD_UNCHANGED, source)
        # OpenCV does not orient with IMREAD_UNCHANGED; its other flags drop the alpha channel
        if orient and image.shape[2:] != (4,) and any(mark in raw.tobytes() for mark in _EXIF_MARKS):
            image = _decode(raw, cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH, source)
    else:
        flags = cv2.IMREAD_GRAYSCALE if color == "GRAY" else cv2.IMREAD_COLOR
        image = _decode(raw, flags | (0 if orient else cv2.IMREAD_IGNORE_ORIENTATION), source)
    if image.ndim == 2:
        return image[..., None]
    if color == "BGR":
        return image
    codes = {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGBA}
    pixels = np.asarray(cv2.cvtColor(image, codes[image.shape[2]]))
    return _to_ycbcr(pixels) if color == "YCbCr" else pixels


def _declared_size(raw: npt.NDArray[np.uint8]) -> tuple[int, int] | None:
    """Return width and height from the header of a JPEG, PNG or BMP; None for other data."""
    head = raw[:26].tobytes()
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head.startswith(b"BM") and len(head) == 26 and head[14] >= 40:
        width, height = struct.unpack("<ii", head[18:])
        return abs(width), abs(height)
    if not head.startswith(b"\xff\xd8"):
        return None
    offset = 2
    while offset + 9 <= raw.size and raw[offset] == 0xFF:
        marker = int(raw[offset + 1])
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", raw[offset + 5 : offset + 9].tobytes())
            return width, height
        padding = marker == 0xFF  # fill bytes before a marker
        offset += 1 if padding else 2 + int.from_bytes(raw[offset + 2 : offset + 4].tobytes(), "big")
    return None


def _decode(raw: npt.NDArray[np.uint8], flags: int, source: str) -> npt.NDArray[Any]:
    import cv2

    try:
        image = cv2.imdecode(raw, flags) if raw.size else None
    except cv2.error as error:
        raise UnreadableSourceError(f"the image cannot be decoded: {error}", source=source) from error
    if image is None:
        raise UnreadableSourceError(
            f"these {raw.size} bytes are not an image that can be decoded",
            source=source,
            allowed="JPEG, PNG, BMP, TIFF, WebP, JPEG 2000, PNM",
        )
    return np.asarray(image)


def _to_ycbcr(rgb: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert to YCbCr by BT.601 with limited range, as in video."""
    weights = (
        np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255
    )
    ycbcr = rgb.astype(np.float32) @ weights.T.astype(np.float32) + np.array([16, 128, 128], np.float32)
    return np.clip(np.rint(ycbcr), 0, 255).astype(np.uint8)
