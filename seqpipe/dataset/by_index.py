"""Reading samples by their indices, without an order, ranks or threads that read ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..array import IntArray
from ..errors import ParameterError, SeqpipeError
from .compute import Computation
from .samples import Handed, Samples, collated, first_error
from .source import ReadResult

__all__ = ["readable_at", "sample_at", "samples_at"]


def sample_at(dataset: Any, index: int, epoch: int) -> Samples:
    """Return one sample of a :class:`seqpipe.dataset.Dataset`; see :meth:`seqpipe.dataset.Dataset.sample`."""
    compute = Computation(dataset.absorbed.stages, (), dataset.finished, is_single=True)
    read = _read(dataset, np.array([index], np.int64), epoch, stack=False)
    ((outcome,),) = compute(epoch=epoch, index=index, value=Handed(read))
    if isinstance(outcome, SeqpipeError):
        raise outcome
    if outcome is None:
        raise _unreadable(f"sample {index}")
    return outcome  # type: ignore[no-any-return]  # Samples


def samples_at(dataset: Any, indices: IntArray, epoch: int) -> Samples:
    """Return samples of a data set as one batch; see :meth:`seqpipe.dataset.Dataset.read`."""
    result = readable_at(dataset, indices, epoch)
    if result is None:
        raise _unreadable("none of the samples")
    return result


def readable_at(dataset: Any, indices: IntArray, epoch: int) -> Samples | None:
    """Return samples of a data set as one batch, without those that ``on_error`` leaves out; None if none is left."""
    read = _read(dataset, indices, epoch, stack=True)
    if (error := first_error(read.outcomes)) is not None:
        raise error
    whole = replace(dataset, batch_size=len(indices), batched_at=0) if dataset.is_single else dataset
    done = [outcome for outcome in read.outcomes if isinstance(outcome, tuple)]
    if not done:
        return None
    stacked = read.stacked if len(done) == len(read.outcomes) else {}
    batch = collated(done, stacked)
    compute = whole.transform()
    result: Samples
    if compute is None:
        result = dataset.finished(batch.parts, epoch, batch.index)
    else:
        value: Any = read if whole.by_sample else (batch.parts, len(read.outcomes) - len(done))
        (result,) = compute(epoch=epoch, index=batch.index, value=Handed(value))
    result.sources = batch.sources
    return result


def _read(dataset: Any, indices: IntArray, epoch: int, *, stack: bool) -> ReadResult:
    plan = dataset.source.plan(epoch, indices, dataset.heads_of(indices))
    result: ReadResult = dataset.source.finish(dataset.source.begin(plan, stack=stack))
    return result


def _unreadable(what: str) -> ParameterError:
    verb = "can" if what.startswith("none") else "cannot"
    return ParameterError(f"{what} {verb} be read", source="Dataset", advice="See the data set's report()")
