"""ItemSource: lists, mappings of lists, functions of an index, and map-style data sets as a source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from ..array import DEFAULT_LAYOUTS, LAYOUTS, IntArray, as_native
from ..dataset.calls import PROCESSES, CallPool
from ..dataset.dataset import Dataset
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome
from ..errors import ParameterError, SeqpipeError, described_type
from ..ops import Type
from ..parts import Image, Labels, Part
from ..readers.report import Report, ReportBook
from ..sampling.params import SEED, SHUFFLE
from ..sequence import Sequence

__all__ = ["ItemSource", "Kinds", "as_parts", "declared", "items"]

Kinds: TypeAlias = "Mapping[str, type[Part] | str]"
"""For parts by name: a class of :mod:`seqpipe.parts`, or the layout of an image, such as "DHWC"."""

_NAMES: Final = ("image", "label")  # of the values of an item that is a tuple


@dataclass(frozen=True, eq=False)
class ItemSource:
    """Samples that the user's own code or data gives by their index.

    Attributes:
        get: returns an item.
        size: number of items.
        kinds: kind or layout of parts by name.
        shuffle: whether each epoch has a new random order.
        seed: seed of the order.
        pool: threads or processes that call ``get``.
        title: description of the data for ``repr`` and fingerprint.
    """

    get: Callable[[int], Any]
    size: int
    kinds: Kinds
    shuffle: bool
    seed: int
    pool: CallPool
    title: str
    name: str = "items"
    unit: int = 1
    mix: int = 0
    device: str = "cpu"
    fill: float = 0.0
    _book: ReportBook = field(default_factory=lambda: ReportBook(unit="items"))

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`; others are known when the first item is read."""
        return declared(self.kinds)

    @property
    def facts(self) -> Mapping[str, object]:
        """The number of items: what they are is not known."""
        return {"items": [self.title, self.size]}

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        del heads
        return ReadPlan(epoch, indices)

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        del stack
        indices = plan.indices.tolist()
        pool = self.pool.get()
        return indices, [self.pool.submit(self.get, index) for index in indices], pool

    def finish(self, work: Any) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        indices, futures, pool = work
        if pool is not self.pool.get():  # closed, or a forked process
            indices, futures, _ = self.begin(ReadPlan(0, np.array(indices, np.int64)))
        return ReadResult(
            tuple(self._outcome(index, future) for index, future in zip(indices, futures, strict=True))
        )

    def _outcome(self, index: int, future: Future[Any]) -> SampleOutcome:
        try:
            return index, as_parts(self.pool.result(future), self.kinds, index)
        except SeqpipeError as error:
            error.source = error.source or f"item {index}"
            return error

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        for future in work[1]:
            future.cancel()

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """Nothing follows from the index alone."""
        del indices
        return {}

    def report(self) -> Report:
        """Return the number of items."""
        self._book.finished(listed=self.size, used=self.size, samples=self.size)
        return self._book.so_far()

    def stats(self) -> dict[str, Any]:
        """Nothing is counted."""
        return {}

    def close(self) -> None:
        """Stop the threads or processes."""
        self.pool.close()

    def __repr__(self) -> str:
        shuffled = f", shuffle seed {self.seed}" if self.shuffle else ""
        return f"items({self.title}, {self.size} samples{shuffled})"


def items(
    data: Any,
    *,
    size: int | None = None,
    parts: Kinds | None = None,
    shuffle: bool = False,
    seed: int = 0,
    workers: int = 0,
) -> Dataset:
    """Return a data set of the user's own samples.

    seqpipe.items({"image": arrays, "mask": masks}, parts={"mask": Labels}, shuffle=True).map(augment).batch(8)
    seqpipe.items(load_case, size=500, workers=4)               # load_case(index) → array, tuple or dictionary
    seqpipe.items(torch_dataset), seqpipe.items(hugging_face_dataset)

    An item is an array, an image of Pillow, a :class:`seqpipe.Sequence`, a part, a number or text; a tuple of these
    (named "image", "label", "part2", …); or a dictionary of them. Arrays of two to four axes are images (HW, HWC,
    FHWC); ``parts`` tells others.

    Args:
        data: a list, a dictionary of lists of one length, a function of an index, or an object with ``len`` and
            ``[index]``, such as map-style data sets of torch and Hugging Face.
        size: for a function: number of items.
        parts: for parts by name: a class of :mod:`seqpipe.parts`, such as Labels, or the layout of images, such as
            "DHWC" for volumes.
        shuffle: whether each epoch has a new random order.
        seed: seed of the order and of operators without one.
        workers: processes that get items, for Python code that needs several cores; ``data`` is pickled for them. 0
            gets them on threads.

    Raises:
        ParameterError: ``data`` is none of these, or an argument is not valid.
    """
    kinds = dict(parts or {})
    for name, kind in kinds.items():
        known = (
            kind in LAYOUTS if isinstance(kind, str) else isinstance(kind, type) and issubclass(kind, Part)
        )
        if not known:
            raise ParameterError(
                f"parts[{name!r}]={kind!r} is not valid",
                source="items",
                allowed="Labels, Points, Boxes, Flow, Metadata or Image of seqpipe.parts, or a layout such as 'DHWC'",
            )
    get, count, title = _access(data, size)
    pool = CallPool(PROCESSES.check(workers), "items")
    return Dataset(ItemSource(get, count, kinds, SHUFFLE.check(shuffle), SEED.check(seed), pool, title))


def _access(data: Any, size: int | None) -> tuple[Callable[[int], Any], int, str]:
    """Return a function that gets an item, the number of items, and a description."""
    if isinstance(data, Mapping):
        lengths = {name: len(column) for name, column in data.items()}
        if len(set(lengths.values())) != 1:
            told = ", ".join(f"{name} {length}" for name, length in lengths.items()) or "no lists"
            raise ParameterError(
                f"the lists have different lengths: {told}", source="items", allowed="lists of one length"
            )
        return partial(_row, dict(data)), next(iter(lengths.values())), f"{', '.join(map(str, data))}"
    title = type(data).__name__
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        if size is not None and size != len(data):
            raise ParameterError(f"size={size}, and data has {len(data)} items", source="items")
        return data.__getitem__, len(data), title
    if callable(data):
        if size is None or isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ParameterError(
                f"size={size!r} is not valid for a function", source="items", allowed="the number of items"
            )
        return data, size, str(getattr(data, "__qualname__", title))
    if hasattr(data, "__iter__"):
        raise ParameterError(
            f"data is {described_type(data)}, which has no len() and [index]",
            source="items",
            advice="Use seqpipe.feed(…) for what is read from front to back",
        )
    raise ParameterError(
        f"data is {described_type(data)}",
        source="items",
        allowed="a list, a dictionary of lists, a function of an index, or a map-style data set",
    )


def _row(data: Mapping[str, Any], index: int) -> dict[str, Any]:
    return {name: column[index] for name, column in data.items()}


def declared(kinds: Kinds) -> dict[str, Type]:
    """Return the types of the parts that the user declares, and of the index."""
    known = {}
    for name, kind in kinds.items():
        layout = kind if isinstance(kind, str) else None
        known[name] = Type("labels" if kind is Labels else "images" if layout else "unknown", layout)
    return {**known, "index": Type("numbers", "", "int64", "cpu")}


def as_parts(item: Any, kinds: Kinds, index: int) -> dict[str, Any]:
    """Return an item as parts by name."""
    if isinstance(item, Mapping):
        values = {str(name): value for name, value in item.items()}
    elif isinstance(item, tuple):
        names = [*kinds, *(name for name in _NAMES if name not in kinds)] if kinds else list(_NAMES)
        names += [f"part{number}" for number in range(len(names), len(item))]
        values = dict(zip(names, item, strict=False))
    else:
        values = {"image": item}
    label = values.get("label")
    known = label if isinstance(label, (int, np.integer)) and not isinstance(label, bool) else -1
    return {name: _part(value, kinds.get(name), int(known), index) for name, value in values.items()}


def _part(value: Any, kind: type[Part] | str | None, label: int, index: int) -> Any:
    if isinstance(value, (Image, Labels)) and not isinstance(value.data, Sequence):
        value, kind = value.data, type(value)
    if isinstance(value, Part):
        return value
    if isinstance(value, Sequence):
        return _kept(value.as_sample(label if value.label == -1 else value.label, index, value.fields), kind)
    if hasattr(value, "convert") and hasattr(value, "getbands"):  # an image of Pillow
        value = np.asarray(value)
    if isinstance(value, np.generic):  # one value of an array or a table
        value = value.item() if value.dtype.kind in "USO" else np.asarray(value)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        value = as_native(value)
    is_image = getattr(value, "ndim", 0) in DEFAULT_LAYOUTS and np.dtype(value.dtype).kind in "biuf"
    if isinstance(kind, type) and not issubclass(kind, (Image, Labels)):
        return kind(value)
    if kind is None and not is_image:
        return value
    layout = kind if isinstance(kind, str) else DEFAULT_LAYOUTS.get(getattr(value, "ndim", 0), "")
    if not hasattr(value, "ndim") or not layout:
        raise ParameterError(
            f"{described_type(value)} is not an image",
            source=f"item {index}",
            allowed="an array of 2 to 4 axes",
        )
    return _kept(Sequence(value, layout).as_sample(label, index), kind)


def _kept(sequence: Sequence, kind: type[Part] | str | None) -> Sequence:
    """Return a sequence, marked if it holds labels."""
    return sequence.of_kind("labels") if kind is Labels else sequence
