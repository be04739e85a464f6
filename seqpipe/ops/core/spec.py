"""Spec: what an operator is told of a sample before it acts on it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

__all__ = [
    "BACKENDS",
    "COMPUTED",
    "FAST",
    "LEVELS",
    "MOVED",
    "RANGES",
    "WIDE",
    "Backend",
    "Spec",
    "full_range",
    "half_range",
]

Backend: TypeAlias = Literal["reference", "cpu", "cuda"]
BACKENDS: Final[tuple[Backend, ...]] = get_args(Backend)

LEVELS: Final = ("uint8", "uint16", "int16")
"""Types of so few values that each may have an entry in a table."""
FAST: Final = (*LEVELS, "float16", "float32")
"""Types that kernels and the fast forms on CPUs compute with; of others the reference is what is done."""
WIDE: Final = ("uint32", "int32", "float64")
"""Types that are computed in float64, for float32 does not hold their values."""
COMPUTED: Final = (*FAST, "int8", *WIDE)
"""Types that operators compute with; in float32 but for those of :data:`WIDE`."""
MOVED: Final = ("bool", "int8", *FAST, "uint32", "int32", "uint64", "int64", "float64")
"""Types that operators which only move values take."""
RANGES: Final = {
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "int8": (-128, 127),
    "uint32": (0, 2**32 - 1),
    "int32": (-(2**31), 2**31 - 1),
}
"""The least and the greatest value of each type whose results saturate."""


class Spec(NamedTuple):
    """One sample.

    Attributes:
        frames: frames or slices; 1 for an image.
        height: rows.
        width: columns.
        channels: values of a pixel.
        dtype: their type, such as ``"uint8"``.
        volume: whether frames are the slices of a volume.
        limits: the range of its intensities, for operators that ask for one that follows from the values; else None.
        spacing: of voxels along slices, rows and columns in mm, for operators that ask for it; None if it is not known.
    """

    frames: int
    height: int
    width: int
    channels: int
    dtype: str
    volume: bool = False
    limits: tuple[float, float] | None = None
    spacing: tuple[float, float, float] | None = None


def full_range(dtype: str) -> float:
    """The value that means full intensity: the greatest of a type of whole numbers, 1 for floats."""
    return float(RANGES[dtype][1]) if dtype in RANGES else 1.0


def half_range(dtype: str) -> float:
    """The value in the middle, as DALI has it: 128, 32768, 16384 for int16; 0.5 for floats."""
    return (full_range(dtype) + 1) / 2 if dtype in RANGES else 0.5
