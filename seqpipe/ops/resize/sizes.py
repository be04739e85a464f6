"""Sized: base of operators with the size parameters of DALI."""

from __future__ import annotations

import math
from typing import Any, Final, Literal, TypeAlias

from ...errors import ParameterError
from ..core.distributions import Number
from ..core.parameters import param
from ..geometry.mapping import Mapping, scaling
from .base import Scaled

__all__ = ["Sized"]

Mode: TypeAlias = Literal["default", "stretch", "not_larger", "not_smaller"]
_MODES: Final = ("default", "stretch", "not_larger", "not_smaller")
_LEAST: Final = 1e-3
_FAR: Final = 1 << 24  # limit of coordinates, whose 64 bits have 32 bits of fraction
_SIZES: Final = {
    "size": ("size",),
    "resize_x or resize_y": ("resize_x", "resize_y"),
    "resize_shorter": ("resize_shorter",),
    "resize_longer": ("resize_longer",),
}


class Sized(Scaled, register=False):
    """Base of operators with the size parameters of DALI, for images or a region of interest.

    A sampled side is an integer, one for all frames of a sequence; samples whose results differ in size must be a list.
    """

    size: tuple[int, int] | None = param(
        None, "(height, width); 0 for a side that keeps the aspect ratio", kind=int, size=2, lo=0, drawn=False
    )
    resize_x: Number | None = param(None, "width of the result", kind=int, unit="px", lo=1, by_frame=False)
    resize_y: Number | None = param(None, "height of the result", kind=int, unit="px", lo=1, by_frame=False)
    resize_shorter: Number | None = param(
        None,
        "length of the shorter side; the other keeps the aspect ratio",
        kind=int,
        unit="px",
        lo=1,
        by_frame=False,
    )
    resize_longer: Number | None = param(
        None,
        "length of the longer side; the other keeps the aspect ratio",
        kind=int,
        unit="px",
        lo=1,
        by_frame=False,
    )
    mode: Mode = param(
        "default",
        "how sides are combined; default: as given, a missing side keeps the aspect ratio; stretch: a missing"
        " side keeps its length; not_larger, not_smaller: the aspect ratio is kept, and no side is larger or"
        " smaller than given",
        choices=_MODES,
    )
    max_size: int | None = param(None, "maximum length of a side", kind=int, unit="px", lo=1, drawn=False)
    subpixel_scale: bool = param(
        False,
        "whether a rounded side keeps its scale, so that the result shows slightly more or less than the whole image;"
        " the default of DALI",
        drawn=False,
    )
    roi_start: Number | None = param(
        None, "top and left of the window to resize; None for the whole image", kind=float, size=2
    )
    roi_end: Number | None = param(
        None,
        "bottom and right of the window; if they are less than the start, the result is mirrored",
        kind=float,
        size=2,
    )
    roi_relative: bool = param(
        False, "whether the window is relative to the image's size instead of in pixels", drawn=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [
            key for key, names in _SIZES.items() if any(getattr(self, name) is not None for name in names)
        ]
        if len(given) != 1 or self.size == (0, 0):
            raise ParameterError(
                f"{' and '.join(given)} given" if len(given) > 1 else "no size is given",
                source=self.name,
                allowed=f"one of {', '.join(_SIZES)}",
            )
        if self.mode != "default" and given[0] in ("resize_shorter", "resize_longer"):
            raise ParameterError(f"mode={self.mode!r} with {given[0]}", source=self.name, allowed="'default'")
        if (self.roi_start is None) != (self.roi_end is None):
            raise ParameterError(
                "one of roi_start and roi_end is given", source=self.name, allowed="both, or none"
            )

    def whole(self, p: Any, height: int, width: int) -> Mapping:
        """Return the mapping that resizes images, or their region of interest.

        Args:
            p: parameters of one image or sequence.
            height: rows of the images.
            width: columns of the images.

        Raises:
            ParameterError: the window is empty.
        """
        window = self._window(p, height, width)
        sides = self._sides(p, *(abs(end - start) for start, end in window))
        (top, down, rows), (left, across, columns) = (
            self._axis(start, end, side) for (start, end), side in zip(window, sides, strict=True)
        )
        return Mapping(scaling(left, across, top, down), rows, columns)

    @property
    def may_leave(self) -> bool:
        """See :attr:`Scaled.may_leave`."""
        return self.roi_start is not None

    def leaves(self, p: Any, height: int, width: int) -> tuple[bool, bool]:
        """See :meth:`Scaled.leaves`."""
        whole = self.whole(p, height, width)
        first, last = whole.matrix @ [0.5, 0.5, 1], whole.matrix @ [whole.width - 0.5, whole.height - 0.5, 1]
        columns, rows = (
            not 0 <= min(first[n], last[n]) <= max(first[n], last[n]) <= length
            for n, length in enumerate((width, height))
        )
        return columns, rows

    def _axis(self, start: float, end: float, side: float) -> tuple[float, float, int]:
        """Return source start, source pixels per pixel, and number of pixels of an axis."""
        # rounds halves up, with a tolerance for the last bits, to at least 1
        rounded = max(1, math.floor(side + 0.5 + 1e-9))
        step = (end - start) / (side if self.subpixel_scale else rounded)
        return (start + end) / 2 - step * rounded / 2 if self.subpixel_scale else start, step, rounded

    def _window(self, p: Any, height: int, width: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return top and bottom, and left and right of the region of interest in pixels.

        Raises:
            ParameterError: it is empty, or too far from the image.
        """
        if self.roi_start is None:
            return (0.0, height), (0.0, width)
        units = (height, width) if self.roi_relative else (1, 1)
        rows, columns = (
            (float(p.roi_start[n]) * unit, float(p.roi_end[n]) * unit) for n, unit in enumerate(units)
        )
        least, most = min(abs(b - a) for a, b in (rows, columns)), max(map(abs, (*rows, *columns)))
        if least < _LEAST or most > _FAR:
            raise ParameterError(
                f"a window of rows {rows[0]:g} to {rows[1]:g} and columns {columns[0]:g} to {columns[1]:g}",
                source=self.name,
                allowed=f"windows with sides of at least {_LEAST} pixels, up to {_FAR} pixels away",
            )
        return rows, columns

    def _sides(self, p: Any, height: float, width: float) -> tuple[float, float]:
        """Return height and width of the result before rounding."""
        mode, wanted = self._wanted(p)
        given = (height, width)
        ratios = [side / old for side, old in zip(wanted, given, strict=True) if side]
        if mode in ("not_larger", "not_smaller"):
            ratio = min(ratios) if mode == "not_larger" else max(ratios)
            limit = min(1.0, self.max_size / (max(given) * ratio)) if self.max_size else 1.0
            return height * ratio * limit, width * ratio * limit
        absent = 1.0 if mode == "stretch" else ratios[0]
        rows, columns = (
            min(side or old * absent, self.max_size or math.inf)
            for side, old in zip(wanted, given, strict=True)
        )
        return rows, columns

    def _wanted(self, p: Any) -> tuple[Mode, tuple[int, int]]:
        if self.resize_shorter is not None:
            return "not_smaller", (p.resize_shorter, p.resize_shorter)
        if self.resize_longer is not None:
            return "not_larger", (p.resize_longer, p.resize_longer)
        return self.mode, self.size or (p.resize_y, p.resize_x)
