"""Asker: one thread's part of a stress, which asks in an order that no one would think of, and judges what comes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import seqpipe
from seqpipe import Dataset
from seqpipe.array import IntArray
from seqpipe.dataset import Epoch
from seqpipe.errors import SeqpipeError
from seqpipe.sequence import Sequence
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.engine.engine import Engine, PendingRead
from seqpipe.video.plan import Request
from seqpipe.video.reader import VideoReader
from tests.support.judge import MISSING, Answer, Asked, Judge
from tests.support.truth import PLAIN, Known

__all__ = ["SIZED", "SIZED_STRIDE", "Asker", "Readers", "Shared"]

SIZED: Final = OutputSpec(size=(96, 128))
"""The output of the dataset whose sequences have a stride."""
SIZED_STRIDE: Final = 3

_OUTPUTS: Final = (
    OutputSpec(color="GRAY"),
    OutputSpec(color="BGR", size=(72, 120)),
    OutputSpec(mirror=True),
    OutputSpec(dtype="float16", layout="FCHW", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4)),
    OutputSpec(dtype="float32", short_side=80),
)
_UNDER_WAY, _OPEN_READERS, _BATCH = 3, 12, 8


class Readers:
    """Readers of single files for all askers: each is used by one at a time, and then by any other.

    Args:
        options: what they are opened with.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._idle: OrderedDict[Known, list[VideoReader]] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def reader(self, known: Known) -> Iterator[VideoReader]:
        """One that someone has used before, or a new one."""
        with self._lock:
            idle = self._idle.get(known)
            reader = idle.pop() if idle else None
        reader = reader or seqpipe.open(known.path, **self._options)
        yield reader  # after an error nothing goes on, and it may be in use
        with self._lock:
            self._idle.setdefault(known, []).append(reader)
            self._idle.move_to_end(known)
            surplus = self._idle.popitem(last=False)[1] if len(self._idle) > _OPEN_READERS else []
        for reader in surplus:
            reader.close()

    def close(self) -> None:
        """Close all that no one uses."""
        while self._idle:
            for reader in self._idle.popitem()[1]:
                reader.close()


@dataclass(frozen=True, eq=False)
class Shared:
    """What all askers use at once.

    Attributes:
        files: what they ask for.
        engine: decodes batches of requests.
        readers: of single files.
        datasets: of those files that are sound, each with its output.
        judge: of what comes.
        faults: what was wrong, as sentences.
    """

    files: Seq[Known]
    engine: Engine
    readers: Readers
    datasets: Seq[tuple[OutputSpec, Dataset]]
    judge: Judge
    faults: list[str]


class Asker:
    """Asks by every way: batches of an engine, readers of single files, datasets.

    What it asks for depends on the seed and its number alone, not on when answers come or on what others ask for.

    Args:
        shared: what it asks, together with others.
        number: its own.
        seed: decides what is asked for.

    Attributes:
        requests: sequences that were asked for.
        frames: pictures that came.
    """

    def __init__(self, shared: Shared, number: int, seed: int) -> None:
        self._shared, self._number = shared, number
        self._random = np.random.Generator(np.random.Philox([seed, number]))
        self._waiting: deque[tuple[list[Asked], PendingRead]] = deque()
        self._passes = [(output, _pass(dataset, self._random)) for output, dataset in shared.datasets]
        self._by_path = {known.path: known for known in shared.files}
        self.requests = self.frames = 0

    def run(self, requests: int, until: float, enough: Callable[[], bool]) -> None:
        """Ask so many times, or until a moment of ``time.monotonic``, or until it is enough; then come to rest."""
        end = self.requests + requests
        ways = (self._by_engine, self._by_reader, self._by_dataset)
        while self.requests < end and time.monotonic() < until and not enough():
            for answer in ways[int(self._random.choice(3, p=(0.75, 0.1, 0.15)))]():
                self._judge(*answer)
        while self._waiting:
            for answer in self._arrived():
                self._judge(*answer)

    def _by_engine(self) -> Iterator[Answer]:
        """Submit a batch of one file or of many, now and then with requests that must fail; take an earlier one."""
        count = int(self._random.integers(1, 13))
        files = [self._pick() for _ in range(1 if self._random.random() < 0.2 else count)]
        asked = [self._asked(files[i % len(files)]) for i in range(count)]
        if self._random.random() < 0.05:
            asked += [Asked(np.array([0]), None), Asked(np.array([1 << 20]), self._pick())]
        requests = [Request(a.known.path if a.known else MISSING, a.frames, output=a.output) for a in asked]
        self._waiting.append((asked, self._shared.engine.submit(requests)))
        if len(self._waiting) > _UNDER_WAY:
            yield from self._arrived()

    def _arrived(self) -> Iterator[Answer]:
        asked, pending = self._waiting.popleft()
        yield from zip(asked, pending.result(), strict=True)

    def _by_reader(self) -> Iterator[Answer]:
        """Ask a reader that is open, or a new one: in any order, for a slice, one by one, or for a part of a stream."""
        known, manner = self._pick(), int(self._random.integers(0, 4))
        start = int(self._random.integers(0, len(known)))
        numbers = np.arange(start, min(len(known), start + 12), int(self._random.integers(1, 4)))
        with self._shared.readers.reader(known) as reader:
            if manner == 0:
                numbers = _frames(self._random, len(known))
                yield Asked(numbers, known), _outcome(lambda: reader.frames(numbers))
            elif manner == 1:
                step = int(np.diff(numbers)[0]) if len(numbers) > 1 else 1
                yield (
                    Asked(numbers, known),
                    _outcome(lambda: reader[start : int(numbers[-1]) + 1 : step]),
                )
            elif manner == 2 or known.lost:
                for number in range(start, min(len(known), start + 5)):
                    yield (
                        Asked(np.array([number]), known),
                        _outcome(partial(reader.__getitem__, number)),
                    )
            else:
                with closing(reader.stream(np.arange(start, len(known), 2))) as stream:
                    for number, frame in zip(range(start, start + 12, 2), stream, strict=False):
                        yield Asked(np.array([number]), known), frame

    def _by_dataset(self) -> Iterator[Answer]:
        """The next batch of a dataset, and after the last one those of its first epoch again."""
        output, batches = self._passes[int(self._random.integers(0, len(self._passes)))]
        for sequence in (next(batches, None) or next(iter(batches)))["image"]:
            known = self._by_path[sequence.source]
            strided = np.arange(len(sequence)) * SIZED_STRIDE + sequence.frames[0]
            yield Asked(strided if output is SIZED else sequence.frames, known, output), sequence

    def _pick(self) -> Known:
        return self._shared.files[int(self._random.integers(0, len(self._shared.files)))]

    def _asked(self, known: Known) -> Asked:
        other = int(self._random.integers(0, 5 * len(_OUTPUTS)))
        output = _OUTPUTS[other] if other < len(_OUTPUTS) else PLAIN
        return Asked(_frames(self._random, len(known)), known, output)

    def _judge(self, asked: Asked, found: Sequence | SeqpipeError) -> None:
        self.requests += 1
        self.frames += 0 if isinstance(found, SeqpipeError) else len(asked.frames)
        if wrong := self._shared.judge.wrong(asked, found):
            self._shared.faults.append(f"asker {self._number}, request {self.requests}, {asked}: {wrong}")


def _pass(dataset: Dataset, random: np.random.Generator) -> Epoch:
    """An iterator of its own over a data set, that stands somewhere in its first epoch."""
    batches = dataset.batch(_BATCH)
    state = {**batches.epoch(0).state_dict(), "history": [[1, int(random.integers(0, len(dataset)))]]}
    return batches.resume(state)


def _frames(random: np.random.Generator, count: int) -> IntArray:
    """Frame numbers: scattered, strided, backward, some again and again, the ends, or all."""
    length = int(random.choice([1, 2, 4, 8, 12]))
    start, stride = int(random.integers(0, count)), int(random.integers(1, 7))
    strided = np.arange(start, count, stride)[:length]
    kinds: tuple[Callable[[], IntArray], ...] = (
        lambda: random.integers(0, count, length),
        lambda: strided,
        lambda: strided[::-1].copy(),
        lambda: np.repeat(random.integers(0, count, 2), length),
        lambda: np.array([0, count - 1, 0, count // 2]),
        lambda: np.arange(count),
    )
    return kinds[int(random.choice(len(kinds), p=(0.3, 0.3, 0.2, 0.1, 0.08, 0.02)))]()


def _outcome(ask: Callable[[], Sequence]) -> Sequence | SeqpipeError:
    try:
        return ask()
    except SeqpipeError as error:
        return error
