"""Conversion matrix from a surface's code values to output values."""

from __future__ import annotations

import numpy as np

from ...array import FloatArray
from ...errors import SourceError
from .color import ColorSpec, gray_matrix, is_rgb, rgb_matrix
from .output import Color
from .surface import SurfaceFormat

__all__ = ["output_matrix"]


def output_matrix(color: ColorSpec, wanted: Color, form: SurfaceFormat, bits: int) -> FloatArray:
    """Return the matrix from planes to channels: one row per channel, one column per plane and one for the offset.

    Args:
        color: the stream's resolved color tags.
        wanted: color of the output.
        form: format of the surfaces.
        bits: bit depth of the result: colors span 0 to ``2**bits - 1``. Code values of YCbCr are unchanged.

    Raises:
        SourceError: the color cannot be converted to the wanted one; the caller adds the source's name.
    """
    if wanted == "YCbCr":
        return _code_values(color, form)
    make = gray_matrix if wanted == "GRAY" else rgb_matrix
    matrix = make(color, form, bits)
    return matrix[::-1].copy() if wanted == "BGR" else matrix.copy()


def _code_values(color: ColorSpec, form: SurfaceFormat) -> FloatArray:
    if is_rgb(color, form):
        raise SourceError(
            "the stream is coded as RGB and has no YCbCr code values",
            allowed="color='RGB', 'BGR' or 'GRAY'",
        )
    middle = float(1 << (form.bits - 1))
    return np.array([[1.0, 0.0], [0.0, middle], [0.0, middle]]) if form.chroma == "gray" else np.eye(3, 4)
