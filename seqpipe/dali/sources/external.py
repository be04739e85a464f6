"""External sources: batches from the user's own code in the forms that DALI accepts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from ...array import Array, as_native, device_of
from ...errors import ParameterError, StateError, described_type
from ...ops import Type
from ...pipeline.source import BatchSamples, BatchSource, EndOfData, Fetched, Ticket
from ...sampling.params import BATCH_SIZE
from ..value import Value, value_of
from .copying import HostCopy

__all__ = [
    "BatchInfo",
    "Cycle",
    "External",
    "ExternalSpec",
    "ExternalValues",
    "SampleInfo",
    "external_spec",
    "type_of",
]

Cycle: TypeAlias = Literal["no", "quiet", "raise"]

_CYCLES: Final[dict[Any, Cycle]] = {
    None: "no",
    False: "no",
    "no": "no",
    True: "quiet",
    "quiet": "quiet",
    "raise": "raise",
}


class SampleInfo(NamedTuple):
    """The sample that a callable must return.

    Attributes:
        idx_in_epoch: number of the sample within the epoch.
        idx_in_batch: number of the sample within the batch.
        iteration: number of the batch within the epoch.
        epoch_idx: number of the epoch.
    """

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int


class BatchInfo(NamedTuple):
    """The batch that a callable must return.

    Attributes:
        iteration: number of the batch within the epoch.
        epoch_idx: number of the epoch.
    """

    iteration: int
    epoch_idx: int


class ExternalSpec(NamedTuple):
    """Declaration of an external source's values; tuples have one entry for each value.

    Attributes:
        names: names of the values.
        layouts: layout of a sample, or "" if not declared.
        dtypes: names of NumPy dtypes, None for any.
        ndims: number of axes of a sample, None for any.
        several: whether the source returns a tuple of values instead of a single value.
    """

    names: tuple[str, ...]
    layouts: tuple[str, ...]
    dtypes: tuple[str | None, ...]
    ndims: tuple[int | None, ...]
    several: bool


def external_spec(name: str, num_outputs: int | None, dtype: Any, layout: Any, ndim: Any) -> ExternalSpec:
    """Return the specification of an external source's values.

    Raises:
        ParameterError: the number of dtypes or layouts differs from that of values.
    """
    count = 1 if num_outputs is None else num_outputs
    if not isinstance(count, int) or count < 1:
        raise ParameterError(
            f"num_outputs={num_outputs!r} is not valid", source=name, allowed="1 or more, or None"
        )

    def each(what: str, value: Any) -> tuple[Any, ...]:
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,) * count
        if len(values) != count:
            raise ParameterError(
                f"{what} has {len(values)} entries", source=name, allowed=f"{count}, one for each value"
            )
        return values

    dtypes = tuple(None if kind is None else _dtype(kind) for kind in each("dtype", dtype))
    names = tuple(f"{n}" for n in range(count))
    layouts = tuple(item or "" for item in each("layout", layout))
    return ExternalSpec(names, layouts, dtypes, each("ndim", ndim), num_outputs is not None)


def _dtype(value: Any) -> str:
    return str(np.dtype(value).name)


@dataclass(eq=False)
class ExternalValues:
    """Checks and converts what the user's code returns; all batches must have the first one's dtype and axes."""

    name: str
    spec: ExternalSpec
    batch_size: int
    copies: bool = True
    host_copies: list[HostCopy] = field(default_factory=list)
    _seen: dict[int, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.host_copies = self.host_copies or [HostCopy() for _ in self.spec.names]

    def batch(self, returned: Any) -> tuple[Value, ...]:
        """Return the values of a whole batch."""
        return tuple(self._value(n, item) for n, item in enumerate(self._each(returned)))

    def samples(self, returned: list[Any]) -> tuple[Value, ...]:
        """Return the values of a list of samples."""
        columns = zip(*(self._each(item) for item in returned), strict=True)
        return tuple(self._value(n, list(column)) for n, column in enumerate(columns))

    def close(self) -> None:
        """Release the memory of unused batches."""
        for copier in self.host_copies:
            copier.memory.close()

    def _each(self, returned: Any) -> tuple[Any, ...]:
        if not self.spec.several:
            return (returned,)
        count = len(self.spec.names)
        if not isinstance(returned, (tuple, list)) or len(returned) != count:
            description = (
                f"{len(returned)} values" if isinstance(returned, (tuple, list)) else described_type(returned)
            )
            raise ParameterError(
                f"the source returned {description}",
                source=self.name,
                allowed=f"a tuple of {count} (num_outputs={count})",
            )
        return tuple(returned)

    def _value(self, number: int, returned: Any) -> Value:
        if returned is None:
            raise ParameterError("the source returned None", source=self.name, allowed="a batch of arrays")
        layout, wanted = self.spec.layouts[number], self.spec.dtypes[number]
        if isinstance(returned, (bool, int, float, np.generic)):
            returned = np.asarray(returned)
        if isinstance(returned, (list, tuple)):
            value = self._of_samples(number, returned, layout)
        else:
            try:
                value = value_of(returned.value if hasattr(returned, "value") else returned)
            except ParameterError as error:
                error.source = self.name
                raise
            value = value.with_data(
                self._array(value.data, wanted) if value.dense else value.data, layout or value.layout
            )
        if not value.dense or value.data.ndim:
            self._check(number, value)
            return self.host_copies[number](value, copied=self.copies)
        raise ParameterError(
            "the source returned a single number for a whole batch",
            source=self.name,
            allowed="an array with an entry for each sample, or a list",
            advice="Declare a source that returns samples with batch=False",
        )

    def _of_samples(self, number: int, returned: Iterable[Any], layout: str) -> Value:
        wanted = self.spec.dtypes[number]
        parts = [self._array(part, wanted) for part in returned]
        if not parts:
            raise ParameterError(
                "the source returned an empty batch", source=self.name, allowed="one sample or more"
            )
        kinds = {part.dtype for part in parts}
        if len(kinds) > 1 or len({part.ndim for part in parts}) > 1:
            kinds_text = ", ".join(f"{part.dtype} of {part.ndim} axes" for part in parts[:4])
            raise ParameterError(
                f"samples of a batch differ: {kinds_text}", source=self.name, allowed="one type, as many axes"
            )
        return Value(parts, layout) if type(parts[0]) is np.ndarray else Value.of(parts, layout)

    def _array(self, returned: Any, wanted: str | None) -> Array:
        if isinstance(returned, (bool, int, float, list, tuple, np.generic)):
            try:
                return np.asarray(returned, wanted if not isinstance(returned, np.generic) else None)
            except (ValueError, TypeError) as error:
                raise ParameterError(
                    f"a sample cannot be converted to an array: {error}", source=self.name
                ) from error
        try:
            array = as_native(returned)
        except ParameterError as error:
            error.source = self.name
            raise
        if device_of(array) != "cpu":
            return array
        if array.dtype.kind not in "biuf" or not array.dtype.isnative:
            raise ParameterError(f"values of type {array.dtype}", source=self.name, allowed="numbers")
        return array

    def _check(self, number: int, value: Value) -> None:
        if len(value) > self.batch_size:
            raise ParameterError(
                f"a batch of {len(value)} samples",
                source=self.name,
                allowed=f"up to batch_size={self.batch_size}",
            )
        if not len(value):
            raise ParameterError(
                "the source returned an empty batch", source=self.name, allowed="one sample or more"
            )
        dtype, ndim = value.dtype.name, value.ndim
        wanted, axes, layout = self.spec.dtypes[number], self.spec.ndims[number], self.spec.layouts[number]
        for what, actual, declared in (("type", dtype, wanted), ("number of axes", ndim, axes)):
            if declared is not None and actual != declared:
                raise ParameterError(
                    f"the source returned samples whose {what} is {actual}",
                    source=self.name,
                    allowed=f"{declared}, as declared in external_source; values are not cast",
                )
        if layout and len(layout) != ndim:
            raise ParameterError(
                f"samples of {ndim} axes do not have the layout {layout!r}",
                source=self.name,
                allowed=f"{len(layout)} axes",
            )
        before = self._seen.setdefault(number, (dtype, ndim))
        if before != (dtype, ndim):
            raise ParameterError(
                f"a batch of {dtype} with {ndim} axes after one of {before[0]} with {before[1]}",
                source=self.name,
                allowed="one type and as many axes in all batches",
            )


def type_of(spec: ExternalSpec, part: int) -> Type:
    """Return the declared type of a value."""
    layout = spec.layouts[part] or None
    return Type("images" if layout and "H" in layout else "unknown", layout, spec.dtypes[part])


class External(BatchSource):
    """A source of the user's own code: a callable, an iterable or a generator function.

    Args:
        source: a callable without arguments, or that takes a number, a :class:`BatchInfo` or a :class:`SampleInfo`,
            also as a single argument with a default; an iterable; or a generator function.
        spec: declaration of the values.
        batch_size: samples in a batch.
        batch: whether the source returns whole batches; otherwise it returns samples.
        cycle: behavior at the end of an iterable: stop ("no"), restart within the epoch ("quiet"), or restart at the
            next epoch ("raise").
        batch_info: whether a callable takes a BatchInfo instead of the number of the batch.
        name: name for messages.
        copies: whether arrays are copied, so that the source may reuse its memory.

    Raises:
        ParameterError: the source is none of these.
        TypeError: ``cycle`` is given with a generator object, which cannot restart.
        ValueError: ``cycle`` is given with a callable.
    """

    in_thread = True
    has_state = True

    def __init__(
        self,
        source: Any,
        spec: ExternalSpec,
        batch_size: int,
        *,
        batch: bool = True,
        cycle: Any = None,
        batch_info: bool = False,
        name: str = "external_source",
        copies: bool = True,
    ) -> None:
        self.name, self.parts = name, spec.names
        if cycle not in _CYCLES:
            raise ParameterError(
                f"cycle={cycle!r} is not valid", source=name, allowed="None, 'no', 'quiet', 'raise'"
            )
        self._cycle = _CYCLES[cycle]
        self._batch_size, self._batch = BATCH_SIZE.check(batch_size), batch
        self._source, self._batch_info = source, batch_info
        self._values = ExternalValues(name, spec, self._batch_size, copies)
        self.host_copies = self._values.host_copies
        self._call, self._make = self._call_or_iterator()
        self._iterator: Iterator[Any] | None = None
        self._ended = False
        self._epoch = self._position = 0
        self._returned_items = 0

    def _call_or_iterator(self) -> tuple[Callable[..., Any] | None, Callable[[], Iterator[Any]] | None]:
        """Return the callable, or the function that creates an iterator; the other one is None."""
        source = self._source
        if inspect.isgeneratorfunction(source):
            _argument_count(self.name, source, most=0)
            return None, source
        if inspect.isgenerator(source) or (hasattr(source, "__iter__") and not inspect.isfunction(source)):
            if self._cycle != "no" and iter(source) is source and inspect.isgenerator(source):
                raise TypeError(
                    f"{self.name}: cycle={self._cycle!r} needs a source that can restart, and a generator cannot. "
                    "Pass the generator function without calling it."
                )
            return None, lambda: iter(source)
        if not callable(source):
            raise ParameterError(
                f"source is {described_type(source)}",
                source=self.name,
                allowed="a callable, an iterable, or None",
            )
        if self._cycle != "no":
            raise ValueError(
                f"{self.name}: cycle={self._cycle!r} is for iterables, and this source is a callable. "
                "A callable ends an epoch by raising StopIteration."
            )
        takes = _argument_count(self.name, source, most=1)
        if not self._batch and not takes:
            return (lambda _: source()), None
        return (source if takes else lambda _: source()), None

    @property
    def restarts(self) -> bool:
        """Whether each epoch starts at the beginning of the iterable."""
        return self._cycle == "raise"

    def begin(self) -> Ticket | None:
        """See :meth:`BatchSource.begin`; :meth:`finish` finds out whether there is a batch."""
        end = self._position + self._batch_size
        ticket = Ticket(self._epoch, self._position, end, self._position // self._batch_size)
        self._position = end
        return ticket

    def finish(self, ticket: Ticket) -> Fetched:
        """See :meth:`BatchSource.finish`.

        Raises:
            EndOfData: the source has ended.
        """
        if self._ended:
            raise EndOfData
        ticket.state = self.own_state()
        values = self._batch_of_call(ticket) if self._call is not None else self._batch_of_iterator()
        counts = {len(value) for value in values}
        if len(counts) > 1:
            raise ParameterError(
                f"values of different numbers of samples, {sorted(counts)}",
                source=self.name,
                allowed="as many in each",
            )
        count = counts.pop()
        indices = np.arange(ticket.position, ticket.position + count, dtype=np.int64)
        return Fetched(values, BatchSamples(ticket.epoch, indices, count))

    def _batch_of_call(self, ticket: Ticket) -> tuple[Value, ...]:
        assert self._call is not None
        iteration = ticket.work
        try:
            if self._batch:
                info: Any = BatchInfo(iteration, ticket.epoch) if self._batch_info else iteration
                return self._values.batch(self._call(info))
            infos = [
                SampleInfo(ticket.position + n, n, iteration, ticket.epoch) for n in range(self._batch_size)
            ]
            return self._values.samples([self._call(info) for info in infos])
        except StopIteration:
            self._ended = True
            raise EndOfData from None

    def _batch_of_iterator(self) -> tuple[Value, ...]:
        if self._batch:
            return self._values.batch(self._next())
        return self._values.samples([self._next() for _ in range(self._batch_size)])

    def _next(self) -> Any:
        for attempt in (0, 1):
            if self._iterator is None:
                assert self._make is not None
                self._iterator, self._returned_items = self._make(), 0
            try:
                value = next(self._iterator)
            except StopIteration:
                if self._cycle != "no":
                    self._iterator = None
                if self._cycle == "quiet" and not attempt and self._returned_items:
                    continue
                self._ended = True
                raise EndOfData from None
            self._returned_items += 1
            return value
        raise EndOfData

    def own_state(self) -> Any:
        """Return how the source continues, with its ``state_dict()`` if it has that method."""
        own = {"state": self._source.state_dict()} if self._kind == "own" else {}
        return {"kind": self._kind, **own}

    @property
    def _kind(self) -> str:
        """How the source continues: by its own state, by the number of a call, or not at all."""
        if hasattr(self._source, "state_dict"):
            return "own"
        return "none" if self._call is None else "calls"

    def check_state(self, epoch: int, position: int, state: Any, field: str) -> None:
        """See :meth:`BatchSource.check_state`; an iterable without ``load_state_dict`` only starts anew."""
        if state is None:
            return
        allowed = {"kind": self._kind} | ({"state": ...} if self._kind == "own" else {})
        if not isinstance(state, Mapping) or state.keys() != allowed.keys() or state["kind"] != self._kind:
            raise StateError(f"{field} {short(state)} is not valid", source=self.name, allowed=f"{allowed}")
        if self._kind == "none" and (epoch, position) not in ((0, 0), (self._epoch, self._position)):
            raise StateError(
                f"{described_type(self._source)} cannot continue from batch "
                f"{position // self._batch_size} of epoch {epoch}",
                source=self.name,
                advice="Add state_dict() and load_state_dict() to the source, or use a callable that takes a "
                "SampleInfo or the batch's number",
            )

    def go_to(self, epoch: int, position: int, state: Any = None) -> None:
        """See :meth:`BatchSource.go_to`."""
        self.check_state(epoch, position, state, "the state")
        if state is not None and self._kind == "own":
            self._source.load_state_dict(state["state"])
            self._iterator = None
        if self._cycle != "no" or self._call is not None:
            self._ended = False
        if self._cycle == "raise" and not position:
            self._iterator = None
        self._epoch, self._position = epoch, position

    def type_of(self, part: int) -> Type:
        """See :meth:`BatchSource.type_of`."""
        return type_of(self._values.spec, part)

    @property
    def fingerprint(self) -> Mapping[str, object]:
        """Nothing is known of what the user's code gives."""
        return {"external": [self.name, len(self.parts)]}

    def close(self) -> None:
        """Release the memory of unused batches."""
        self._values.close()


def _argument_count(name: str, source: Callable[..., Any], most: int) -> int:
    """Return the number of arguments to pass to a callable, 0 or 1.

    As in DALI, a single positional argument is passed even if it has a default. Of several, only one without a default
    is passed, and likewise of a ``functools.partial``, whose arguments the user has set.
    """
    try:
        parameters = inspect.signature(source).parameters.values()
    except (TypeError, ValueError):  # some builtins have no signature
        return 0
    positional = [q for q in parameters if q.kind in (q.POSITIONAL_ONLY, q.POSITIONAL_OR_KEYWORD)]
    needed = [q for q in positional if q.default is q.empty]
    missing = [q.name for q in parameters if q.kind is q.KEYWORD_ONLY and q.default is q.empty]
    if len(needed) > most or missing:
        raise TypeError(
            f"{name}: the source takes {len(needed) + len(missing)} arguments; a callable takes none, the number of "
            "the batch, a BatchInfo (batch_info=True) or a SampleInfo (batch=False). functools.partial gives it others."
        )
    single = len(positional) == 1 and not isinstance(source, functools.partial)
    return 1 if single else len(needed)
