"""Base class of the framework iterators: epochs, last batches, names of outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from enum import Enum
from reprlib import repr as short
from typing import Any, Final

from ...core.turns import TakesTurns
from ...dataset.dealt import Last
from ...errors import ParameterError, StateError
from ...pipeline.executor import BatchResult
from ...sampling import check_count
from ..pipeline import Pipeline
from ..value import Value, value_of

__all__ = ["DALIIterator", "LastBatchPolicy"]


class LastBatchPolicy(Enum):
    """Policy for an incomplete last batch.

    FILL completes it from the start of the epoch, or with the last sample if the reader pads; DROP leaves it out;
    PARTIAL returns it short.
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


_LAST_BATCH: Final[dict[LastBatchPolicy, Last]] = {
    LastBatchPolicy.DROP: "drop",
    LastBatchPolicy.PARTIAL: "partial",
}
_RESETS: Final = {False: False, "no": False, None: False, True: True, "yes": True}


class DALIIterator(TakesTurns, ABC, Iterator[list[Any]]):
    """Batches of one or several pipelines, as a list with an entry for each pipeline.

    Each epoch returns every sample of the reader once, in the same number of batches, for every policy. ``iter()``
    continues after a ``break``, and starts the next epoch after the end.

    Args:
        pipelines: one pipeline, or a list.
        output_map: a name for each output.
        size: samples of an epoch over all pipelines, without ``reader_name``; -1 iterates until a source ends.
        reader_name: name of the reader that determines the epochs.
        auto_reset: whether the next epoch starts without a call of :meth:`reset`.
        fill_last_batch: older form of the policy: True is FILL, False PARTIAL.
        dynamic_shape: accepted and ignored; shapes may always differ between batches.
        last_batch_padded: accepted and ignored.
        last_batch_policy: policy for an incomplete last batch.
        prepare_first_batch: whether to start reading in the constructor.

    Raises:
        ParameterError: names do not match the outputs, or arguments exclude each other.
        KeyError: the reader does not exist.
    """

    in_turn = ("checkpoints",)

    def __init__(
        self,
        pipelines: Pipeline | Seq[Pipeline],
        output_map: Seq[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: bool | str | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool = False,  # noqa: ARG002  DALI's signature
        last_batch_padded: bool = False,  # noqa: ARG002  DALI's signature
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        self._pipes = [pipelines] if isinstance(pipelines, Pipeline) else list(pipelines)
        if not self._pipes or any(not isinstance(pipe, Pipeline) for pipe in self._pipes):
            raise ParameterError(
                "pipelines", source=type(self).__name__, allowed="a Pipeline, or a list of Pipelines"
            )
        if auto_reset not in _RESETS:
            raise ParameterError(
                f"auto_reset={auto_reset!r} is not valid",
                source=type(self).__name__,
                allowed="True, False, 'yes', 'no'",
            )
        if reader_name is not None and size != -1:
            raise ParameterError(
                f"size={size} and reader_name={reader_name!r} exclude one another",
                source=type(self).__name__,
                advice="Leave size out: the reader determines it",
            )
        if fill_last_batch is not None:
            last_batch_policy = LastBatchPolicy.FILL if fill_last_batch else LastBatchPolicy.PARTIAL
        self._resets, self._policy = _RESETS[auto_reset], last_batch_policy
        self._reader, self._size = reader_name, size
        self._returned, self._ended, self._exhausted = 0, False, False
        for pipe in self._pipes:
            pipe.build()
            self._reserve(pipe)
        self._names = self._check_names(list(output_map))
        if prepare_first_batch:
            for pipe in self._pipes:
                pipe.executor.fill(pipe.executor.prefetch, ahead=True)

    def _reserve(self, pipe: Pipeline) -> None:
        """Reserve a pipeline for this iterator, and set the last batch of the reader that determines the epochs."""
        if self._reader is None:
            pipe.reserve_for("an iterator")
            return
        default: Last = "pad" if pipe.source_of_reader(self._reader).last_batch == "pad" else "fill"
        pipe.reserve_for("an iterator", self._reader, _LAST_BATCH.get(self._policy, default))

    def _check_names(self, names: list[str]) -> list[str]:
        counts = {pipe.output_count for pipe in self._pipes}
        if counts != {len(names)} or len(set(names)) != len(names):
            labels = ", ".join(f"{n}: {label}" for n, label in enumerate(self._pipes[0].output_labels))
            raise ParameterError(
                f"output_map={names!r} for {' and '.join(map(str, sorted(counts)))} outputs",
                source=type(self).__name__,
                allowed=f"a distinct name for each output ({labels})",
            )
        return names

    @property
    def batch_size(self) -> int:
        """Samples in a batch of the first pipeline."""
        return self._pipes[0].batch_size

    @property
    def size(self) -> int:
        """Number of samples of an epoch over all shards of the reader; -1 if unknown."""
        return int(self._pipes[0].epoch_size(self._reader)) if self._reader is not None else self._size

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        if self._reader is not None:
            return self._pipes[0].source_of_reader(self._reader).batches(0)
        if self._size < 0:
            raise TypeError("the number of batches is unknown: give size= or reader_name=")
        return self._batch_count()

    def _batch_count(self) -> int:
        """Return the number of batches of an epoch of ``size`` samples."""
        per_pipeline = -(-self._size // len(self._pipes))
        if self._policy is LastBatchPolicy.DROP:
            return per_pipeline // self.batch_size
        return -(-per_pipeline // self.batch_size)

    def __iter__(self) -> DALIIterator:
        if self._ended:
            self.reset()
        return self

    def __next__(self) -> list[Any]:
        if self._ended:
            raise StopIteration
        if self._reader is None and self._size >= 0 and self._returned >= self._batch_count():
            self._end_epoch()
        batches: list[BatchResult] = []
        for pipe in self._pipes:
            result = pipe.next_batch()
            if result is None:
                self._exhausted = True
                self._end_epoch()
            else:
                batches.append(result)
        self._returned += 1
        return [self._batch(pipe, result) for pipe, result in zip(self._pipes, batches, strict=True)]

    def next(self) -> list[Any]:
        """Return the next batch."""
        return next(self)

    def _end_epoch(self) -> None:
        """Raise StopIteration, after a reset if the iterator resets itself."""
        self._ended = True
        if self._resets:
            self.reset()
        raise StopIteration

    def _valid_count(self, result: BatchResult) -> int:
        """Return the number of samples of a batch that belong to the epoch."""
        if self._reader is None and self._policy is LastBatchPolicy.PARTIAL and self._size >= 0:
            per_pipeline = -(-self._size // len(self._pipes))
            return min(result.samples.valid, per_pipeline - (self._returned - 1) * self.batch_size)
        return result.samples.valid

    def _batch(self, pipe: Pipeline, result: BatchResult) -> Any:
        """Return a pipeline's batch in the framework's form, without samples beyond the epoch."""
        valid = self._valid_count(result)
        outputs: dict[str, Any] = {}
        for name, value, label in zip(
            self._names, map(value_of, result.values), pipe.output_labels, strict=True
        ):
            samples = value.only(valid) if valid < len(value) else value
            outputs[name] = self.converted(samples, name, f"the output {name} ({label})")
        return self.mapped(outputs)

    @abstractmethod
    def converted(self, value: Value, name: str, title: str) -> Any:
        """Return an output as an array of the framework.

        Args:
            value: the output.
            name: its name in ``output_map``.
            title: description of the output, for messages.

        Raises:
            ParameterError: samples differ in shape, and the framework needs one array.
        """

    def mapped(self, batch: dict[str, Any]) -> Any:
        """Return the batch of one pipeline in the framework's form."""
        return batch

    def reset(self) -> None:
        """Start the next epoch."""
        for pipe in self._pipes:
            if self._reader is not None or self._exhausted or pipe.restarts or pipe.executor.ended():
                pipe.reset()
        self._returned, self._ended, self._exhausted = 0, False, False

    def state_dict(self) -> Mapping[str, Any]:
        """Return the position as plain values."""
        return {
            "given": self._returned,
            "ended": self._ended,
            "pipelines": [dict(p.state_dict()) for p in self._pipes],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state with exactly the batches that would have followed.

        Raises:
            StateError: the state belongs to other pipelines.
        """
        states = state.get("pipelines") if isinstance(state, Mapping) else None
        if not isinstance(states, list) or len(states) != len(self._pipes):
            raise StateError(
                f"the state is not that of {len(self._pipes)} pipelines",
                source=type(self).__name__,
                allowed="what state_dict() of an iterator over as many pipelines returns",
            )
        bound = () if self._reader is not None or self._size < 0 else (self._batch_count(),)
        returned = check_count("given", state.get("given"), *bound, source=type(self).__name__)
        if not isinstance(ended := state.get("ended"), bool):
            raise StateError(
                f"ended={short(ended)} is not valid in a state", source=type(self).__name__, allowed="a bool"
            )
        for pipe, pipe_state in zip(self._pipes, states, strict=True):
            pipe.load_state_dict(pipe_state)
        self._returned, self._ended = returned, ended

    def checkpoints(self) -> list[str]:
        """Return the state of each pipeline as text."""
        return [pipe.checkpoint() for pipe in self._pipes]
