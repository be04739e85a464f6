"""Optical flow: its computation, pictures, files and use. May import the vocabulary alone; operators stand below it.

A flow is an array ``(…, h, w, 2)``: for each cell of the output grid the motion of the frame, x then y, in pixels of
the input. Positive x is to the right, positive y is down. The flow from frame ``a`` to frame ``b`` lies on the pixels
of ``a``: what is at ``(x, y)`` in ``a`` is at ``(x, y) + flow[y, x]`` in ``b``, as OpenCV has it. What is not known,
such as the flow of padded frames, is NaN.

``fn.optical_flow`` computes it (:class:`seqpipe.ops.OpticalFlow`); here is what is done with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import on_demand

if TYPE_CHECKING:
    from .color import to_rgb
    from .files import FORMATS, decode, encode, read, write
    from .grid import grid_of, upsample
    from .motion import MotionStatistics, occlusion, statistics, warp

_LAZY = {
    "FORMATS": "files",
    "MotionStatistics": "motion",
    "decode": "files",
    "encode": "files",
    "grid_of": "grid",
    "occlusion": "motion",
    "read": "files",
    "statistics": "motion",
    "to_rgb": "color",
    "upsample": "grid",
    "warp": "motion",
    "write": "files",
}

__all__ = [
    "FORMATS",
    "MotionStatistics",
    "decode",
    "encode",
    "grid_of",
    "occlusion",
    "read",
    "statistics",
    "to_rgb",
    "upsample",
    "warp",
    "write",
]

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
