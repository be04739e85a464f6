"""Decoding of image files: JPEG by libjpeg-turbo, whose warnings are errors here, other formats by OpenCV."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import UnreadableSourceError
from .checks import VERIFY, verifies
from .image_checks import check_image, jpeg_orientation

__all__ = ["decode_pixels"]

_HARMLESS: Final = (
    "unknown JFIF revision",
    "Unknown Adobe color",
    "Invalid SOS parameters",
    "bad ICC marker",
)
"""Warnings about headers, which change no pixel."""
_CHANNELS: Final = {3: [2, 1, 0], 4: [2, 1, 0, 3]}


def decode_pixels(raw: npt.NDArray[np.uint8], flags: int, source: str) -> npt.NDArray[Any]:
    """Decode an image, after a check of what its header declares.

    Args:
        raw: the bytes of the file.
        flags: those of ``cv2.imread``.
        source: name of the file, for messages.

    Returns:
        The image ``HW`` or ``HWC``; colors are RGB or RGBA.

    Raises:
        UnreadableSourceError: the data are not an image, or damaged.
    """
    import cv2

    check_image(raw.data, source)
    jpeg = _of_jpeg(raw, flags, source) if raw[:2].tobytes() == b"\xff\xd8" else None
    if jpeg is not None:
        return jpeg
    try:
        image = cv2.imdecode(raw, flags) if raw.size else None
    except cv2.error as error:
        raise UnreadableSourceError(f"the image cannot be decoded: {error}", source=source) from error
    if image is None:
        raise UnreadableSourceError(
            f"these {raw.size} bytes are not an image that can be decoded",
            source=source,
            allowed="JPEG, PNG, BMP, TIFF, WebP, JPEG 2000, PNM",
            advice="The file is damaged, or of another format",
        )
    if image.ndim == 2 or image.shape[2] not in _CHANNELS:
        return np.asarray(image)
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        return np.ascontiguousarray(image[..., _CHANNELS[image.shape[2]]])
    return np.asarray(cv2.cvtColor(image, {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGBA}[image.shape[2]]))


def _of_jpeg(raw: npt.NDArray[np.uint8], flags: int, source: str) -> npt.NDArray[Any] | None:
    """Decode a JPEG; None for one that is left to OpenCV, such as one of CMYK, which is only verified."""
    import cv2
    import simplejpeg

    try:
        _, _, space, _ = simplejpeg.decode_jpeg_header(raw)
    except ValueError:
        return None  # of 12 bits, or no image
    if space in ("CMYK", "YCCK"):
        _turbo(raw, "CMYK", source, min_height=1, min_width=1, min_factor=8)
        return None
    gray = flags == cv2.IMREAD_GRAYSCALE or flags == cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
    keeps = flags == cv2.IMREAD_UNCHANGED or flags & cv2.IMREAD_ANYCOLOR
    image = _turbo(raw, "GRAY" if gray or (keeps and space == "Gray") else "RGB", source)
    image = image[..., 0] if image.shape[2] == 1 else image
    if flags == cv2.IMREAD_UNCHANGED or flags & cv2.IMREAD_IGNORE_ORIENTATION:
        return image
    return _oriented(image, jpeg_orientation(raw.data))


def _turbo(raw: npt.NDArray[np.uint8], colors: str, source: str, **scaled: int) -> npt.NDArray[Any]:
    import simplejpeg

    # the accurate transform and chroma, which are those of OpenCV
    options = {"fastdct": False, "fastupsample": False, **scaled}
    try:
        image: npt.NDArray[Any] = simplejpeg.decode_jpeg(raw, colors, strict=verifies(), **options)
    except ValueError as error:
        if not any(text in str(error) for text in _HARMLESS):
            raise UnreadableSourceError(
                f"the image is damaged: {error}", source=source, advice=f"{VERIFY}=0 takes it as it is"
            ) from error
        image = simplejpeg.decode_jpeg(raw, colors, strict=False, **options)
    return image


def _oriented(image: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Turn an image by its Exif orientation."""
    if orientation >= 5:
        image = image.swapaxes(0, 1)
    rows = -1 if orientation in (3, 4, 7, 8) else 1
    columns = -1 if orientation in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(image[::rows, ::columns])
