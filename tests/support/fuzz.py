"""Damaged copies of videos, and what reading one may never do, however it is damaged.

Mutant ``number`` of a list of files is a function of the seed and its number alone, so one that fails is made again by
its number. Only a :class:`SeqpipeError` may be raised; a frame is the same whenever it is asked for.

One exception cannot be had otherwise, and is counted as "memory": see :mod:`seqpipe.video.decode.cpu`. Such a frame is
known by decoding the file twice, once into fresh memory and once into used memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import resource
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np

from seqpipe.errors import DamagedSourceError, SeqpipeError
from seqpipe.video.device import parse_device
from seqpipe.video.engine.engine import engine_for
from seqpipe.video.plan import Request
from seqpipe.video.probe.probe import probe
from seqpipe.video.reader import VideoReader
from tests.support.datasets import clips

from .media import MADE_DIR, made_all, shared_of

__all__ = ["MUTATIONS", "Mutant", "Verdict", "mutant", "sources", "tried"]

_ENDS = 4096
_LONGEST = 20_000
_EXTREMES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\1")
_ASKED = 3
REOPEN = "tables refuted"
_MOST_HELD = 1 << 28


def _place(data: bytearray, rng: random.Random) -> int:
    """Half of all damage lies where headers mostly are."""
    near = min(_ENDS, len(data))
    if rng.random() < 0.5:
        return rng.choice([rng.randrange(near), len(data) - 1 - rng.randrange(near)])
    return rng.randrange(len(data))


def _span(data: bytearray, rng: random.Random) -> slice:
    begin = _place(data, rng)
    return slice(begin, min(len(data), begin + rng.randrange(1, min(_LONGEST, len(data)))))


def _flip_bit(data: bytearray, rng: random.Random) -> None:
    data[_place(data, rng)] ^= 1 << rng.randrange(8)


def _flip_byte(data: bytearray, rng: random.Random) -> None:
    data[_place(data, rng)] ^= rng.randrange(1, 256)


def _flip_many(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randrange(2, 40)):
        _flip_byte(data, rng)


def _extreme(data: bytearray, rng: random.Random) -> None:
    offset = _place(data, rng)
    data[offset : offset + 4] = rng.choice(_EXTREMES)[: len(data) - offset]


def _blank(data: bytearray, rng: random.Random) -> None:
    span = _span(data, rng)
    data[span] = bytes(span.stop - span.start)


def _noise(data: bytearray, rng: random.Random) -> None:
    span = _span(data, rng)
    data[span] = rng.randbytes(span.stop - span.start)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[_place(data, rng) :]


def _leave_out(data: bytearray, rng: random.Random) -> None:
    del data[_span(data, rng)]


def _repeat(data: bytearray, rng: random.Random) -> None:
    span = _span(data, rng)
    data[span.stop : span.stop] = data[span]


def _move(data: bytearray, rng: random.Random) -> None:
    span, part = _span(data, rng), b""
    part = bytes(data[span])
    del data[span]
    offset = rng.randrange(len(data) + 1)
    data[offset:offset] = part


MUTATIONS: dict[str, Callable[[bytearray, random.Random], None]] = {
    "bit": _flip_bit,
    "byte": _flip_byte,
    "bytes": _flip_many,
    "extreme": _extreme,
    "blank": _blank,
    "noise": _noise,
    "cut": _cut,
    "left out": _leave_out,
    "repeated": _repeat,
    "moved": _move,
}


@dataclass(frozen=True)
class Mutant:
    """A damaged copy of a file.

    Attributes:
        number: among all mutants of a seed.
        name: of the file it is made from.
        kind: one of :data:`MUTATIONS`.
        data: its bytes.
    """

    number: int
    name: str
    kind: str
    data: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"mutant {self.number} of {self.name} ({self.kind})"


def mutant(files: Seq[Path], number: int, seed: int = 0) -> Mutant:
    """The mutant of some number."""
    rng = random.Random(f"{seed} {number}")
    path = files[number % len(files)]
    kind, data = rng.choice(list(MUTATIONS)), bytearray(path.read_bytes())
    MUTATIONS[kind](data, rng)
    return Mutant(number, path.name, kind, bytes(data))


@dataclass
class Verdict:
    """What became of mutants.

    Attributes:
        counts: how many were refused, read whole, read with losses.
        errors: how often each kind of error was raised.
        faults: what may not be, as sentences.
    """

    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def judged(self, subject: Mutant) -> Iterator[None]:
        """Count what is done within as read, or as refused by an error of ours; another exception is a fault."""
        try:
            yield
        except SeqpipeError as error:
            self.errors[type(error).__name__] += 1
            self.counts["refused"] += 1
        except Exception as error:
            self.faults.append(f"{subject}: raised {type(error).__name__}: {error}")
        else:
            self.counts["read"] += 1

    @contextlib.contextmanager
    def bounded(self, subject: Mutant, most_mib: int) -> Iterator[None]:
        """More memory than this, taken within, is a fault."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield
        taken = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        if taken > most_mib:
            self.faults.append(f"{subject}: takes {taken} MiB for {len(subject.data)} bytes")

    def add(self, other: Verdict) -> None:
        """Count another verdict too."""
        self.counts.update(other.counts)
        self.errors.update(other.errors)
        self.faults += other.faults


def sources(which: str) -> list[Path]:
    """Return the videos to damage: ``"made"``, ``"shared"`` or ``"all"``."""
    made = [MADE_DIR / entry.file for entry in made_all()] if which != "shared" else []
    return made + (shared_of("video") if which != "made" else [])


def tried(subject: Mutant, folder: Path, *, device: str = "cpu", seed: int = 0) -> Verdict:
    """Read a mutant by every way of asking.

    Args:
        subject: the mutant.
        folder: for its file and its index.
        device: where its frames are to be.
        seed: decides, with its number, which frames are asked for.
    """
    verdict, rng = Verdict(), random.Random(f"frames {seed} {subject.number}")
    path = folder / f"{subject.number}-{subject.name}"
    path.write_bytes(subject.data)
    options: Any = {"device": device, "threads": rng.choice([1, 1, 2]), "cache_dir": folder}
    try:
        for step in (_probed, _read, _dataset):
            try:
                step(path, options, rng, verdict)
            except SeqpipeError as error:
                str(error)
                verdict.errors[type(error).__name__] += 1
                if step is _read:
                    verdict.counts["refused"] += 1
            except Exception as error:
                verdict.faults.append(
                    f"{subject}: {step.__name__[1:]} raised {type(error).__name__}: {error}"
                )
    finally:
        path.unlink()
    verdict.faults[:] = [
        fault if str(subject) in fault else f"{subject}: {fault}" for fault in verdict.faults
    ]
    return verdict


def _probed(path: Path, options: Any, rng: random.Random, verdict: Verdict) -> None:
    probe(path)


def _read(path: Path, options: Any, rng: random.Random, verdict: Verdict, *, again: bool = False) -> None:
    """Ask for the same frames again and again: by one reader, by another one, by an engine; alone and together."""
    data = path.read_bytes()
    with VideoReader(path, **options) as reader:
        count = len(reader)
        if not count:
            verdict.counts["without frames"] += 1
            return
        numbers = sorted({rng.randrange(count) for _ in range(_ASKED)})
        others = [rng.randrange(count) for _ in range(_ASKED)]
        first = {n: _outcome(reader, [n]) for n in numbers}
        together, between = _outcome(reader, numbers), _outcome(reader, others)
        if not again and any(REOPEN in outcome[1] for outcome in (together, between, *first.values())):
            _refute(data, options, (numbers, others, range(count)))
            _read(path, options, rng, verdict, again=True)
            return
        if [_outcome(reader, [n]) for n in reversed(numbers)] != [first[n] for n in reversed(numbers)]:
            verdict.faults.append(f"frames {numbers} differ after others were read")
        if _outcome(reader, numbers) != together:
            verdict.faults.append(f"frames {numbers}, asked for together, differ after others were read")
    with VideoReader(data, **options) as anew:
        if _outcome(anew, numbers) != together:
            verdict.faults.append(f"frames {numbers} differ between two readers")
    device = parse_device(options["device"])
    cache = {"threads": options["threads"], "cache_dir": options["cache_dir"]}
    with engine_for(device, decode="auto", **cache) as engine:
        (answer,) = engine.read([Request(str(path), np.array(numbers))])
        if isinstance(answer, Exception) != (together[0] == "lost"):
            verdict.faults.append(f"frames {numbers}: a reader says {together[:2]}, an engine {answer}")
    verdict.counts["lost frames" if together[0] == "lost" else "read"] += 1
    alone = [outcome[0] == "lost" for outcome in first.values()]
    if together[0] == "lost":
        if [n for n, lost in zip(numbers, alone, strict=True) if lost] != together[1]:
            verdict.faults.append(f"frames {numbers}: lost alone {alone}, together {together[1]}")
    elif any(alone):
        verdict.faults.append(f"frames {numbers}: lost alone {alone}, read together")
    elif differ := [n for n, digest in zip(numbers, together[1], strict=True) if first[n][1] != [digest]]:
        if _shows_memory(path, differ):
            verdict.counts["memory"] += 1
        else:
            verdict.faults.append(
                f"frames {differ} of {numbers} differ between being asked for alone and together"
            )


def _shows_memory(path: Path, numbers: Seq[int]) -> bool:
    """Whether frames of an HEVC stream show what their memory held before: see the module's first lines."""
    with VideoReader(path) as reader:
        if reader.info.codec != "hevc" or len(reader) * reader.info.width * reader.info.height > _MOST_HELD:
            return False
        times = [int(reader.index.packets.pts[reader.index.packets.frame_packet[n]]) for n in numbers]
    fresh, used = _decoded(path, hold=True), _decoded(path, hold=False)
    return all(fresh.get(time) != used.get(time) for time in times)


def _decoded(path: Path, *, hold: bool) -> dict[int | None, str]:
    """A digest of each picture, by its pts; those that are held leave no memory for others to come into."""
    digests, frames = {}, []
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "NONE"
        for packet in container.demux(container.streams.video[0]):
            with contextlib.suppress(av.FFmpegError):
                for frame in packet.decode():
                    digests[frame.pts] = hashlib.md5(
                        b"".join(bytes(plane) for plane in frame.planes)
                    ).hexdigest()
                    frames += [frame] * hold
    return digests


def _dataset(path: Path, options: Any, rng: random.Random, verdict: Verdict) -> None:
    arguments = {"length": 3, "pad": "edge", "on_error": "skip", "seed": rng.randrange(99)}
    with clips([path], shuffle=True, **arguments, **options) as dataset:
        for _ in _first(iter(dataset.batch(2)), 2):
            pass


def _first(items: Iterator[Any], count: int) -> Iterator[Any]:
    for _, item in zip(range(count), items, strict=False):
        yield item


def _refute(data: bytes, options: Any, each: Iterable[Seq[int]]) -> None:
    """Have the tables of a video's bytes refuted, as those of its file were."""
    for numbers in each:
        with VideoReader(data, **options) as reader:
            _outcome(reader, numbers)


def _outcome(reader: VideoReader, numbers: Seq[int]) -> tuple[str, list[Any]]:
    """What asking for frames gives: a digest of each, or which of them are lost, or the error."""
    try:
        pixels = reader.frames(numbers).numpy()
    except DamagedSourceError as error:
        return "lost", list(error.lost)
    except SeqpipeError as error:
        return "lost", [REOPEN if "Open it again" in str(error) else type(error).__name__]
    return "read", [hashlib.md5(np.ascontiguousarray(frame)).hexdigest() for frame in pixels]
