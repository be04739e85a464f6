"""Base classes of filters: padding, and separable kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...core.padding import FILL_MODES, FillMode, source_indices
from ..call.op import Op, OutputDtype
from ..core.blocks import values_of
from ..core.parameters import param, with_fields
from ..core.spec import RANGES, Spec
from ..core.traits import Body
from ..cuda.kernel import widened

__all__ = ["REACH", "WHOLE", "Neighbors", "Separable", "Weights", "by_frame", "extended"]

REACH: Final = ("reach", np.int32)
"""Field of a row: the index of the kernel for an image."""

WHOLE: Final = 2.0**24
"""Greatest value up to which float32 holds all integers."""

_OPENCV: Final = {"edge": 1, "reflect": 4, "symmetric": 2}  # cv2.BORDER_* that OpenCV's filters support
_REACH: Final[
    dict[str, dict[tuple[int, ...], int]]
] = {  # kernel of summed.cuh by the taps of columns and rows; 2 for all others
    "separable": {(3, 1, 1, 3): 0, (3, 3, 3, 3): 1},
    "gaussian": {(3, 3): 0, (7, 7): 1, (11, 11): 1},
    "mean": {(3, 3): 0, (5, 5): 1, (7, 7): 1},
}
_CHANNELS: Final = 4  # most channels for which OpenCV's filters are fast
_MAX_EXACT_GAIN: Final = 2.0**18  # up to this value, rounding errors of float32 sums are below a hundredth

Weights: TypeAlias = npt.NDArray[np.float32]


class Neighbors(Op, register=False):
    """Base of operators whose results depend on neighboring values."""

    pad_mode: FillMode = param("reflect", "how pixels outside of the images are filled", choices=FILL_MODES)
    fill_value: float = param(
        0.0, "value of pixels outside for pad_mode='constant'", unit="levels", drawn=False
    )

    derived: ClassVar[tuple[str | tuple[str, int], ...]] = ("edge", "beyond", "bits")
    derived_from: ClassVar[tuple[str, ...] | None] = ()

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the same for all rows
        """Derive the padding mode's number, the value outside, and the bits of integer dtypes, or 0."""
        lo, hi = RANGES.get(spec.dtype, (0, 0))
        fill = min(max(round(self.fill_value), lo), hi) if spec.dtype in RANGES else self.fill_value
        result = self.result_dtype(spec.dtype)
        whole = {spec.dtype, result} <= RANGES.keys()
        bits = max(np.dtype(name).itemsize * 8 for name in (spec.dtype, result)) if whole else 0
        return {"edge": FILL_MODES.index(self.pad_mode), "beyond": fill, "bits": bits}

    def padded(self, x: Array, p: Any, window: tuple[int, int]) -> Array:
        """Pad images by as much as a centered window of some rows and columns needs."""
        around = extended(x, 1, window[0], self.pad_mode, p.beyond)
        return extended(around, 2, window[1], self.pad_mode, p.beyond)

    def opencv_border(self, x: Array, p: Any, gain: float = 1.0) -> int | None:
        """Return OpenCV's border type; None if OpenCV does not support the case, or not exactly enough.

        Floats may be so large, or NaN, that the order of sums or a weight of 0 matters.

        Args:
            x: images.
            p: parameters.
            gain: factor by which values, and so rounding errors, may grow; 0 if sums are integers that float32 holds.
        """
        takes = p.bits and x.shape[-1] <= _CHANNELS and gain * 2.0**p.bits <= _MAX_EXACT_GAIN
        return _OPENCV.get(self.pad_mode) if takes else None


class Separable(OutputDtype, Neighbors, register=False):
    """Base of filters whose kernel is a sum of products of a column and a row of weights.

    A subclass defines :meth:`weights`, and may change the sum in :meth:`finish` and a ``Body("separable", …)``, which
    has ``value``, ``center`` (the value before the filter) and ``row``.
    """

    terms: ClassVar[int] = 1
    most_taps: ClassVar[int] = 127
    body: ClassVar[Body | None] = Body("separable")
    # of integers, by OpenCV, which sums in another order
    cpu_tolerance: ClassVar[tuple[float, float] | None] = (1, 0.02)

    @abstractmethod
    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:
        """Return a column and a row of weights for each term.

        Each is symmetric; the center of ``n`` weights is element ``n // 2``.
        """

    def between(self, rows: Array, p: Any) -> Array:  # noqa: ARG002  for overrides
        """Convert the sums along rows before the sums along columns."""
        return rows

    def finish(self, value: Array, center: Array, p: Any) -> Array:  # noqa: ARG002  for overrides
        """Return the result for the sum and the value before the filter."""
        return value

    def gain(self, p: Any) -> float:  # noqa: ARG002  for overrides
        """Return the factor by which values may grow; see :meth:`opencv_border`."""
        return 1.0

    def reference(self, x: Array, p: Any) -> Array:
        """Sum each term's rows and then its columns, weight by weight."""
        total = np.float32(0)
        for column, row in self.weights(p):
            lines = self.padded(x, p, (len(column), len(row)))
            total = total + _swept(self.between(_swept(lines, row, 2), p), column, 1)
        return self.finish(total, x, p)

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute integers by OpenCV."""
        border = self.opencv_border(x, p, self.gain(p))
        if border is None:
            return self.reference(x, p)
        import cv2

        total: Any = None
        frames = np.ascontiguousarray(x)
        for column, row in self.weights(p):
            term = by_frame(frames, lambda x: cv2.sepFilter2D(x, cv2.CV_32F, row, column, borderType=border))  # noqa: B023
            total = term if total is None else np.add(total, term, out=total)
        return self.finish(total, x, p)

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """Return the dtype of a row with the weights."""
        count = 2 * cls.terms
        weights = "weights", np.float32, (count * cls.most_taps,)
        return with_fields(cls.block_dtype(), REACH, ("taps", np.int32, (count,)), weights)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows with their weights."""
        result = widened(rows, self.kernel_dtype())
        weights = result["weights"].reshape(len(rows), -1, self.most_taps)
        kind = self.traits.body.kind if self.traits.body else ""
        reach = _REACH.get(kind, {})
        # pad with a weight of 0 at both ends, which changes no finite sum, so that two kernels suffice
        longer = kind == "gaussian" and spec.dtype in RANGES
        for number, row in enumerate(rows):
            terms = [axis_weights for term in self.weights(values_of(row)) for axis_weights in term]
            more = int(longer and tuple(map(len, terms)) in ((5, 5), (9, 9)))
            for axis, axis_weights in enumerate(terms):
                result["taps"][number, axis] = len(axis_weights) + 2 * more
                weights[number, axis, more : more + len(axis_weights)] = axis_weights
            result["reach"][number] = row["acts"] and reach.get(tuple(result["taps"][number].tolist()), 2)
        return result


def by_frame(x: Array, make: Callable[[Array], Any]) -> Array:
    """Apply a function of OpenCV to each frame of ``(F, H, W, C)``, and restore a last axis of one."""
    if len(x) == 1:
        result: Array = make(x[0])
        return result.reshape(x.shape)
    return np.stack([make(frame) for frame in x]).reshape(x.shape)


def extended(x: Array, axis: int, window: int, mode: FillMode, fill: Any, anchor: int | None = None) -> Array:
    """Pad an array along one axis by as much as a window needs."""
    length, before = x.shape[axis], window // 2 if anchor is None else anchor
    if window == 1:
        return x
    at = source_indices(-before, length + window - 1, length, mode)
    if mode != "constant":
        return x.take(at, axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    return np.where((at < 0).reshape(shape), x.dtype.type(fill), x.take(at.clip(0), axis))


def _swept(x: Array, weights: Weights, axis: int) -> Array:
    """Return weighted sums of neighbors along an axis, which becomes shorter by the number of weights minus 1."""
    length = x.shape[axis] - len(weights) + 1
    if len(weights) == 1:
        return x * weights[0]
    index: list[Any] = [slice(None)] * x.ndim
    index[axis] = slice(0, length)
    total = x[tuple(index)] * weights[0]
    for k, weight in enumerate(weights[1:], 1):
        index[axis] = slice(k, k + length)
        total += x[tuple(index)] * weight
    return total
