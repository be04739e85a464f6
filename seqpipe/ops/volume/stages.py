"""Stages: the implementation of an intensity operator on a GPU, for one channel; ``channels`` launches them for many.

A ``Statistics`` computes the mean, deviation and extremes of the values before it, a ``Step`` changes each voxel
independently, perhaps by results of earlier statistics, and each other stage is a separate pass over the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array

__all__ = [
    "CODES",
    "COUNTS",
    "Blurred",
    "Call",
    "Coarse",
    "SavedValues",
    "Stage",
    "Statistics",
    "Step",
    "rounded",
    "scaled",
]

CODES: Final = (
    "scale",
    "noise",
    "rician",
    "contrast",
    "power",
    "restore",
    "score",
    "window",
    "rounded",
    "bias",
    "holes",
    "mixed",
)
"""The steps that ``intensity3.cu`` has, in the order of its numbers for them."""


COUNTS: Final = ("all", "nonzero", "mask")
"""The voxels that statistics may count, in the order of the kernel's numbers for them."""


@dataclass(eq=False)
class Statistics:
    """Statistics of the values, of those that are finite.

    Attributes:
        counts: the voxels that count, one of :data:`COUNTS`.
        address: address of the result on the device; 0 before it is allocated.
    """

    counts: str = "all"
    address: int = 0


@dataclass(eq=False)
class SavedValues:
    """The current values, for a step after passes that change them.

    Attributes:
        values: the values, set when this stage is reached; before that None.
    """

    values: Array | None = None


@dataclass(eq=False)
class Step:
    """A change of each voxel independently.

    Attributes:
        code: the kind of change, one of :data:`CODES`.
        numbers: up to four arguments, the kernel's ``a`` to ``d``.
        key: key of its random numbers, two words.
        position: position in the random numbers of the key.
        before: a statistics whose results it uses.
        after: a second statistics whose results it uses.
        other: further values that it uses.
        table: table of numbers that it uses, float32 or int32.
        count: number of entries of the table, such as boxes, or the order of a polynomial.
        mask: whether it uses the sample's mask.
    """

    code: str
    numbers: tuple[float, ...] = ()
    key: Any = (0, 0)
    position: int = 0
    before: Statistics | None = None
    after: Statistics | None = None
    other: SavedValues | None = None
    table: npt.NDArray[Any] | None = None
    count: int = 0
    mask: bool = False


@dataclass(eq=False)
class Blurred:
    """A convolution along an axis; borders are mirrored.

    Attributes:
        axis: 0 for slices, 1 for rows, 2 for columns.
        weights: weights of the neighbors, an odd number; the middle one is the weight of the voxel itself.
    """

    axis: int
    weights: npt.NDArray[np.float32]


@dataclass(eq=False)
class Coarse:
    """Downsampling to the nearest voxels, and linear interpolation back to the original size.

    Attributes:
        few: number of slices, rows and columns that are kept.
    """

    few: tuple[int, int, int]


@dataclass(eq=False)
class Call:
    """A function of the channel's values ``(D, H, W)``, computed by CuPy instead of ``intensity3.cu``.

    Attributes:
        function: returns the new values.
    """

    function: Callable[[Array], Array]


Stage: TypeAlias = Statistics | SavedValues | Step | Blurred | Coarse | Call


def scaled(factor: float, offset: float = 0.0) -> Step:
    """``x · factor + offset``."""
    return Step("scale", (factor, offset))


def rounded(dtype: np.dtype[Any]) -> Step:
    """Conversion of values to an integer dtype."""
    info = np.iinfo(dtype)
    return Step("rounded", (info.min, info.max))
