"""Frames and Order: operators that move frames. Each states their order once; pixels, clocks and masks follow it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, IntArray, namespace
from ...cached import cached_property
from ...errors import ParameterError
from ..core.blocks import Block, values_of_all
from ..core.body import Body
from ..core.declaration import Declaration
from ..core.spec import MOVED, Spec

__all__ = ["Frames", "Order"]

_ANY_LENGTH: Final = 60  # frames to try an order with
_SHIFT: Final = np.dtype([("shift", np.int32)])


class Frames(Declaration, register=False):
    """An operator on whole sequences, that states which frame of what is given each frame of its result stands for.

    Frame numbers, times, masks, boxes and points of frames, and a volume's affine follow :meth:`frame_order`.
    """

    keeps_frames: ClassVar[bool] = False
    by_frame: ClassVar[bool] = False

    @abstractmethod
    def frame_order(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:
        """For each frame of the result of one sample, the frame that its number and its time are those of."""

    def moved_affine(self, rows: npt.NDArray[Any], spec: Spec, affine: FloatArray) -> FloatArray:
        """The affine of a volume's result.

        Raises:
            ParameterError: its slices are not evenly spaced, so that the result has no grid.
        """
        order = self.frame_order(rows, spec)
        steps = order[1:] - order[:-1]
        if steps.size and (steps[0] == 0 or (steps != steps[0]).any()):
            raise ParameterError(
                f"slices {order.tolist()} of a volume with an affine are not evenly spaced",
                source=self.name,
                advice="Give the array without its affine",
            )
        voxels = np.eye(4)
        voxels[0, 0], voxels[0, 3] = steps[0] if steps.size else 1, order[0]
        moved: FloatArray = affine @ voxels
        return moved

    def moved_mask(self, mask: Array, specs: Seq[Spec], block: Block) -> Array:
        """Masks ``(N, F, H, W, C)`` in the order of their frames."""
        orders = [self.frame_order(block.of(n, spec.frames), spec) for n, spec in enumerate(specs)]
        return namespace(mask).stack([_taken(one, order) for one, order in zip(mask, orders, strict=True)])


class Order(Frames, register=False):
    """An operator whose result has frames of what is given, as they are. It states :meth:`order`, and no more."""

    dtypes: ClassVar[tuple[str, ...]] = MOVED
    values: ClassVar[Literal["computed", "moved"]] = "moved"
    body: ClassVar[Body | None] = Body("order")

    @abstractmethod
    def order(self, p: Any, frames: int) -> npt.NDArray[Any]:
        """Which frame each frame of the result is, counted from 0; of those of which it acts.

        Args:
            p: the parameters of the sequence, as attributes; arrays with one for each frame, where they differ.
            frames: how many are given.
        """

    @cached_property
    def _is_identity(self) -> bool:
        return super()._is_identity or (self.is_constant and self._stays())

    def _stays(self) -> bool:
        """Whether constant parameters leave every frame where it is."""
        try:
            order = np.asarray(self.order(values_of_all(self.template), _ANY_LENGTH))
        except ParameterError:  # of so many frames there is no such
            return False
        return bool((order.size == _ANY_LENGTH) and (order == np.arange(_ANY_LENGTH)).all())

    def frame_order(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:
        """For each frame of the result of one sample, the frame that it is."""
        return self._order(values_of_all(rows), spec.frames)

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """How many frames ahead that of what is given is."""
        return _SHIFT

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """A row for each frame of the result."""
        order = self._all_orders(rows, spec) if self.traits.rows_together else self.frame_order(rows, spec)
        made = np.zeros(order.size, self.kernel_dtype())
        made["shift"] = (order - np.arange(order.shape[-1])).ravel()
        return made

    def _all_orders(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:
        """Those of several samples, of operators whose :meth:`order` looks at the last axis of parameters alone."""
        # constant ones have one row for all frames
        of_sample = rows.reshape(-1, spec.frames if self.is_by_frame and len(rows) > 1 else 1)
        p = SimpleNamespace(**{name: of_sample[name] for name in rows.dtype.names or ()})
        return np.asarray(self.order(p, spec.frames), np.int64)

    def reference(self, x: Array, p: Any) -> Array:
        """The frames in their order."""
        return _taken(x, self._order(p, len(x)))

    def _order(self, p: Any, frames: int) -> IntArray:
        acts = np.count_nonzero(p.acts) if isinstance(p.acts, np.ndarray) else p.acts
        return np.asarray(self.order(p, frames), np.int64) if acts else np.arange(frames)


def _taken(x: Array, order: IntArray) -> Array:
    """Frames of an array in an order; a view where they are evenly spaced."""
    places = order.tolist()
    if len(places) > 1 and (step := places[1] - places[0]):
        first, end = places[0], places[0] + step * len(places)
        if places == list(range(first, end, step)):
            return x[first : end if end >= 0 else None : step]
    return x[namespace(x).asarray(order)]
