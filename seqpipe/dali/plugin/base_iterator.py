"""Iterators over pipelines, whatever the framework: epochs, last batches, names of outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from enum import Enum
from typing import Any, Final

from ...errors import ParameterError
from ...pipeline.executor import Made
from ...pipeline.source import PipelineLastBatch
from ...pipeline.value import Value, value_of
from ..pipeline import Pipeline

__all__ = ["DALIIterator", "LastBatchPolicy"]


class LastBatchPolicy(Enum):
    """What becomes of a last batch that is not full.

    FILL completes it from the start of the epoch, or with the last sample where the reader pads; DROP leaves it out;
    PARTIAL gives it short.
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


_CUT: Final[dict[LastBatchPolicy, PipelineLastBatch]] = {
    LastBatchPolicy.DROP: "drop",
    LastBatchPolicy.PARTIAL: "partial",
}
_RESETS: Final = {False: False, "no": False, None: False, True: True, "yes": True}


class DALIIterator(ABC, Iterator[list[Any]]):
    """Batches of one pipeline or several, as a list with an entry for each.

    Epochs are exact: each gives every sample of the reader once, in as many batches, whatever the policy did to the one
    before it. ``iter()`` goes on after a ``break``, and begins the next epoch after the end.

    Args:
        pipelines: one, or a list.
        output_map: a name for each output.
        size: samples of an epoch, of all pipelines together, where no reader says it; -1 goes on until a source ends.
        reader_name: the reader whose epochs are gone through.
        auto_reset: whether the next epoch begins by itself.
        fill_last_batch: older form of the policy: True is FILL, False PARTIAL.
        dynamic_shape: accepted; shapes may always differ from batch to batch.
        last_batch_padded: whether a source fills its last batch by itself.
        last_batch_policy: what becomes of a last batch that is not full.
        prepare_first_batch: whether batches are read ahead from now on.

    Raises:
        ParameterError: names do not fit the outputs, or arguments exclude each other.
        KeyError: there is no such reader.
    """

    def __init__(
        self,
        pipelines: Pipeline | Seq[Pipeline],
        output_map: Seq[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: bool | str | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool = False,  # noqa: ARG002  they may always differ
        last_batch_padded: bool = False,  # noqa: ARG002  what is cut off is the same
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        self._pipes = [pipelines] if isinstance(pipelines, Pipeline) else list(pipelines)
        if not self._pipes or any(not isinstance(pipe, Pipeline) for pipe in self._pipes):
            raise ParameterError(
                "pipelines", source=type(self).__name__, allowed="a Pipeline, or a list of such"
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
                advice="The reader knows its size",
            )
        if fill_last_batch is not None:
            last_batch_policy = LastBatchPolicy.FILL if fill_last_batch else LastBatchPolicy.PARTIAL
        self._resets, self._policy = _RESETS[auto_reset], last_batch_policy
        self._reader, self._size = reader_name, size
        self._given, self._ended, self._over = 0, False, False
        for pipe in self._pipes:
            pipe.build()
            self._drive(pipe)
        self._names = self._checked(list(output_map))
        if prepare_first_batch:
            for pipe in self._pipes:
                pipe.executor.fill(pipe.executor.prefetch, ahead=True)

    def _drive(self, pipe: Pipeline) -> None:
        cut = _CUT.get(self._policy)
        if self._reader is not None:
            known = pipe.reader(self._reader)
            pipe.drive("an iterator", self._reader, cut or ("pad" if known.last_batch == "pad" else "fill"))
        else:
            pipe.drive("an iterator")

    def _checked(self, names: list[str]) -> list[str]:
        counts = {pipe.output_count for pipe in self._pipes}
        if counts != {len(names)} or len(set(names)) != len(names):
            labels = ", ".join(f"{n}: {label}" for n, label in enumerate(self._pipes[0].output_labels))
            raise ParameterError(
                f"output_map={names!r} for {' and '.join(map(str, sorted(counts)))} outputs",
                source=type(self).__name__,
                allowed=f"one name of its own for each output ({labels})",
            )
        return names

    @property
    def batch_size(self) -> int:
        """Samples in a batch of the first pipeline."""
        return self._pipes[0].batch_size

    @property
    def size(self) -> int:
        """Samples of an epoch, of all shards of the reader; -1 where nobody knows."""
        return int(self._pipes[0].epoch_size(self._reader)) if self._reader is not None else self._size

    def __len__(self) -> int:
        """Batches of an epoch, the same for all.

        Raises:
            TypeError: nobody knows.
        """
        if self._reader is not None:
            return self._pipes[0].reader(self._reader).batches(0)
        if self._size < 0:
            raise TypeError("nobody knows how many batches there are: give size= or reader_name=")
        return self._count()

    def _count(self) -> int:
        """Batches of an epoch of a size that was given."""
        each = -(-self._size // len(self._pipes))
        whole = self._policy is LastBatchPolicy.DROP
        return each // self.batch_size if whole else -(-each // self.batch_size)

    def __iter__(self) -> DALIIterator:
        if self._ended:
            self.reset()
        return self

    def __next__(self) -> list[Any]:
        if self._ended:
            raise StopIteration
        if self._reader is None and self._size >= 0 and self._given >= self._count():
            self._end()
        found: list[Made] = []
        for pipe in self._pipes:
            made = pipe.made()
            if made is None:
                self._over = True
                self._end()
            else:
                found.append(made)
        self._given += 1
        return [self._batch(pipe, made) for pipe, made in zip(self._pipes, found, strict=True)]

    def next(self) -> list[Any]:
        """The next batch."""
        return next(self)

    def _end(self) -> None:
        self._ended = True
        if self._resets:
            self.reset()
        raise StopIteration

    def _valid(self, made: Made) -> int:
        """How many samples of a batch count."""
        if self._reader is None and self._policy is LastBatchPolicy.PARTIAL and self._size >= 0:
            each = -(-self._size // len(self._pipes))
            return min(made.place.valid, each - (self._given - 1) * self.batch_size)
        return made.place.valid

    def _batch(self, pipe: Pipeline, made: Made) -> Any:
        valid = self._valid(made)
        values = [value_of(one) for one in made.values]
        pairs = zip(self._names, values, pipe.output_labels, strict=True)
        return self.mapped(
            {
                name: self.converted(one.only(valid) if valid < len(one) else one, f"{name} ({label})")
                for name, one, label in pairs
            }
        )

    @abstractmethod
    def converted(self, value: Value, name: str) -> Any:
        """An output as the framework has it.

        Raises:
            ParameterError: its samples have different shapes, where one array is needed.
        """

    def mapped(self, batch: dict[str, Any]) -> Any:
        """A batch of one pipeline, as it is given out."""
        return batch

    def reset(self) -> None:
        """Begin the next epoch."""
        for pipe in self._pipes:
            if self._reader is not None or self._over or pipe.restarts or pipe.executor.ended():
                pipe.reset()
        self._given, self._ended, self._over = 0, False, False

    def state_dict(self) -> Mapping[str, Any]:
        """Where it stands, as plain values."""
        return {
            "given": self._given,
            "ended": self._ended,
            "pipelines": [dict(p.state_dict()) for p in self._pipes],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, with exactly the batches that would have come.

        Raises:
            StateError: it is of other pipelines.
        """
        for pipe, own in zip(self._pipes, state["pipelines"], strict=True):
            pipe.load_state_dict(own)
        self._given, self._ended = int(state["given"]), bool(state["ended"])

    def checkpoints(self) -> list[str]:
        """The state of each pipeline as text."""
        return [pipe.checkpoint() for pipe in self._pipes]
