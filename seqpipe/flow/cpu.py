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

_LEAST: Final = (
    32  # pixels of a side that every method has room for; smaller frames are extended by their border
)


_KEPT_FROM: Final = 256
"""Pixels of the shorter side from which on an object of DIS is used again."""


class _Farneback(NamedTuple):
    """The settings of :func:`cv2.calcOpticalFlowFarneback`, in its order."""

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
    """What computes the flow of large frames without a start, for each thread: DIS keeps its buffers from pair to pair.

    A new object for each pair has the kernel clear some 3,000 pages for a pair of 1080p, and threads of one process
    wait for each other there. Small frames have new ones: by these, DIS changes its own settings for all that follow.
    """

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, tuple[int, ...]], _Calc] = {}


def _dis(preset: str) -> _Calc:
    """OpenCV's DIS. Its results depend on earlier starts, and on earlier frames that are small or of other sizes."""
    import cv2

    fast = preset == "fast"
    made: Any = cv2.DISOpticalFlow.create(
        cv2.DISOPTICAL_FLOW_PRESET_FAST if fast else cv2.DISOPTICAL_FLOW_PRESET_MEDIUM
    )
    if preset == "slow":  # down to full resolution, where the presets end at half of it
        made.setFinestScale(0)
    calc: _Calc = made.calc
    return calc


def _farneback(preset: str) -> _Calc:
    import cv2

    def calc(first: Gray, second: Gray, start: FlowField | None) -> FlowField:
        flags = 0 if start is None else cv2.OPTFLOW_USE_INITIAL_FLOW
        method: Any = cv2.calcOpticalFlowFarneback
        made: FlowField = method(first, second, start, *_FARNEBACK[preset], flags)
        return made

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
    """The flow from one frame to another.

    Args:
        method: one of :data:`seqpipe.flow.params.METHODS`.
        preset: slow, medium or fast.
        first: ``(H, W)``.
        second: likewise.
        start: a flow ``(H, W, 2)`` to begin from; it is left as it is.
        workspace: memory that is kept for the next pair; it changes no result.

    Returns:
        float32 ``(H, W, 2)``.
    """
    height, width = first.shape
    below, right = max(0, _LEAST - height), max(0, _LEAST - width)
    if below or right:
        import cv2

        def extended(part: Any) -> Any:
            return cv2.copyMakeBorder(part, 0, below, 0, right, cv2.BORDER_REPLICATE)

        first, second = extended(first), extended(second)
        start = None if start is None else extended(start)
    elif start is not None:
        start = start.copy()  # which is overwritten
    if workspace is None or start is not None or min(first.shape) < _KEPT_FROM:
        calc = _METHODS[method](preset)
    else:
        key = method, preset, first.shape
        calc = workspace.kept.get(key) or workspace.kept.setdefault(key, _METHODS[method](preset))
    return calc(first, second, start)[:height, :width]


@lru_cache(maxsize=4)
def _places(height: int, width: int) -> tuple[FlowField, FlowField]:
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    return rows, columns


def mismatch(first: Gray, second: Gray, flow: FlowField) -> FlowField:
    """How far the second frame, seen by the flow, is from the first one: levels, float32 ``(H, W)``."""
    import cv2

    rows, columns = _places(*first.shape)
    places = columns + flow[..., 0], rows + flow[..., 1]
    seen = cv2.remap(second, *places, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(cv2.absdiff(first, seen), np.float32)
