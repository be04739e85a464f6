"""Operators that select, reorder or subtract frames."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ...array import DEFAULT_LAYOUTS, Array, FloatArray, IntArray
from ...errors import ParameterError
from ...sequence import Batch, Sequence
from ..call.inputs import check_value_type, like_container
from ..call.op import Op, apply
from ..core.deferred import or_node
from ..core.distributions import Number
from ..core.nodes import DataNode, parts_of
from ..core.parameters import ANY, param
from ..core.spec import COMPUTED_DTYPES, Spec
from ..core.traits import Body
from ..core.types import Type
from .base import Frames, Order

__all__ = [
    "ElementExtract",
    "FrameDifference",
    "FrameSlice",
    "Reverse",
    "SequenceRearrange",
    "Subsample",
    "TemporalJitter",
]

X = TypeVar("X")

_SIGNED: Final = {"uint8": "int16", "uint16": "float32", "int16": "float32"}
_UNSIGNED: Final = {"int16": "uint16"}


class ElementExtract(Order):
    """Extract single frames from sequences: one result for each, without the axis of frames."""

    element_map: tuple[int, ...] = param(
        (0,),
        "frame numbers, with repeats; negative numbers count from the end",
        kind=int,
        size=ANY,
    )
    p: float = param(1.0, "always 1, as the result has another shape", lo=1, hi=1, drawn=False)

    examples = ({"element_map": (2, -1, 0, 0)}, {"element_map": (1,)})

    @or_node
    def __call__(
        self, x: X, *, layout: str | None = None, epoch: int = 0, index: Any = None
    ) -> tuple[X, ...]:
        """Extract the frames.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of these.
            layout: layout of arrays; by default FHWC or NFHWC, by the number of axes.
            epoch: has no effect, because nothing is sampled.
            index: has no effect, because nothing is sampled.

        Returns:
            For each element a result of the type of ``x``, with one frame and without the axis of frames.

        Raises:
            ParameterError: there is no such frame, or no axis of frames.
        """
        if isinstance(x, Mapping):
            raise self.refusal(
                f"a sample of several parts, {', '.join(map(str, x))}",
                allowed="one array, Sequence or Batch, or a list of these",
                advice="Extract the elements of each part, or select frames of all parts by ops.Subsample",
            )
        several = apply(self, x, layout=layout, epoch=epoch, index=index)
        return tuple(_element(several, x, layout, n, at) for n, at in enumerate(self.element_map))

    def results(self, node: DataNode) -> tuple[DataNode, ...]:
        """Return a node for each element."""
        return parts_of(node, map(str, self.element_map))

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        first = inputs[0]
        check_value_type(self, first)
        layout = None if first.layout is None else first.layout.replace("F", "")
        return (first.resized(layout, {}),) * len(self.element_map)

    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:  # noqa: ARG002  independent of p
        """Return the elements.

        Raises:
            ParameterError: there is no such frame.
        """
        return _numbered(self.element_map, frames, self.name, "element_map")

    def moved_affine(self, rows: npt.NDArray[Any], spec: Spec, affine: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the affine of the volume; slices get their positions later."""
        return affine


class FrameDifference(Frames, Op):
    """Compute differences between frames: frame ``t + lag`` minus frame ``t``.

    F frames give F - lag differences, with the numbers and timestamps of the later frames. The dtype of the result
    holds every difference: int16 for uint8, float32 for uint16 and int16, and the same for floats; with ``absolute`` it
    is the dtype of the input, and uint16 for int16.
    """

    lag: int = param(1, "distance between the frames", unit="frames", lo=1, drawn=False)
    absolute: bool = param(False, "whether to return absolute differences", drawn=False)
    dtype: str | None = param(
        None, "dtype of the result; None for one that holds every difference", choices=COMPUTED_DTYPES
    )
    p: float = param(1.0, "always 1, as the result has another shape", lo=1, hi=1, drawn=False)

    takes_raw = True
    examples = ({}, {"lag": 2, "absolute": True}, {"dtype": "float32"})

    def result_dtype(self, dtype: str) -> str:
        """Return the parameter ``dtype``, or a dtype that holds every difference."""
        return self.dtype or (_UNSIGNED if self.absolute else _SIGNED).get(dtype, dtype)

    def frame_order(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:  # noqa: ARG002  nothing is sampled
        """Return the later frames.

        Raises:
            ParameterError: there are too few frames.
        """
        if self.lag >= spec.frames:
            raise self.refusal(
                f"lag={self.lag} in a sequence of {spec.frames}",
                allowed=f"up to {spec.frames - 1}" if spec.frames > 1 else "sequences of two frames or more",
            )
        return np.arange(self.lag, spec.frames)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  all rows are equal
        """Return one row."""
        return np.array([(self.lag, self.absolute)], self.kernel_dtype())

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is sampled
        """Subtract the earlier frames."""
        result = x[self.lag :] - x[: -self.lag]
        return abs(result) if self.absolute else result

    def cpu(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is sampled
        """Subtract uint8 by OpenCV if the dtype of the result holds the difference."""
        later, earlier = x[self.lag :], x[: -self.lag]
        if x.dtype == np.uint8 and self.result_dtype("uint8") == ("uint8" if self.absolute else "int16"):
            import cv2

            a, b = (np.ascontiguousarray(part).reshape(len(later), -1) for part in (later, earlier))
            bytes_: Any = cv2.absdiff(a, b) if self.absolute else cv2.subtract(a, b, dtype=cv2.CV_16S)
            return np.asarray(bytes_).reshape(later.shape)
        result: Array = np.subtract(later, earlier, dtype=np.float32)
        return np.abs(result, out=result) if self.absolute else result

    kernel_row = np.dtype([("lag", np.int32), ("absolute", np.int32)])
    body = Body(
        "difference",
        "value = value - earlier;\n    if (row.absolute && value < Real(0.0f)) value = -value;",
    )


class FrameSlice(Order, Op):
    """Keep a slice of frames as in Python: from ``start`` to the frame before ``stop``, every ``step``-th.

    Negative indices count from the end; indices outside of the sequence are clipped.
    """

    start: int | None = param(
        None,
        "index of the first frame; None for the first of all, or the last if step is negative",
        kind=int,
        drawn=False,
    )
    stop: int | None = param(None, "frame after the last one; None for the end", kind=int, drawn=False)
    step: int = param(1, "distance between frames; negative to go backward", unit="frames", drawn=False)

    examples = ({"start": 1}, {"stop": -1}, {"start": -1, "step": -2})
    errors = (({"step": 0}, "frame_slice: step=0 is not valid; allowed: a whole number other than 0"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step == 0:
            raise self.refusal("step=0 is not valid", allowed="a whole number other than 0")

    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:  # noqa: ARG002  independent of p
        """Return the frames of the slice.

        Raises:
            ParameterError: the slice is empty.
        """
        indices = range(frames)[self.start : self.stop : self.step]
        if not indices:
            raise self.refusal(
                f"the slice {self.start}:{self.stop}:{self.step} holds none of {frames} frames",
                allowed="slices that hold a frame",
            )
        return np.array(indices)


class Reverse(Order, Op):
    """Reverse the order of frames."""

    examples = ({}, {"p": 0.5, "seed": 3})

    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:  # noqa: ARG002  independent of p
        """Return the frames from the last to the first."""
        return np.arange(frames)[::-1]

    def inverse(self) -> Op:
        """Return the operator itself."""
        return self


class SequenceRearrange(Order, Op):
    """Rearrange frames in a given order, which may omit and repeat frames."""

    new_order: tuple[int, ...] | None = param(
        None,
        "input frame of each frame of the result, from 0, or from -1 at the end backwards; None for all",
        kind=int,
        size=ANY,
    )

    examples = (
        {"new_order": (2, 0, 1)},
        {"new_order": (0, 0, -1, 1, 1)},
        {"new_order": (-1, 1, 1), "p": 0.5, "seed": 2},
    )

    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:  # noqa: ARG002  independent of p
        """Return the parameter ``new_order``.

        Raises:
            ParameterError: there is no such frame.
        """
        order = range(frames) if self.new_order is None else self.new_order
        return _numbered(order, frames, self.name, "new_order")


class Subsample(Order, Op):
    """Keep one frame of several: frames ``offset``, ``offset + stride``, and so on."""

    stride: Number = param(1, "distance between frames", unit="frames", lo=1, identity=1)
    offset: Number = param(0, "index of the first frame", unit="frames", lo=0, identity=0)

    examples = ({"stride": 2}, {"stride": 3, "offset": (0, 2), "seed": 5}, {"stride": 2, "offset": 1})

    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:
        """Return evenly spaced frames.

        Raises:
            ParameterError: the offset is beyond the last frame.
        """
        if p.offset >= frames:
            raise self.refusal(
                f"offset={p.offset} in a sequence of {frames} frames", allowed=f"up to {frames - 1}"
            )
        return np.arange(p.offset, frames, p.stride)


class TemporalJitter(Order, Op):
    """Replace every frame by a close one: frame ``t`` by frame ``t + offset``, clipped to the sequence.

    The number of frames stays, and so does their order, because sampled frames are sorted (unless
    ``keep_order=False``): frames may be repeated, but time never runs backward. Frame numbers and timestamps are those
    of the frames taken.
    """

    offset: Number = param((-1, 1), "range of the offset of each frame", kind=int, unit="frames", identity=0)
    keep_order: bool = param(True, "whether to sort the sampled frames by time", drawn=False)
    per_frame: bool = param(
        True, "whether an offset is sampled for each frame instead of once for all", drawn=False
    )

    by_frame = True
    rows_together = True
    examples = (
        {"offset": (-2, 2), "seed": 4},
        {"offset": (-2, 2), "keep_order": False, "p": 0.7, "seed": 6},
        {"offset": (-1, 1), "per_frame": False, "seed": 1},
    )

    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:
        """Return the sampled frames."""
        near: IntArray = np.minimum(np.maximum(np.arange(frames) + p.acts * p.offset, 0), frames - 1)
        if self.keep_order:
            near.sort()
        return near

    def extent(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int, int]:  # noqa: ARG002  independent of the rows
        """Return the extent of the input."""
        return spec.frames, spec.height, spec.width


def _element(several: Any, source: Any, layout: str | None, n: int, at: int) -> Any:
    """Return element ``n`` of a result, which is frame ``at`` of the input."""
    if isinstance(several, (list, tuple)):
        return like_container(
            several, [_element(s, g, layout, n, at) for s, g in zip(several, source, strict=True)]
        )
    if isinstance(several, Sequence):
        return _image(several, source, several.data[_index_of(several.layout, n)], n, at)
    if isinstance(several, Batch):
        pixels = (
            several.sequences if several.stacked is None else several.stacked[_index_of(several.layout, n)]
        )
        pairs = zip(several.sequences, source.sequences, pixels, strict=True)
        images = tuple(
            _image(s, g, s.data[_index_of(s.layout, n)] if d is s else d, n, at) for s, g, d in pairs
        )
        stacked = None if several.stacked is None else pixels
        mask = None if several.mask is None else several.mask[:, n : n + 1]
        return replace(several, sequences=images, stacked=stacked, mask=mask)
    return several[_index_of(layout or DEFAULT_LAYOUTS[several.ndim], n)]


def _image(several: Sequence, source: Sequence, data: Array, n: int, at: int) -> Sequence:
    clocks = {
        name: values[n : n + 1]
        for name in ("frames", "timestamps")
        if (values := getattr(several, name)) is not None
    }
    affine = several.affine
    if affine is not None:
        affine = affine.copy()
        affine[:, 3] += affine[:, 0] * (at % len(source))
    letters = several.layout.replace("F", "").replace("D", "")
    return replace(several, data=data, layout=letters, affine=affine, **clocks)


def _index_of(layout: str, n: int) -> tuple[Any, ...]:
    """Return the index of frame ``n``."""
    return (*[slice(None)] * layout.replace("D", "F").index("F"), n)


def _numbered(numbers: Any, frames: int, name: str, what: str) -> npt.NDArray[Any]:
    """Return indices of frames from 0, of which some count from the end."""
    for number in numbers:
        if not -frames <= number < frames:
            raise ParameterError(
                f"{what} has {number}, but there are {frames} frames",
                source=name,
                allowed=f"{-frames} to {frames - 1}",
            )
    return np.asarray(numbers) % frames
