"""Parameters of pages, declared once for Python and the command line."""

from __future__ import annotations

from typing import Final

from ..core.param import Param

__all__ = ["FRAMES", "MAX_VOXELS", "TIME"]

FRAMES: Final = Param(
    name="frames", doc="How many frames of a video the page shows, spread evenly", lo=1, hi=1000
)
MAX_VOXELS: Final = Param(
    name="max_voxels",
    doc="How many voxels of a volume the page holds; a larger volume is shown on a coarser grid",
    lo=8,
    hi=1 << 26,
)
TIME: Final = Param(name="time", doc="Which volume of a series is shown")
