"""Spec: properties of a sample that an operator gets before the pixels, and dtypes by their use."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

__all__ = [
    "BACKENDS",
    "COMPUTED_DTYPES",
    "FLOAT64_DTYPES",
    "KERNEL_DTYPES",
    "MOVED_DTYPES",
    "RANGES",
    "TABLE_DTYPES",
    "Backend",
    "Spec",
    "full_range",
    "half_range",
]

Backend: TypeAlias = Literal["reference", "cpu", "cuda"]
BACKENDS: Final[tuple[Backend, ...]] = get_args(Backend)

TABLE_DTYPES: Final = ("uint8", "uint16", "int16")
"""Dtypes with so few values that a table holds a result for each."""
KERNEL_DTYPES: Final = (*TABLE_DTYPES, "float16", "float32")
"""Dtypes that kernels and CPU implementations support; the reference computes the others."""
FLOAT64_DTYPES: Final = ("uint32", "int32", "float64")
"""Dtypes that are computed in float64, because float32 does not hold their values exactly."""
COMPUTED_DTYPES: Final = (*KERNEL_DTYPES, "int8", *FLOAT64_DTYPES)
"""Dtypes that operators compute with, in float32 except for :data:`FLOAT64_DTYPES`."""
MOVED_DTYPES: Final = ("bool", "int8", *KERNEL_DTYPES, "uint32", "int32", "uint64", "int64", "float64")
"""Dtypes that operators which only move values accept."""
RANGES: Final = {
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "int16": (-32768, 32767),
    "int8": (-128, 127),
    "uint32": (0, 2**32 - 1),
    "int32": (-(2**31), 2**31 - 1),
}
"""Least and greatest value of each dtype whose results saturate."""


class Spec(NamedTuple):
    """Properties of one sample.

    Attributes:
        frames: frames or slices; 1 for an image.
        height: rows.
        width: columns.
        channels: values of a pixel.
        dtype: dtype of the values, such as ``"uint8"``.
        volume: whether the frames are slices of a volume.
        limits: range of intensities, for operators whose range depends on the values; else None.
        spacing: voxel spacing along slices, rows and columns in mm, for operators that need it; None if it is unknown.
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
    """Return the value of full intensity: the greatest value of an integer dtype, 1 for floats."""
    return float(RANGES[dtype][1]) if dtype in RANGES else 1.0


def half_range(dtype: str) -> float:
    """Return the middle value as DALI defines it: 128, 32768, 16384 for int16; 0.5 for floats."""
    return (full_range(dtype) + 1) / 2 if dtype in RANGES else 0.5
