"""Parameters of optical flow, declared once for the operator and the command line."""

from __future__ import annotations

from typing import Final

from ..core.param import Param, choice

__all__ = ["BACKEND", "DIRECTION", "METHODS", "OUTPUT_GRID", "PRESET"]

METHODS: Final = ("dis", "farneback")
"""The methods on the CPU."""

PRESET: Final = choice(
    "preset", "how much is done for exactness; slow is the most exact", ("slow", "medium", "fast")
)
OUTPUT_GRID: Final = Param(
    name="output_grid", doc="side of the square that has one vector: 1, 2 or 4", lo=1, hi=4, unit="pixels"
)
DIRECTION: Final = choice(
    "direction",
    "from the first frame of a pair to the second, the other way round, or both",
    ("forward", "backward", "both"),
)
BACKEND: Final = choice(
    "backend",
    "who computes it: where the frames are (auto), a GPU's engine (nvofa), or a method of OpenCV on the CPU",
    ("auto", "nvofa", *METHODS),
)
