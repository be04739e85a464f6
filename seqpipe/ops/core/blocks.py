"""Blocks: parameters of a call as rows of numbers, one for each sample or frame, with caches of constant rows."""

from __future__ import annotations

from collections.abc import Callable, Set
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...random import draw_steps, stream_index
from .declaration import Declaration
from .sampling import BatchSampled, Outcome, alike, draw, steps_of, write_table
from .spec import Spec

__all__ = [
    "UNMOVED",
    "Block",
    "ConstantRows",
    "ReadOnlyValues",
    "constant_of",
    "derived_values_vary",
    "joined",
    "resolve",
    "values_of",
    "values_of_all",
    "values_of_each",
    "with_acts",
]

Values = TypeVar("Values", bound=SimpleNamespace)

UNMOVED: Final = np.eye(3)[None]
"""Matrix of the identity mapping, ``(1, 3, 3)``."""
_MAX_CACHED_SPECS: Final = 64  # specs whose constant parameters an operator caches
_OUTCOMES: Final = 4096  # outcomes that an operator caches; the parameters of one take less than 2 KiB
_UNKNOWN: Final = np.empty(0)  # marks a row that is not cached


class ReadOnlyValues(SimpleNamespace):
    """Parameters as attributes, read-only because frames and calls share them."""

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"{name} is a parameter, which frames and later calls share: assign to a variable of your own, as in "
            f"{name} = p.{name} * 2"
        )


@dataclass(eq=False)
class ConstantRows:
    """Cached parameters of samples of one spec, if no parameter varies.

    Attributes:
        rows: a block of one row.
        p: the row as attributes.
        extent: frames, height and width of the results.
        kernel_rows: the rows that a kernel gets; None until they are needed.
        matrices: matrix ``(1, 3, 3)`` of the mapping of an operator that moves pixels; None until it is needed.
        alone: the block of a single sample; None until it is needed.
    """

    rows: npt.NDArray[Any]
    p: SimpleNamespace
    extent: tuple[int, int, int]
    kernel_rows: npt.NDArray[Any] | None = None
    matrices: FloatArray | None = None
    alone: Block | None = None

    def for_kernel(self, op: Declaration, spec: Spec) -> npt.NDArray[Any]:
        """Return the rows that a kernel gets; computed once."""
        if self.kernel_rows is None:
            self.kernel_rows = op.kernel_rows(self.rows, spec)
        return self.kernel_rows

    def moved_by(self, op: Any, spec: Spec) -> FloatArray:
        """Return the matrix of the mapping, :data:`UNMOVED` for the identity; computed once. See :meth:`for_kernel`."""
        if self.matrices is None:
            matrices = op.mappings(self.rows, spec).matrices
            self.matrices = UNMOVED if (matrices == UNMOVED).all() else matrices
        return self.matrices


class Block(NamedTuple):
    """Parameters of some samples.

    Attributes:
        rows: structured array ``(R,)`` of the dtype :meth:`Declaration.block_dtype`.
        first: for each sample, the row of its first frame.
        step: offset from a frame's row to that of the next: 0 if a sample has one row for all frames.
        constants: cached parameters of each sample, if specs are equal and only whether the operator acts varies.
        constant: cached parameters of every sample, if nothing varies.
    """

    rows: npt.NDArray[Any]
    first: tuple[int, ...]
    step: int
    constants: tuple[ConstantRows, ...] = ()
    constant: ConstantRows | None = None

    def of(self, sample: int, frames: int) -> npt.NDArray[Any]:
        """Return the rows of a sample: one, or one for each frame."""
        first = self.first[sample]
        return self.rows[first : first + (frames if self.step else 1)]

    def of_all(self, sample: int, end: int, frames: int) -> npt.NDArray[Any]:
        """Return the rows of consecutive samples with equal numbers of frames."""
        return self.rows[self.first[sample] : self.first[end - 1] + (frames if self.step else 1)]

    def extents(self, op: Declaration, samples: range, spec: Spec) -> set[tuple[int, int, int]]:
        """Return the distinct extents (frames, height, width) of the results of some samples."""
        if self.constant is not None:
            return {self.constant.extent}
        if self.constants:
            return {constant.extent for constant in self.constants[samples.start : samples.stop]}
        return op.extents(self, samples, spec)

    @classmethod
    def of_constant(cls, constant: ConstantRows, samples: int) -> Block:
        """Return a block for samples for which nothing varies."""
        if samples == 1 and constant.alone is not None:
            return constant.alone
        result = cls(constant.rows, (0,) * samples, 0, (constant,) * samples, constant)
        if samples == 1:
            constant.alone = result
        return result

    @classmethod
    def of_constants(cls, constants: tuple[ConstantRows, ...]) -> Block:
        """Return a block for samples for which only whether the operator acts varies."""
        if constants.count(constants[0]) == len(constants):
            return cls.of_constant(constants[0], len(constants))
        return cls(
            joined([constant.rows for constant in constants]), tuple(range(len(constants))), 0, constants
        )


def joined(parts: Seq[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Concatenate rows, read-only; np.concatenate takes ten times as long for structured arrays."""
    return np.frombuffer(b"".join([part.tobytes() for part in parts]), parts[0].dtype)


def resolve(op: Declaration, specs: Seq[Spec], epoch: int, indices: Seq[int]) -> Block:
    """Return the parameters of some samples."""
    epoch = stream_index(epoch, "epoch", op.name)
    if alike(specs):
        if op.is_constant:
            return Block.of_constant(constant_of(op, specs[0]), len(specs))
        if (steps := steps_of(op)) is not None:
            numbers = draw_steps(op.seed, op.stream_name, epoch, indices, steps)
            return Block.of_constants(_constants_of(op, numbers, specs[0], len(specs)))
    by_frame = op.is_by_frame
    first = [0, *accumulate(spec.frames for spec in specs)] if by_frame else range(len(specs) + 1)
    rows = _rows(op, specs, first, epoch, indices)
    rows.flags.writeable = False
    return Block(rows, tuple(first[:-1]), int(by_frame))


def _constants_of(
    op: Declaration, numbers: Seq[Seq[float]], spec: Spec, samples: int
) -> tuple[ConstantRows, ...]:
    """Return the parameters of samples of one spec that draw their numbers in steps."""
    if not isinstance(op, BatchSampled):
        acts = [number < op.p for number in numbers[0]]
        cached = {act: constant_of(op, spec, acts=act) for act in set(acts)}
        return tuple([cached[act] for act in acts])
    drawn, acts = numbers, [True] * samples
    if op.p < 1:
        *drawn, last = numbers
        acts = [number < op.p for number in last]
    every = zip(*drawn, strict=True) if drawn else ((),) * samples
    return tuple(
        [_of_outcome(op, op.outcome(own), act, spec[:3]) for own, act in zip(every, acts, strict=True)]
    )


def _of_outcome(op: BatchSampled, outcome: Outcome, acts: bool, extent: tuple[int, int, int]) -> ConstantRows:
    """Return the parameters of a sample with an outcome; they are cached."""
    key = outcome, acts
    cached: dict[Any, ConstantRows] = op.__dict__.setdefault("_outcomes", {})
    constant = cached.get(key)
    if constant is not None and constant.extent == extent:
        return constant
    if constant is None:
        rows = op.template.copy()
        for name, value in op.values_of_outcome(outcome).items():
            rows[name] = value
        rows = with_acts(op, rows, acts)
        rows.flags.writeable = False
        constant = ConstantRows(rows, values_of_all(rows), extent)
        if len(cached) >= _OUTCOMES:
            cached.clear()
    cached[key] = constant = ConstantRows(constant.rows, constant.p, extent)
    return constant


def values_of(row: np.void) -> SimpleNamespace:
    """Return a row as attributes: float32 numbers, ``int`` for integers, arrays for vectors."""
    return ReadOnlyValues(
        **{name: int(row[name]) if whole else row[name] for name, whole in _fields(row.dtype)}
    )


def values_of_all(rows: npt.NDArray[Any]) -> SimpleNamespace:
    """Return the rows of a sample as attributes: as :func:`values_of` for one row, else an array for each field."""
    if len(rows) == 1:
        fields = _fields(rows.dtype)
        return ReadOnlyValues(
            **{name: rows[name].item() if whole else rows[name][0] for name, whole in fields}
        )
    return ReadOnlyValues(**{name: rows[name] for name in rows.dtype.names or ()})


@overload
def values_of_each(rows: npt.NDArray[Any]) -> list[SimpleNamespace]: ...
@overload
def values_of_each(rows: npt.NDArray[Any], kind: Callable[..., Values]) -> list[Values]: ...
def values_of_each(rows: npt.NDArray[Any], kind: Callable[..., Any] = SimpleNamespace) -> list[Any]:
    """Return each row as attributes, as :func:`values_of` does, faster for many rows."""
    fields = _fields(rows.dtype)
    names = [name for name, _ in fields]
    columns = [rows[name].tolist() if whole else rows[name] for name, whole in fields]
    return [kind(**dict(zip(names, row))) for row in zip(*columns)]  # noqa: B905  columns are of one length


@lru_cache(maxsize=512)
def _fields(dtype: np.dtype[Any]) -> tuple[tuple[str, bool], ...]:
    """Return each field's name, and whether it is one integer."""
    return tuple((name, dtype[name] == np.int32) for name in dtype.names or ())


def constant_of(op: Declaration, spec: Spec, *, acts: bool = True) -> ConstantRows:
    """Return the constant parameters for samples of one spec; they are cached."""
    cached: dict[tuple[Spec, bool], ConstantRows] = op.__dict__.setdefault("_constants", {})
    constant = cached.get((spec, acts))
    if constant is None:
        rows = op.template.copy()
        _derive(op, rows, [spec], [0, 1])
        rows = with_acts(op, rows, acts and op.p > 0)
        rows.flags.writeable = False
        if len(cached) >= _MAX_CACHED_SPECS:
            cached.clear()
        constant = cached[spec, acts] = ConstantRows(rows, values_of_all(rows), op.extent(rows, spec))
    return constant


def _rows(
    op: Declaration, specs: Seq[Spec], first: Seq[int], epoch: int, indices: Seq[int]
) -> npt.NDArray[Any]:
    prepared = _prepared_row(op, specs[0]) if alike(specs) else None
    rows = (op.template if prepared is None else prepared).repeat(first[-1])
    for q in op.tabled:
        write_table(op, q, rows, specs, first)
    acts = draw(op, rows, specs, first, epoch, indices) if op.is_random else op.p > 0
    if prepared is None:
        _derive(op, rows, specs, first)
    return with_acts(op, rows, acts)


def _prepared_row(op: Declaration, spec: Spec) -> npt.NDArray[Any] | None:
    """Return a cached row with all derived values; None if these vary between samples."""
    cached: dict[Spec, npt.NDArray[Any] | None] = op.__dict__.setdefault("_prepared", {})
    row = cached.get(spec, _UNKNOWN)
    if row is _UNKNOWN:
        varying = [*op.tabled, *(q for q, _, _ in op.distributions)]
        known = not op.traits.derived or not derived_values_vary(op, {q.name for q in varying})
        row = op.template.copy() if known else None
        if row is not None:
            _derive(op, row, [spec], [0, 1])
        if len(cached) >= _MAX_CACHED_SPECS:
            cached.clear()
        cached[spec] = row  # only when complete: derive() may raise, and other threads read the cache
    return row


def derived_values_vary(op: Declaration, varying: Set[str]) -> bool:
    """Return whether derived values change when some parameters vary."""
    return op.traits.derived_from is None or not varying.isdisjoint(op.traits.derived_from)


def with_acts(op: Declaration, rows: npt.NDArray[Any], acts: Any) -> npt.NDArray[Any]:
    """Set which rows act; rows with identity parameters do not."""
    if op.may_be_identity:
        changing = _changing(op, rows)
        acts = changing if acts is True else acts & changing
    rows["acts"] = acts
    return rows


def _derive(op: Declaration, rows: npt.NDArray[Any], specs: Seq[Spec], first: Seq[int]) -> None:
    """Write the derived values."""
    if not op.traits.derived:
        return
    whole = alike(specs)
    for spec, start, end in (
        [(specs[0], 0, len(rows))] if whole else zip(specs, first, first[1:], strict=False)
    ):
        part = rows[start:end]
        for name, value in op.derive(part, spec).items():
            part[name] = value


def _changing(op: Declaration, rows: npt.NDArray[Any]) -> Any:
    """Return which rows have parameters that change something; the constant parameters do not."""
    changing: Any = None
    for name, identity in _identities(op):
        other = rows[name] != identity
        other = other.any(axis=-1) if other.ndim > 1 else other
        changing = other if changing is None else changing | other
    return False if changing is None else changing


def _identities(op: Declaration) -> list[tuple[str, npt.NDArray[Any]]]:
    """Return the varying parameters with an identity, and that value; cached."""
    identities: list[tuple[str, npt.NDArray[Any]]] | None = op.__dict__.get("_identities")
    if identities is None:
        dtype, varying = op.block_dtype(), {*op.tabled, *(q for q, _, _ in op.distributions)}
        known = [q for q in op.drawable if q.identity is not None and q in varying]
        identities = op.__dict__["_identities"] = [
            (q.name, np.asarray(q.identity, dtype[q.name].base)) for q in known
        ]
    return identities
