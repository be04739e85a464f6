"""Arrays: base of operators on whole arrays with any axes; nothing is sampled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np

from ...array import DEFAULT_LAYOUTS, LAYOUTS, Array, check_layout, frame_axis
from ...errors import ParameterError
from ...sequence import Batch, Sequence
from ..call.backends import on_device_of
from ..call.inputs import as_array, check_type, error_source, like_container, like_library
from ..core.declaration import Declaration, Takes
from ..core.deferred import or_node
from ..core.parameters import ANY, param
from ..core.spec import MOVED_DTYPES
from ..core.types import Type

__all__ = ["VOXEL", "AddsAxis", "ArrayOperand", "Arrays", "OnAxes", "Shaping", "axes_from_0", "check_letter"]

X = TypeVar("X")

VOXEL: Final = {"D": 0, "F": 0, "H": 1, "W": 2}
"""Column of an affine for each spatial axis."""


class ArrayOperand(NamedTuple):
    """An array of a call.

    Attributes:
        value: the user's value.
        array: its array, NumPy or CuPy.
        letters: layout; empty if it is unknown.
        first: first axis of a sample: 1 if the axis before it counts samples, else 0.
    """

    value: Any
    array: Array
    letters: str
    first: int

    @property
    def samples(self) -> tuple[int, ...]:
        """Shape of a sample."""
        return tuple(self.array.shape[self.first :])

    @property
    def names(self) -> str:
        """Layout, or the default for the number of axes."""
        return self.letters or DEFAULT_LAYOUTS.get(self.array.ndim, "")


class Arrays(Declaration, register=False):
    """Base of operators on whole arrays.

    Numbers of axes count the axes of an array; of a Sequence; of each sample of a Batch, or of an array with a
    ``layout`` that has N, as in DALI.
    """

    takes: ClassVar[Takes] = "arrays"
    dtypes: ClassVar[tuple[str, ...]] = MOVED_DTYPES
    # nothing is random
    p: ClassVar[float] = 1.0  # type: ignore[misc]  # a constant instead of a parameter
    per_frame: ClassVar[bool] = False  # type: ignore[misc]  # likewise
    seed: ClassVar[int] = 0  # type: ignore[misc]  # likewise

    def as_operand(self, value: Any, layout: str | None = None) -> ArrayOperand:
        """Return the operand array for a value.

        Raises:
            ParameterError: the operator does not accept the value.
        """
        if isinstance(value, (Sequence, Batch)):
            if layout not in (None, value.layout):
                raise self.refusal(f"layout={layout!r} of what has the layout {value.layout}")
            return ArrayOperand(value, value.data, value.layout, int(isinstance(value, Batch)))
        array = as_array(self, value)
        if array.dtype.name not in self.traits.dtypes or not array.dtype.isnative:
            raise self.refusal(f"values of type {array.dtype}", allowed=", ".join(self.traits.dtypes))
        with error_source(self):
            letters = "" if layout is None else check_layout(layout, array.ndim)
        return ArrayOperand(value, array, letters, int(letters.startswith("N")))

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        if inputs[0].dtype is not None:
            check_type(self, inputs[0].dtype)
        return super().result_types(inputs)

    def axes_of(
        self, operand: ArrayOperand, axes: Seq[int] | None, names: str | None, what: str = "axes"
    ) -> tuple[int, ...]:
        """Return axes of the array, from their numbers within a sample or their letters; all axes if neither is given.

        Raises:
            ParameterError: there is no such axis, or an axis is repeated.
        """
        count = operand.array.ndim - operand.first
        if names is not None:
            letters = operand.names if "D" in names else operand.names.replace("D", "F")
            if not letters or any(name not in letters for name in names):
                raise self.refusal(
                    f"axis_names={names!r} of an array of layout {operand.names or 'unknown'}",
                    allowed="letters of the layout",
                    advice="" if operand.letters else "Pass the layout of arrays",
                )
            result = tuple(letters.index(name) for name in names)
        else:
            numbers = range(count) if axes is None else axes
            return tuple(operand.first + axis for axis in axes_from_0(self, numbers, count, what))
        if len(set(result)) < len(result):
            raise _repeated(self, "axis_names", names)
        return result

    def sequence(self, source: Sequence, data: Array, letters: str, **known: Any) -> Sequence:
        """Return a sequence with other axes.

        Raises:
            ParameterError: a sequence cannot have them.
        """
        if letters not in LAYOUTS or letters[0] == "N":
            raise self.refusal(
                f"a sequence of layout {source.layout} would have the layout {letters or 'unknown'}",
                allowed=", ".join(known for known in LAYOUTS if known[0] != "N"),
                advice="Pass the array of the sequence",
            )
        frames = frame_axis(letters)
        count = 1 if frames is None else data.shape[frames]
        for name in ("frames", "timestamps"):
            clock = known.get(name, getattr(source, name))
            if clock is not None and len(clock) != count:
                raise self.refusal(
                    f"{len(clock)} {name} for {count} frames",
                    advice="Pass the array of the sequence, or a sequence without them",
                )
        return replace(source, data=data, layout=letters, **known)


def check_letter(op: Arrays, axis_name: str | None) -> None:
    """Check that the name of an axis is one letter."""
    if axis_name is not None and len(axis_name) != 1:
        raise op.refusal(f"axis_name={axis_name!r} is not valid", allowed="one letter")


class OnAxes(Arrays, register=False):
    """Base of operators with axes as a parameter, by number or by letter."""

    axes: tuple[int, ...] | None = param(
        None, "numbers of the axes, from 0, or from -1 backwards", kind=int, size=ANY
    )
    axis_names: str | None = param(None, "axes by their letters in the layout, instead of numbers", kind=str)

    exclusive = (("axes", "axis_names"),)


class AddsAxis(Arrays, register=False):
    """Base of operators whose results have one more axis; subclasses declare its position."""

    axis_name: str | None = param(None, "letter of the new axis", kind=str)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_letter(self, self.axis_name)

    def new_axis(self, operand: ArrayOperand, axis: int) -> tuple[int, str]:
        """Return the position of the new axis and the layout of the result, empty if it is unknown.

        Raises:
            ParameterError: there is no such position.
        """
        count = int(operand.array.ndim) - operand.first + 1
        if not -count <= axis < count:
            raise self.refusal(
                f"axis={axis} of a result with {count} axes", allowed=f"{-count} to {count - 1}"
            )
        position, letters = operand.first + axis % count, operand.letters
        known = letters and self.axis_name
        return position, f"{letters[:position]}{self.axis_name}{letters[position:]}" if known else ""


class Shaping(Arrays, register=False):
    """Base of operators that change the axes of arrays; they define :meth:`shaped`."""

    @abstractmethod
    def shaped(self, operand: ArrayOperand) -> tuple[Array, str]:
        """Return an array with its new axes, as a view if possible, and its layout, empty if it is unknown."""

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  nothing is sampled
        """Return the array with its new axes."""
        return self.shaped(self.as_operand(x))[0]

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`; with the new axes if layout and shape are known."""
        unknown, first = super().result_types(inputs), inputs[0]
        letters = f"N{first.layout}"
        if not first.layout or not first.shape or None in first.shape or letters not in LAYOUTS:
            return unknown
        shadow = np.broadcast_to(np.zeros((), first.dtype or "uint8"), (1, *first.shape))  # type: ignore[arg-type]  # None is not among them
        shaped, after = self.shaped(self.as_operand(shadow, letters))
        return (replace(first, layout=after.removeprefix("N") or None, shape=tuple(shaped.shape[1:])),)

    @or_node
    def __call__(self, x: X, *, layout: str | None = None) -> X:
        """Change the axes of an array.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of these.
            layout: layout of arrays; if it has N, numbers of axes do not count that one.

        Returns:
            The result, of the same type as ``x``; it shares memory with ``x`` if no values have to move.

        Raises:
            ParameterError: there are no such axes, or a Sequence cannot have the resulting axes.
        """
        value: Any = x
        if isinstance(value, (list, tuple)):
            output: Any = like_container(
                value, [Shaping.__call__(self, element, layout=layout) for element in value]
            )
        elif isinstance(value, Batch) and value.stacked is None:
            parts = [Shaping.__call__(self, sequence) for sequence in value.sequences]
            output = Batch.of(parts, labels=value.labels, indices=value.indices)
        else:
            operand = self.as_operand(value, layout)
            with on_device_of(operand.array):
                output = self.wrap_result(value, *self.shaped(operand))
        result: X = output
        return result

    def wrap_result(self, value: Any, array: Array, letters: str) -> Any:
        """Return an array as the type of the value, with its metadata."""
        if isinstance(value, Batch):
            pairs = zip(value.sequences, array, strict=True)
            parts = tuple(self.sequence(sequence, data, letters[1:]) for sequence, data in pairs)
            mask = value.mask
            if mask is not None and [
                n for c, n in zip(letters, array.shape, strict=True) if c != "C"
            ] != list(mask.shape):
                raise self.refusal(
                    f"a mask of shape {mask.shape} for values of shape {tuple(array.shape)}",
                    advice="Pass the batch without its mask",
                )
            return replace(value, sequences=parts, stacked=array)
        return (
            self.sequence(value, array, letters)
            if isinstance(value, Sequence)
            else like_library(value, array)
        )


def axes_from_0(op: Declaration, axes: Seq[int], count: int, what: str = "axes") -> tuple[int, ...]:
    """Return axes as numbers from 0, where some count backwards."""
    for axis in axes:
        if not -count <= axis < count:
            raise op.refusal(
                f"{what} has {axis}, of {count} axes", allowed=f"{-count} to {count - 1}" if count else "none"
            )
    result = tuple(axis % count for axis in axes)
    if len(set(result)) < len(result):
        raise _repeated(op, what, tuple(axes))
    return result


def _repeated(op: Declaration, what: str, axes: Any) -> ParameterError:
    return op.refusal(f"{what}={axes!r} has an axis twice", allowed="each once")
