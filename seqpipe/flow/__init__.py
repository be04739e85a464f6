"""Optical flow: computation, colors, files, warping and statistics. May import the vocabulary only.

A flow is an array ``(…, h, w, 2)``: for each cell of the output grid the motion (x, y) in pixels of the input frames.
Positive x points right, positive y points down. The flow from frame ``a`` to frame ``b`` is given at the pixels of
``a``: a point at ``(x, y)`` in ``a`` is at ``(x, y) + flow[y, x]`` in ``b``, as in OpenCV. Unknown vectors, such as
those of padded frames, are NaN.

``fn.optical_flow`` (:class:`seqpipe.ops.OpticalFlow`) computes flow; the functions of this package use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

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
