"""Legends: the classes of label volumes and masks, with colors and sizes."""

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
        value: class number.
        color: color such as ``"#ff2030"``.
        voxels: number of voxels.
        milliliters: volume; None without a spacing.
        name: name of the class, or "".
    """

    value: int
    color: str
    voxels: int
    milliliters: float | None
    name: str

    def __str__(self) -> str:
        """Format as ``liver (3): 1,204 voxels, 5.13 ml``."""
        size = "" if self.milliliters is None else f", {self.milliliters:.4g} ml"
        label = f"{self.name} ({self.value})" if self.name else str(self.value)
        return f"{label}: {self.voxels:,} voxels{size}"


class Legend:
    """The classes of labels, without 0, the background.

    Args:
        labels: integers of any shape.
        source: name of the source, for messages.
        voxel_mm3: volume of a voxel, None if unknown.
        names: names of classes, by class number.

    Raises:
        ParameterError: the values are not integers, or have more than 255 classes.
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
                f"labels of {labels.dtype} that are not integers",
                source=source,
                allowed="the number of a class for each voxel",
                advice="Show it as an image instead",
            )
        counts: dict[int, int] = {}
        for part in labels if labels.ndim > 1 else labels[None]:
            for value, count in zip(*np.unique(part, return_counts=True), strict=True):
                counts[int(value)] = counts.get(int(value), 0) + int(count)
        counts.pop(0, None)
        if len(counts) >= LEVELS:
            raise ParameterError(
                f"labels of {len(counts):,} different values",
                source=source,
                allowed=f"up to {LEVELS - 1} classes",
                advice="Show it as an image instead",
            )
        self._values = np.array(sorted(counts), np.int64)
        self.classes = [
            Class(
                value,
                _color(value),
                counts[value],
                None if voxel_mm3 is None else counts[value] * voxel_mm3 / 1000,
                (names or {}).get(value, ""),
            )
            for value in sorted(counts)
        ]

    def indices(self, labels: npt.NDArray[Any]) -> Pixels:
        """Map labels to their indices in the legend, counted from 1; 0 for the background."""
        numbers = labels.astype(np.int64)
        indices = np.searchsorted(self._values, numbers).astype(np.uint8) + np.uint8(1)
        indices[numbers == 0] = 0
        return indices

    def colorize(self, labels: npt.NDArray[Any]) -> Pixels:
        """Color a mask ``(H, W)`` by its classes, as RGBA with a transparent background."""
        table = np.zeros((LEVELS, 4), np.uint8)
        for number, label_class in enumerate(self.classes, 1):
            table[number] = *bytes.fromhex(label_class.color[1:]), 255
        return table[self.indices(labels)]


def _color(value: int) -> str:
    """Return the color of a class number, the same on every page."""
    red, green, blue = colorsys.hsv_to_rgb((value * _GOLDEN) % 1.0, 0.85 if value % 2 else 0.6, 1.0)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
