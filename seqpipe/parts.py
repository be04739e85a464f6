"""The parts of a sample: images, labels, points, boxes, flow and metadata.

A sample is a dictionary of named parts. An operator samples its parameters once for all parts and transforms each part
by the rule of its type. An array or :class:`Sequence` without a part type is an :class:`Image`, unless the sequence or
batch is marked as labels (:attr:`Sequence.kind`), as datasets mark theirs. A part's affine is that of its sequence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from .array import Array, FloatArray, as_native, to_numpy
from .core.param import choice
from .errors import ParameterError
from .sequence import Batch, Displayable, Sequence

__all__ = [
    "Boxes",
    "Flow",
    "Image",
    "Labels",
    "Metadata",
    "Part",
    "Points",
    "Sample",
    "as_part",
    "is_labels",
    "unmarked_error",
    "unmarked_labels",
]

LabelInterpolation: TypeAlias = Literal["vote", "nearest"]
HistoryEntry: TypeAlias = dict[str, Any]
Unit: TypeAlias = Literal["voxel", "mm"]
P = TypeVar("P", bound="Part")

_WORD: Final = re.compile(r"[a-z]+")
_LABEL_NAMES: Final = frozenset(
    (
        "label",
        "labels",
        "labelmap",
        "mask",
        "masks",
        "seg",
        "segs",
        "segmentation",
        "segmentations",
        "annotation",
    )
)
_INTEGER: Final = re.compile("bool|u?int|[<>|=]?[iub][1248]")

_INTERP: Final = choice("interp", "Interpolation of labels", get_args(LabelInterpolation))
_UNIT: Final = choice("unit", "Unit of coordinates", get_args(Unit))


@dataclass(frozen=True, eq=False)
class Part:
    """Base class of the parts.

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
        """The 4×4 matrix from voxels (slice, row, column) to millimeters; None if it is unknown."""
        return self.data.affine if isinstance(self.data, Sequence) else None

    def with_data(self: P, data: Any) -> P:
        """Return a part of the same type and attributes with other data."""
        return replace(self, data=data)


@dataclass(frozen=True, eq=False)
class Image(Part):
    """Intensities: geometric operators interpolate them, intensity operators change them."""

    def __post_init__(self) -> None:
        if is_labels(self.data):
            object.__setattr__(self, "data", self.data.of_kind("image"))


@dataclass(frozen=True, eq=False)
class Labels(Part):
    """A class number for each voxel: transformed with the images, without new values.

    Attributes:
        data: integers, or floats with integer values.
        classes: the number of classes, counted from 0, or a tuple of class numbers; None if unknown.
        interp: ``"vote"``: the class with the largest trilinear weight among the eight neighbors; ``"nearest"``: the
            class of the nearest neighbor.

    Raises:
        ParameterError: classes are not integers.
    """

    classes: int | tuple[int, ...] | None = None
    interp: LabelInterpolation = "vote"

    def __post_init__(self) -> None:
        if self.interp not in _INTERP.choices:
            _INTERP.check(self.interp)
        if isinstance(self.data, (Sequence, Batch)):
            object.__setattr__(self, "data", self.data.of_kind("labels"))
        classes = self.classes
        if isinstance(classes, Iterable):
            object.__setattr__(self, "classes", classes := tuple(classes))
        several = classes if isinstance(classes, tuple) else () if classes is None else (classes,)
        if any(isinstance(value, bool) or int(value) != value for value in several) or classes in ((), 0):
            raise ParameterError(
                f"classes={classes!r} is not valid",
                source="Labels",
                allowed="how many there are, or their numbers",
            )

    def check(self, name: str) -> None:
        """Check that all labels are declared classes.

        Args:
            name: name of the part, for the message.

        Raises:
            ParameterError: a label is not a declared class.
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
                advice="Declare the class, or map the label to another class first",
            )


@dataclass(frozen=True, eq=False)
class Points(Part):
    """Coordinates of K points.

    For volumes ``(K, 3)``: slice, row and column, with the center of the first voxel at 0; or x, y and z in mm. For
    images ``(K, 2)``, or ``(F, K, 2)`` with points per frame: x and y in pixels, with the center of the first pixel at
    0.5. Several samples have one more axis at the front, or are a list with an array for each.

    Attributes:
        data: the coordinates.
        unit: ``"voxel"``, or ``"mm"`` for coordinates in the space of the affine.
    """

    unit: Unit = "voxel"

    def __post_init__(self) -> None:
        _UNIT.check(self.unit)
        _check_columns(self, 3, 2)


@dataclass(frozen=True, eq=False)
class Boxes(Part):
    """K axis-aligned boxes, with corners in the coordinates of :class:`Points`.

    For volumes ``(K, 6)``: first corner and last corner, each (slice, row, column). For images ``(K, 4)``, or
    ``(F, K, 4)`` with boxes for each frame: left, top, right and bottom. Several samples as for points.
    """

    def __post_init__(self) -> None:
        _check_columns(self, 6, 4)


@dataclass(frozen=True, eq=False)
class Flow(Part):
    """Forward flow between frames of the images, ``(F - stride, h, w, 2)``, on a grid of 1, 2, 4 or 8 pixels."""


@dataclass(frozen=True, eq=False)
class Metadata(Part):
    """Values that operators pass through unchanged, such as an age, a class or a row of measurements.

    Attributes:
        data: any value; for several samples a list, an array or a mapping of columns, with an entry for each sample.
    """


class Sample(dict[str, Any], Displayable):
    """An operator's result: parts by name, with the history of applied operators.

    Args:
        parts: the parts by name.
        history: entries that JSON can represent, or functions that return a list of entries, called on first access.
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
        """The applied operators with their parameters, one JSON entry for each; see :func:`seqpipe.ops.replay`."""
        if any(callable(entry) for entry in self._history):
            self._history = [
                entry
                for recorded in self._history
                for entry in (recorded() if callable(recorded) else [recorded])
            ]
        history: list[HistoryEntry] = self._history
        return history

    def with_parts(
        self, parts: Mapping[str, Any], *entries: HistoryEntry | Callable[[], list[HistoryEntry]]
    ) -> Sample:
        """Return a sample with other parts and more history entries; functions among the entries are not called."""
        return Sample(parts, (*self._history, *entries))

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (dict(self), self.history)


def is_labels(value: Any) -> bool:
    """Return whether a value is a sequence or batch that is marked as labels, or a list of such sequences."""
    if isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (Sequence, Batch)) and value.kind == "labels"


def as_part(value: Any) -> Part:
    """Return a sample's value as a part; a value without a part type is an image, or labels if it is marked so."""
    if isinstance(value, Part):
        return value
    return Labels(value) if isinstance(value, (Sequence, Batch)) and is_labels(value) else Image(value)


def unmarked_labels(sample: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parts of integers whose name is one of labels or masks, and whose type is not stated."""
    return tuple(
        name
        for name, value in sample.items()
        if isinstance(name, str)
        and not _LABEL_NAMES.isdisjoint(_WORD.findall(name.lower()))
        and not isinstance(value, Part)
        and not is_labels(value)
        and _has_integers(value)
    )


def unmarked_error(name: str, source: str) -> ParameterError:
    """Return the error for a part of :func:`unmarked_labels`.

    Args:
        name: the part.
        source: the operator, which would compute new values from class numbers.
    """
    return ParameterError(
        f"{name!r} holds integers, and is not marked as labels or as an image",
        source=source,
        allowed=f"seqpipe.parts.Labels(…), if {name!r} holds classes: no new ones are computed; Image(…), if it holds "
        "intensities; Metadata(…), if it is a class of the whole sample",
        advice=f"Mark it: {{…, {name!r}: Labels({name})}}",
    )


def _has_integers(value: Any) -> bool:
    if isinstance(value, (list, tuple)) and value:
        return _has_integers(value[0])
    if isinstance(value, (Sequence, Batch)):
        value = value.sequences[0].data if isinstance(value, Batch) else value.data
    dtype = getattr(value, "dtype", None)
    # of torch as well, whose dtypes are no NumPy dtypes
    return dtype is not None and _INTEGER.match(str(dtype).removeprefix("torch.")) is not None


def _check_columns(part: Part, volume_columns: int, image_columns: int) -> None:
    data = part.data
    if hasattr(data, "operands"):  # a node of a graph, whose value is checked at run time
        return
    if isinstance(data, (list, tuple)):
        if data and all(np.ndim(own) > 1 for own in data):  # an array for each sample
            for own in data:
                _check_columns(replace(part, data=own), volume_columns, image_columns)
            return
        object.__setattr__(part, "data", np.asarray(data, np.float64))
    array = part.array
    axes = {volume_columns: (2,), image_columns: (2, 3, 4)}.get(array.shape[-1] if array.ndim else 0, ())
    if array.ndim not in axes or array.dtype.kind not in "iuf":
        raise ParameterError(
            f"numbers of {array.dtype} of shape {tuple(array.shape)}",
            source=type(part).__name__,
            allowed=f"(K, {volume_columns}) for volumes, (K, {image_columns}) or (F, K, {image_columns}) for images",
        )
