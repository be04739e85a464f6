"""Sized: the base of operators that are told a size in one of the ways that DALI has."""

from __future__ import annotations

import math
from typing import Final, Literal, TypeAlias

from ..errors import ParameterError
from ._mapping import Mapping, scaling
from ._param import param
from ._scaled import Scaled

__all__ = ["Sized"]

Mode: TypeAlias = Literal["default", "stretch", "not_larger", "not_smaller"]
_MODES: Final = ("default", "stretch", "not_larger", "not_smaller")


class Sized(Scaled, register=False):
    """An operator that is told a size in one of the ways that DALI has."""

    size: tuple[int, int] | None = param(
        None, "rows and columns; 0 for one that follows from the other", kind=int, size=2, lo=0, drawn=False
    )
    resize_x: int | None = param(None, "columns", kind=int, unit="px", lo=1, drawn=False)
    resize_y: int | None = param(None, "rows", kind=int, unit="px", lo=1, drawn=False)
    resize_shorter: int | None = param(
        None, "the shorter side; the other follows", kind=int, unit="px", lo=1, drawn=False
    )
    resize_longer: int | None = param(
        None, "the longer side; the other follows", kind=int, unit="px", lo=1, drawn=False
    )
    mode: Mode = param(
        "default",
        "default: as is asked for, a side that is not in proportion to the other; stretch: that side as it is;"
        " not_larger, not_smaller: in proportion, no side larger or smaller than is asked for",
        choices=_MODES,
    )
    max_size: int | None = param(None, "what no side may exceed", kind=int, unit="px", lo=1, drawn=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        ways = {
            "size": self.size is not None,
            "resize_x or resize_y": (self.resize_x or self.resize_y) is not None,
            "resize_shorter": self.resize_shorter is not None,
            "resize_longer": self.resize_longer is not None,
        }
        given = [way for way, is_given in ways.items() if is_given]
        if len(given) != 1 or self.size == (0, 0):
            raise ParameterError(
                f"{' and '.join(given)} given" if len(given) > 1 else "no size is given",
                source=self.name,
                allowed=f"one of {', '.join(ways)}",
            )
        if self.mode != "default" and (self.resize_shorter or self.resize_longer):
            raise ParameterError(f"mode={self.mode!r} with {given[0]}", source=self.name, allowed="'default'")

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the whole result for images of a size; halves are rounded up, and 0 to 1."""
        mode, wanted = self._wanted()
        given = (height, width)
        ratios = [side / old for side, old in zip(wanted, given, strict=True) if side]
        if mode in ("not_larger", "not_smaller"):
            ratio = min(ratios) if mode == "not_larger" else max(ratios)
            sides = [old * ratio for old in given]
            limit = min(1.0, self.max_size / max(sides)) if self.max_size else 1.0
            sides = [side * limit for side in sides]
        else:
            absent = 1.0 if mode == "stretch" else ratios[0]
            sides = [side or old * absent for side, old in zip(wanted, given, strict=True)]
            sides = [min(side, self.max_size or math.inf) for side in sides]
        # what is a whole number but for its last bits is that number
        rows, columns = (max(1, math.floor(side + 0.5 + 1e-9)) for side in sides)
        return rows, columns

    def whole(self, height: int, width: int) -> Mapping:
        """The mapping that resizes images of a size as a whole."""
        rows, columns = self.size_of(height, width)
        return Mapping(scaling(0, width / columns, 0, height / rows), rows, columns)

    def _wanted(self) -> tuple[Mode, tuple[int, int]]:
        if self.resize_shorter:
            return "not_smaller", (self.resize_shorter, self.resize_shorter)
        if self.resize_longer:
            return "not_larger", (self.resize_longer, self.resize_longer)
        return self.mode, self.size or (self.resize_y or 0, self.resize_x or 0)
