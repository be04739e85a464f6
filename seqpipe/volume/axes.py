"""Anatomical axes of slices, declared once for image export and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from ..core.param import choice

__all__ = ["AXES", "AXIS", "SliceAxis"]

SliceAxis: TypeAlias = Literal["axial", "coronal", "sagittal", "stored"]
AXIS: Final = choice(
    "axis",
    "Plane of the slices, shown in radiological convention; 'stored': as in the file",
    ("axial", "coronal", "sagittal", "stored"),
)

AXES: Final[Mapping[str, str]] = {"axial": "LPS", "coronal": "LIA", "sagittal": "PIL"}
"""Orientation of volumes whose slices are images in that plane: columns right to left, or front to back; rows down."""
