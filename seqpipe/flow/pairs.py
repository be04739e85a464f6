"""Pairs of frames with the settings of their flow; computation on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..array import Array, as_native, device_of, namespace, to_numpy
from ..errors import ParameterError
from .grid import HINT_GRIDS, cells, dense, grid_of
from .values import flow_array

__all__ = [
    "LUMA",
    "FlowSettings",
    "FlowWorkspace",
    "PairFlows",
    "Pairs",
    "dense_flow",
    "flow_on_cpu",
    "mismatch",
]

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


ParallelFor: TypeAlias = Callable[[Callable[[int], None], int], None]

LUMA: Final = (9798, 19235, 3735)
"""BT.601 luma weights of R, G and B in 1/32768, as in OpenCV's conversion to gray."""


@dataclass(frozen=True, kw_only=True)
class FlowSettings:
    """Settings of the flow of each pair.

    Attributes:
        preset: slow, medium or fast.
        grid: side of a cell in pixels.
        forward: whether to compute flow from the first frame to the second.
        backward: whether to compute flow from the second frame to the first.
        temporal_hints: whether each pair starts from the flow of the pair before it.
        cost: whether to compute the matching cost of each vector.
        hinted: the direction of the hints.
    """

    preset: str
    grid: int
    forward: bool
    backward: bool
    temporal_hints: bool
    cost: bool
    hinted: str = "forward"


@dataclass(frozen=True)
class Pairs:
    """The pairs of frames of some samples.

    Attributes:
        frames: uint8 ``(N, F, H, W, C)``, NumPy or CuPy; C is 1 for gray, or 3.
        stride: distance from the first frame of a pair to the second.
        padded: ``(N, F)``, True for padding frames.
        image_type: meaning of 3 channels: RGB, BGR or YCbCr.
        settings: settings of the flow.
        hints: float32 ``(N, F - stride, h, w, 2)`` in pixels, on any of the hint grids; or None.
    """

    frames: Array
    stride: int
    padded: npt.NDArray[np.bool_]
    image_type: str
    settings: FlowSettings
    hints: Array | None = None

    @property
    def count(self) -> int:
        """Number of pairs of a sample."""
        return int(self.frames.shape[1]) - self.stride

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the frames."""
        return int(self.frames.shape[2]), int(self.frames.shape[3])

    @property
    def cells(self) -> tuple[int, int]:
        """Rows and columns of the flow."""
        height, width = (-(-side // self.settings.grid) for side in self.size)
        return height, width

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a field of all pairs, without its last axis."""
        return (len(self.frames), self.count, *self.cells)

    def is_known(self, sample: int, pair: int) -> bool:
        """Whether neither frame of a pair is padding."""
        return not (self.padded[sample, pair] or self.padded[sample, pair + self.stride])

    def with_hints(self, hints: Any, *, batched: bool, source: str) -> Pairs:
        """Return a copy with hints."""
        array = flow_array(hints, source)
        array = array if batched else array[None]
        if array.ndim != 5 or array.shape[:2] != self.shape[:2]:
            lead = self.shape[:2] if batched else self.shape[1:2]
            raise ParameterError(
                f"hints of shape {tuple(as_native(hints).shape)}",
                source=source,
                allowed=f"({', '.join(map(str, lead))}, h, w, 2), with h and w on a grid of "
                f"{', '.join(map(str, HINT_GRIDS))} pixels",
            )
        grid_of(array.shape[2:4], self.size, source)
        if device_of(array) != device_of(self.frames):
            raise ParameterError(
                f"hints on {device_of(array)} for frames on {device_of(self.frames)}", source=source
            )
        return replace(self, hints=array.astype(np.float32))

    def on_host(self) -> Pairs:
        """Return a copy in main memory."""
        hints = None if self.hints is None else to_numpy(self.hints)
        return replace(self, frames=to_numpy(self.frames), hints=hints)

    def gray(self, sample: int, frame: int) -> Array:
        """Convert one frame to gray, ``(H, W)`` and contiguous."""
        image = self.frames[sample, frame]
        library: Any = namespace(self.frames)
        if image.shape[2] == 1 or self.image_type == "YCbCr":
            return library.ascontiguousarray(image[..., 0])
        if library is np:
            import cv2

            code = cv2.COLOR_RGB2GRAY if self.image_type == "RGB" else cv2.COLOR_BGR2GRAY
            return cv2.cvtColor(np.ascontiguousarray(image), code)
        weights = LUMA if self.image_type == "RGB" else LUMA[::-1]
        parts = [image[..., n].astype(np.uint32) * weight for n, weight in enumerate(weights)]
        return ((sum(parts) + (1 << 14)) >> 15).astype(np.uint8)


class PairFlows(NamedTuple):
    """Computed fields of all pairs, ``(N, F - stride, h, w, …)``; None for those not requested."""

    forward: Array | None
    backward: Array | None
    cost: Array | None
    backward_cost: Array | None
    occlusion: Array | None = None

    @classmethod
    def empty(cls, pairs: Pairs, library: Any = np) -> PairFlows:
        """Allocate the requested fields without initializing them."""
        settings, shape = pairs.settings, pairs.shape
        wanted = settings.forward, settings.backward
        flows = [library.empty((*shape, 2), np.float32) if each else None for each in wanted]
        costs = [library.empty((*shape, 1), np.uint8) if each and settings.cost else None for each in wanted]
        return cls(*flows, *costs)

    def set_unknown(self, sample: int, pair: int) -> None:
        """Set the flow of a pair to NaN and its costs to 0."""
        for flow in (self.forward, self.backward):
            if flow is not None:
                flow[sample, pair] = np.nan
        for cost in (self.cost, self.backward_cost):
            if cost is not None:
                cost[sample, pair] = 0


def flow_on_cpu(pairs: Pairs, method: str, parallel_for: ParallelFor) -> PairFlows:
    """Compute the flow of pairs in main memory."""
    samples, count, settings = len(pairs.frames), pairs.count, pairs.settings
    result, workspace = PairFlows.empty(pairs), FlowWorkspace()
    grays = np.empty((*pairs.frames.shape[:2], *pairs.size), np.uint8)

    def convert(number: int) -> None:
        sample, frame = divmod(number, grays.shape[1])
        grays[sample, frame] = pairs.gray(sample, frame)

    def compute(sample: int, pair: int, starts: dict[str, Any]) -> None:
        if not pairs.is_known(sample, pair):
            result.set_unknown(sample, pair)
            return
        images = grays[sample, pair], grays[sample, pair + pairs.stride]
        for name, wanted in (("forward", settings.forward), ("backward", settings.backward)):
            if not wanted:
                continue
            first, second = images if name == "forward" else images[::-1]
            start = _start(pairs, sample, pair) if name == settings.hinted else None
            start = starts.get(name) if start is None else start
            flow = dense_flow(method, settings.preset, first, second, start, workspace)
            if settings.temporal_hints:
                starts[name] = flow
            field, costs = getattr(result, name), result.cost if name == "forward" else result.backward_cost
            field[sample, pair] = cells(flow, settings.grid)
            if costs is not None:
                costs[sample, pair, ..., 0] = np.rint(cells(mismatch(first, second, flow), settings.grid))

    def sequence(sample: int) -> None:
        starts: dict[str, Any] = {}
        for pair in range(count):
            compute(sample, pair, starts)

    parallel_for(convert, samples * grays.shape[1])
    if settings.temporal_hints:  # each pair needs the flow of the one before it
        parallel_for(sequence, samples)
    else:
        parallel_for(lambda number: compute(*divmod(number, count), {}), samples * count)
    return result


def _start(pairs: Pairs, sample: int, pair: int) -> npt.NDArray[np.float32] | None:
    """Return the hint of a pair for each pixel; 0 where it is unknown."""
    if pairs.hints is None:
        return None
    hint = pairs.hints[sample, pair]
    upsampled = dense(np.nan_to_num(hint), grid_of(hint.shape[:2], pairs.size), pairs.size)
    return np.nan_to_num(upsampled)
