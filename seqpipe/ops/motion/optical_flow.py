"""OpticalFlow: the operator for :mod:`seqpipe.flow`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ...array import Array, device_of, namespace, to_cupy, to_numpy
from ...core.threads import parallel_for, threads
from ...core.workers import OPENCV
from ...errors import BackendError, ParameterError
from ...flow.grid import GRIDS
from ...flow.motion import occlusion
from ...flow.pairs import FlowSettings, Pairs, flow_on_cpu
from ...flow.params import BACKEND, DIRECTION, METHODS, OUTPUT_GRID, PRESET
from ...flow.values import to_fixed
from ...sequence import Batch, Sequence
from ..arrays.base import ArrayOperand, Arrays
from ..call.backends import on_device_of
from ..call.inputs import check_not_empty, like_container, like_library
from ..core.deferred import or_node
from ..core.nodes import DataNode, parts_of
from ..core.parameters import param
from ..core.spec import view_of

__all__ = ["Flows", "OpticalFlow"]

X = TypeVar("X")

_log = logging.getLogger(__name__)

NVOFA: Final = "nvofa"
IMAGE_TYPES: Final = ("RGB", "BGR", "YCbCr")


class Flows(NamedTuple):
    """Results of :class:`OpticalFlow` if several are requested; None for the others.

    Attributes:
        forward: motion from the first frame of each pair to the second, on the pixels of the first.
        backward: motion from the second frame to the first, on the pixels of the second.
        cost: matching cost of the forward flow, uint8 ``(…, h, w, 1)``; 0 is a perfect match.
        backward_cost: matching cost of the backward flow.
        occlusion: where the directions disagree, bool ``(…, h, w, 1)``: pixels visible in the first frame only.
    """

    forward: Any = None
    backward: Any = None
    cost: Any = None
    backward_cost: Any = None
    occlusion: Any = None


class OpticalFlow(Arrays):
    """Compute the motion of pixels from frame ``k`` to frame ``k + stride``.

    F frames give F - stride flows ``(⌈H / grid⌉, ⌈W / grid⌉, 2)``: x, then y, in pixels of the input, with the frame
    numbers and timestamps of the first frame of each pair. ``frame_k[y, x]`` is at ``(x, y) + flow[y, x]`` in frame
    ``k + stride``, as in OpenCV. The flow of padding (frame number -1) is NaN, and -32768 in int16.

    OpenCV computes the flow of frames in main memory, several pairs concurrently. The optical-flow engine of the GPU
    computes the flow of frames on a GPU; without an engine, or for frames that it does not support, the CPU does, and
    the log says so once. Results differ between backends, as between any two methods.

    Only the luma of frames is used; readers with ``color="GRAY"`` provide it without conversion.
    """

    preset: str = param("medium", PRESET.doc, choices=PRESET.choices)
    output_grid: int = param(1, OUTPUT_GRID.doc, unit=OUTPUT_GRID.unit, drawn=False)
    direction: str = param("forward", DIRECTION.doc, choices=DIRECTION.choices)
    stride: int = param(1, "distance between the frames of a pair", unit="frames", lo=1, drawn=False)
    temporal_hints: bool = param(
        False, "whether each pair starts from the flow of the previous pair", drawn=False
    )
    cost: bool = param(False, "whether to return the matching cost of each vector", drawn=False)
    occlusion: bool = param(
        False, "whether to return which pixels of the first frame are occluded in the second", drawn=False
    )
    image_type: str = param(
        "RGB",
        "color space of frames with three channels; frames with one channel are gray",
        choices=IMAGE_TYPES,
    )
    dtype: str = param(
        "float32",
        "dtype of the result; int16 is in units of 1/32 pixel (S10.5), the engine's format",
        choices=("float32", "int16"),
    )
    backend: str = param("auto", BACKEND.doc, choices=BACKEND.choices)

    dtypes = ("uint8",)
    channels = (1, 3)
    luma_only = True
    examples = (
        {},
        {"direction": "both", "output_grid": 4, "preset": "fast"},
        {"backend": "farneback", "cost": True, "occlusion": True},
        {"dtype": "int16", "temporal_hints": True, "direction": "backward"},
    )
    errors = (({"output_grid": 3}, "optical_flow: output_grid=3 is not valid; allowed: 1, 2, 4"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output_grid not in GRIDS:
            raise self.refusal(
                f"output_grid={self.output_grid!r} is not valid", allowed=", ".join(map(str, GRIDS))
            )

    @property
    def requested(self) -> tuple[str, ...]:
        """The fields of :class:`Flows` that it returns."""
        directions = ("forward", "backward") if self.direction == "both" else (self.direction,)
        costs = {"forward": "cost", "backward": "backward_cost"}
        own = (costs[direction] for direction in directions if self.cost)
        return (*directions, *own, *(["occlusion"] if self.occlusion else []))

    def results(self, node: DataNode) -> Any:
        """Return a node for each result; nodes of results that are not requested have the value None."""
        return node if len(self.requested) == 1 else Flows(*parts_of(node, Flows._fields))

    @or_node
    def __call__(self, x: X, *, hints: Any = None, layout: str | None = None) -> Any:
        """Compute the flow.

        Args:
            x: uint8 frames, RGB or gray: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of these.
            hints: initial flow for each pair: as many flows as the result has, floats in pixels, on a grid of 1, 2, 4
                or 8 pixels; for the one direction, or for forward of both.
            layout: layout of arrays; by default FHWC or NFHWC, by the number of axes.

        Returns:
            The flow, of the same type and on the same device as ``x``; or :class:`Flows` of these, if the direction is
            both, or cost or occlusion are requested.

        Raises:
            ParameterError: the input does not hold uint8 frames with a frame ``stride`` frames later, hints do not fit,
                or the engine does not support frames of that size.
            BackendError: ``backend="nvofa"``, and no engine can be used.
        """
        value: Any = x
        if isinstance(value, (list, tuple)):
            return self._of_list(value, hints, layout)
        if isinstance(value, Batch) and value.stacked is None:
            self._check_no_hints(hints, "a batch of different shapes")
            result = self._flows_of_each(value.sequences, None)
            known: dict[str, Any] = {"labels": value.labels, "indices": value.indices}
            batches = [Batch.of(column, **known) for column in zip(*result, strict=True)]
            return self._returned(batches)
        return self._returned(self._flows(value, hints, layout))

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is sampled
        """Return the flow, or the first of the requested results."""
        result = self._flows(x, None, None)
        return result[0]

    def _returned(self, results: Seq[Any]) -> Any:
        return results[0] if len(results) == 1 else Flows(**dict(zip(self.requested, results, strict=True)))

    def _of_list(self, values: Any, hints: Any, layout: str | None) -> Any:
        self._check_no_hints(hints, "a list")
        check_not_empty(self, values)
        result = self._flows_of_each(values, layout)
        return self._returned([like_container(values, list(column)) for column in zip(*result, strict=True)])

    def _flows_of_each(self, values: Seq[Any], layout: str | None) -> list[list[Any]]:
        """Return the results for each of some arrays or sequences, concurrently if they are on the CPU."""
        result: list[list[Any]] = [[]] * len(values)

        def one(number: int) -> None:
            result[number] = self._flows(values[number], None, layout)

        arrays = [value.data if isinstance(value, Sequence) else value for value in values]
        on_cpu = self.backend != NVOFA and all(isinstance(array, np.ndarray) for array in arrays)
        if on_cpu and len(values) >= threads():
            OPENCV.single_threaded(parallel_for, one, len(values))
        else:
            for number in range(len(values)):
                one(number)
        return result

    def _check_no_hints(self, hints: Any, what: str) -> None:
        if hints is not None:
            raise self.refusal(f"hints for {what}", advice="Call it for each sample")

    def _flows(self, value: Any, hints: Any, layout: str | None) -> list[Any]:
        """Return the results for one array, Sequence, or Batch of one shape, each as its type."""
        operand = self.as_operand(value, layout)
        letters = operand.names
        view = view_of(letters, operand.array.ndim)
        self._check(operand, letters)
        with on_device_of(operand.array):
            frames = view(operand.array)
            self._check_frames(frames)
            padded = _padded(value, frames)
            pairs = self._pairs(frames, padded, hints, operand)
            flows = self._computed(pairs, operand.array)
            result = [self._typed(getattr(flows, name)) for name in self.requested]
            return [self._wrap_result(value, field, letters) for field in result]

    def _check(self, operand: ArrayOperand, letters: str) -> None:
        if not set(letters) & {"F", "D"}:
            raise self.refusal(
                f"images of layout {letters or 'unknown'}, which has no frames",
                allowed="layouts with F, or with D for slices",
            )
        if not operand.array.size:
            raise self.refusal(f"an array of shape {operand.array.shape} holds no pixels")

    def _check_frames(self, frames: Array) -> None:
        if frames.shape[4] not in self.traits.channels:
            raise self.refusal(f"pixels of {frames.shape[4]} values", allowed="1 (gray) or 3")
        if self.stride >= frames.shape[1]:
            raise self.refusal(
                f"stride={self.stride} in a sequence of {frames.shape[1]}",
                allowed=f"up to {frames.shape[1] - 1}"
                if frames.shape[1] > 1
                else "sequences of two frames or more",
            )

    def _pairs(
        self, frames: Array, padded: npt.NDArray[np.bool_], hints: Any, operand: ArrayOperand
    ) -> Pairs:
        settings = FlowSettings(
            preset=self.preset,
            grid=self.output_grid,
            forward=self.direction != "backward" or self.occlusion,
            backward=self.direction != "forward" or self.occlusion,
            temporal_hints=self.temporal_hints,
            cost=self.cost,
            hinted="backward" if self.direction == "backward" else "forward",
        )
        pairs = Pairs(frames, self.stride, padded, self.image_type, settings)
        if hints is not None:
            hint_array = hints.data if isinstance(hints, (Sequence, Batch)) else hints
            pairs = pairs.with_hints(hint_array, batched=operand.first > 0, source=self.name)
        return pairs

    def _computed(self, pairs: Pairs, frames: Array) -> Flows:
        """Compute all requested fields, ``(N, F - stride, h, w, …)``, on the device of the frames."""
        method = self._method(frames, pairs)
        if method == NVOFA:
            from ...flow.nvofa import flow_on_gpu

            flows = flow_on_gpu(pairs)
        else:
            given_all = pairs.on_host(), method, parallel_for
            # one pair for each thread; with fewer pairs, OpenCV's own threads are faster
            enough = pairs.shape[0] * pairs.count >= threads()
            flows = OPENCV.single_threaded(flow_on_cpu, *given_all) if enough else flow_on_cpu(*given_all)
        if self.occlusion:
            occluded = namespace(flows.forward).empty((*pairs.shape, 1), bool)
            hidden = partial(occlusion, size=pairs.size)
            _each_frame(hidden, occluded[..., 0], flows.forward, flows.backward)
            flows = flows._replace(occlusion=occluded)
        here = to_numpy if isinstance(frames, np.ndarray) else to_cupy
        parts = {name: here(getattr(flows, name)) for name in self.requested}
        return Flows(**parts)

    def _method(self, frames: Array, pairs: Pairs) -> str:
        """Return the method that computes the flow."""
        if self.backend in METHODS or (self.backend == "auto" and not _on_gpu(frames)):
            return "dis" if self.backend == "auto" else self.backend
        from ...flow.nvofa import check_engine

        try:
            check_engine(pairs, self.name)
        except (BackendError, ParameterError) as error:
            if self.backend == NVOFA:
                raise
            _note(device_of(frames), error.fact)
            return "dis"
        return NVOFA

    def _typed(self, values: Array) -> Array:
        if self.dtype != "int16" or values.dtype != np.float32:
            return values
        result = namespace(values).empty(values.shape, np.int16)
        _each_frame(to_fixed, result, values)
        return result

    def _wrap_result(self, value: Any, nfhwc: Array, letters: str) -> Any:
        """Return a result as the type of the value, with its metadata."""
        layout = letters if "C" in letters else f"{letters}C"
        view = view_of(layout, len(layout))
        if view.axes is None:
            out = nfhwc.reshape(view.shape(nfhwc.shape))
        else:
            out = namespace(nfhwc).empty(view.shape(nfhwc.shape), nfhwc.dtype)
            _each_frame(lambda frame: frame, view(out), nfhwc)
        if isinstance(value, Batch):
            pairs = zip(value.sequences, out, strict=True)
            parts = tuple(self._sequence(sequence, data, layout[1:]) for sequence, data in pairs)
            mask = None if value.mask is None else self._mask(value.mask, nfhwc.shape[2:4])
            return Batch(parts, stacked=out, labels=value.labels, indices=value.indices, mask=mask)
        return self._sequence(value, out, layout) if isinstance(value, Sequence) else like_library(value, out)

    def _sequence(self, source: Sequence, data: Array, letters: str) -> Sequence:
        clocks = {
            name: clock[: -self.stride]
            for name in ("frames", "timestamps")
            if (clock := getattr(source, name)) is not None and "D" not in source.layout
        }
        affine = source.affine
        if affine is not None:
            cell = np.diag([1.0, self.output_grid, self.output_grid, 1.0])
            cell[1:3, 3] = (self.output_grid - 1) / 2  # center of the first cell
            affine = affine @ cell
        return self.sequence(source, data, letters, affine=affine, **clocks)

    def _mask(self, mask: npt.NDArray[np.bool_], shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """Return the cells whose pixels are all valid in both frames."""
        both = mask[:, : -self.stride] & mask[:, self.stride :]
        below, right = (n * self.output_grid - side for n, side in zip(shape, mask.shape[2:], strict=True))
        whole = np.pad(both, ((0, 0), (0, 0), (0, below), (0, right)), constant_values=True)
        grid = self.output_grid
        return np.asarray(whole.reshape(*both.shape[:2], shape[0], grid, shape[1], grid).all((3, 5)))


def _each_frame(make: Callable[..., Array], into: Array, *fields: Any) -> None:
    """Fill an array ``(N, F, …)`` frame by frame from others, on the CPU by all threads."""
    if _on_gpu(into):
        into[...] = make(*fields)
        return

    def one(number: int) -> None:
        index = divmod(number, into.shape[1])
        into[index] = make(*(field[index] for field in fields))

    parallel_for(one, into.shape[0] * into.shape[1])


def _on_gpu(array: Array) -> bool:
    return not isinstance(array, np.ndarray)


def _padded(value: Any, frames: Array) -> npt.NDArray[np.bool_]:
    """Return which frames ``(N, F)`` are padding."""
    sequences = (
        value.sequences if isinstance(value, Batch) else [value] if isinstance(value, Sequence) else []
    )
    result = np.zeros(frames.shape[:2], bool)
    for sample, sequence in enumerate(sequences):
        if sequence.frames is not None and "D" not in sequence.layout:
            result[sample] = sequence.frames < 0
    return result


@cache  # logs each reason once
def _note(device: str, reason: str) -> None:
    _log.warning("optical flow of frames on %s is computed on the CPU, because %s", device, reason)
