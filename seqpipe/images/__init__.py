"""Still images: files and their bytes to arrays ``HWC``. Imports the vocabulary alone."""

from __future__ import annotations

from .decode import ImageColor, decode_image, image_extensions

__all__ = ["ImageColor", "decode_image", "image_extensions"]
