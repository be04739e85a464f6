"""From an operator's parameters to a block: one row of numbers for each sample or frame, drawn where it is random."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from collections.abc import Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...draws import Steps, draw_steps, uniforms
from ...random import stream_index
from .declaration import Declaration
from .sampling import InSteps, alike, draw, steps_of, write_table
from .spec import Spec

__all__ = [
    "UNMOVED",
    "Block",
    "ConstantRows",
    "Lent",
    "acting",
    "constant_of",
    "derives_anew",
    "joined",
    "resolve",
    "values_of",
    "values_of_all",
    "values_of_each",
]

UNMOVED: Final = np.eye(3)[None]
"""The matrix of the mapping that changes nothing, ``(1, 3, 3)``."""
_KEPT: Final = 64  # shapes for which an operator keeps its constant parameters
_OUTCOMES: Final = 4096  # that an operator keeps; the parameters of one are less than two kibibytes
_UNKNOWN: Final = np.empty(0)  # in place of a row that is not kept


class Lent(SimpleNamespace):
    """Parameters as attributes that cannot be changed: frames and calls have them in common."""

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"{name} is a parameter, which frames and later calls share: make a value of your own of it, as in "
            f"{name} = p.{name} * 2"
        )


@dataclass(eq=False)
class ConstantRows:
    """What is the same for samples of a shape, if no parameter varies.

    Attributes:
        rows: a block of one row.
        p: the same as attributes.
        extent: frames, rows and columns of the results.
        kernel_rows: what a kernel is given of it; None until one was.
        matrices: of an operator that moves pixels, the matrix of its mapping ``(1, 3, 3)``; likewise.
        alone: the block of one sample; likewise.
    """

    rows: npt.NDArray[Any]
    p: SimpleNamespace
    extent: tuple[int, int, int]
    kernel_rows: npt.NDArray[Any] | None = None
    matrices: FloatArray | None = None
    alone: Block | None = None

    def for_kernel(self, op: Declaration, spec: Spec) -> npt.NDArray[Any]:
        """What a kernel is given of it, made once.

        Args:
            op: the operator.
            spec: the samples.
        """
        if self.kernel_rows is None:
            self.kernel_rows = op.kernel_rows(self.rows, spec)
        return self.kernel_rows

    def moved_by(self, op: Any, spec: Spec) -> FloatArray:
        """The matrix of its mapping, made once, :data:`UNMOVED` if it is that; arguments as :meth:`for_kernel` has."""
        if self.matrices is None:
            found = op.mappings(self.rows, spec).matrices
            self.matrices = UNMOVED if (found == UNMOVED).all() else found
        return self.matrices


class Block(NamedTuple):
    """The parameters of some samples.

    Attributes:
        rows: a structured array ``(R,)``, as :meth:`Declaration.block_dtype` says.
        first: for each sample, the row of its first frame.
        step: from a frame's row to that of the next: 0 if a sample has one row for all of its frames.
        constants: the same for each sample, if they are alike and nothing varies but whether the operator acts.
        constant: the same for one of them, if nothing varies at all.
    """

    rows: npt.NDArray[Any]
    first: tuple[int, ...]
    step: int
    constants: tuple[ConstantRows, ...] = ()
    constant: ConstantRows | None = None

    def of(self, sample: int, frames: int) -> npt.NDArray[Any]:
        """The rows of a sample: one, or one for each frame."""
        first = self.first[sample]
        return self.rows[first : first + (frames if self.step else 1)]

    def of_all(self, sample: int, end: int, frames: int) -> npt.NDArray[Any]:
        """The rows of the samples from one on up to another, of which each has as many frames."""
        return self.rows[self.first[sample] : self.first[end - 1] + (frames if self.step else 1)]

    def extents(self, op: Declaration, samples: range, spec: Spec) -> set[tuple[int, int, int]]:
        """Frames, rows and columns of the results of some samples.

        Args:
            op: the operator.
            samples: their numbers.
            spec: each of them.
        """
        if self.constant is not None:
            return {self.constant.extent}
        if self.constants:
            return {constant.extent for constant in self.constants[samples.start : samples.stop]}
        return op.extents(self, samples, spec)

    @classmethod
    def of_constant(cls, constant: ConstantRows, samples: int) -> Block:
        """A block for some samples for which nothing varies."""
        if samples == 1 and constant.alone is not None:
            return constant.alone
        found = cls(constant.rows, (0,) * samples, 0, (constant,) * samples, constant)
        if samples == 1:
            constant.alone = found
        return found

    @classmethod
    def of_constants(cls, constants: tuple[ConstantRows, ...]) -> Block:
        """A block for samples whose parameters are constant, but for whether the operator acts."""
        if constants.count(constants[0]) == len(constants):
            return cls.of_constant(constants[0], len(constants))
        return cls(joined([one.rows for one in constants]), tuple(range(len(constants))), 0, constants)


def joined(parts: Seq[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Rows one after the other, read-only: to concatenate structures takes NumPy ten times as long."""
    return np.frombuffer(b"".join([part.tobytes() for part in parts]), parts[0].dtype)


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
    epoch = stream_index(epoch, "epoch", op.name)
    if alike(specs):
        if op.is_constant:
            return Block.of_constant(constant_of(op, specs[0]), len(specs))
        if (steps := steps_of(op)) is not None:
            return _of_outcomes(op, steps, specs[0], epoch, indices)  # type: ignore[arg-type]  # in steps
        if _acts_at_random(op):
            (numbers,) = uniforms(op.seed, op.stream_name, epoch, indices, 1)
            acts = [number < op.p for number in numbers]
            kept = {one: constant_of(op, specs[0], acts=one) for one in set(acts)}
            return Block.of_constants(tuple([kept[one] for one in acts]))
    by_frame = op.is_by_frame
    first = [0, *accumulate(spec.frames for spec in specs)] if by_frame else range(len(specs) + 1)
    rows = _rows(op, specs, first, epoch, indices)
    rows.flags.writeable = False
    return Block(rows, tuple(first[:-1]), int(by_frame))


def _acts_at_random(op: Declaration) -> bool:
    """Whether nothing of an operator varies but whether it acts on a sample."""
    found: bool | None = op.__dict__.get("_acts_at_random")
    if found is None:
        varies = op.distributions or op.tabled or op.is_by_frame or type(op).sample is not Declaration.sample
        found = op.__dict__["_acts_at_random"] = 0 < op.p < 1 and not varies
    return found


def _of_outcomes(op: InSteps, steps: Steps, spec: Spec, epoch: int, indices: Seq[int]) -> Block:
    """The parameters of samples that are alike, of an operator of which few things can come."""
    extent = spec[:3]
    found = [
        _of_outcome(op, one, extent) for one in draw_steps(op.seed, op.stream_name, epoch, indices, steps)
    ]
    return Block.of_constants(tuple(found)) if len(found) > 1 else Block.of_constant(found[0], 1)


def _of_outcome(op: InSteps, numbers: list[float], extent: tuple[int, int, int]) -> ConstantRows:
    """The parameters of a sample by the numbers that it has drawn; they are kept.

    Args:
        op: the operator.
        numbers: what was drawn.
        extent: frames, rows and columns of the result.
    """
    acts = op.p == 1 or numbers.pop() < op.p
    place = op.outcome(numbers), acts
    kept: dict[Any, ConstantRows] = op.__dict__.setdefault("_outcomes", {})
    found = kept.get(place)
    if found is not None and found.extent == extent:
        return found
    if found is None:
        rows = op.template.copy()
        for name, value in op.values_of_outcome(place[0]).items():
            rows[name] = value
        rows = acting(op, rows, acts)
        rows.flags.writeable = False
        found = ConstantRows(rows, values_of_all(rows), extent)
        if len(kept) >= _OUTCOMES:
            kept.clear()
    kept[place] = found = ConstantRows(found.rows, found.p, extent)
    return found


def values_of(row: np.void) -> SimpleNamespace:
    """A row as attributes: float32, ``int`` of whole numbers, arrays of vectors."""
    return Lent(**{name: int(row[name]) if whole else row[name] for name, whole in _fields(row.dtype)})


def values_of_all(rows: npt.NDArray[Any]) -> SimpleNamespace:
    """The rows of a sample as attributes: as :func:`values_of` if it is one, else arrays with a value for each."""
    if len(rows) == 1:
        fields = _fields(rows.dtype)
        return Lent(**{name: rows[name].item() if whole else rows[name][0] for name, whole in fields})
    return Lent(**{name: rows[name] for name in rows.dtype.names or ()})


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


def constant_of(op: Declaration, spec: Spec, *, acts: bool = True) -> ConstantRows:
    """What an operator whose parameters are constant does to samples of a shape; it is kept.

    Args:
        op: the operator.
        spec: the samples.
        acts: whether these are samples that it acts on, if it does on any.
    """
    kept: dict[tuple[Spec, bool], ConstantRows] = op.__dict__.setdefault("_constants", {})
    found = kept.get((spec, acts))
    if found is None:
        rows = op.template.copy()
        _derive(op, rows, [spec], [0, 1])
        rows = acting(op, rows, acts and op.p > 0)
        rows.flags.writeable = False
        if len(kept) >= _KEPT:
            kept.clear()
        found = kept[spec, acts] = ConstantRows(rows, values_of_all(rows), op.extent(rows, spec))
    return found


def _rows(
    op: Declaration, specs: Seq[Spec], first: Seq[int], epoch: int, indices: Seq[int]
) -> npt.NDArray[Any]:
    settled = _settled(op, specs[0]) if alike(specs) else None
    rows = (op.template if settled is None else settled).repeat(first[-1])
    for q in op.tabled:
        write_table(op, q, rows, specs, first)
    acts = draw(op, rows, specs, first, epoch, indices) if op.is_random else op.p > 0
    if settled is None:
        _derive(op, rows, specs, first)
    return acting(op, rows, acts)


def _settled(op: Declaration, spec: Spec) -> npt.NDArray[Any] | None:
    """A row of samples of a shape, with what follows from parameters; None if these vary. It is kept."""
    kept: dict[Spec, npt.NDArray[Any] | None] = op.__dict__.setdefault("_settled", {})
    row = kept.get(spec, _UNKNOWN)
    if row is _UNKNOWN:
        varying = [*op.tabled, *(q for q, _, _ in op.distributions)]
        known = not op.traits.derived or not derives_anew(op, {q.name for q in varying})
        row = op.template.copy() if known else None
        if row is not None:
            _derive(op, row, [spec], [0, 1])
        if len(kept) >= _KEPT:
            kept.clear()
        kept[spec] = row  # now that it is whole: it may be refused, and other threads look here
    return row


def derives_anew(op: Declaration, varying: Set[str]) -> bool:
    """Whether what an operator derives has to be derived anew, where some parameters vary."""
    return op.traits.derived_from is None or not varying.isdisjoint(op.traits.derived_from)


def acting(op: Declaration, rows: npt.NDArray[Any], acts: Any) -> npt.NDArray[Any]:
    """Rows with which of them act."""
    if op.may_be_identity:
        changing = _changing(op, rows)
        acts = changing if acts is True else acts & changing
    rows["acts"] = acts
    return rows


def _derive(op: Declaration, rows: npt.NDArray[Any], specs: Seq[Spec], first: Seq[int]) -> None:
    """Write what follows from the parameters."""
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
    """Which rows of an operator change anything: its constant parameters do not."""
    changing: Any = None
    for name, identity in _identities(op):
        other = rows[name] != identity
        other = other.any(axis=-1) if other.ndim > 1 else other
        changing = other if changing is None else changing | other
    return False if changing is None else changing


def _identities(op: Declaration) -> list[tuple[str, npt.NDArray[Any]]]:
    """The parameters that vary and may change nothing, and the values with which they do not."""
    found: list[tuple[str, npt.NDArray[Any]]] | None = op.__dict__.get("_identities")
    if found is None:
        dtype, varying = op.block_dtype(), {*op.tabled, *(q for q, _, _ in op.distributions)}
        known = [q for q in op.drawable if q.identity is not None and q in varying]
        found = op.__dict__["_identities"] = [
            (q.name, np.asarray(q.identity, dtype[q.name].base)) for q in known
        ]
    return found
