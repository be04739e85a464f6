"""What varies of an operator's parameters, in a block: what is given, and what is drawn, in the quickest way there is.

Ranges of one number for each sample take Python's numbers. What all samples draw in the same steps takes arrays with a
row for each sample. All else, and a sample alone, takes a generator for each sample. Of an operator that says itself in
which steps it draws (:class:`InSteps`), so that few things can come of it, what came of them is kept by :mod:`._draw`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...draws import BatchGenerator, DivergedStreamsError, ScalarGenerator, Steps, uniforms
from ...errors import ParameterError
from ...random import streams
from .declaration import Declaration
from .distributions import Choice, PerFrame, Table, Uniform
from .parameters import Parameter
from .spec import Spec

__all__ = ["InSteps", "Outcome", "alike", "draw", "steps_of", "write_table"]

Outcome: TypeAlias = tuple[tuple[float, ...], ...]

_FEW: Final = 2  # samples for which a generator each is quicker than arrays
_LAST: Final = 1 - 2.0**-53  # the greatest number that a generator gives


class InSteps(Declaration, register=False):
    """An operator that draws numbers in the same steps for every sample, and does one of few things by them.

    What these are goes to the fields of :attr:`derived`, in their order, which are vectors.
    """

    samples_together = True
    derived_from = ()  # sample() gives the fields

    @property
    @abstractmethod
    def steps(self) -> Steps:
        """What is drawn for a sample, as :func:`seqpipe.draws.draw_steps` takes it."""

    @abstractmethod
    def outcome(self, numbers: Seq[float]) -> Outcome:
        """What comes of the numbers that were drawn: of each field of :attr:`derived` the values, or the first ones."""

    def values_of_outcome(self, outcome: Outcome) -> dict[str, tuple[float, ...]]:
        """The same by the names of the fields, all values of each: -1 where there are no more."""
        found = {}
        for entry, values in zip(self.traits.derived, outcome, strict=True):
            name, length = entry if isinstance(entry, tuple) else (entry, 1)
            found[name] = (*values, *[-1.0] * (length - len(values)))
        return found

    def sample(self, rng: np.random.Generator | BatchGenerator, spec: Spec) -> dict[str, Any]:
        """What comes of the steps, and then what is drawn from distributions."""
        found: dict[str, Any]
        if isinstance(rng, BatchGenerator):
            every = [self.values_of_outcome(self.outcome(numbers)) for numbers in rng.draw(self.steps)]
            found = {name: np.array([one[name] for one in every]) for name in every[0]}
        else:
            found = self.values_of_outcome(self.outcome(ScalarGenerator.of(rng).draw(self.steps)))
        generator: Any = rng
        return {**found, **super().sample(generator, spec)}


def steps_of(op: Declaration) -> Steps | None:
    """The steps in which all that varies is drawn, at last whether it acts; None where there is more to it."""
    found: Steps | None = op.__dict__.get("_steps_drawn", ())
    if found == ():
        own = isinstance(op, InSteps) and type(op).sample is InSteps.sample and not op.is_by_frame
        known = type(op).derive is Declaration.derive and op.traits.keeps_size and op.traits.keeps_frames
        few = own and known and not (op.distributions or op.tabled)
        steps = op.steps if few and isinstance(op, InSteps) else None
        found = op.__dict__["_steps_drawn"] = steps and (steps if op.p == 1 else (*steps, 0))
    return found


def draw(
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
        numbers = uniforms(op.seed, op.stream_name, epoch, indices, len(ranges.fields) + (op.p < 1))
        return ranges.write(rows, numbers, op.p)
    if len(specs) > _FEW and _can_draw_together(op) and alike(specs):
        try:
            return _drawn_together(op, rows, specs, BatchGenerator(op.seed, op.stream_name, epoch, indices))
        except DivergedStreamsError:
            pass
    drawing = streams(op.seed, op.stream_name, epoch, indices)
    if len(specs) > 1:
        return _drawn_one_by_one(op, rows, specs, first, drawing)
    (acts,) = [_drawn_alone(op, rows, specs[0], rng) for rng in drawing]
    return acts


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
            numbers: from 0 to 1, for each field those of all samples; and those for what acts, if that is random.
            p: the probability of that.
        """
        for (name, place), lo, width, drawn in zip(self.fields, self.lo, self.width, numbers, strict=False):
            column = rows[name] if place is None else rows[name][:, place]
            for row, number in enumerate(drawn):
                column[row] = lo + width * number
        return np.array([number < p for number in numbers[-1]]) if p < 1 else True


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
    """Return whether all samples draw in the same steps, and :class:`BatchGenerator` supports these."""
    found: bool | None = op.__dict__.get("_in_step")
    if found is None:
        own = type(op).sample is not Declaration.sample and not op.traits.samples_together
        known = all(
            type(value) is Choice or (type(value) is Uniform and value.is_finite)
            for _, value, _ in op.distributions
        )
        found = op.__dict__["_in_step"] = known and not own
    return found


def _drawn_together(op: Declaration, rows: npt.NDArray[Any], specs: Seq[Spec], draws: BatchGenerator) -> Any:
    """What is drawn for samples that are alike, all at once."""
    of_samples = rows.reshape(len(specs), -1)
    rng: Any = draws  # it has what of a generator such operators use
    for name, value in op.sample(rng, specs[0]).items():
        column = of_samples[name]
        if missing := column.ndim - value.ndim:  # there are no axes of frames, or of a vector's numbers
            value = value.reshape(len(value), *[1] * missing, *value.shape[1:])
        column[...] = value
    if op.p == 1:
        return True
    acts = draws.random(specs[0].frames if op.per_frame else None) < op.p
    return acts.ravel() if acts.size == len(rows) else acts.repeat(len(rows) // len(acts))


def _drawn_alone(op: Declaration, rows: npt.NDArray[Any], spec: Spec, rng: np.random.Generator) -> Any:
    """What is drawn for one sample."""
    for name, value in op.sample(rng, spec).items():
        rows[name] = value
    # last, so that a change of p leaves the other draws as they were
    return True if op.p == 1 else rng.random(len(rows) if op.per_frame else None) < op.p


def _drawn_one_by_one(
    op: Declaration,
    rows: npt.NDArray[Any],
    specs: Seq[Spec],
    first: Seq[int],
    drawing: Iterable[np.random.Generator],
) -> Any:
    """What is drawn for one sample after the other, each by its own generator."""
    acts: Any = np.ones(len(rows), np.bool_) if op.p < 1 else True
    found: list[dict[str, Any]] = []
    for spec, rng, start, end in zip(specs, drawing, first[:-1], first[1:], strict=True):
        found.append(op.sample(rng, spec))
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


def write_table(
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
                advice=_as_frames(q, array.shape[:axes], spec.frames),
            )
        rows[q.name][start:end] = array if isinstance(value, PerFrame) and axes == 1 else array[sample]


def _as_frames(q: Parameter, shape: tuple[int, ...], frames: int) -> str | None:
    """What to do with an array of a shape that would fit the frames of a sample."""
    if not q.by_frame or shape[-1:] != (frames,):
        return None
    return f"For a value for each frame, give {q.name}=ops.per_frame(…) of the array"


def alike(specs: Seq[Spec]) -> bool:
    """Whether all samples are of one kind."""
    return len(specs) == 1 or specs.count(specs[0]) == len(specs)
