"""Operators that combine several arrays into one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from math import gcd, prod
from typing import Any, Final

import numpy as np

from ...array import Array, address_of, device_of, namespace
from ...core.kernel import KernelDevice
from ...sequence import Batch, Sequence
from ..call.backends import cuda_device_of, on_device_of
from ..call.inputs import like_library
from ..core.blocks import Block
from ..core.deferred import or_node
from ..core.parameters import param
from ..cuda.kernel import Item, launch, source_of
from ..temporal.base import Order
from .base import VOXEL, AddsAxis, ArrayOperand, Arrays, check_letter

__all__ = ["Cat", "Stack"]

_MAX_ELEMENT_BYTES: Final = 8  # bytes that a kernel moves as one value
_MAX_KERNEL_VALUES: Final = 2**31 - 1  # values of an image of a kernel


def _concatenated(parts: Seq[Array], axis: int, shape: tuple[int, ...]) -> Array:
    """Concatenate or stack arrays along an axis of the result."""
    library = namespace(parts[0])
    if library is not np:
        out: Array = library.empty(shape, parts[0].dtype)
        if _concatenated_by_kernel(parts, axis, out):
            return out
    result: Array = (library.stack if len(shape) > parts[0].ndim else library.concatenate)(parts, axis)
    return result


def _concatenated_by_kernel(
    parts: Seq[Array], axis: int, out: Array, device: KernelDevice | None = None
) -> bool:
    """Write _concatenated arrays by one launch."""
    rows = prod(out.shape[:axis])
    filled = [part for part in parts if part.size]
    if not filled or not all(part.flags.c_contiguous for part in filled):
        return not filled
    lengths = [part.nbytes // rows for part in filled]  # bytes of a row of each
    element = gcd(_MAX_ELEMENT_BYTES, *lengths, *(address_of(array) for array in (out, *filled)))
    if out.nbytes // element > _MAX_KERNEL_VALUES:
        return False
    # short rows of one length are pixels of one row; others are rows of pixels with one value
    most, least = (extreme(lengths) // element for extreme in (max, min))
    channels, as_image = (
        (most, np.s_[None, None, None]) if most == least <= 4 else (1, np.s_[None, None, ..., None])
    )
    lines, items, begin = _rows_of(out, rows, element), [], 0
    for part, length in zip(filled, lengths, strict=True):
        end = begin + length // element
        items.append(Item(_rows_of(part, rows, element)[as_image], lines[:, begin:end][as_image], 0))
        begin = end
    launch(
        source_of(Order),
        {"ELEMENT_BYTES": element, "CHANNELS": channels},
        items,
        Block(np.zeros(1, Order.kernel_dtype()), (0,), 0),
        device or cuda_device_of(out),
    )
    return True


def _rows_of(array: Array, rows: int, element: int) -> Array:
    """Return a contiguous array as rows of values of some bytes."""
    return array.reshape(-1).view(f"u{element}").reshape(rows, -1)


class _Joining(Arrays, register=False):
    """Base of operators that combine several arrays into one."""

    @abstractmethod
    def joined(self, parts: Seq[ArrayOperand]) -> tuple[Array, str, int]:
        """Return the array, its layout, empty if it is unknown, and the axis along which the parts lie."""

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is sampled
        """Return the combined array."""
        return self.joined([self.as_operand(operand) for operand in x])[0]

    @or_node
    def __call__(self, *arrays: Any, layout: str | None = None) -> Any:
        """Combine arrays into one.

        Args:
            *arrays: NumPy, CuPy or torch arrays, Sequences, or Batches, whose samples are combined; or one list.
            layout: layout of arrays; if it has N, numbers of axes do not count that one.

        Returns:
            One value of the type of the arguments.
        """
        parts_given = arrays[0] if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else arrays
        kinds = {
            next((k for k in (Batch, Sequence) if isinstance(value, k)), np.ndarray) for value in parts_given
        }
        if len(kinds) != 1:
            raise self.refusal(
                f"{len(parts_given)} arrays, of {len(kinds)} kinds",
                allowed="one or more; arrays, Sequences or Batches",
            )
        if kinds == {Batch}:
            return self._batches(parts_given)
        parts = [self.as_operand(value, layout) for value in parts_given]
        self._check(parts)
        with on_device_of(parts[0].array):
            array, letters, axis = self.joined(parts)
        if kinds == {Sequence}:
            return self._sequences(parts_given, array, letters, axis)
        return like_library(parts_given[0], array)

    def _batches(self, batches: Seq[Batch]) -> Batch:
        if len({len(batch) for batch in batches}) > 1:
            raise self.refusal(
                f"batches of {[len(batch) for batch in batches]} samples", allowed="as many in each"
            )
        if any(batch.mask is not None for batch in batches):
            raise self.refusal(
                "batches with masks",
                allowed="batches without",
                advice="Remove them by dataclasses.replace(batch, mask=None), and combine the masks separately",
            )
        samples = [self(*parts) for parts in zip(*batches, strict=True)]
        return Batch.of(samples, labels=batches[0].labels, indices=batches[0].indices)

    def _check(self, parts: Seq[ArrayOperand]) -> None:
        for what, values in (
            ("types", {part.array.dtype.name for part in parts}),
            ("layouts", {part.letters for part in parts}),
            ("devices", {device_of(part.array) for part in parts}),
            ("numbers of axes", {str(part.array.ndim) for part in parts}),
        ):
            if len(values) > 1:
                raise self.refusal(
                    f"arrays of different {what}, {', '.join(sorted(values))}", allowed="one for all"
                )

    def _sequences(self, sequences: Seq[Sequence], array: Array, letters: str, axis: int) -> Any:
        if letters.startswith("N"):
            return Batch.of(sequences)
        known: dict[str, Any] = {}
        along = letters[axis : axis + 1]
        if along in ("F", "D"):
            for name in ("frames", "timestamps"):
                clocks = [getattr(sequence, name) for sequence in sequences]
                known[name] = None if any(clock is None for clock in clocks) else np.concatenate(clocks)
        if any(sequence.affine is not None for sequence in sequences):
            self._check_affines(sequences, along, axis)
        return self.sequence(sequences[0], array, letters, **known)

    def _check_affines(self, volumes: Seq[Sequence], along: str, axis: int) -> None:
        """Check that each volume starts where the one before it ends; along channels, that all have one position."""
        first, offset = volumes[0].affine, 0
        for volume in volumes:
            step = np.eye(4)
            if along in VOXEL:
                step[VOXEL[along], 3] = offset
            if (
                first is None
                or volume.affine is None
                or not np.allclose(volume.affine, first @ step, atol=1e-4)
            ):
                what = "start where the one before them ends" if along in VOXEL else "have one position"
                raise self.refusal(
                    f"volumes that do not {what}, along {along}", advice="Pass them without their affines"
                )
            offset += (
                volume.data.shape[axis] if volume.data.ndim > axis and volume.layout[axis] == along else 1
            )


class Stack(AddsAxis, _Joining):
    """Join arrays of one shape along a new axis; Sequences along ``axis_name="N"`` become a Batch."""

    axis: int = param(
        0, "position of the new axis in the result; negative numbers count from the end", drawn=False
    )

    examples = ({}, {"axis": -1, "axis_name": "C"})
    errors = (({"axis_name": "FC"}, "stack: axis_name='FC' is not valid; allowed: one letter"),)

    def joined(self, parts: Seq[ArrayOperand]) -> tuple[Array, str, int]:
        """Stack the arrays along the new axis."""
        shapes = {tuple(part.array.shape) for part in parts}
        if len(shapes) > 1:
            raise self.refusal(
                f"arrays of different shapes, {', '.join(map(str, sorted(shapes)))}", allowed="one for all"
            )
        axis, letters = self.new_axis(parts[0], self.axis)
        (shape,) = shapes
        return (
            _concatenated([part.array for part in parts], axis, (*shape[:axis], len(parts), *shape[axis:])),
            letters,
            axis,
        )


class Cat(_Joining):
    """Join arrays along one of their axes.

    Sequences that are joined along their frames keep frame numbers and timestamps; volumes are joined if each starts
    where the one before it ends.
    """

    axis: int | None = param(
        None, "number of the axis, or from -1 backwards; None for 0", kind=int, drawn=False
    )
    axis_name: str | None = param(None, "letter of the axis, instead of its number", kind=str)

    exclusive = (("axis", "axis_name"),)
    examples = ({}, {"axis_name": "C"})
    errors = (({"axis_name": "HW"}, "cat: axis_name='HW' is not valid; allowed: one letter"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_letter(self, self.axis_name)

    def joined(self, parts: Seq[ArrayOperand]) -> tuple[Array, str, int]:
        """Concatenate the arrays."""
        (axis,) = self.axes_of(parts[0], (self.axis or 0,), self.axis_name, "axis")
        shapes = [tuple(part.array.shape) for part in parts]
        if len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) > 1:
            raise self.refusal(
                f"arrays of shapes {', '.join(map(str, shapes))}",
                allowed=f"one extent for all but axis {axis}",
            )
        extent = sum(shape[axis] for shape in shapes)
        array = _concatenated(
            [part.array for part in parts], axis, (*shapes[0][:axis], extent, *shapes[0][axis + 1 :])
        )
        return array, parts[0].letters, axis
