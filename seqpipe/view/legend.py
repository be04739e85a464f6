"""Legend: the classes of a label volume or of masks, their colors and sizes."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from .encoding import LEVELS, Pixels

__all__ = ["Class", "Legend"]

_GOLDEN: Final = 0.618033988749895


@dataclass(frozen=True)
class Class:
    """A class of a label volume.

    Attributes:
        value: its number.
        color: such as ``"#ff2030"``.
        voxels: how many there are.
        milliliters: what they fill; None without a spacing.
        name: as the caller has it, or "".
    """

    value: int
    color: str
    voxels: int
    milliliters: float | None
    name: str

    def __str__(self) -> str:
        """Such as ``liver (3): 1,204 voxels, 5.13 ml``."""
        size = "" if self.milliliters is None else f", {self.milliliters:.4g} ml"
        called = f"{self.name} ({self.value})" if self.name else str(self.value)
        return f"{called}: {self.voxels:,} voxels{size}"


class Legend:
    """The classes of labels but for 0, the background.

    Args:
        labels: whole numbers, of any shape.
        source: for messages.
        voxel_mm3: the volume of a voxel, None where it is not known.
        names: of classes, by their numbers.

    Raises:
        ParameterError: they are no labels: not whole numbers, or of more than 255 classes.
    """

    def __init__(
        self,
        labels: npt.NDArray[Any],
        source: str,
        voxel_mm3: float | None = None,
        names: Mapping[int, str] | None = None,
    ) -> None:
        if labels.dtype.kind not in "iubf" or (
            labels.dtype.kind == "f" and (labels != np.rint(labels)).any()
        ):
            raise ParameterError(
                f"labels of {labels.dtype} that are no whole numbers",
                source=source,
                allowed="the number of a class for each voxel",
                advice="Show it as an image instead",
            )
        found: dict[int, int] = {}
        for part in labels if labels.ndim > 1 else labels[None]:
            for value, count in zip(*np.unique(part, return_counts=True), strict=True):
                found[int(value)] = found.get(int(value), 0) + int(count)
        found.pop(0, None)
        if len(found) >= LEVELS:
            raise ParameterError(
                f"labels of {len(found):,} different values",
                source=source,
                allowed=f"up to {LEVELS - 1} classes",
                advice="Show it as an image instead",
            )
        self._values = np.array(sorted(found), np.int64)
        self.classes = [
            Class(
                value,
                _color(value),
                found[value],
                None if voxel_mm3 is None else found[value] * voxel_mm3 / 1000,
                (names or {}).get(value, ""),
            )
            for value in sorted(found)
        ]

    def places(self, labels: npt.NDArray[Any]) -> Pixels:
        """Each label as its place in the legend, counted from 1; 0 for the background."""
        whole = labels.astype(np.int64)
        place = np.searchsorted(self._values, whole).astype(np.uint8) + np.uint8(1)
        place[whole == 0] = 0
        return place

    def painted(self, labels: npt.NDArray[Any]) -> Pixels:
        """A mask ``(H, W)`` in the colors of its classes, RGBA; the background is transparent."""
        table = np.zeros((LEVELS, 4), np.uint8)
        for number, one in enumerate(self.classes, 1):
            table[number] = *bytes.fromhex(one.color[1:]), 255
        return table[self.places(labels)]


def _color(value: int) -> str:
    """The same for a number on every page; neighbors differ."""
    red, green, blue = colorsys.hsv_to_rgb((value * _GOLDEN) % 1.0, 0.85 if value % 2 else 0.6, 1.0)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
