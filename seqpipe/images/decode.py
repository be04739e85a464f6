"""Decoding of still images: JPEG, PNG, BMP, TIFF, WebP, JPEG 2000 and PNM, by OpenCV."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError, UnreadableSourceError

__all__ = ["ImageColor", "decode_image", "image_extensions"]

ImageColor: TypeAlias = Literal["RGB", "BGR", "GRAY", "YCbCr", "any"]
"""What channels are; "any" leaves them as the file has them, colors as RGB or RGBA."""

image_extensions: Final = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff"),
    *(".webp", ".jp2", ".pnm", ".ppm", ".pgm", ".pbm"),
)
"""Endings of files that are taken for images."""


def decode_image(
    data: bytes | npt.NDArray[np.uint8], color: ImageColor = "RGB", *, orient: bool = True, source: str = ""
) -> npt.NDArray[Any]:
    """An image of the bytes of its file.

    Args:
        data: the bytes of the file.
        color: what its channels are to be.
        orient: whether it is turned as its EXIF data says.
        source: what it comes from, for messages.

    Returns:
        uint8 ``HWC`` of 3 channels, or 1 for "GRAY"; with "any" as many channels as the file has, also uint16.

    Raises:
        ParameterError: there is no such color.
        UnreadableSourceError: it is no image, or damaged.
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
    if color == "any":
        flags = cv2.IMREAD_UNCHANGED
    else:
        flags = cv2.IMREAD_GRAYSCALE if color == "GRAY" else cv2.IMREAD_COLOR
        flags |= 0 if orient else cv2.IMREAD_IGNORE_ORIENTATION
    try:
        found: Any = cv2.imdecode(raw, flags) if raw.size else None
    except cv2.error as error:
        raise UnreadableSourceError(f"the image cannot be decoded: {error}", source=source) from error
    if found is None:
        raise UnreadableSourceError(
            f"{raw.size} bytes that are no image which can be decoded",
            source=source,
            allowed="JPEG, PNG, BMP, TIFF, WebP, JPEG 2000, PNM",
        )
    if found.ndim == 2:
        return np.asarray(found)[..., None]
    if color == "BGR":
        return np.asarray(found)
    codes = {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGBA}
    pixels = np.asarray(cv2.cvtColor(found, codes[found.shape[2]]))
    return _coded(pixels) if color == "YCbCr" else pixels


def _coded(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Limited range BT.601, as code values of video have it."""
    weights = (
        np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255
    )
    coded = pixels.astype(np.float32) @ weights.T.astype(np.float32) + np.array([16, 128, 128], np.float32)
    return np.clip(np.rint(coded), 0, 255).astype(np.uint8)
