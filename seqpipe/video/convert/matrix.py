"""Conversion matrix from a surface's code values to output values. No pixels here."""

from __future__ import annotations

import numpy as np

from ...array import FloatArray
from ...errors import SourceError
from .color import ColorSpec, gray_matrix, is_rgb, rgb_matrix
from .output import Color
from .surface import SurfaceFormat

__all__ = ["output_matrix"]


def output_matrix(color: ColorSpec, wanted: Color, form: SurfaceFormat, bits: int) -> FloatArray:
    """What mixes the channels from the planes, one row per channel, one column per plane and one for the offset.

    Args:
        color: what the stream's tags come to.
        wanted: what is asked for.
        form: of the surfaces.
        bits: of the result: colors span 0 to ``2**bits - 1``. Code values of YCbCr stay what they are.

    Raises:
        SourceError: the color cannot be converted to the one that is asked for; who knows the source names it.
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
