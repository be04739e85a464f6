"""Requests of every kind over many files, in an order that no one would think of; whatever comes is judged."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final

import numpy as np

import seqpipe
from seqpipe.array import IntArray
from seqpipe.errors import (
    BackendError,
    DamagedSourceError,
    FrameRangeError,
    SeqpipeError,
    SourceNotFoundError,
)
from seqpipe.readers import Video
from seqpipe.sequence import Sequence
from seqpipe.video.device import Decode, parse_device
from seqpipe.video.output import OutputSpec
from seqpipe.video.places import engine_for
from seqpipe.video.request import Request
from tests.support.truth import PLAIN, Known, unlike

__all__ = ["Stress"]

_OUTPUTS: Final = (
    OutputSpec(colour="GRAY"),
    OutputSpec(colour="BGR", size=(120, 72)),
    OutputSpec(mirror=True),
    OutputSpec(dtype="float16", layout="FCHW", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4)),
    OutputSpec(dtype="float32", short_side=80),
)
_SIZED: Final = OutputSpec(size=(128, 96))
# levels that a picture may be from the CPU's on average: on the CPU, on a card, and where standards leave it open
_SAME, _NEAR, _LOOSE = 0.0, 0.5, 2.0
_LOOSE_CODECS = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})
_UNDER_WAY, _OPEN_READERS, _FAULTS = 3, 5, 20
_MISSING = "/no/such/video.mp4"


@dataclass(frozen=True, eq=False)
class _Asked:
    """A request, for whoever judges what came; of no file if it is one that does not exist."""

    frames: IntArray
    known: Known | None
    output: OutputSpec = PLAIN


_Answer = tuple[_Asked, Sequence | SeqpipeError]


class Stress:
    """Asks by every way: batches of an engine, readers of single files, datasets.

    Args:
        files: what to ask for.
        device: where frames are to be.
        decode: who decodes.
        threads: of the CPU, that decode.
        seed: decides what is asked for.

    Attributes:
        refused: the files that the device alone cannot decode; they are left out.
        faults: what was wrong, as sentences; after some of them no more is asked for.
        requests: sequences that were asked for.
        frames: pictures that came.
    """

    def __init__(
        self,
        files: Seq[Known],
        *,
        device: str = "cpu",
        decode: Decode = "auto",
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        self._random = np.random.Generator(np.random.Philox(seed))
        self._options: Any = {"device": device, "decode": decode, "threads": threads}
        self.faults: list[str] = []
        self.requests = self.frames = 0
        self._open: OrderedDict[Known, Any] = OrderedDict()
        self._waiting: deque[tuple[list[_Asked], Any]] = deque()
        self._closing = ExitStack()
        engine = engine_for(parse_device(device), decode=decode, threads=threads, cache_dir=None)
        self._engine = self._closing.enter_context(engine)
        self.refused = self._refused(files)
        self._files = [known for known in files if known not in self.refused]
        self._sound = [known for known in self._files if not known.lost]
        self._by_path = {known.path: known for known in self._sound}
        self._datasets = [
            self._dataset(self._sound, _SIZED, sequence_length=5, stride=3, step=4),
            self._dataset(self._sound[::3], PLAIN, sequence_length=3, clips_per_video=2),
        ]

    def __enter__(self) -> Stress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.clear()
        while self._open:
            self._open.popitem()[1].close()
        self._closing.close()

    def run(self, requests: int, *, until: float = float("inf")) -> None:
        """Ask so many times, or until a moment of ``time.monotonic``, or until too much is wrong; then come to rest."""
        end = self.requests + requests
        ways = (self._by_engine, self._by_reader, self._by_dataset)
        while self.requests < end and time.monotonic() < until and len(self.faults) < _FAULTS:
            for answer in ways[int(self._random.choice(3, p=(0.75, 0.1, 0.15)))]():
                self._judge(*answer)
        while self._waiting:
            for answer in self._arrived():
                self._judge(*answer)

    def stats(self) -> dict[str, dict[str, int]]:
        """Who decoded for the engine."""
        return self._engine.stats()

    def _refused(self, files: Seq[Known]) -> list[Known]:
        if self._options["decode"] != "nvdec":
            return []
        firsts = [np.array([min(set(range(len(known))) - known.lost)]) for known in files]
        answers = self._engine.read([Request(known.path, f) for known, f in zip(files, firsts, strict=True)])
        return [
            known for known, answer in zip(files, answers, strict=True) if isinstance(answer, BackendError)
        ]

    def _dataset(self, files: Seq[Known], output: OutputSpec, **options: Any) -> tuple[OutputSpec, Any]:
        paths = [known.path for known in files]
        dataset = Video(files=paths, output=output, shuffle=True, **options, **self._options)
        return output, self._closing.enter_context(dataset).batches(8)

    def _by_engine(self) -> Iterator[_Answer]:
        """Submit a batch of one file or of many, now and then with requests that must fail; take an earlier one."""
        count = int(self._random.integers(1, 13))
        files = [self._pick() for _ in range(1 if self._random.random() < 0.2 else count)]
        asked = [self._asked(files[i % len(files)]) for i in range(count)]
        if self._random.random() < 0.05:
            asked += [_Asked(np.array([0]), None), _Asked(np.array([1 << 20]), self._pick())]
        requests = [Request(a.known.path if a.known else _MISSING, a.frames, output=a.output) for a in asked]
        self._waiting.append((asked, self._engine.submit(requests)))
        if len(self._waiting) > _UNDER_WAY:
            yield from self._arrived()

    def _arrived(self) -> Iterator[_Answer]:
        asked, pending = self._waiting.popleft()
        yield from zip(asked, pending.result(), strict=True)

    def _by_reader(self) -> Iterator[_Answer]:
        """Ask a reader that is open, or a new one: in any order, for a slice, one by one, or for a part of a stream."""
        known = self._pick()
        if known not in self._open:
            while len(self._open) >= _OPEN_READERS:
                self._open.popitem(last=False)[1].close()
            self._open[known] = seqpipe.open(known.path, **self._options)
        reader, manner = self._open[known], int(self._random.integers(0, 4))
        start = int(self._random.integers(0, len(known)))
        numbers = np.arange(start, min(len(known), start + 12), int(self._random.integers(1, 4)))
        if manner == 0:
            numbers = _frames(self._random, len(known))
            yield _Asked(numbers, known), _outcome(lambda: reader.frames(numbers))
        elif manner == 1:
            step = int(np.diff(numbers)[0]) if len(numbers) > 1 else 1
            yield _Asked(numbers, known), _outcome(lambda: reader[start : int(numbers[-1]) + 1 : step])
        elif manner == 2 or known.lost:
            for number in range(start, min(len(known), start + 5)):
                yield _Asked(np.array([number]), known), _outcome(partial(reader.__getitem__, number))
        else:
            with closing(reader.stream(np.arange(start, len(known), 2))) as stream:
                for number, frame in zip(range(start, start + 12, 2), stream, strict=False):
                    yield _Asked(np.array([number]), known), frame

    def _by_dataset(self) -> Iterator[_Answer]:
        """The next batch of a dataset, and after the last one those of its first epoch again."""
        output, batches = self._datasets[int(self._random.integers(0, len(self._datasets)))]
        for sequence in next(batches, None) or next(iter(batches)):
            known = self._by_path[sequence.source]
            asked = np.arange(len(sequence)) * 3 + sequence.frames[0] if output is _SIZED else sequence.frames
            yield _Asked(asked, known, output), sequence

    def _pick(self) -> Known:
        return self._files[int(self._random.integers(0, len(self._files)))]

    def _asked(self, known: Known) -> _Asked:
        other = int(self._random.integers(0, 5 * len(_OUTPUTS)))
        output = _OUTPUTS[other] if other < len(_OUTPUTS) else PLAIN
        return _Asked(_frames(self._random, len(known)), known, output)

    def _judge(self, asked: _Asked, found: Sequence | SeqpipeError) -> None:
        self.requests += 1
        self.frames += 0 if isinstance(found, SeqpipeError) else len(asked.frames)
        if wrong := self._wrong(asked, found):
            self.faults.append(
                f"request {self.requests}, {asked.known or _MISSING} {asked.frames.tolist()}: {wrong}"
            )

    def _wrong(self, asked: _Asked, found: Sequence | SeqpipeError) -> str:
        known = asked.known
        if known is None or asked.frames.max() >= len(known):
            expected = SourceNotFoundError if known is None else FrameRangeError
            return (
                "" if isinstance(found, expected) else f"it ends in {found!r}, not in a {expected.__name__}"
            )
        lost = known.lost.intersection(asked.frames.tolist())
        if isinstance(found, DamagedSourceError):
            alone = self._options["decode"] == "nvdec"
            sound = set(found.lost) - lost
            return f"{found}" if lost - set(found.lost) or (sound and not (alone and known.lost)) else ""
        if isinstance(found, SeqpipeError):
            return f"{type(found).__name__}: {found}"
        if lost:
            return f"frames {sorted(lost)} came, which cannot be decoded"
        return unlike(found, asked.frames, asked.output, known, self._tolerance(known))

    def _tolerance(self, known: Known) -> float:
        if self._options["device"] == "cpu":
            return _SAME
        return _LOOSE if self._options["decode"] == "nvdec" and known.codec in _LOOSE_CODECS else _NEAR


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
