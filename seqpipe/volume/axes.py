"""Axes along which volumes are cut into slices, declared once for pictures and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from ..param import choice

__all__ = ["AXES", "AXIS", "SliceAxis"]

SliceAxis: TypeAlias = Literal["axial", "coronal", "sagittal", "stored"]
AXIS: Final = choice(
    "axis",
    "Which way slices are cut, shown as radiologists look at them; 'stored': as they are in the file",
    ("axial", "coronal", "sagittal", "stored"),
)

AXES: Final[Mapping[str, str]] = {"axial": "LPS", "coronal": "LIA", "sagittal": "PIL"}
"""The orientation in which slices are pictures: columns from right to left, or front to back; rows down."""
