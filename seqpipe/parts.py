"""The parts of a sample: images, labels, points, boxes and flow, which one draw moves, each by its own rule; metadata.

A sample is a dictionary of names and parts. An array or a :class:`Sequence` that is no part is an :class:`Image`. The
space of a part is that of its sequence, which has the affine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from .array import Array, FloatArray, as_native, to_numpy
from .errors import ParameterError
from .param import choice
from .sequence import Displayable, Sequence

__all__ = ["Boxes", "Flow", "Image", "Labels", "Metadata", "Part", "Points", "Sample", "as_part"]

LabelInterpolation: TypeAlias = Literal["vote", "nearest"]
HistoryEntry: TypeAlias = dict[str, Any]
Unit: TypeAlias = Literal["voxel", "mm"]
P = TypeVar("P", bound="Part")

_INTERP: Final = choice("interp", "How labels between voxels are found", get_args(LabelInterpolation))
_UNIT: Final = choice("unit", "What numbers of points and boxes count", get_args(Unit))


@dataclass(frozen=True, eq=False)
class Part:
    """Data of one kind.

    Attributes:
        data: an array (NumPy, CuPy, torch) or a :class:`Sequence`.
    """

    data: Any

    @property
    def array(self) -> Array:
        """The values, NumPy or CuPy."""
        return as_native(self.data.data if isinstance(self.data, Sequence) else self.data)

    @property
    def affine(self) -> FloatArray | None:
        """The matrix from voxels (slice, row, column) to millimeters; None where it is not known."""
        return self.data.affine if isinstance(self.data, Sequence) else None

    def with_data(self: P, data: Any) -> P:
        """The same kind of part with other data."""
        return replace(self, data=data)


@dataclass(frozen=True, eq=False)
class Image(Part):
    """Intensities: interpolated by geometry, changed by operators on intensities."""


@dataclass(frozen=True, eq=False)
class Labels(Part):
    """A number of a class for each voxel: moved with the images, and of no other value than it had.

    Attributes:
        data: whole numbers; floats if they are whole.
        classes: how many classes there are, from 0 on, or their numbers; None where that is not said.
        interp: ``"vote"``: the class that the eight voxels around are worth most for; ``"nearest"``: that of one.

    Raises:
        ParameterError: classes are no whole numbers.
    """

    classes: int | tuple[int, ...] | None = None
    interp: LabelInterpolation = "vote"

    def __post_init__(self) -> None:
        _INTERP.check(self.interp)
        classes = self.classes
        if isinstance(classes, Iterable):
            object.__setattr__(self, "classes", classes := tuple(classes))
        several = classes if isinstance(classes, tuple) else () if classes is None else (classes,)
        if any(isinstance(one, bool) or int(one) != one for one in several) or classes in ((), 0):
            raise ParameterError(
                f"classes={classes!r} is not valid",
                source="Labels",
                allowed="how many there are, or their numbers",
            )

    def check(self, name: str) -> None:
        """See that all labels are of the declared classes.

        Args:
            name: of the part, for the message.

        Raises:
            ParameterError: one is of none.
        """
        if self.classes is None:
            return
        values = to_numpy(self.array)
        known = range(self.classes) if isinstance(self.classes, int) else self.classes
        if isinstance(self.classes, int):
            outside = [value for value in (values.min(), values.max()) if not 0 <= value < self.classes]
        else:
            outside = list(np.setdiff1d(values, np.array(known)))
        if outside:
            count = np.count_nonzero(values == outside[0])
            raise ParameterError(
                f"the label {outside[0]} in {count} voxels of {name!r} is of no declared class",
                source="Labels",
                allowed=", ".join(map(str, known)) if len(known) <= 20 else f"{known[0]} to {known[-1]}",
                advice="Declare the class, or map it to another one before",
            )


@dataclass(frozen=True, eq=False)
class Points(Part):
    """Places.

    Of volumes ``(K, 3)``: slice, row and column, the center of the first voxel at 0; or x, y and z in mm. Of pictures
    ``(K, 2)``, or ``(F, K, 2)`` for each frame: x and y in pixels, the center of the first pixel at 0.5; of several
    samples with one more axis at the front, or a list with an array for each.

    Attributes:
        data: the numbers.
        unit: ``"voxel"``, or ``"mm"`` for places in the space of the affine.
    """

    unit: Unit = "voxel"

    def __post_init__(self) -> None:
        _UNIT.check(self.unit)
        _check_columns(self, 3, 2)


@dataclass(frozen=True, eq=False)
class Boxes(Part):
    """Boxes, whose corners are as :class:`Points` have them.

    Of volumes ``(K, 6)``: first corner and last corner, each (slice, row, column). Of pictures ``(K, 4)``, or
    ``(F, K, 4)`` for each frame: left, top, right and bottom; of several samples as for points.
    """

    def __post_init__(self) -> None:
        _check_columns(self, 6, 4)


@dataclass(frozen=True, eq=False)
class Flow(Part):
    """Forward flow between the frames of the images, ``(F - stride, h, w, 2)``, on a grid of 1, 2, 4 or 8 pixels."""


@dataclass(frozen=True, eq=False)
class Metadata(Part):
    """Facts that go with the images, such as an age, a class or a row of measurements: handed on as they are.

    Attributes:
        data: anything; of several samples a list, an array or a mapping of columns, with an entry for each sample.
    """


class Sample(dict[str, Any], Displayable):
    """A sample that operators have made.

    Args:
        parts: by name.
        history: entries as JSON knows them, and functions that give several, called once they are looked at.
    """

    def __init__(
        self,
        parts: Mapping[str, Any],
        history: Iterable[HistoryEntry | Callable[[], list[HistoryEntry]]] = (),
    ) -> None:
        super().__init__(parts)
        self._history: list[Any] = list(history)

    @property
    def history(self) -> list[HistoryEntry]:
        """What was done, an entry for each operator, as JSON knows it; see :func:`seqpipe.ops.replay`."""
        if any(callable(one) for one in self._history):
            self._history = [entry for one in self._history for entry in (one() if callable(one) else [one])]
        found: list[HistoryEntry] = self._history
        return found

    def with_parts(
        self, parts: Mapping[str, Any], *entries: HistoryEntry | Callable[[], list[HistoryEntry]]
    ) -> Sample:
        """Other parts, and the history with more entries; none of it is put in words yet."""
        return Sample(parts, (*self._history, *entries))

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (dict(self), self.history)


def as_part(value: Any) -> Part:
    """A value of a sample as a part: what is none is an image."""
    return value if isinstance(value, Part) else Image(value)


def _check_columns(part: Part, of_volumes: int, of_pictures: int) -> None:
    data = part.data
    if hasattr(data, "operands"):  # a node of a graph: it is looked at when its value is there
        return
    if isinstance(data, (list, tuple)):
        if data and all(np.ndim(one) > 1 for one in data):  # an array for each sample
            for one in data:
                _check_columns(replace(part, data=one), of_volumes, of_pictures)
            return
        object.__setattr__(part, "data", np.asarray(data, np.float64))
    array = part.array
    axes = {of_volumes: (2,), of_pictures: (2, 3, 4)}.get(array.shape[-1] if array.ndim else 0, ())
    if array.ndim not in axes or array.dtype.kind not in "iuf":
        raise ParameterError(
            f"numbers of {array.dtype} of shape {tuple(array.shape)}",
            source=type(part).__name__,
            allowed=f"(K, {of_volumes}) of volumes, (K, {of_pictures}) or (F, K, {of_pictures}) of pictures",
        )
