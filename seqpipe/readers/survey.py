"""Survey: frame counts of the listed videos, which determine the number of samples.

An earlier survey of the same files tells, as far as they have not changed; else a register that is shared; else the
heads of cached indexes; where there is none, the index is built, on all threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from ..array import FloatArray
from ..errors import ParameterError, SeqpipeError, UnreadableSourceError
from ..sampling import (
    EvenClips,
    MovingClips,
    RandomClips,
    RandomRateClips,
    RateWindows,
    Sampler,
    Span,
    Windows,
)
from ..sampling.params import OnError
from ..video.convert.output import OutputSpec
from ..video.engine.engine import Engine
from ..video.index.cache import cache_directory, load_facts
from ..video.index.open import open_index
from ..video.index.register import Register
from ..video.probe.facts import Facts
from ..video.source.source import Stamp, open_source
from .entry import Entry, Listing
from .frame_values import FrameMotion
from .labels import tabulated
from .ranges import Range
from .report import ReportBook
from .selection import Catalog

__all__ = ["VideoSurvey"]

_Shape: TypeAlias = tuple[int, int, int]
_Seen: TypeAlias = tuple[str, Facts | SeqpipeError, FloatArray | None]
"""A video, what a look at it shows, and its timestamps if they are needed and the facts do not tell them."""


class _Use(NamedTuple):
    """What a video, or a part of it, gives; ``still`` says that it gives nothing only because too little moves."""

    first: int
    end: int
    end_s: float | None
    samples: int
    still: bool = False


class _VideoRow(NamedTuple):
    """An entry of the catalog."""

    entry: Entry
    use: _Use
    shape: int
    picture: int


@dataclass
class VideoSurvey:
    """Looks at videos.

    Attributes:
        sampler: says how many samples a video gives.
        output: says what shape its pictures get.
        by_time: whether the sampler needs timestamps.
        min_frames: videos, or ranges, with fewer frames are left out.
        on_error: whether a video that cannot be used is raised or left out.
        cache_dir: where indexes are kept.
        book: where what was left out is written down.
        stream: which stream of each video; None for the best one.
        register: the path of a register of indexes that is asked where the cache knows nothing, if there is one.
        motion: where the motion of frames comes from; None if the sampler does not need it.
    """

    sampler: Sampler
    output: OutputSpec
    by_time: bool
    min_frames: int | None
    on_error: OnError
    cache_dir: str | os.PathLike[str] | None
    book: ReportBook
    stream: int | None = None
    register: str | None = None
    motion: FrameMotion | None = None
    _rows: dict[int, _VideoRow] = field(default_factory=dict)
    _shapes: dict[_Shape, int] = field(default_factory=dict)
    _shape_of: dict[tuple[int, ...], int] = field(default_factory=dict)
    _pictures: dict[tuple[int, ...], int] = field(default_factory=dict)
    _uses: dict[tuple[tuple[int, ...], Range | None], _Use] = field(default_factory=dict)
    _longest: tuple[int, str] = (-1, "")
    _first_error: SeqpipeError | None = None
    _too_short: int = 0
    _too_still: int = 0

    def catalog(self, listing: Listing, engine: Engine) -> Catalog:
        """The videos that give samples.

        Args:
            listing: the videos.
            engine: builds missing indexes.

        Raises:
            SourceError: a video cannot be used, and ``on_error`` is "raise"; or none can.
            ParameterError: the crop leaves a picture, and ``on_error`` is "raise"; or all videos are too short.
        """
        entries = listing.entries
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            places.setdefault(entry.name, []).append(place)
        looked = self._look(places, entries, engine)
        for name, facts, times in looked if self.motion is None else self._with_motion(looked, engine):
            for place in places[name]:
                self._note(place, entries[place], facts, times)
        rows = [self._rows[place] for place in sorted(self._rows)]
        if not rows:
            raise self._nothing_left(len(entries))
        self.book.finished(listed=len(entries), used=len(rows), samples=sum(row.use.samples for row in rows))
        return _tabulate(rows, listing, tuple(self._shapes), tuple(self._pictures))

    def left_out(self, listed: int) -> str:
        """What to warn of: how many videos give no sample, and why; "" if none but for ``min_frames``."""
        parts = []
        if self._too_short:
            parts.append(
                f"{self._too_short} of {listed} videos are too short and left out: {self._needed()}. Give "
                "pad_mode='edge' to fill them up, a smaller sequence_length or stride, or min_frames to leave them "
                "out without a warning; report() names them."
            )
        if self._too_still:
            parts.append(
                f"{self._too_still} of {listed} videos are too still and left out: no sequence of theirs "
                f"{self._too_little()}. Give a smaller min_motion; report() names them."
            )
        return " ".join(parts)

    def _look(self, names: Iterable[str], entries: Seq[Entry], engine: Engine) -> Iterator[_Seen]:
        """A look at every video: at once where a register or a local index's head tells all, else on the threads."""
        paths = {name: os.path.abspath(name) for name in names if "://" not in name}  # noqa: PTH100  as sources do
        if self.stream is not None:
            paths = {}  # what registers and heads of indexes are looked up by are best videos
        register = Register(cache_directory(self.cache_dir), paths.values())
        known = register.load()
        shared = self._shared_facts(filter(None, map(register.stamp, paths.values())))
        found = shared | known
        timed = {entry.name for entry in entries if self._by_time(entry.part)}
        later: list[tuple[str, bool]] = []
        for name in names:
            path = paths.get(name, "")
            facts = found.get(path) or (self._quickly(name, register.stamp(path)) if path else None)
            if facts is None or (isinstance(facts, Facts) and name in timed and not facts.denominator):
                later.append((name, name in timed))
                continue
            if isinstance(facts, Facts):
                found[path] = facts
            yield name, facts, None
        for (name, _), (facts, times) in zip(later, engine.map(self._thoroughly, later), strict=True):
            if isinstance(facts, Facts) and name in paths:
                found[paths[name]] = facts
            yield name, facts, times
        if found != known:
            register.save(found)

    def _with_motion(self, looked: Iterable[_Seen], engine: Engine) -> Iterator[_Seen]:
        """These once the motion of each is known: computed on the threads, where it is not kept on disk."""
        seen = list(looked)
        names = [name if isinstance(facts, Facts) else None for name, facts, _ in seen]
        for (name, facts, times), error in zip(seen, engine.map(self._moves, names), strict=True):
            yield name, error or facts, times

    def _moves(self, name: str | None) -> SeqpipeError | None:
        try:
            if name is not None and self.motion is not None:
                self.motion.of(name)
        except SeqpipeError as error:
            return error
        return None

    def _shared_facts(self, stamps: Iterable[Stamp]) -> dict[str, Facts]:
        """What a register that is shared with others knows of contents."""
        if self.register is None:
            return {}
        from ..video.index.shared import shared_register

        return shared_register(self.register).facts(stamps)

    def _quickly(self, name: str, stamp: Stamp | None) -> Facts | SeqpipeError | None:
        try:
            stamp = stamp or open_source(name).stamp()
        except SeqpipeError as error:
            return error
        return None if stamp is None else load_facts(cache_directory(self.cache_dir), stamp)

    def _thoroughly(self, wanted: tuple[str, bool]) -> tuple[Facts | SeqpipeError, FloatArray | None]:
        name, timed = wanted
        try:
            index = open_index(name, cache_dir=self.cache_dir, stream=self.stream, register=self.register)
        except SeqpipeError as error:
            return error, None
        facts = Facts.of(index)
        return facts, index.timestamps if timed and not facts.denominator else None

    def _note(self, place: int, entry: Entry, facts: Facts | SeqpipeError, times: FloatArray | None) -> None:
        if isinstance(facts, SeqpipeError):
            self._leave_out(entry, facts)
            return
        try:
            shape = self._shape(facts)
            use = self._use(entry, facts, times)
        except SeqpipeError as error:
            self._leave_out(entry, error)
            return
        length = use.end - use.first
        self._longest = max(self._longest, (length, entry.name))
        if use.samples:
            picture = self._pictures.setdefault(facts.picture, len(self._pictures))
            self._rows[place] = _VideoRow(entry, use, shape, picture)
        elif use.still:
            self.book.note(
                entry.name, "too still", f"no sequence of its {_frames(length)} {self._too_little()}"
            )
            self._too_still += 1
        else:
            self.book.note(entry.name, "too short", f"it has {_frames(length)}; {self._needed()}")
            self._too_short += length >= (self.min_frames or 0)

    def _use(self, entry: Entry, facts: Facts, times: FloatArray | None) -> _Use:
        """What a part of a video gives; the same for all that have as many frames, and the same clock if that matters.

        If motion matters, none is like another.

        Raises:
            FrameRangeError: the part does not lie in the video.
        """
        part, motion = entry.part, None if self.motion is None else self.motion.of(entry.name)
        by_time = self._by_time(part)
        key = (facts.frames, *facts.clock) if by_time else (facts.frames,), part
        alike = times is None and motion is None
        if alike and (known := self._uses.get(key)):
            return known
        clock = (facts.timestamps if times is None else times) if by_time else None
        span = Span(0, facts.frames, clock) if part is None else part.of(facts.frames, clock)
        span = replace(span, motion=motion)
        sampler, enough = self.sampler, len(span) >= (self.min_frames or 0)
        samples = sampler.count(span) if enough else 0
        still = enough and not samples and isinstance(sampler, MovingClips) and sampler.clips.count(span) > 0
        # The timestamps of ten thousand videos are not kept: the clock fetches them again.
        use = _Use(span.first, span.end, span.end_s, samples, still)
        if alike:
            self._uses[key] = use
        return use

    def _shape(self, facts: Facts) -> int:
        """The place among all shapes of the one that the video's pictures get.

        Raises:
            ParameterError: the crop leaves the picture.
        """
        if facts.picture not in self._shape_of:
            shape = self.output.frame_shape(facts)
            self._shape_of[facts.picture] = self._shapes.setdefault(shape, len(self._shapes))
        return self._shape_of[facts.picture]

    def _by_time(self, part: Range | None) -> bool:
        """Whether it takes timestamps to know what a part of a video gives."""
        return self.by_time or (part is not None and part.in_seconds)

    def _leave_out(self, entry: Entry, error: SeqpipeError) -> None:
        error.source = error.source or entry.name
        if self.on_error == "raise":
            error.advice = ". ".join(part for part in (error.advice, entry.place) if part)
            raise error
        self._first_error = self._first_error or error
        self.book.note(entry.name, "video left out", error)

    def _nothing_left(self, listed: int) -> SeqpipeError:
        frames, name = self._longest
        if frames < 0 and self._first_error is not None:
            return UnreadableSourceError(
                f"none of the {listed} videos can be used; the first one: {self._first_error.fact}",
                source=self._first_error.source,
                advice="See what is wrong with each by seqpipe probe",
            )
        if self._too_still:
            return ParameterError(
                f"no video moves enough: no sequence of {self._too_still} that are long enough {self._too_little()}",
                advice="Give a smaller min_motion",
            )
        return ParameterError(
            f"no video is long enough: the longest one has {_frames(frames)}, but {self._needed()}",
            source=name,
            advice="Give a smaller sequence_length, stride or min_frames, or fill short videos up with pad_mode='edge'",
        )

    def _too_little(self) -> str:
        """What the sequences of a video that is too still lack, in words."""
        least = self.sampler.min_motion if isinstance(self.sampler, MovingClips) else 0
        return f"moves by min_motion={least:g} % of the longer side per second"

    def _needed(self) -> str:
        """What a sample takes, in words."""
        sampler, least = self.sampler, self.min_frames
        words = [f"min_frames={least} are asked for"] if least else []
        rate = sampler.fps if isinstance(sampler, (RateWindows, RandomRateClips)) else None
        core = sampler.windows if isinstance(sampler, RateWindows) else sampler
        core = core.clips if isinstance(core, (RandomRateClips, MovingClips)) else core
        if isinstance(core, (Windows, RandomClips, EvenClips)) and core.pad_mode == "none":
            distance = (core.sequence_length - 1) * core.stride
            chosen = f"sequence_length={core.sequence_length} with stride={core.stride}"
            if rate is None:
                words.append(f"{chosen} needs {_frames(distance + 1)}")
            else:
                words.append(f"{chosen} at fps={rate:g} needs more than {distance / rate:g} s")
        return " and ".join(words) or "a sample needs 1 frame"


def _tabulate(
    rows: Seq[_VideoRow],
    listing: Listing,
    shapes: tuple[_Shape, ...],
    pictures: tuple[tuple[int, ...], ...],
) -> Catalog:
    uses = [row.use for row in rows]
    counts = np.array([use.samples for use in uses], dtype=np.int64)
    return Catalog(
        names=tuple(row.entry.name for row in rows),
        keys=tuple(row.entry.key for row in rows),
        labels=tabulated([row.entry.label for row in rows], listing.label_type, listing.width),
        fields=tuple(row.entry.fields for row in rows) if any(row.entry.fields for row in rows) else (),
        first=np.array([use.first for use in uses], dtype=np.int64),
        end=np.array([use.end for use in uses], dtype=np.int64),
        end_s=np.array([np.nan if use.end_s is None else use.end_s for use in uses]),
        bounds=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]),
        shapes=shapes,
        shape=np.array([row.shape for row in rows], dtype=np.int64),
        pictures=pictures,
        picture=np.array([row.picture for row in rows], dtype=np.int64),
    )


def _frames(count: int) -> str:
    return f"{count} frame" if count == 1 else f"{count} frames"
