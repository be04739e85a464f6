"""Decoding of still images into arrays ``HWC``. Imports only seqpipe's top-level modules."""

from __future__ import annotations

from .decode import ImageColor, decode_image, image_extensions

__all__ = ["ImageColor", "decode_image", "image_extensions"]
