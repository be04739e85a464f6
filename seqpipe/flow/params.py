"""Parameters of optical flow, declared once for the operator and the command line."""

from __future__ import annotations

from typing import Final

from ..core.param import Param, choice

__all__ = ["BACKEND", "DIRECTION", "METHODS", "OUTPUT_GRID", "PRESET"]

METHODS: Final = ("dis", "farneback")
"""The methods on the CPU."""

PRESET: Final = choice(
    "preset", "trade-off of speed and accuracy; slow is the most accurate", ("slow", "medium", "fast")
)
OUTPUT_GRID: Final = Param(
    name="output_grid", doc="distance between neighboring vectors: 1, 2 or 4", lo=1, hi=4, unit="pixels"
)
DIRECTION: Final = choice(
    "direction",
    "from the first frame of a pair to the second, from the second to the first, or both",
    ("forward", "backward", "both"),
)
BACKEND: Final = choice(
    "backend",
    "what computes it: the device of the frames (auto), a GPU's optical flow engine (nvofa), or OpenCV on the CPU",
    ("auto", "nvofa", *METHODS),
)
