"""Sequence and Batch: immutable pixel arrays with their timestamps or their position in space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from .array import (
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    as_native,
    check_layout,
    device_of,
    frame_axis,
    namespace,
    scaled_values,
    to_cupy,
    to_numpy,
    to_torch,
)
from .core.param import Param, check_fields, choice
from .core.turns import InTurn
from .errors import FrameRangeError, ParameterError

__all__ = ["Batch", "Displayable", "Sequence", "orientation_of", "spacing_of"]

SequenceKind: TypeAlias = Literal["image", "labels"]
ViewerName: TypeAlias = Literal["page", "niivue"]

_VIEW: Final = "seqpipe.view"
_WRITER: Final = "seqpipe.video.encode.write"

_DIRECTIONS = (("L", "R"), ("P", "A"), ("I", "S"))

_LABEL: Final = Param(name="label", doc="Class number, -1 for none", lo=-1)
_VIEWER: Final = choice("viewer", "What renders a value", get_args(ViewerName))
_KIND: Final = choice("kind", "What the values of a sequence are", get_args(SequenceKind))
_INDEX: Final = Param(name="index", doc="Index of a sample in its dataset, -1 for none", lo=-1)


class Displayable:
    """A value that :func:`seqpipe.view.show` renders."""

    def show(self, viewer: ViewerName = "page", **options: Any) -> Any:
        """Render the value: three planes of a volume, frames of a clip; displayed inline in notebooks.

        Args:
            viewer: ``"page"``: a page that needs no network and no other library; ``"niivue"``: for volumes, a widget
                of ipyniivue.
            **options: those of :func:`seqpipe.view.show` or :func:`seqpipe.view.niivue`.

        Raises:
            BackendError: ipyniivue is not installed.
            ParameterError: the viewer is unknown, or an option is out of bounds.
        """
        # imported by name, since this module must not depend on seqpipe.view, which imports it
        name = "show" if _VIEWER.check(viewer) == "page" else viewer
        return getattr(import_module(_VIEW), name)(self, **options)


class _Exports(Displayable):
    """Conversions of a value's array: NumPy, torch, CuPy, DLPack."""

    data: Array

    @property
    def device(self) -> str:
        """``"cpu"`` or ``"cuda:N"``."""
        return device_of(self.data)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the pixels as a NumPy array; a copy only from a GPU."""
        return to_numpy(self.data)

    def torch(self) -> Any:
        """Return the pixels as a torch tensor on the same device; a copy only of read-only arrays.

        Raises:
            BackendError: torch is not installed.
        """
        return to_torch(self.data)

    def cupy(self) -> Any:
        """Return the pixels as a CuPy array; a copy only from the CPU.

        Raises:
            BackendError: CuPy is not installed.
        """
        return to_cupy(self.data)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ParameterError(
                    f"dtype={dtype!r} needs a copy of {array.dtype} data", allowed="copy=None or True"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self.data.__dlpack_device__()
        return int(kind), int(number)


class _CopiedField:
    """A dataclass field that returns a copy of its array on each access, writable and thus shareable with torch."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, value: Any, owner: type | None = None) -> IntArray | None:
        # on the class, dataclasses read the field's default here: None
        array: IntArray | None = None if value is None else value.__dict__[self._name]
        return None if array is None else array.copy()

    def __set__(self, value: Any, array: Any) -> None:
        value.__dict__[self._name] = array


@dataclass(frozen=True, eq=False, repr=False)
class Sequence(_Exports):
    """One sample: frames of a video with timestamps, or slices of a volume with an affine.

    ``clip[8]`` is a frame or slice, ``clip[8:16]`` are several; iteration gives one after the other.

    Attributes:
        data: the pixels, an array with the axes of ``layout``; NumPy or CuPy. A torch tensor becomes a view.
        layout: one letter per axis; ``FHWC`` for a video, ``DHWC`` for a volume, ``HWC`` for a single frame.
        source: path or URL of the source.
        frames: source frame numbers, int64 of length F; -1 for padding.
        timestamps: presentation times in seconds on the source's own clock, float64 of length F; NaN for
            padding.
        label: class number, -1 without one; for datasets with another ``label_type`` a float, a float32 vector, or a
            string.
        fields: further values of the sample in its dataset by name, such as columns of the manifest.
        index: index of the sample in its dataset; -1 outside of one.
        affine: for volumes, the 4×4 matrix from the indices of the array's own axes (slice, row, column) to
            millimeters, RAS+: ``affine @ (d, h, w, 1)`` is the center of that voxel.
        scale: for stored values of a volume (``stored=True``), slope and intercept: the intensities are
            ``data * slope + intercept``; see :meth:`scaled`. None if ``data`` holds the intensities.
        kind: ``"image"``, or ``"labels"`` for class numbers: operators treat the sequence as
            :class:`seqpipe.parts.Labels`. Datasets mark the parts that hold labels.
        header: for volumes, what else the file's header states that :func:`seqpipe.volume.save` writes again: codes of
            the forms, units, intent and description of a NIfTI file, by name.

    Raises:
        ParameterError: layout, frames, timestamps, affine or scale do not fit the array, or the kind is unknown.
    """

    data: Array
    layout: str = "FHWC"
    source: str = ""
    frames: IntArray | None = None
    timestamps: FloatArray | None = None
    affine: FloatArray | None = None
    label: Any = -1
    index: int = -1
    scale: tuple[float, float] | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    kind: SequenceKind = "image"
    header: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", as_native(self.data))
        if self.index != -1:
            check_fields(self, _INDEX)
        if not isinstance(self.label, (float, str, np.ndarray)) and self.label != -1:
            check_fields(self, _LABEL)
        check_layout(self.layout, self.data.ndim)
        if self.layout[0] == "N":
            raise ParameterError(f"layout={self.layout!r} is that of a batch", advice="Use Batch")
        for name, kind in (("frames", np.int64), ("timestamps", np.float64)):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, _frozen(values, kind, (len(self),), name))
        if self.affine is not None:
            object.__setattr__(self, "affine", _frozen(self.affine, np.float64, (4, 4), "affine"))
        if self.scale is not None:
            slope, intercept = _frozen(self.scale, np.float64, (2,), "scale")
            object.__setattr__(self, "scale", (float(slope), float(intercept)))
        if self.kind not in _KIND.choices:  # a declared parameter takes ten times as long to check
            _KIND.check(self.kind)

    @property
    def spacing_mm(self) -> tuple[float, float, float] | None:
        """Distance between neighboring slices, rows and columns in mm; None without an affine matrix."""
        return None if self.affine is None else spacing_of(self.affine)

    @property
    def orientation(self) -> str | None:
        """Directions in which column, row and slice numbers increase, such as ``"RAS"``; None without an affine matrix.

        Columns come first, as in NIfTI tools and ITK: ``"LPS"`` means columns to the left, rows to the back, slices
        to the head.
        """
        return None if self.affine is None else orientation_of(self.affine)

    def scaled(self) -> Sequence:
        """Return the sequence with slope and intercept applied; the sequence itself if it has no scale.

        The result has the smallest signed integer dtype of 16 bits or more that holds every scaled value of the stored
        dtype, if slope and intercept are integers, as for Hounsfield units. Otherwise values are computed in float64
        and returned as float32.
        """
        if self.scale is None:
            return self
        return replace(self, data=scaled_values(self.data, *self.scale), scale=None)

    def with_pixels(self, data: Array, layout: str) -> Sequence:
        """Return a copy with other pixels and the same metadata, without validating again.

        Args:
            data: as many frames as before, NumPy or CuPy, with the axes of the layout.
            layout: layout of ``data``.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, data=data, layout=layout)
        return copy

    def of_kind(self, kind: SequenceKind) -> Sequence:
        """Return the sequence as an image or as labels, with the same pixels; see :attr:`kind`."""
        return self if kind == self.kind else replace(self, kind=kind)

    def on_grid(self, data: Array, affine: FloatArray | None) -> Sequence:
        """Return a copy with voxels on another grid.

        Volumes of a series keep their numbers and timestamps; slices, which are others than before, lose them.

        Args:
            data: the voxels, in the same layout.
            affine: their affine.
        """
        keeps = self.layout.startswith("F")
        frames, timestamps = (self.frames, self.timestamps) if keeps else (None, None)
        return replace(self, data=data, affine=affine, frames=frames, timestamps=timestamps)

    def as_sample(self, label: Any, index: int, fields: Mapping[str, Any] | None = None) -> Sequence:
        """Return a copy with a dataset's metadata and the same pixels, without validating again."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, label=label, index=index, fields=fields or {})
        return copy

    def __len__(self) -> int:
        """Number of frames or slices."""
        axis = frame_axis(self.layout)
        return 1 if axis is None else int(self.data.shape[axis])

    def __getitem__(self, frames: int | slice) -> Sequence:
        """Return one frame or slice by its position, without that axis, or several by a range; a view of the pixels.

        Raises:
            FrameRangeError: the sequence has no such frame.
            ParameterError: the sequence is a single frame, or the index is neither a whole number nor a range.
        """
        axis = frame_axis(self.layout)
        if axis is None:
            raise ParameterError(
                f"a single frame {self.layout} has no frames to select", advice="Index its data"
            )
        positions = range(len(self))
        try:
            kept = frames if isinstance(frames, slice) else slice(positions[frames], positions[frames] + 1)
            steps = positions[kept]
        except IndexError:
            raise FrameRangeError(
                f"frame {frames} is not in the sequence",
                source=self.source or None,
                allowed=f"0 to {len(self) - 1}",
            ) from None
        except (TypeError, ValueError):
            raise ParameterError(
                f"{frames!r} selects no frames", allowed="a whole number, or a range such as [8:16]"
            ) from None
        layout = self.layout if kept is frames else self.layout[:axis] + self.layout[axis + 1 :]
        affine = self.affine
        if affine is not None and self.layout[axis] == "D":
            affine = np.column_stack(
                [affine[:, 0] * steps.step, affine[:, 1:3], affine @ (steps.start, 0, 0, 1)]
            )
        return replace(
            self,
            data=self.data[(slice(None),) * axis + (frames,)],
            layout=layout,
            frames=None if self.frames is None else self.frames[kept],
            timestamps=None if self.timestamps is None else self.timestamps[kept],
            affine=affine,
        )

    def __iter__(self) -> Iterator[Sequence]:
        """Iterate over the frames or slices."""
        return InTurn(self[position] for position in range(len(self)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return tuple(self.data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The array's dtype."""
        dtype: np.dtype[Any] = np.dtype(self.data.dtype)
        return dtype

    def save(self, path: Any, **options: Any) -> int:
        """Write the frames as a video, such as ``clip.mp4`` or ``clip.gif``; see :func:`seqpipe.write_video`."""
        return int(import_module(_WRITER).write_video(path, self, **options))

    def describe(self) -> dict[str, str]:
        """Return the metadata as readable text by name; pixels are not read."""
        words = {"data": f"{tuple(self.shape)} {self.layout} {self.dtype.name} on {self.device}"}
        if self.frames is not None:
            words["frames"] = _span(self.frames[self.frames >= 0], "")
        if self.timestamps is not None:
            words["times"] = _span(self.timestamps[~np.isnan(self.timestamps)], " s")
        if self.affine is not None:
            words["spacing"] = (
                f"{' × '.join(f'{s:.4g}' for s in spacing_of(self.affine))} mm {self.orientation}"
            )
        if self.kind != "image":
            words["kind"] = self.kind
        if self.scale is not None:
            words["scale"] = f"slope {self.scale[0]:.6g}, intercept {self.scale[1]:.6g}"
        if not (isinstance(self.label, int) and self.label < 0):
            words["label"] = str(self.label)
        if self.source:
            words["source"] = self.source
        return {name: text for name, text in words.items() if text}

    def __repr__(self) -> str:
        forms = {"data": "{}", "times": "{}", "scale": "{}", "source": "from {!r}"}
        parts = [forms.get(name, f"{name} {{}}").format(text) for name, text in self.describe().items()]
        return f"Sequence({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """Return a table of the metadata for notebooks; :meth:`show` renders the pixels."""
        from html import escape

        rows = (f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in self.describe().items())
        return f"<table>{''.join(rows)}</table>"


@dataclass(frozen=True, eq=False, repr=False)
class Batch(_Exports):
    """Several samples, stacked to ``NFHWC`` if their shapes agree.

    Attributes:
        sequences: the samples in order; views of ``stacked``, if that is not None.
        stacked: the array ``(N, …)``, or None if shapes differ.
        labels: int64 of length N, a copy on each access; -1 for a sample without a label. By default those of the
            sequences, None if no sequence has one. For a mixed batch (Mixup, CutMix), or a dataset with another
            ``label_type``, float32 ``(N,)`` or ``(N, classes)``, or strings.
        indices: the samples' indices in their dataset, int64 of length N, with the same defaults.
        mask: for a batch that was padded to one shape, bool ``(N, F, H, W)``, True for real pixels; else None.

    Raises:
        ParameterError: there is no sequence, or a field does not have one entry for each sequence.
    """

    sequences: tuple[Sequence, ...]
    stacked: Array | None = None
    labels: _CopiedField = _CopiedField()
    indices: _CopiedField = _CopiedField()
    mask: BoolArray | None = None

    def __post_init__(self) -> None:
        if not self.sequences:
            raise ParameterError("a batch of no sequences", allowed="one sequence or more")
        for name, attribute in (("labels", "label"), ("indices", "index")):
            values = self.__dict__[name]
            defaults = [getattr(s, attribute) for s in self.sequences] if values is None else []
            if any(not isinstance(default, int) or default != -1 for default in defaults):
                values = defaults
            if values is not None:
                object.__setattr__(self, name, _frozen(values, *self._dtype_and_shape(name, values), name))
        if self.stacked is not None and self.stacked.shape[0] != len(self):
            raise ParameterError(f"stacked holds {self.stacked.shape[0]} samples, but there are {len(self)}")

    def _dtype_and_shape(self, name: str, values: Any) -> tuple[Any, tuple[int, ...]]:
        """Return the dtype and shape that a field must have for its values."""
        array = np.asarray(values)
        if name == "labels" and array.dtype.kind == "f" and array.ndim in (1, 2):
            return np.float32, (len(self), *array.shape[1:])
        if name == "labels" and array.dtype.kind == "U":
            return array.dtype, (len(self),)
        return np.int64, (len(self),)

    def __getstate__(self) -> dict[str, Any]:
        """Return all fields for pickling, with the pixels once: sequences that are views of ``stacked`` lose theirs."""
        state = self.__dict__.copy()
        if self.stacked is not None:
            empty = self.stacked[:0]
            state["sequences"] = tuple(s.with_pixels(empty, s.layout) for s in self.sequences)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.stacked is not None:
            pairs = zip(self.sequences, self.stacked, strict=True)
            self.__dict__["sequences"] = tuple(s.with_pixels(data, s.layout) for s, data in pairs)

    @classmethod
    def of(cls, sequences: Seq[Sequence], **fields: Any) -> Batch:
        """Return a batch of sequences, stacked by one copy if their shapes, dtypes and layouts agree.

        Args:
            sequences: one or more sequences.
            **fields: labels, indices and mask.
        """
        kinds = {(s.shape, s.dtype, s.layout, s.device) for s in sequences}
        if len(kinds) != 1:
            return cls(tuple(sequences), **fields)
        stacked = namespace(sequences[0].data).stack([s.data for s in sequences])
        views = tuple(replace(s, data=data) for s, data in zip(sequences, stacked, strict=True))
        return cls(views, stacked=stacked, **fields)

    @property
    def data(self) -> Array:
        """The stacked array ``(N, F, H, W, C)``.

        Raises:
            ParameterError: the samples differ in shape or dtype.
        """
        if self.stacked is None:
            if len({s.shape for s in self.sequences}) == 1:
                dtypes = ", ".join(dict.fromkeys(str(s.dtype) for s in self.sequences))
                raise ParameterError(
                    f"this batch holds sequences of different types or devices ({dtypes})",
                    advice="Iterate over the batch, or convert the sequences to one type",
                )
            shapes = ", ".join(str(s.shape) for s in self.sequences[:4]) + (", …" if len(self) > 4 else "")
            raise ParameterError(
                f"this batch holds sequences of different shapes ({shapes})",
                advice="Iterate over the batch, set the reader's size, or use batches(..., ragged='pad')",
            )
        return self.stacked

    @property
    def kind(self) -> SequenceKind:
        """That of the sequences: ``"image"``, or ``"labels"`` for class numbers."""
        return self.sequences[0].kind

    def of_kind(self, kind: SequenceKind) -> Batch:
        """Return the batch with its sequences as images or as labels; see :attr:`Sequence.kind`."""
        same = kind == self.kind
        if same:
            return self
        return replace(self, sequences=tuple(sequence.of_kind(kind) for sequence in self.sequences))

    @property
    def layout(self) -> str:
        """``NFHWC`` for videos."""
        return "N" + self.sequences[0].layout

    @property
    def shape(self) -> tuple[int, ...]:
        """The stacked array's shape."""
        return tuple(self.data.shape)

    @property
    def frames(self) -> IntArray:
        """Source frame numbers, int64 ``(N, F)``; -1 for padding and past the end of shorter samples."""
        return _table([s.frames for s in self.sequences], -1, np.int64)

    @property
    def timestamps(self) -> FloatArray:
        """Presentation times in seconds, float64 ``(N, F)``; NaN for padding and past the end of shorter samples."""
        return _table([s.timestamps for s in self.sequences], np.nan, np.float64)

    @property
    def sources(self) -> tuple[str, ...]:
        """Path or URL of each sample's source."""
        return tuple(s.source for s in self.sequences)

    @property
    def columns(self) -> dict[str, Any]:
        """The sequences' ``fields`` by name: an array with an entry per sample, or a tuple if values are not numbers.

        Arrays are copies. If some samples lack a field, its column is a tuple with None for these.
        """
        names = dict.fromkeys(name for sequence in self.sequences for name in sequence.fields)
        return {name: _column([sequence.fields.get(name) for sequence in self.sequences]) for name in names}

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self.sequences)

    def __getitem__(self, sample: int) -> Sequence:
        return self.sequences[sample]

    def __repr__(self) -> str:
        if self.stacked is None:
            return f"Batch({len(self)} sequences of different shapes, {self.layout})"
        return f"Batch({self.shape} {self.layout} {np.dtype(self.stacked.dtype).name} on {self.device})"


def spacing_of(affine: FloatArray) -> tuple[float, float, float]:
    """Return the distance in mm between neighbors along each of the array's three axes, from a 4×4 affine."""
    depth, height, width = np.linalg.norm(np.asarray(affine, dtype=np.float64)[:3, :3], axis=0).tolist()
    return depth, height, width


def orientation_of(affine: FloatArray) -> str:
    """Return the directions of columns, rows and slices, such as ``"RAS"``, from a 4×4 affine over (d, h, w).

    An oblique axis gets its closest direction; no two axes share one. As in nibabel, directions are assigned by the
    closest rotation to the matrix (polar decomposition), strongest axis first.
    """
    matrix = np.asarray(affine, dtype=np.float64)[:3, 2::-1]
    spacing = np.linalg.norm(matrix, axis=0)
    left, strengths, right = np.linalg.svd(matrix / np.where(spacing == 0, 1.0, spacing))
    kept = strengths > strengths.max() * 3 * np.finfo(np.float64).eps
    rotation = left[:, kept] @ right[kept]
    letters = ["?"] * 3
    for axis in np.argsort((-(rotation**2)).min(axis=0)):
        column = rotation[:, axis]
        if not np.allclose(column, 0):
            direction = int(np.argmax(np.abs(column)))
            letters[axis] = _DIRECTIONS[direction][int(column[direction] >= 0)]
            rotation[direction] = 0
    return "".join(letters)


def _frozen(values: Any, kind: Any, shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    array = np.array(values)
    if kind is np.int64 and array.size and array.dtype.kind not in "iu":
        raise ParameterError(f"{name} has the dtype {array.dtype}", allowed="whole numbers")
    array = array.astype(kind)
    if array.shape != shape:
        raise ParameterError(f"{name} has the shape {array.shape}, but the pixels need {shape}")
    array.flags.writeable = False
    return array


def _table(rows: Seq[np.ndarray[Any, Any] | None], fill: float, kind: Any) -> np.ndarray[Any, Any]:
    present = [np.empty(0, kind) if row is None else row for row in rows]
    table = np.full((len(present), max((len(row) for row in present), default=0)), fill, dtype=kind)
    for target, row in zip(table, present, strict=True):
        target[: len(row)] = row
    return table


def _column(values: list[Any]) -> Any:
    """Return an array of numbers, or of arrays of one shape; a tuple of other values."""
    if not all(isinstance(value, (bool, int, float, np.ndarray, np.number, np.bool_)) for value in values):
        return tuple(values)
    same_shape = len({np.shape(value) for value in values}) == 1
    return np.array(values) if same_shape else tuple(values)


def _span(values: np.ndarray[Any, Any], unit: str) -> str:
    """Return the first and the last value as text, or the only one; "" for no values."""
    if not values.size:
        return ""
    first, last = [f"{v:.3f}" if values.dtype.kind == "f" else f"{v}" for v in (values[0], values[-1])]
    return f"{first}{unit}" if values.size == 1 else f"{first}…{last}{unit}"
