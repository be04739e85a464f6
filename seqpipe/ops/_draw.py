"""From an operator's parameters to a block: one row of numbers for each sample or frame, drawn where it is random."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..draws import Draws, UnevenError, numbers_of
from ..errors import ParameterError
from ..random import place_number, streams
from ._declaration import Declaration
from ._distribution import Choice, PerFrame, Table, Uniform
from ._param import Parameter
from ._spec import Spec

__all__ = [
    "Block",
    "Constant",
    "constant_of",
    "resolve",
    "values_of",
    "values_of_all",
    "values_of_each",
]

_KEPT: Final = 64  # shapes for which an operator keeps its constant parameters
_FEW: Final = 2  # samples for which a generator each is quicker than arrays
_LAST: Final = 1 - 2.0**-53  # the greatest number that a generator gives


@dataclass(eq=False)
class Constant:
    """What is the same for all samples of a shape, if no parameter varies.

    Attributes:
        rows: a block of one row.
        p: the same as attributes.
        extent: frames, rows and columns of the results.
        kernel_rows: what a kernel is given of it; None until one was.
    """

    rows: npt.NDArray[Any]
    p: SimpleNamespace
    extent: tuple[int, int, int]
    kernel_rows: npt.NDArray[Any] | None = None

    def for_kernel(self, op: Declaration, spec: Spec) -> npt.NDArray[Any]:
        """What a kernel is given of it, made once.

        Args:
            op: the operator.
            spec: the samples.
        """
        if self.kernel_rows is None:
            self.kernel_rows = op.kernel_rows(self.rows, spec)
        return self.kernel_rows


class Block(NamedTuple):
    """The parameters of some samples.

    Attributes:
        rows: a structured array ``(R,)``, as :meth:`Declaration.block_dtype` says.
        first: for each sample, the row of its first frame.
        step: from a frame's row to that of the next: 0 if a sample has one row for all of its frames.
        constant: the same for one of them, if they are all alike and nothing varies.
    """

    rows: npt.NDArray[Any]
    first: tuple[int, ...]
    step: int
    constant: Constant | None = None

    def of(self, sample: int, frames: int) -> npt.NDArray[Any]:
        """The rows of a sample: one, or one for each frame."""
        return self.of_all(sample, sample + 1, frames)

    def of_all(self, sample: int, end: int, frames: int) -> npt.NDArray[Any]:
        """The rows of the samples from one on up to another, of which each has as many frames."""
        return self.rows[self.first[sample] : self.first[end - 1] + (frames if self.step else 1)]


def resolve(op: Declaration, specs: Seq[Spec], epoch: int, indices: Seq[int]) -> Block:
    """The parameters of some samples.

    Args:
        op: the operator.
        specs: the samples.
        epoch: the epoch that draws are for.
        indices: the samples' indices within their dataset, that draws are for.

    Raises:
        ParameterError: the epoch is not one, or a table has not one value for each sample, or for each frame.
    """
    epoch = place_number(epoch, "epoch", op.name)
    if op.is_constant and _alike(specs):
        constant = constant_of(op, specs[0])
        return Block(constant.rows, (0,) * len(specs), 0, constant)
    by_frame = op.is_by_frame
    first = [0, *accumulate(spec.frames for spec in specs)] if by_frame else range(len(specs) + 1)
    rows = _rows(op, specs, first, epoch, indices)
    return Block(rows, tuple(first[:-1]), int(by_frame))


def values_of(row: np.void) -> SimpleNamespace:
    """A row as attributes: float32, ``int`` of whole numbers, arrays of vectors."""
    return SimpleNamespace(
        **{name: int(row[name]) if whole else row[name] for name, whole in _fields(row.dtype)}
    )


def values_of_all(rows: npt.NDArray[Any]) -> SimpleNamespace:
    """The rows of a sample as attributes: as :func:`values_of` if it is one, else arrays with a value for each."""
    if len(rows) == 1:
        fields = _fields(rows.dtype)
        return SimpleNamespace(
            **{name: rows[name].item() if whole else rows[name][0] for name, whole in fields}
        )
    return SimpleNamespace(**{name: rows[name] for name in rows.dtype.names or ()})


def values_of_each(rows: npt.NDArray[Any]) -> list[SimpleNamespace]:
    """Each row as :func:`values_of` gives it, in less time."""
    fields = _fields(rows.dtype)
    names = [name for name, _ in fields]
    columns = [rows[name].tolist() if whole else rows[name] for name, whole in fields]
    return [SimpleNamespace(**dict(zip(names, row))) for row in zip(*columns)]  # noqa: B905  columns are of one length


@lru_cache(maxsize=512)
def _fields(dtype: np.dtype[Any]) -> tuple[tuple[str, bool], ...]:
    """Each field's name, and whether it is one whole number."""
    return tuple((name, dtype[name] == np.int32) for name in dtype.names or ())


def constant_of(op: Declaration, spec: Spec) -> Constant:
    """What an operator whose parameters are constant does to samples of a shape; it is kept."""
    kept: dict[Spec, Constant] = op.__dict__.setdefault("_rows", {})
    found = kept.get(spec)
    if found is None:
        rows = _rows(op, [spec], [0, 1], 0, [0])
        rows.flags.writeable = False
        if len(kept) >= _KEPT:
            kept.clear()
        found = kept[spec] = Constant(rows, values_of_all(rows), op.extent(rows, spec))
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
    rows["acts"] = acts & _changing(op, rows) if op.may_be_identity else acts
    return rows


def _draw(
    op: Declaration,
    rows: npt.NDArray[Any],
    specs: Seq[Spec],
    first: Seq[int],
    epoch: int,
    indices: Seq[int],
) -> Any:
    """Write what is drawn; returns which rows act."""
    ranges = _ranges_of(op)
    if ranges is not None:
        numbers = numbers_of(op.seed, op.name, epoch, indices, len(ranges.fields) + 1)
        return ranges.write(rows, numbers, op.p)
    if len(specs) > _FEW and _can_draw_together(op) and _alike(specs):
        try:
            return _drawn_together(op, rows, specs, Draws(op.seed, op.name, epoch, indices))
        except UnevenError:
            pass
    return _drawn_one_by_one(op, rows, specs, first, streams(op.seed, op.name, epoch, indices))


class _Ranges(NamedTuple):
    """Parameters of which each is drawn from a range, once for each sample: Python's numbers are the quickest here.

    Attributes:
        fields: of a row, one for each number; with its place in the vector, None where the field is a number.
        lo: the least value of each number.
        width: the greatest less the least.
    """

    fields: tuple[tuple[str, int | None], ...]
    lo: tuple[float, ...]
    width: tuple[float, ...]

    def write(self, rows: npt.NDArray[Any], numbers: Seq[Seq[float]], p: float) -> Any:
        """Write what :meth:`Distribution.draw` gives; returns which rows act.

        Args:
            rows: one for each sample.
            numbers: from 0 to 1, for each field those of all samples, and those for what acts.
            p: the probability of that.
        """
        for (name, place), lo, width, drawn in zip(self.fields, self.lo, self.width, numbers, strict=False):
            column = rows[name] if place is None else rows[name][:, place]
            column[...] = [lo + width * number for number in drawn]
        return np.array([number < p for number in numbers[-1]]) if p < 1 else np.True_


def _ranges_of(op: Declaration) -> _Ranges | None:
    """The ranges that an operator draws from once for each sample; None if it draws in another way, too."""
    found = op.__dict__.get("_ranges", op)
    if found is op:
        found = op.__dict__["_ranges"] = _ranges(op)
    ranges: _Ranges | None = found
    return ranges


def _ranges(op: Declaration) -> _Ranges | None:
    if op.is_by_frame or type(op).sample is not Declaration.sample:
        return None
    fields: list[tuple[str, int | None]] = []
    ends: list[tuple[float, float]] = []
    for q, value, _ in op.distributions:
        if type(value) is not Uniform or q.param.kind is not float or not value.is_finite:
            return None
        for place in range(q.size) if q.size else (None,):
            lo, hi = (float(end[place] if np.ndim(end) else end) for end in (value.lo, value.hi))
            # what rounding could lead beyond the bounds has to be seen to
            if q.param.hi is not None and lo + (hi - lo) * _LAST > q.param.hi:
                return None
            fields.append((q.name, place))
            ends.append((lo, hi))
    return _Ranges(tuple(fields), tuple(lo for lo, _ in ends), tuple(hi - lo for lo, hi in ends))


def _can_draw_together(op: Declaration) -> bool:
    """Whether an operator draws the numbers of all samples in the same steps, and :class:`Draws` knows these."""
    found: bool | None = op.__dict__.get("_in_step")
    if found is None:
        own = type(op).sample is not Declaration.sample and not op.samples_together
        known = all(
            type(value) is Choice or (type(value) is Uniform and value.is_finite)
            for _, value, _ in op.distributions
        )
        found = op.__dict__["_in_step"] = known and not own
    return found


def _drawn_together(op: Declaration, rows: npt.NDArray[Any], specs: Seq[Spec], draws: Draws) -> Any:
    """What is drawn for samples that are alike, all at once."""
    of_samples = rows.reshape(len(specs), -1)
    rng: Any = draws  # it has what of a generator such operators use
    for name, value in op.sample(rng, specs[0]).items():
        column = of_samples[name]
        if missing := column.ndim - value.ndim:  # there are no axes of frames, or of a vector's numbers
            value = value.reshape(len(value), *[1] * missing, *value.shape[1:])
        column[...] = value
    if op.p == 1:
        return np.True_
    acts = draws.random(specs[0].frames if op.per_frame else None) < op.p
    return acts.ravel() if acts.size == len(rows) else acts.repeat(len(rows) // len(acts))


def _drawn_one_by_one(
    op: Declaration,
    rows: npt.NDArray[Any],
    specs: Seq[Spec],
    first: Seq[int],
    drawing: Iterable[np.random.Generator],
) -> Any:
    """What is drawn for one sample after the other, each by its own generator."""
    acts: Any = np.ones(len(rows), np.bool_) if op.p < 1 else np.True_
    found: list[dict[str, Any]] = []
    for spec, rng, start, end in zip(specs, drawing, first[:-1], first[1:], strict=True):
        found.append(op.sample(rng, spec))
        # last, so that a change of p leaves the other draws as they were
        if op.p < 1:
            acts[start:end] = rng.random(end - start if op.per_frame else None) < op.p
    if not op.is_by_frame and len(set(map(tuple, found))) == 1:
        for name in found[0]:  # a column at a time takes a fifth of the time
            drawn, column = np.array([values[name] for values in found]), rows[name]
            # of a vector for which one number was drawn, all values are that number
            column[...] = drawn if drawn.ndim == column.ndim else drawn[:, None]
        return acts
    for values, start, end in zip(found, first[:-1], first[1:], strict=True):
        for name, value in values.items():
            rows[name][start:end] = value
    return acts


def _alike(specs: Seq[Spec]) -> bool:
    return len(specs) == 1 or specs.count(specs[0]) == len(specs)


def _derive(op: Declaration, rows: npt.NDArray[Any], specs: Seq[Spec], first: Seq[int]) -> None:
    alike = _alike(specs)
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


def _changing(op: Declaration, rows: npt.NDArray[Any]) -> Any:
    """Which rows change anything."""
    changing: Any = None
    for name, identity in _identities(type(op)):
        other = rows[name] != identity
        other = other.any(axis=-1) if other.ndim > 1 else other
        changing = other if changing is None else changing | other
    return changing


@lru_cache(maxsize=512)
def _identities(op: type[Declaration]) -> tuple[tuple[str, npt.NDArray[Any]], ...]:
    """The parameters that may change nothing, and the values with which they do not."""
    dtype = op.block_dtype()
    known = [q for q in op.drawable if q.identity is not None]
    return tuple((q.name, np.asarray(q.identity, dtype[q.name].base)) for q in known)
