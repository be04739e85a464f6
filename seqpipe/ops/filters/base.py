"""Base classes of filters: borders, and separable kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...padding import FILL_MODES, FillMode, source_indices
from ..call.op import Op
from ..core.blocks import values_of
from ..core.body import Body
from ..core.parameters import param
from ..core.spec import COMPUTED, RANGES, Spec
from ..cuda.kernel import widened, with_fields

__all__ = ["WHOLE", "Neighbors", "Separable", "Weights", "by_frame", "extended", "with_reach"]

WHOLE: Final = 2.0**24
"""Up to which float32 has all whole numbers."""

_OPENCV: Final = {"edge": 1, "reflect": 4, "symmetric": 2}  # cv2.BORDER_*, that its filters take
_REACH: Final[
    dict[str, dict[tuple[int, ...], int]]
] = {  # the number of the kernel of summed.cuh for taps of columns and rows; 2 for those that are not here
    "separable": {(3, 1, 1, 3): 0, (3, 3, 3, 3): 1},
    "gaussian": {(3, 3): 0, (7, 7): 1, (11, 11): 1},
    "mean": {(3, 3): 0, (5, 5): 1, (7, 7): 1},
}
_CHANNELS: Final = 4  # of images that OpenCV's filters are quick with
_NEAR: Final = 2.0**18  # levels of which the last bits that sums may lose are a hundredth of a level

Weights: TypeAlias = npt.NDArray[np.float32]


class Neighbors(Op, register=False):
    """An operator whose results depend on values around a place."""

    pad_mode: FillMode = param("reflect", "how pixels outside of the images are filled", choices=FILL_MODES)
    fill_value: float = param(
        0.0, "value of pixels outside for pad_mode='constant'", unit="levels", drawn=False
    )

    derived: ClassVar[tuple[str | tuple[str, int], ...]] = ("edge", "beyond", "bits")
    derived_from: ClassVar[tuple[str, ...] | None] = ()

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the same for all rows
        """The border as kernels know it, the level beyond it, and the bits of whole numbers that become such, or 0."""
        lo, hi = RANGES.get(spec.dtype, (0, 0))
        fill = min(max(round(self.fill_value), lo), hi) if spec.dtype in RANGES else self.fill_value
        result = self.result_dtype(spec.dtype)
        whole = {spec.dtype, result} <= RANGES.keys()
        bits = max(np.dtype(one).itemsize * 8 for one in (spec.dtype, result)) if whole else 0
        return {"edge": FILL_MODES.index(self.pad_mode), "beyond": fill, "bits": bits}

    def padded(self, x: Array, p: Any, window: tuple[int, int]) -> Array:
        """Images and what is around them, as much as a window of some rows and columns sees; its center is at half."""
        around = extended(x, 1, window[0], self.pad_mode, p.beyond)
        return extended(around, 2, window[1], self.pad_mode, p.beyond)

    def opencv_border(self, x: Array, p: Any, gain: float = 1.0) -> int | None:
        """The number of the border for OpenCV; None if it cannot do this, or not as exactly as it has to be.

        Floats may be so large, or no numbers, that the order of sums or a weight of 0 makes all the difference.

        Args:
            x: images.
            p: the parameters.
            gain: by how much levels may grow on their way to the result, and so the last bits of sums; 0 if sums are
                whole numbers that float32 holds.
        """
        takes = p.bits and x.shape[-1] <= _CHANNELS and gain * 2.0**p.bits <= _NEAR
        return _OPENCV.get(self.pad_mode) if takes else None


class Separable(Neighbors, register=False):
    """A filter whose kernel is a sum of products of a column and a row of weights.

    It states :meth:`weights`, and may change the sum in :meth:`finish` and a ``Body("separable", …)``, which has
    ``value``, ``center`` (what was there before) and ``row``.
    """

    dtype: str | None = param(None, "dtype of the result; None for that of the input", choices=COMPUTED)

    terms: ClassVar[int] = 1
    most_taps: ClassVar[int] = 127
    body: ClassVar[Body | None] = Body("separable")
    # whole numbers by OpenCV, which adds in another order
    cpu_tolerance: ClassVar[tuple[float, float] | None] = (1, 0.02)

    @abstractmethod
    def weights(self, p: Any) -> tuple[tuple[Weights, Weights], ...]:
        """A column and a row of weights for each term.

        Each is the same from either end; the center of one of ``n`` is its element ``n // 2``.
        """

    def between(self, rows: Array, p: Any) -> Array:  # noqa: ARG002  for those that round there
        """What the columns are made of, from the sums of the rows."""
        return rows

    def finish(self, value: Array, center: Array, p: Any) -> Array:  # noqa: ARG002  for those that have more to do
        """The result from the sum and from what was there before."""
        return value

    def gain(self, p: Any) -> float:  # noqa: ARG002  for those that are no means
        """By how much levels may grow, as :meth:`opencv_border` is told."""
        return 1.0

    def result_dtype(self, dtype: str) -> str:
        """The type that is asked for."""
        return self.dtype or dtype

    def reference(self, x: Array, p: Any) -> Array:
        """Each term's rows and then its columns, weight by weight."""
        total = np.float32(0)
        for column, row in self.weights(p):
            lines = self.padded(x, p, (len(column), len(row)))
            total = total + _swept(self.between(_swept(lines, row, 2), p), column, 1)
        return self.finish(total, x, p)

    def cpu(self, x: Array, p: Any) -> Array:
        """By OpenCV, where the result is a whole number."""
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
        """A row of the block, and the weights."""
        count = 2 * cls.terms
        weights = "weights", np.float32, (count * cls.most_taps,)
        return with_reach(cls.block_dtype(), ("taps", np.int32, (count,)), weights)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Rows with their weights."""
        made = widened(rows, self.kernel_dtype())
        weights = made["weights"].reshape(len(rows), -1, self.most_taps)
        kind = self.traits.body.kind if self.traits.body else ""
        reach = _REACH.get(kind, {})
        # by a weight of 0 at either end, which changes no sum of finite products: so two kernels are enough
        longer = kind == "gaussian" and spec.dtype in RANGES
        for number, row in enumerate(rows):
            terms = [one for term in self.weights(values_of(row)) for one in term]
            more = int(longer and tuple(map(len, terms)) in ((5, 5), (9, 9)))
            for place, one in enumerate(terms):
                made["taps"][number, place] = len(one) + 2 * more
                weights[number, place, more : more + len(one)] = one
            made["reach"][number] = row["acts"] and reach.get(tuple(made["taps"][number].tolist()), 2)
        return made


def with_reach(dtype: np.dtype[Any], *fields: tuple[Any, ...]) -> np.dtype[Any]:
    """A structure with more fields, and one that says by which of a source's kernels an image is done."""
    return with_fields(dtype, ("reach", np.int32), *fields)


def by_frame(x: Array, make: Callable[[Array], Any]) -> Array:
    """What OpenCV makes of each frame of ``(F, H, W, C)``, where it may have dropped a last axis of one."""
    if len(x) == 1:
        found: Array = make(x[0])
        return found.reshape(x.shape)
    return np.stack([make(frame) for frame in x]).reshape(x.shape)


def extended(x: Array, axis: int, window: int, mode: FillMode, fill: Any, anchor: int | None = None) -> Array:
    """An array with as much around it along one axis as a window sees.

    Args:
        x: the array.
        axis: the axis.
        window: how many values a window has.
        mode: how values outside are filled; see :mod:`seqpipe.padding`.
        fill: the value for ``"constant"``.
        anchor: which of its values is the center; None for ``window // 2``.
    """
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
    """Weighted sums of neighbors along an axis, which becomes shorter by the length of the window less 1."""
    length = x.shape[axis] - len(weights) + 1
    if len(weights) == 1:
        return x * weights[0]
    place: list[Any] = [slice(None)] * x.ndim
    place[axis] = slice(0, length)
    total = x[tuple(place)] * weights[0]
    for k, weight in enumerate(weights[1:], 1):
        place[axis] = slice(k, k + length)
        total += x[tuple(place)] * weight
    return total
