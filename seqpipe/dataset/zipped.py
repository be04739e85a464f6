"""Zip: one index, several sources, such as the views of several cameras."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..array import IntArray
from ..errors import ParameterError, SeqpipeError
from ..ops import Type
from ..readers.report import Report
from .dataset import Dataset
from .source import Outcome, Plan, Read, Source

__all__ = ["Zipped", "zip"]


@dataclass(frozen=True, eq=False)
class Zipped:
    """The samples of several sources with one index; parts are named ``left.image``.

    Attributes:
        sources: the sources by name, of one size.
    """

    sources: Mapping[str, Source]
    name: str = "zip"
    fill: float = 0.0

    @property
    def _first(self) -> Source:
        return next(iter(self.sources.values()))

    def __getattr__(self, name: str) -> Any:
        if name in ("size", "unit", "mix", "seed", "shuffle", "device"):
            return getattr(self._first, name)
        raise AttributeError(name)

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.Source`."""
        return {f"{side}.{name}": one for side, s in self.sources.items() for name, one in s.parts.items()}

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.Source`."""
        return {f"{side}_{name}": one for side, s in self.sources.items() for name, one in s.facts.items()}

    def plan(self, epoch: int, indices: IntArray, head: Any = None) -> Plan:
        """See :class:`seqpipe.dataset.source.Source`."""
        del head
        plans = {side: source.plan(epoch, indices) for side, source in self.sources.items()}
        return Plan(epoch, indices, sum(plan.nbytes for plan in plans.values()), plans)

    def begin(self, plan: Plan, *, stack: bool = True) -> Any:
        """See :class:`seqpipe.dataset.source.Source`."""
        return {side: source.begin(plan.work[side], stack=stack) for side, source in self.sources.items()}

    def finish(self, work: Any) -> Read:
        """See :class:`seqpipe.dataset.source.Source`."""
        reads = {side: source.finish(work[side]) for side, source in self.sources.items()}
        stacked = {f"{side}.{name}": array for side, read in reads.items() for name, array in read.stacked.items()}
        rows = zip_rows([read.outcomes for read in reads.values()])
        return Read(tuple(_merged(dict(zip_rows([list(reads), row]))) for row in rows), stacked)

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.Source`."""
        for side, source in self.sources.items():
            source.cancel(work[side])

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """See :class:`seqpipe.dataset.source.Source`."""
        return {
            f"{side}.{name}": value
            for side, source in self.sources.items()
            for name, value in source.metadata(indices).items()
        }

    def report(self) -> Report:
        """Return that of the first source."""
        result: Report = self._first.report()  # type: ignore[attr-defined]  # of every source
        return result

    def stats(self) -> dict[str, Any]:
        """Return those of each source by its name."""
        return {side: source.stats() for side, source in self.sources.items()}  # type: ignore[attr-defined]  # likewise

    def close(self) -> None:
        """Close the sources."""
        for source in self.sources.values():
            source.close()

    def __repr__(self) -> str:
        return f"zip({', '.join(f'{side}={source!r}' for side, source in self.sources.items())})"


def zip_rows(columns: list[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of columns of one length."""
    return [tuple(column[number] for column in columns) for number in range(len(columns[0]))]


def _merged(outcomes: Mapping[str, Outcome]) -> Outcome:
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

    Order, seed and shuffle are those of the first. Call it before map() and batch().

    Raises:
        ParameterError: there is none, sizes differ, or one has operators or batches.
    """
    if not datasets:
        raise ParameterError("zip of no data sets", source="zip", allowed="name=dataset, …")
    sizes = {name: one.size for name, one in datasets.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ParameterError(f"the data sets have different sizes: {told}", source="zip", allowed="one size")
    for name, one in datasets.items():
        if one.steps or one.batch_size is not None:
            raise ParameterError(f"{name} has operators or batches", source="zip", advice="Call map() and batch() after it")
    return Dataset(Zipped({name: one.source for name, one in datasets.items()}))
