"""Zip: one index, several sources, such as the views of several cameras."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..array import IntArray
from ..dataset.dataset import Dataset
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome, SampleSource
from ..errors import ParameterError, SeqpipeError
from ..ops import Type
from ..readers.report import Report

__all__ = ["Zipped", "zip"]


@dataclass(frozen=True, eq=False)
class Zipped:
    """The samples of several sources with one index; parts are named ``left.image``.

    Attributes:
        sources: the sources by name, of one size.
    """

    sources: Mapping[str, SampleSource]
    name: str = "zip"
    fill: float = 0.0

    @property
    def _first(self) -> SampleSource:
        return next(iter(self.sources.values()))

    @property
    def size(self) -> int:
        """Number of samples."""
        return self._first.size

    @property
    def unit(self) -> int:
        """That of the first source."""
        return self._first.unit

    @property
    def mix(self) -> int:
        """That of the first source."""
        return self._first.mix

    @property
    def seed(self) -> int:
        """That of the first source."""
        return self._first.seed

    @property
    def shuffle(self) -> bool:
        """That of the first source."""
        return self._first.shuffle

    @property
    def device(self) -> str:
        """That of the first source."""
        return self._first.device

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return {
            f"{side}.{name}": part_type
            for side, s in self.sources.items()
            for name, part_type in s.parts.items()
        }

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return {f"{side}_{name}": fact for side, s in self.sources.items() for name, fact in s.facts.items()}

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        del heads
        plans = {side: source.plan(epoch, indices) for side, source in self.sources.items()}
        return ReadPlan(epoch, indices, sum(plan.nbytes for plan in plans.values()), plans)

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return {side: source.begin(plan.work[side], stack=stack) for side, source in self.sources.items()}

    def finish(self, work: Any) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        reads = {side: source.finish(work[side]) for side, source in self.sources.items()}
        stacked = {
            f"{side}.{name}": array for side, read in reads.items() for name, array in read.stacked.items()
        }
        rows = _rows([read.outcomes for read in reads.values()])
        return ReadResult(tuple(_merged(dict(_rows([list(reads), row]))) for row in rows), stacked)

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        for side, source in self.sources.items():
            source.cancel(work[side])

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return {
            f"{side}.{name}": value
            for side, source in self.sources.items()
            for name, value in source.metadata(indices).items()
        }

    def report(self) -> Report:
        """Return that of the first source."""
        return self._first.report()

    def stats(self) -> dict[str, Any]:
        """Return those of each source by its name."""
        return {side: source.stats() for side, source in self.sources.items()}

    def close(self) -> None:
        """Close the sources."""
        for source in self.sources.values():
            source.close()

    def __repr__(self) -> str:
        return f"zip({', '.join(f'{side}={source!r}' for side, source in self.sources.items())})"


def _rows(columns: list[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of columns of one length."""
    return [tuple(column[number] for column in columns) for number in range(len(columns[0]))]


def _merged(outcomes: Mapping[str, SampleOutcome]) -> SampleOutcome:
    """Return the parts of all sources; the first error, or None if one of them is left out."""
    parts: dict[str, Any] = {}
    index = -1
    for side, outcome in outcomes.items():
        if isinstance(outcome, SeqpipeError) or outcome is None:
            return outcome
        index = outcome[0]
        parts.update({f"{side}.{name}": value for name, value in outcome[1].items()})
    return index, parts


def zip(**datasets: Dataset) -> Dataset:  # noqa: A001  read as seqpipe.zip
    """Return a data set whose samples have the parts of several: one index, several sources.

    both = seqpipe.zip(left=left_camera, right=right_camera)       # parts "left.image", "right.image"

    SampleOrder, seed and shuffle are those of the first. Call it before map() and batch().

    Raises:
        ParameterError: there is none, sizes differ, or one has operators or batches.
    """
    if not datasets:
        raise ParameterError("zip of no data sets", source="zip", allowed="name=dataset, …")
    sizes = {name: dataset.size for name, dataset in datasets.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ParameterError(f"the data sets have different sizes: {told}", source="zip", allowed="one size")
    for name, dataset in datasets.items():
        if dataset.steps or dataset.batch_size is not None:
            raise ParameterError(
                f"{name} has operators or batches", source="zip", advice="Call map() and batch() after it"
            )
    return Dataset(Zipped({name: dataset.source for name, dataset in datasets.items()}))
