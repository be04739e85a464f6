"""Computation: the stages of a data set on what its source has read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import SeqpipeError
from ..parts import Sample
from .samples import Samples, collated, first_error
from .source import ReadResult, SampleOutcome
from .stages import DatasetStage, Function, GraphStage

__all__ = ["Computation"]

_DERIVED: Final = frozenset(("index",))  # parts that batches know themselves


@dataclass(frozen=True, eq=False)
class Computation:
    """The stages between reading and the consumer.

    Attributes:
        by_sample: stages that run sample by sample.
        by_batch: stages that run on whole batches, after these.
        finished: returns parts as samples, from parts, epoch and index.
        is_single: whether samples are returned one by one.
    """

    by_sample: tuple[DatasetStage, ...]
    by_batch: tuple[DatasetStage, ...]
    finished: Callable[[Mapping[str, Any], int, Any], Samples]
    is_single: bool

    def __call__(self, *, epoch: int, index: Any, **values: Any) -> tuple[Any, ...]:
        """Return the samples of a batch; or a tuple of samples and errors."""
        (handed,) = values.values()
        value = handed.take()
        if isinstance(value, ReadResult):
            waiting, value = deque(value.outcomes), None
            outcomes = self._samples(waiting, epoch)
            if self.is_single:
                return (outcomes,)
            parts, lost = self._joined(outcomes)
        else:
            (parts, lost), value = value, None
        for stage in self.by_batch:
            parts = self._after(stage, parts, epoch, index)
        result = self.finished(parts, epoch, index)
        result.lost = lost
        return (result,)

    def _after(self, stage: DatasetStage, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """Return parts after a stage; functions and graphs see labels and times, too."""
        if isinstance(stage, (Function, GraphStage)):
            parts = self.finished(parts, epoch, index)
        done = stage(parts, epoch, index)
        history = (*getattr(parts, "_history", ()), *getattr(done, "_history", ()))
        return Sample(done, history) if history else done

    def _joined(self, outcomes: tuple[Any, ...]) -> tuple[dict[str, Any], int]:
        """Return samples as one batch, and the number of those that are left out."""
        if (error := first_error(outcomes)) is not None:
            raise error
        samples = [(outcome.index, dict(outcome)) for outcome in outcomes if isinstance(outcome, Samples)]
        parts = collated(samples, {}).parts
        kept = {name: part for name, part in parts.items() if name not in _DERIVED}
        return kept, len(outcomes) - len(samples)

    def _samples(self, outcomes: deque[SampleOutcome], epoch: int) -> tuple[Any, ...]:
        """Return samples after their stages, and drop each that is done; an error, or None, is handed on."""
        for stage in self.by_sample:
            begun = deque(self._begun(stage, outcomes.popleft(), epoch) for _ in range(len(outcomes)))
            while begun:
                outcomes.append(self._done(begun.popleft()))
        return tuple(
            self.finished(outcome[1], epoch, outcome[0]) if isinstance(outcome, tuple) else outcome
            for outcome in outcomes
        )

    def _begun(self, stage: DatasetStage, outcome: SampleOutcome, epoch: int) -> Callable[[], SampleOutcome]:
        """Begin a stage on one sample, and return what waits for its end; functions may run in processes."""
        if not isinstance(outcome, tuple):
            return lambda: outcome
        index, parts = outcome
        if isinstance(stage, Function):
            wait = stage.begin(self.finished(parts, epoch, index))
            return lambda: (index, wait())
        return lambda: (index, self._after(stage, parts, epoch, index))

    def _done(self, wait: Callable[[], SampleOutcome]) -> SampleOutcome:
        try:
            return wait()
        except SeqpipeError as error:
            if not self.is_single:
                raise
            return error
