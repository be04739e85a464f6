"""Cropping windows and mirroring, as mappings."""

from __future__ import annotations

import math

from ...errors import ParameterError
from ..core.declaration import Declaration
from ..core.distributions import Number
from ..core.parameters import param
from .mapping import Mapping, scaling

__all__ = ["OutputSize", "Windowed", "mirrored", "window_of"]


class Windowed(Declaration, register=False):
    """Parameters of operators that crop a window."""

    crop: tuple[int, int] | None = param(
        None, "(height, width) of the window; None for the whole image", kind=int, size=2, lo=1, drawn=False
    )
    crop_pos_x: Number = param(
        0.5, "horizontal position of the window, from 0 (left) to 1 (right)", lo=0, hi=1
    )
    crop_pos_y: Number = param(0.5, "vertical position of the window, from 0 (top) to 1 (bottom)", lo=0, hi=1)


class OutputSize(Declaration, register=False):
    """Parameter of operators with an optional output size."""

    size: tuple[int, int] | None = param(
        None,
        "(height, width) of the result; None for those of the input",
        kind=int,
        size=2,
        lo=1,
        drawn=False,
    )


def window_of(
    crop: tuple[int, int] | None, position: tuple[float, float], height: int, width: int, source: str
) -> Mapping:
    """Return the mapping of a window.

    Args:
        crop: height and width; None for the whole image.
        position: relative position: x from 0 at the left to 1 at the right, and y likewise from the top.
        height: rows of the image.
        width: columns of the image.
        source: name of the operator, for messages.

    Raises:
        ParameterError: the window is larger than the image.
    """
    rows, columns = crop or (height, width)
    if rows > height or columns > width:
        raise ParameterError(
            f"crop={crop} of images of {height}×{width} pixels",
            source=source,
            allowed=f"up to {height} rows and {width} columns",
            advice="Resize or pad the images first",
        )
    # rounds halves up, as DALI does
    left, top = (
        math.floor(float(part) * margin + 0.5)
        for part, margin in zip(position, (width - columns, height - rows), strict=True)
    )
    return Mapping(scaling(left, 1, top, 1), rows, columns)


def mirrored(mapping: Mapping, *, left_right: bool) -> Mapping:
    """Return a mapping, followed by mirroring left to right if asked for."""
    if not left_right:
        return mapping
    return mapping.then(Mapping(scaling(mapping.width, -1, 0, 1), mapping.height, mapping.width))
