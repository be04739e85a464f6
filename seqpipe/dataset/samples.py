"""Samples: a batch of samples, parts by name, and how samples become one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from ..array import Array, IntArray, namespace
from ..errors import SeqpipeError, UnreadableSourceError
from ..parts import Metadata, Part, Sample
from ..readers.params import TORCH_ADAPTER
from ..sequence import Batch, Sequence

__all__ = [
    "Collated",
    "Handed",
    "Samples",
    "collated",
    "column_part",
    "described",
    "first_error",
    "padded",
    "source_of",
    "spatial",
]


_KNOWN = frozenset(("label", "timestamps", "frames", "mask", "index", "video"))


class Samples(Sample):
    """Samples of a data set, parts by name: a batch, or one sample without the axis N.

    Attributes:
        index: indices of the samples in their data set.
        epoch: their epoch.
        sources: path or URL of each sample, as far as known.
        lost: number of samples of the batch that could not be read and are left out.
        state: state of the iteration after this batch, for :meth:`seqpipe.dataset.Dataset.epochs`; None for samples
            that were read by their indices.
    """

    index: Any = None
    epoch: int = 0
    sources: tuple[str, ...] = ()
    lost: int = 0
    state: dict[str, Any] | None = None

    def replaced(self, parts: Mapping[str, Any]) -> Samples:
        """Return the same samples with other parts."""
        result = Samples(parts, getattr(parts, "_history", self._history))
        result.__dict__.update({**self.__dict__, "_history": result.__dict__["_history"]})
        return result

    def torch(
        self, layout: str | None = None, device: Any = None, *, pin_memory: bool = False
    ) -> dict[str, Any]:
        """Return the parts as tensors; texts and arrays of different shapes become lists.

        Args:
            layout: axes of videos: "NFHWC", "NFCHW" or "NCFHW"; None keeps them.
            device: device of the tensors; None keeps the current one.
            pin_memory: whether to pin tensors that stay in main memory.

        Raises:
            BackendError: torch is not installed.
        """
        tensors = import_module(TORCH_ADAPTER)
        result: dict[str, Any] = tensors.tensors_of(self, layout, device, pinned=pin_memory)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: value for name, value in self.__dict__.items() if name != "_history"}
        return _rebuilt, (dict(self), self.history, fields)


def _rebuilt(parts: dict[str, Any], history: Any, fields: dict[str, Any]) -> Samples:
    result = Samples(parts, history)
    result.__dict__.update(fields)
    return result


class Handed:
    """What was read, until its one reader takes it out, so that nobody else keeps its pixels alive.

    Args:
        value: a :class:`seqpipe.dataset.source.ReadResult`; or the parts of a batch, and how many samples it lacks.
    """

    def __init__(self, value: Any) -> None:
        self._value = [value]

    def take(self) -> Any:
        """Return the value, once."""
        return self._value.pop()


@dataclass(frozen=True, eq=False)
class Collated:
    """Parts of a batch before operators.

    Attributes:
        parts: values by name.
        index: indices of the samples.
        sources: path or URL of each.
    """

    parts: dict[str, Any]
    index: IntArray
    sources: tuple[str, ...]


def collated(samples: Seq[tuple[int, dict[str, Any]]], stacked: Mapping[str, Array]) -> Collated:
    """Return samples as one batch."""
    index = np.array([number for number, _ in samples], dtype=np.int64)
    rows = [parts for _, parts in samples]
    parts = {name: _column([row[name] for row in rows], index, stacked.get(name)) for name in rows[0]}
    return Collated(parts, index, tuple(source_of(row) for row in rows))


def source_of(parts: Mapping[str, Any]) -> str:
    """Return the path or URL of a sample, as far as its parts know it."""
    for value in parts.values():
        data = value.data if isinstance(value, Part) else value
        if isinstance(data, Sequence) and data.source:
            return data.source
    return ""


def _column(values: list[Any], index: IntArray, stacked: Array | None) -> Any:
    """Return the values of one part of all samples."""
    first = values[0]
    if isinstance(first, Part) and not isinstance(first, Metadata):
        data = [value.data for value in values]
        return first.with_data(_column(data, index, stacked) if isinstance(data[0], Sequence) else data)
    if isinstance(first, Metadata):
        values = [value.data for value in values]
    if isinstance(first, Sequence):
        return _batch(values, index, stacked)
    if all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in values):
        return np.array(values)
    alike = all(isinstance(value, np.ndarray) for value in values) and len({v.shape for v in values}) == 1
    return np.stack(values) if alike else list(values)


def _batch(sequences: Iterable[Sequence], index: IntArray, stacked: Array | None) -> Batch:
    sequences = tuple(sequences)
    labels = [sequence.label for sequence in sequences]
    known: dict[str, Any] = {"labels": np.array(labels), "indices": index}
    if sequences[0].frames is None and all(isinstance(label, int) and label == -1 for label in labels):
        known.pop("labels")  # volumes and single images have none
    if stacked is None:
        return Batch.of(_of_one_dtype(sequences), **known)
    return Batch(sequences, stacked=stacked, **known)


def _of_one_dtype(sequences: tuple[Sequence, ...]) -> tuple[Sequence, ...]:
    """Return volumes in the smallest dtype of integers or floats that holds all their values."""
    dtypes = list(dict.fromkeys(sequence.dtype for sequence in sequences))
    if len(dtypes) == 1 or "D" not in sequences[0].layout:
        return sequences
    common = np.result_type(*dtypes)
    # int32 and float32 would become float64, but scaled values are float32 in all formats
    is_wide = any(dtype.kind == "c" or dtype == np.float64 for dtype in dtypes)
    if all(dtype.kind in "biu" for dtype in dtypes):
        if common.kind not in "biu":  # uint64 and int64 would become floats
            raise UnreadableSourceError(
                f"volumes of one batch are of {' and '.join(map(str, dtypes))}, which no type holds",
                source=sequences[0].source,
                advice="Choose a dtype, such as Prepare(dtype='float32'), or convert the files",
            )
    elif not is_wide and common.itemsize > 4:
        common = np.dtype(np.float32)
    return tuple(
        sequence.with_pixels(sequence.data.astype(common, copy=False), sequence.layout)
        for sequence in sequences
    )


def padded(batch: Batch, fill: float) -> Batch:
    """Return a batch padded at the end, bottom and right to one size, with a mask that is True for its pixels."""
    sequences, stacked = batch.sequences, batch.stacked
    shapes = [
        tuple(n for axis, n in zip(s.layout, s.shape, strict=True) if axis in "FDHW") for s in sequences
    ]
    mask = np.zeros((len(sequences), *map(max, zip(*shapes, strict=True))), dtype=np.bool_)
    for real, sequence, shape in zip(mask, sequences, shapes, strict=True):
        first = slice(shape[0]) if sequence.frames is None else np.flatnonzero(sequence.frames >= 0)
        real[(first, *(slice(length) for length in shape[1:]))] = True
    if stacked is None:
        largest = tuple(map(max, zip(*(s.shape for s in sequences), strict=True)))
        array = namespace(sequences[0].data)
        stacked = array.full((len(sequences), *largest), fill, dtype=sequences[0].dtype)
        for target, sequence in zip(stacked, sequences, strict=True):
            target[tuple(slice(length) for length in sequence.shape)] = sequence.data
        sequences = tuple(_lengthened(s, data) for s, data in zip(sequences, stacked, strict=True))
    return replace(batch, sequences=sequences, stacked=stacked, mask=mask)


def _lengthened(sequence: Sequence, data: Array) -> Sequence:
    """Return a sequence with pixels that have more frames, which are padding."""
    if sequence.frames is None or sequence.timestamps is None:
        return replace(sequence, data=data)
    more = 0, data.shape[sequence.layout.index("F")] - len(sequence.frames)
    frames = np.pad(sequence.frames, more, constant_values=-1)
    times = np.pad(sequence.timestamps, more, constant_values=np.nan)
    return replace(sequence, data=data, frames=frames, timestamps=times)


def described(parts: Mapping[str, Any], metadata: Mapping[str, Any], index: Any) -> dict[str, Any]:
    """Return parts with what their batch knows: label, timestamps, frames, further columns, and the index."""
    result = dict(parts)
    shown = [value for value in parts.values() if isinstance(value, (Batch, Sequence))]
    lead = next((value for value in shown if value.kind == "image"), shown[0] if shown else None)
    known: dict[str, Any] = {}
    taken = {name for name, value in parts.items() if isinstance(value, (Batch, Sequence, Part))}
    if isinstance(lead, Batch):
        labels = lead.labels
        known = {} if labels is None else {"label": np.asarray(labels)}
        if lead.sequences[0].frames is not None:
            known |= {"timestamps": lead.timestamps, "frames": lead.frames}
        known |= {column_part(name, taken): value for name, value in lead.columns.items()}
        if lead.mask is not None:
            known["mask"] = lead.mask
    elif isinstance(lead, Sequence):
        is_clip = lead.frames is not None
        known = {"label": lead.label} if is_clip or lead.label != -1 else {}
        known |= {"timestamps": lead.timestamps, "frames": lead.frames} if is_clip else {}
        known |= {column_part(name, taken): value for name, value in lead.fields.items()}
    for name, value in {**known, **metadata, "index": metadata.get("index", index)}.items():
        result[f"column_{name}" if name in taken else name] = value  # a class beside a part of labels
    return result


def column_part(name: str, taken: Collection[str] = ()) -> str:
    """Return the name of the part that holds a column of a manifest: with a prefix where another part has its name."""
    return f"column_{name}" if name in _KNOWN or name in taken else name


def spatial(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that operators act on."""
    return {
        name: value
        for name, value in parts.items()
        if isinstance(value, (Batch, Sequence, Part)) and not isinstance(value, Metadata)
    }


def first_error(outcomes: Iterable[Any]) -> SeqpipeError | None:
    """Return the first error to raise, or None."""
    return next((outcome for outcome in outcomes if isinstance(outcome, SeqpipeError)), None)
