"""Decoding of still images: JPEG, PNG, BMP, TIFF, WebP, JPEG 2000 and PNM."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..core.files.images import decode_pixels
from ..errors import ParameterError

__all__ = ["ImageColor", "decode_image", "image_extensions"]

ImageColor: TypeAlias = Literal["RGB", "BGR", "GRAY", "YCbCr", "any"]
"""Channels of the result; "any" keeps those of the file: gray, RGB or RGBA."""

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
            :data:`seqpipe.core.limits.IMAGE_PIXELS` allows, or more than its bytes can hold.
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
        image = decode_pixels(raw, cv2.IMREAD_UNCHANGED, source)
        # OpenCV does not orient with IMREAD_UNCHANGED; its other flags drop the alpha channel
        if orient and image.shape[2:] != (4,) and any(mark in raw.tobytes() for mark in _EXIF_MARKS):
            image = decode_pixels(raw, cv2.IMREAD_ANYCOLOR | cv2.IMREAD_ANYDEPTH, source)
    else:
        flags = cv2.IMREAD_GRAYSCALE if color == "GRAY" else cv2.IMREAD_COLOR
        image = decode_pixels(raw, flags | (0 if orient else cv2.IMREAD_IGNORE_ORIENTATION), source)
    if image.ndim == 2:
        return image[..., None]
    if color == "BGR":
        return np.ascontiguousarray(image[..., ::-1])
    return _to_ycbcr(image) if color == "YCbCr" else image


def _to_ycbcr(rgb: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert to YCbCr by BT.601 with limited range, as in video."""
    weights = (
        np.array([[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]]) / 255
    )
    ycbcr = rgb.astype(np.float32) @ weights.T.astype(np.float32) + np.array([16, 128, 128], np.float32)
    return np.clip(np.rint(ycbcr), 0, 255).astype(np.uint8)
