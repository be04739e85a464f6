"""Frames and Order: bases of operators that reorder frames; pixels, metadata and masks follow from one order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, IntArray, namespace
from ...core.cached import cached_property
from ...errors import ParameterError
from ..core.blocks import Block, values_of_all
from ..core.declaration import Declaration
from ..core.spec import MOVED_DTYPES, Spec
from ..core.traits import Body

__all__ = ["Frames", "Order"]

_PROBED_FRAMES: Final = 60  # number of frames of a test of the order
_SHIFT: Final = np.dtype([("shift", np.int32)])


class Frames(Declaration, register=False):
    """Base of operators on whole sequences, which define the input frame that each frame of the result stands for.

    Frame numbers, timestamps, masks, boxes and points of frames, and a volume's affine follow :meth:`frame_order`.
    """

    keeps_frames: ClassVar[bool] = False
    by_frame: ClassVar[bool] = False

    @abstractmethod
    def frame_order(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:
        """See :meth:`Declaration.frame_order`."""

    def moved_affine(self, rows: npt.NDArray[Any], spec: Spec, affine: FloatArray) -> FloatArray:
        """Return the affine of a volume's result."""
        order = self.frame_order(rows, spec)
        steps = order[1:] - order[:-1]
        if steps.size and (steps[0] == 0 or (steps != steps[0]).any()):
            raise self.refusal(
                f"slices {order.tolist()} of a volume with an affine are not evenly spaced",
                advice="Pass the array without its affine",
            )
        voxels = np.eye(4)
        voxels[0, 0], voxels[0, 3] = steps[0] if steps.size else 1, order[0]
        moved: FloatArray = affine @ voxels
        return moved

    def moved_mask(self, mask: Array, specs: Seq[Spec], block: Block) -> Array:
        """Reorder masks ``(N, F, H, W, C)`` like the frames."""
        orders = [self.frame_order(block.of(n, spec.frames), spec) for n, spec in enumerate(specs)]
        return namespace(mask).stack(
            [_selected(valid, order) for valid, order in zip(mask, orders, strict=True)]
        )


class Order(Frames, register=False):
    """Base of operators whose result consists of unchanged frames of the input; they define :meth:`order`."""

    dtypes: ClassVar[tuple[str, ...]] = MOVED_DTYPES
    values: ClassVar[Literal["computed", "moved"]] = "moved"
    body: ClassVar[Body | None] = Body("order")
    kernel_row = _SHIFT

    @abstractmethod
    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:
        """Return the input frame of each frame of the result, from 0, if the operator acts.

        Args:
            p: parameters of the sequence, as attributes; arrays with one value for each frame, if frames differ.
            frames: number of frames.
        """

    @cached_property
    def _is_identity(self) -> bool:
        return super()._is_identity or (self.is_constant and self._keeps_order())

    def _keeps_order(self) -> bool:
        """Return whether constant parameters keep every frame in place."""
        try:
            order = np.asarray(self.order(values_of_all(self.template), _PROBED_FRAMES))
        except ParameterError:  # not valid for this number of frames
            return False
        return bool((order.size == _PROBED_FRAMES) and (order == np.arange(_PROBED_FRAMES)).all())

    def frame_order(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:
        """See :meth:`Declaration.frame_order`."""
        return self._order(values_of_all(rows), spec.frames)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return a row for each frame of the result."""
        order = self._all_orders(rows, spec) if self.traits.rows_together else self.frame_order(rows, spec)
        result = np.zeros(order.size, self.kernel_dtype())
        result["shift"] = (order - np.arange(order.shape[-1])).ravel()
        return result

    def _all_orders(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:
        """Return the orders of several samples, if :meth:`order` uses the last axis of parameters only."""
        # constant parameters have one row for all frames
        of_sample = rows.reshape(-1, spec.frames if self.is_by_frame and len(rows) > 1 else 1)
        p = SimpleNamespace(**{name: of_sample[name] for name in rows.dtype.names or ()})
        return np.asarray(self.order(p, spec.frames), np.int64)

    def reference(self, x: Array, p: Any) -> Array:
        """Reorder the frames."""
        return _selected(x, self._order(p, len(x)))

    def _order(self, p: Any, frames: int) -> IntArray:
        acts = np.count_nonzero(p.acts) if isinstance(p.acts, np.ndarray) else p.acts
        return np.asarray(self.order(p, frames), np.int64) if acts else np.arange(frames)


def _selected(x: Array, order: IntArray) -> Array:
    """Return frames of an array in an order, as a view if they are evenly spaced."""
    indices = order.tolist()
    if len(indices) > 1 and (step := indices[1] - indices[0]):
        first, end = indices[0], indices[0] + step * len(indices)
        if indices == list(range(first, end, step)):
            return x[first : end if end >= 0 else None : step]
    return x[namespace(x).asarray(order)]
