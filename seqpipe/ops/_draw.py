"""From an operator's parameters to a block: one row of numbers for each sample or frame, drawn where it is random."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..random import streams
from ._declaration import Declaration
from ._distribution import PerFrame, Table
from ._param import Parameter
from ._spec import Spec

__all__ = ["Block", "Constant", "constant_of", "resolve", "values_of", "values_of_all", "values_of_each"]

_KEPT: Final = 64  # shapes for which an operator keeps its constant parameters
_NUMBERS: Final = frozenset((float, int, bool, np.float64, np.int64))


@dataclass(frozen=True)
class Block:
    """The parameters of some samples.

    Attributes:
        rows: a structured array ``(R,)``, as :meth:`Declaration.block_dtype` says.
        first: for each sample, the row of its first frame.
        step: from a frame's row to that of the next: 0 if a sample has one row for all of its frames.
        all: the parameters as attributes, if there is one row for everything.
    """

    rows: npt.NDArray[Any]
    first: tuple[int, ...]
    step: int
    all: SimpleNamespace | None = None

    def of(self, sample: int, frames: int) -> npt.NDArray[Any]:
        """The rows of a sample: one, or one for each frame."""
        start = self.first[sample]
        return self.rows[start : start + (frames if self.step else 1)]


def resolve(op: Declaration, specs: Seq[Spec], epoch: int, indices: Seq[int]) -> Block:
    """The parameters of some samples.

    Args:
        op: the operator.
        specs: the samples.
        epoch: the epoch that draws are for.
        indices: the samples' indices within their dataset, that draws are for.

    Raises:
        ParameterError: a table has not one value for each sample, or for each frame.
    """
    if op.is_constant and (len(specs) == 1 or specs.count(specs[0]) == len(specs)):
        constant = constant_of(op, specs[0])
        return Block(constant.rows, (0,) * len(specs), 0, constant.p)
    counts = [spec.frames if op.is_by_frame else 1 for spec in specs]
    first = [0, *accumulate(counts)]
    rows = _rows(op, specs, first, epoch, indices)
    return Block(rows, tuple(first[:-1]), int(op.is_by_frame))


def values_of(row: np.void) -> SimpleNamespace:
    """A row as attributes: float32, ``int`` of whole numbers, arrays of vectors."""
    return SimpleNamespace(
        **{name: int(row[name]) if whole else row[name] for name, whole in _fields(row.dtype)}
    )


def values_of_all(rows: npt.NDArray[Any]) -> SimpleNamespace:
    """The rows of a sample as attributes: as :func:`values_of` if it is one, else arrays with a value for each."""
    if len(rows) == 1:
        return values_of_each(rows)[0]
    return SimpleNamespace(**{name: rows[name] for name in rows.dtype.names or ()})


def values_of_each(rows: npt.NDArray[Any]) -> list[SimpleNamespace]:
    """Each row as :func:`values_of` gives it, in less time."""
    names, whole = zip(*_fields(rows.dtype), strict=True)
    columns = [rows[name] for name in names]
    numbers = [
        column.tolist() if is_whole else column for column, is_whole in zip(columns, whole, strict=True)
    ]
    return [SimpleNamespace(**dict(zip(names, row))) for row in zip(*numbers)]  # noqa: B905  columns are of one length


@lru_cache(maxsize=512)
def _fields(dtype: np.dtype[Any]) -> tuple[tuple[str, bool], ...]:
    """Each field's name, and whether it is one whole number."""
    return tuple((name, dtype[name] == np.int32) for name in dtype.names or ())


class Constant(NamedTuple):
    """What is the same for all samples of a shape, if no parameter varies.

    Attributes:
        rows: a block of one row.
        p: the same as attributes.
        extent: frames, rows and columns of the results.
    """

    rows: npt.NDArray[Any]
    p: SimpleNamespace
    extent: tuple[int, int, int]


def constant_of(op: Declaration, spec: Spec) -> Constant:
    """What an operator whose parameters are constant does to samples of a shape; it is kept."""
    kept: dict[Spec, Constant] = op.__dict__.setdefault("_rows", {})
    found = kept.get(spec)
    if found is None:
        rows = _rows(op, [spec], [0, 1], 0, [0])
        rows.flags.writeable = False
        if len(kept) >= _KEPT:
            kept.clear()
        found = kept[spec] = Constant(rows, values_of(rows[0]), op.extent(rows, spec))
    return found


def _rows(
    op: Declaration, specs: Seq[Spec], first: Seq[int], epoch: int, indices: Seq[int]
) -> npt.NDArray[Any]:
    rows = op.template.repeat(first[-1])
    for q in op.tabled:
        _write_table(op, q, rows, specs, first)
    acts: Any = op.p > 0
    if op.is_random:
        acts = _draw(op, rows, specs, first, epoch, indices)
    if op.derived:
        _derive(op, rows, specs, first)
    rows["acts"] = acts & ~_identical(op, rows)
    return rows


def _draw(
    op: Declaration,
    rows: npt.NDArray[Any],
    specs: Seq[Spec],
    first: Seq[int],
    epoch: int,
    indices: Seq[int],
) -> npt.NDArray[np.bool_]:
    """Write what is drawn; returns which rows act."""
    acts = np.ones(len(rows), np.bool_)
    fields = {name: rows[name] for name in rows.dtype.names or ()}
    drawing = streams(op.seed, op.name, epoch, indices)
    for spec, rng, start, end in zip(specs, drawing, first[:-1], first[1:], strict=True):
        for name, value in op.sample(rng, spec).items():
            fields[name][start if type(value) in _NUMBERS and end - start == 1 else slice(start, end)] = value
        # last, so that a change of p leaves the other draws as they were
        if op.p < 1:
            acts[start:end] = rng.random(end - start if op.per_frame else None) < op.p
    return acts


def _derive(op: Declaration, rows: npt.NDArray[Any], specs: Seq[Spec], first: Seq[int]) -> None:
    alike = specs.count(specs[0]) == len(specs)
    for spec, start, end in (
        [(specs[0], 0, len(rows))] if alike else zip(specs, first, first[1:], strict=False)
    ):
        part = rows[start:end]
        for name, value in op.derive(part, spec).items():
            part[name] = value


def _write_table(
    op: Declaration, q: Parameter, rows: npt.NDArray[Any], specs: Seq[Spec], first: Seq[int]
) -> None:
    """Write the values that are given for each sample or frame."""
    value = getattr(op, q.name)
    table: Table = value.values if isinstance(value, PerFrame) else value
    array, axes = table.values, table.values.ndim - bool(q.size)
    for sample, (spec, start, end) in enumerate(zip(specs, first[:-1], first[1:], strict=True)):
        wanted: tuple[int, ...] = (len(specs),)
        what = "samples"
        if isinstance(value, PerFrame):
            wanted = (spec.frames,) if axes == 1 else (len(specs), spec.frames)
            what = "frames" if axes == 1 else "samples and frames"
        if array.shape[:axes] != wanted:
            raise ParameterError(
                f"{q.name} has values for {array.shape[:axes]}",
                source=op.name,
                allowed=f"{wanted}, the {what} given",
            )
        rows[q.name][start:end] = array if isinstance(value, PerFrame) and axes == 1 else array[sample]


def _identical(op: Declaration, rows: npt.NDArray[Any]) -> Any:
    """Which rows change nothing."""
    if not op.may_be_identity:
        return np.False_
    same: Any = np.True_
    for name, identity in _identities(type(op)):
        equal = rows[name] == identity
        same = same & (equal.all(axis=-1) if equal.ndim > 1 else equal)
    return same


@lru_cache(maxsize=512)
def _identities(op: type[Declaration]) -> tuple[tuple[str, npt.NDArray[Any]], ...]:
    """The parameters that may change nothing, and the values with which they do not."""
    dtype = op.block_dtype()
    known = [q for q in op.drawable if q.identity is not None]
    return tuple((q.name, np.asarray(q.identity, dtype[q.name].base)) for q in known)
