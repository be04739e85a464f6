"""Optical flow on the CPU, for one pair of gray frames: OpenCV's DIS and Farneback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["FlowWorkspace", "dense_flow", "mismatch"]

Gray: TypeAlias = npt.NDArray[np.uint8]
FlowField: TypeAlias = npt.NDArray[np.float32]
_Calc: TypeAlias = Callable[[Gray, Gray, "FlowField | None"], FlowField]

_MIN_SIDE: Final = 32
"""Smallest side in pixels that all methods accept; smaller frames are padded by their border."""
_REUSE_FROM: Final = 256
"""Shorter side in pixels from which on a DIS object is reused."""


class _Farneback(NamedTuple):
    """Parameters of :func:`cv2.calcOpticalFlowFarneback`, in its order."""

    pyr_scale: float
    levels: int
    winsize: int
    iterations: int
    poly_n: int
    poly_sigma: float


_FARNEBACK: Final = {
    "slow": _Farneback(0.5, 6, 21, 10, 7, 1.5),
    "medium": _Farneback(0.5, 5, 15, 3, 5, 1.2),
    "fast": _Farneback(0.5, 5, 15, 1, 5, 1.1),
}


class FlowWorkspace(threading.local):
    """DIS objects of each thread, reused for large frames without an initial flow so that their buffers are kept.

    A new object for each 1080p pair makes the kernel clear about 3,000 pages, and threads of one process contend
    there. Small frames need new objects, because they make DIS change its own settings for all later frames.
    """

    def __init__(self) -> None:
        self.cache: dict[tuple[str, str, tuple[int, ...]], _Calc] = {}


def _dis(preset: str) -> _Calc:
    """Create OpenCV's DIS, whose results depend on earlier initial flows, and on earlier small or other sizes."""
    import cv2

    fast = preset == "fast"
    dis: Any = cv2.DISOpticalFlow.create(
        cv2.DISOPTICAL_FLOW_PRESET_FAST if fast else cv2.DISOPTICAL_FLOW_PRESET_MEDIUM
    )
    if preset == "slow":  # full resolution; the presets end at half of it
        dis.setFinestScale(0)
    calc: _Calc = dis.calc
    return calc


def _farneback(preset: str) -> _Calc:
    import cv2

    def calc(first: Gray, second: Gray, start: FlowField | None) -> FlowField:
        flags = 0 if start is None else cv2.OPTFLOW_USE_INITIAL_FLOW
        method: Any = cv2.calcOpticalFlowFarneback
        flow: FlowField = method(first, second, start, *_FARNEBACK[preset], flags)
        return flow

    return calc


_METHODS: Final = {"dis": _dis, "farneback": _farneback}


def dense_flow(
    method: str,
    preset: str,
    first: Gray,
    second: Gray,
    start: FlowField | None = None,
    workspace: FlowWorkspace | None = None,
) -> FlowField:
    """Compute the flow from one frame to another."""
    height, width = first.shape
    below, right = max(0, _MIN_SIDE - height), max(0, _MIN_SIDE - width)
    if below or right:
        import cv2

        def padded(image: Any) -> Any:
            return cv2.copyMakeBorder(image, 0, below, 0, right, cv2.BORDER_REPLICATE)

        first, second = padded(first), padded(second)
        start = None if start is None else padded(start)
    elif start is not None:
        start = start.copy()  # OpenCV overwrites it
    if workspace is None or start is not None or min(first.shape) < _REUSE_FROM:
        calc = _METHODS[method](preset)
    else:
        key = method, preset, first.shape
        calc = workspace.cache.get(key) or workspace.cache.setdefault(key, _METHODS[method](preset))
    return calc(first, second, start)[:height, :width]


@lru_cache(maxsize=4)
def _pixel_grid(height: int, width: int) -> tuple[FlowField, FlowField]:
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    return rows, columns


def mismatch(first: Gray, second: Gray, flow: FlowField) -> FlowField:
    """Return the absolute difference of the first frame and the second one warped by the flow, float32 ``(H, W)``."""
    import cv2

    rows, columns = _pixel_grid(*first.shape)
    positions = columns + flow[..., 0], rows + flow[..., 1]
    warped = cv2.remap(second, *positions, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(cv2.absdiff(first, warped), np.float32)
