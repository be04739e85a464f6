"""Spec: what an operator is told of a sample before it acts on it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias, get_args

__all__ = ["BACKENDS", "COMPUTED", "MOVED", "RANGES", "Backend", "Spec", "full_range", "half_range"]

Backend: TypeAlias = Literal["reference", "cpu", "cuda"]
BACKENDS: Final[tuple[Backend, ...]] = get_args(Backend)

COMPUTED: Final = ("uint8", "uint16", "int16", "float16", "float32")
"""Types that operators compute with; in float32, which holds every value of each."""
MOVED: Final = ("bool", "int8", *COMPUTED, "uint32", "int32", "uint64", "int64", "float64")
"""Types that operators which only move values take."""
RANGES: Final = {"uint8": (0, 255), "uint16": (0, 65535), "int16": (-32768, 32767)}
"""The least and the greatest value of each type whose results saturate."""


class Spec(NamedTuple):
    """One sample.

    Attributes:
        frames: frames or slices; 1 for an image.
        height: rows.
        width: columns.
        channels: values of a pixel.
        dtype: their type, such as ``"uint8"``.
    """

    frames: int
    height: int
    width: int
    channels: int
    dtype: str


def full_range(dtype: str) -> float:
    """The value that means full intensity: the greatest of a type of whole numbers, 1 for floats."""
    return float(RANGES[dtype][1]) if dtype in RANGES else 1.0


def half_range(dtype: str) -> float:
    """The value in the middle, as DALI has it: 128, 32768, 16384 for int16; 0.5 for floats."""
    return (full_range(dtype) + 1) / 2 if dtype in RANGES else 0.5
