"""Stages: the implementation of an intensity operator on a GPU, for one channel; ``channels`` launches them for many.

A ``Survey`` computes the mean, deviation and extremes of the values before it, a ``Step`` changes each voxel
independently, perhaps by results of earlier surveys, and each other stage is a separate pass over the values.
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
    "Kept",
    "Stage",
    "Step",
    "Survey",
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
"""The voxels that surveys may count, in the order of the kernel's numbers for them."""


@dataclass(eq=False)
class Survey:
    """Statistics of the values, of those that are finite.

    Attributes:
        counts: which voxels do, of :data:`COUNTS`.
        address: address of the result on the device, once it is known.
    """

    counts: str = "all"
    address: int = 0


@dataclass(eq=False)
class Kept:
    """The current values, for a step after passes that change them.

    Attributes:
        values: they, once they are known.
    """

    values: Array | None = None


@dataclass(eq=False)
class Step:
    """A change of each voxel independently.

    Attributes:
        code: which, of :data:`CODES`.
        numbers: up to four, as the kernel's ``a`` to ``d``.
        key: two words, of random numbers.
        place: position in the random numbers of the key.
        before: a survey that it looks at.
        after: another one.
        other: values that it looks at besides.
        table: numbers that it has a table of, float32 or int32.
        count: how many entries of the table there are.
        mask: whether it looks at the sample's mask.
    """

    code: str
    numbers: tuple[float, ...] = ()
    key: Any = (0, 0)
    place: int = 0
    before: Survey | None = None
    after: Survey | None = None
    other: Kept | None = None
    table: npt.NDArray[Any] | None = None
    count: int = 0
    mask: bool = False


@dataclass(eq=False)
class Blurred:
    """A convolution along an axis; borders are mirrored.

    Attributes:
        axis: 0 for slices, 1 for rows, 2 for columns.
        weights: of the neighbors, as many before it as behind it.
    """

    axis: int
    weights: npt.NDArray[np.float32]


@dataclass(eq=False)
class Coarse:
    """The nearest of fewer voxels, and between them straight lines.

    Attributes:
        few: slices, rows and columns that are kept.
    """

    few: tuple[int, int, int]


@dataclass(eq=False)
class Call:
    """A function of the channel's values ``(D, H, W)``, in whatever kernels arrays have.

    Attributes:
        function: returns the new values.
    """

    function: Callable[[Array], Array]


Stage: TypeAlias = Survey | Kept | Step | Blurred | Coarse | Call


def scaled(factor: float, offset: float = 0.0) -> Step:
    """``x · factor + offset``."""
    return Step("scale", (factor, offset))


def rounded(dtype: np.dtype[Any]) -> Step:
    """Conversion of values to an integer dtype."""
    info = np.iinfo(dtype)
    return Step("rounded", (info.min, info.max))
