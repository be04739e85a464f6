"""Sampling of parameters into the rows of a block, by the fastest of three methods, which return the same values.

Numbers that are drawn in the same known steps for every sample (:func:`steps_of`, :class:`_Ranges`) are drawn in C, for
all samples by one call: a tenth to a fifth of the time of a call on one small image. Samples of one spec that draw from
the same distributions use arrays with a row for each sample (:class:`BatchGenerator`), a tenth of the time of one
generator for each of 32 samples. All others have NumPy's own generators (:func:`sampled`), because some distributions
consume a random number of words.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...random import (
    BatchGenerator,
    DivergedStreamsError,
    ScalarGenerator,
    Steps,
    draw_steps,
    stream_index,
    streams,
)
from .declaration import KEY_END, Declaration
from .distributions import Choice, PerFrame, Table, Uniform
from .parameters import Parameter
from .spec import Spec

__all__ = ["BatchSampled", "Outcome", "alike", "draw", "indices_of", "sampled", "steps_of", "write_table"]

Outcome: TypeAlias = tuple[tuple[float, ...], ...]

_MAX_SEPARATE_DRAWS: Final = 2  # up to so many samples, one generator each is faster than arrays
_LAST: Final = 1 - 2.0**-53  # the greatest number that a generator returns


class BatchSampled(Declaration, register=False):
    """Base of operators that sample numbers in the same steps for every sample and have few distinct outcomes.

    An outcome holds the values of the fields of :attr:`derived`, in their order; these fields are vectors.
    """

    samples_together = True
    derived_from = ()  # sample() computes the fields

    @property
    @abstractmethod
    def steps(self) -> Steps:
        """The steps in which a sample's numbers are drawn, as :func:`seqpipe.random.draw_steps` takes them."""

    @abstractmethod
    def outcome(self, numbers: Seq[float]) -> Outcome:
        """Return the values, or the first values, of each field of :attr:`derived` for the drawn numbers."""

    def values_of_outcome(self, outcome: Outcome) -> dict[str, tuple[float, ...]]:
        """Return the outcome by field name, each vector padded with -1."""
        result = {}
        for entry, values in zip(self.traits.derived, outcome, strict=True):
            name, length = entry if isinstance(entry, tuple) else (entry, 1)
            result[name] = (*values, *[-1.0] * (length - len(values)))
        return result

    def sample(self, rng: np.random.Generator | BatchGenerator, spec: Spec) -> dict[str, Any]:
        """Sample the outcome of the steps, then the distributions."""
        result: dict[str, Any]
        if isinstance(rng, BatchGenerator):
            every = [self.values_of_outcome(self.outcome(numbers)) for numbers in rng.draw(self.steps)]
            result = {name: np.array([entry[name] for entry in every]) for name in every[0]}
        else:
            result = self.values_of_outcome(self.outcome(ScalarGenerator.of(rng).draw(self.steps)))
        generator: Any = rng
        return {**result, **super().sample(generator, spec)}


def steps_of(op: Declaration) -> Steps | None:
    """Return the steps that draw an outcome of :class:`BatchSampled`, if it has one, and whether the operator acts.

    None if parameters vary otherwise.
    """
    cached: Any = op.__dict__.get("_drawn_steps", op)
    if cached is op:
        cached = op.__dict__["_drawn_steps"] = _steps(op)
    steps: Steps | None = cached
    return steps


def _steps(op: Declaration) -> Steps | None:
    if op.distributions or op.tabled or op.is_by_frame or op.traits.keyed:
        return None
    if type(op).sample is Declaration.sample:
        return (0,) if 0 < op.p < 1 else None
    own = isinstance(op, BatchSampled) and type(op).sample is BatchSampled.sample
    known = type(op).derive is Declaration.derive and op.traits.keeps_size and op.traits.keeps_frames
    if not (own and known and isinstance(op, BatchSampled)):
        return None
    return op.steps if op.p == 1 else (*op.steps, 0)


def draw(
    op: Declaration,
    rows: npt.NDArray[Any],
    specs: Seq[Spec],
    first: Seq[int],
    epoch: int,
    indices: Seq[int],
) -> Any:
    """Sample the parameters into rows; return which rows act."""
    ranges = _ranges_of(op)
    if ranges is not None:
        numbers = draw_steps(op.seed, op.stream_name, epoch, indices, ranges.steps)
        return ranges.write(rows, numbers, op.p)
    if len(specs) > _MAX_SEPARATE_DRAWS and _can_draw_together(op) and alike(specs):
        try:
            return _drawn_together(op, rows, specs, BatchGenerator(op.seed, op.stream_name, epoch, indices))
        except DivergedStreamsError:
            pass
    return _drawn_one_by_one(op, rows, first, [*sampled(op, specs, epoch, indices)])


def sampled(
    op: Declaration, specs: Seq[Spec], epoch: int, indices: Seq[int]
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Sample each sample by its own generator."""
    for spec, rng in zip(specs, streams(op.seed, op.stream_name, epoch, indices), strict=True):
        values = op.sample(rng, spec)
        # last, so that another p leaves the other sampled values unchanged
        yield values, op.p == 1 or rng.random(spec.frames if op.per_frame else None) < op.p


class _Ranges(NamedTuple):
    """Parameters that are each sampled from a range, once for each sample, and the key of operators that have one.

    Python floats are the fastest here.

    Attributes:
        fields: field of a row for each number, with the index in a vector; None if the field is a number.
        lo: least value of each number.
        width: greatest value minus the least; 1 for the words of a key.
        steps: how the numbers are drawn, and last the one that decides whether the operator acts, if that is random.
    """

    fields: tuple[tuple[str, int | None], ...]
    lo: tuple[float, ...]
    width: tuple[float, ...]
    steps: Steps

    def write(self, rows: npt.NDArray[Any], numbers: Seq[Seq[float]], p: float) -> Any:
        """Write the values that :meth:`Distribution.draw` would return; return which rows act."""
        for (name, element), lo, width, drawn in zip(self.fields, self.lo, self.width, numbers, strict=False):
            column = rows[name] if element is None else rows[name][:, element]
            for row, number in enumerate(drawn):
                column[row] = lo + width * number
        return np.array([number < p for number in numbers[-1]]) if p < 1 else True


def _ranges_of(op: Declaration) -> _Ranges | None:
    """Return the ranges of an operator that samples only these and a key, once for each sample; else None; cached."""
    cached = op.__dict__.get("_ranges", op)
    if cached is op:
        cached = op.__dict__["_ranges"] = _ranges(op)
    ranges: _Ranges | None = cached
    return ranges


def _ranges(op: Declaration) -> _Ranges | None:
    if op.is_by_frame or type(op).sample is not Declaration.sample:
        return None
    fields: list[tuple[str, int | None]] = []
    ends: list[tuple[float, float]] = []
    for q, value, _ in op.distributions:
        if type(value) is not Uniform or q.param.kind is not float or not value.is_finite:
            return None
        for element in range(q.size) if q.size else (None,):
            lo, hi = (float(end[element] if np.ndim(end) else end) for end in (value.lo, value.hi))
            # rounding must not exceed the upper bound; Parameter.draw clips such ranges
            if q.param.hi is not None and lo + (hi - lo) * _LAST > q.param.hi:
                return None
            fields.append((q.name, element))
            ends.append((lo, hi))
    steps = [0] * len(fields)
    if op.traits.keyed:
        fields += [("key", 0), ("key", 1)]
        ends += [(0.0, 1.0)] * 2
        steps += [KEY_END] * 2
    if op.p < 1:
        steps.append(0)
    return _Ranges(
        tuple(fields), tuple(lo for lo, _ in ends), tuple(hi - lo for lo, hi in ends), tuple(steps)
    )


def _can_draw_together(op: Declaration) -> bool:
    """Return whether all samples draw in the same steps, and :class:`BatchGenerator` supports these."""
    cached: bool | None = op.__dict__.get("_in_step")
    if cached is None:
        own = op.overrides_sample and not op.traits.samples_together
        known = all(
            type(value) is Choice or (type(value) is Uniform and value.is_finite)
            for _, value, _ in op.distributions
        )
        cached = op.__dict__["_in_step"] = known and not own
    return cached


def _drawn_together(op: Declaration, rows: npt.NDArray[Any], specs: Seq[Spec], draws: BatchGenerator) -> Any:
    """Sample all samples of one spec at once."""
    of_samples = rows.reshape(len(specs), -1)
    rng: Any = draws  # has the methods of a generator that such operators use
    for name, value in op.sample(rng, specs[0]).items():
        column = of_samples[name]
        if missing := column.ndim - value.ndim:  # axes of frames or of a vector
            value = value.reshape(len(value), *[1] * missing, *value.shape[1:])
        column[...] = value
    if op.p == 1:
        return True
    acts = draws.random(specs[0].frames if op.per_frame else None) < op.p
    return acts.ravel() if acts.size == len(rows) else acts.repeat(len(rows) // len(acts))


def _drawn_one_by_one(
    op: Declaration, rows: npt.NDArray[Any], first: Seq[int], drawn_values: Seq[tuple[dict[str, Any], Any]]
) -> Any:
    """Write what :func:`sampled` yields for all samples."""
    acts: Any = True
    if op.p < 1:
        acts = np.empty(len(rows), np.bool_)
        for (_, each), start, end in zip(drawn_values, first, first[1:], strict=False):
            acts[start:end] = each
    names = {tuple(values) for values, _ in drawn_values}
    if len(drawn_values) > 1 and not op.is_by_frame and len(names) == 1:
        for name in names.pop():  # writing columns takes a fifth of the time of writing rows
            drawn, column = np.array([values[name] for values, _ in drawn_values]), rows[name]
            # one number drawn for a vector applies to all of its elements
            column[...] = drawn if drawn.ndim == column.ndim else drawn[:, None]
        return acts
    for (values, _), start, end in zip(drawn_values, first, first[1:], strict=False):
        for name, value in values.items():
            rows[name][start:end] = value
    return acts


def write_table(
    op: Declaration, q: Parameter, rows: npt.NDArray[Any], specs: Seq[Spec], first: Seq[int]
) -> None:
    """Write the values of an array parameter, one for each sample or frame."""
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
            raise op.refusal(
                f"{q.name} has values for {array.shape[:axes]}",
                allowed=f"{wanted}, the {what} given",
                advice=_per_frame_advice(q, array.shape[:axes], spec.frames),
            )
        rows[q.name][start:end] = array if isinstance(value, PerFrame) and axes == 1 else array[sample]


def _per_frame_advice(q: Parameter, shape: tuple[int, ...], frames: int) -> str | None:
    """Return advice if the shape of an array fits the frames of a sample."""
    if not q.by_frame or shape[-1:] != (frames,):
        return None
    return f"For a value for each frame, pass {q.name}=ops.per_frame(…) of the array"


def alike(specs: Seq[Spec]) -> bool:
    """Return whether all samples have the same spec."""
    return len(specs) == 1 or specs.count(specs[0]) == len(specs)


def indices_of(op: Declaration, index: Any, samples: int) -> Seq[int]:
    """Return the index of each sample, from the indices of all, the index of the first, or None."""
    if index is None:
        return range(samples)
    try:
        indices = np.asarray(index)
    except ValueError:  # rows of different lengths
        indices = np.empty((0, 0), object)
    if indices.ndim == 0:
        first = stream_index(index, "index", op.name)
        stream_index(first + samples - 1, "index", op.name)
        return range(first, first + samples)
    if indices.shape != (samples,) or indices.dtype.kind not in "iu":
        raise op.refusal(
            f"index has the shape {indices.shape} and the type {indices.dtype}",
            allowed=f"a whole number, or {samples} of them",
        )
    return [stream_index(number, "index", op.name) for number in indices.tolist()]
