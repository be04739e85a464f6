"""Survey: frame counts of the listed videos, which determine the number of samples.

Facts of a video come from the first of these that has them: the register of an earlier survey of the same, unchanged
files; a shared register; the header of the cached index; the index, which is built by all threads.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from ..array import FloatArray
from ..errors import FrameRangeError, ParameterError, SeqpipeError, UnreadableSourceError
from ..sampling import (
    EvenClips,
    MovingClips,
    QwenFrames,
    RandomClips,
    RandomRateClips,
    RateWindows,
    Sampler,
    Span,
    Windows,
)
from ..sampling.params import OnError
from ..sampling.qwen import LEAST_FRAMES
from ..video.convert.output import OutputSpec
from ..video.engine.engine import Engine
from ..video.index.cache import cache_directory, load_facts
from ..video.index.open import IndexOptions, open_index
from ..video.index.shared import Register
from ..video.packet_index import Facts
from ..video.source.source import Stamp, open_source
from .entry import Entry, Listing, Range
from .frame_values import FrameMotion
from .labels import tabulated
from .report import ReportBook
from .selection import Catalog

__all__ = ["VideoSurvey"]

_Shape: TypeAlias = tuple[int, int, int]
_Surveyed: TypeAlias = tuple[str, Facts | SeqpipeError, FloatArray | None]
"""A video's name, its facts or error, and its timestamps if they are needed and do not follow from the facts."""


class _Use(NamedTuple):
    """The usable frames of an entry and its number of samples.

    ``still`` is True if the entry has no samples only because of ``min_motion``; ``length`` is that of a sample.
    """

    first: int
    end: int
    end_s: float | None
    samples: int
    length: int
    still: bool = False


class _VideoRow(NamedTuple):
    """An entry of the catalog."""

    entry: Entry
    use: _Use
    shape: int
    geometry: int


@dataclass
class VideoSurvey:
    """Collects the facts of all videos, and counts their samples.

    Attributes:
        sampler: sampler of the dataset.
        output: output of the dataset, which determines the shape of frames.
        by_time: whether the sampler needs timestamps.
        min_frames: videos, or ranges, with fewer frames are left out.
        max_frames: samples with more frames are refused.
        on_error: policy for unusable videos: raised or left out.
        indexes: options that the indexes of videos are opened with.
        book: records videos that are left out.
        motion: source of the motion of frames; None if the sampler does not need it.
    """

    sampler: Sampler
    output: OutputSpec
    by_time: bool
    min_frames: int | None
    on_error: OnError
    indexes: IndexOptions
    book: ReportBook
    motion: FrameMotion | None = None
    max_frames: int | None = None
    _rows: dict[int, _VideoRow] = field(default_factory=dict)
    _shapes: dict[_Shape, int] = field(default_factory=dict)
    _shape_of: dict[tuple[int, ...], int] = field(default_factory=dict)
    _geometries: dict[tuple[int, ...], int] = field(default_factory=dict)
    _uses: dict[tuple[tuple[int, ...], Range | None], _Use] = field(default_factory=dict)
    _longest: tuple[int, str] = (-1, "")
    _first_error: SeqpipeError | None = None
    _too_short: int = 0
    _too_still: int = 0

    def catalog(self, listing: Listing, engine: Engine) -> Catalog:
        """Return the videos that have samples."""
        entries = listing.entries
        positions: dict[str, list[int]] = {}
        for position, entry in enumerate(entries):
            positions.setdefault(entry.name, []).append(position)
        surveyed = self._survey(positions, entries, engine)
        for name, facts, times in surveyed if self.motion is None else self._with_motion(surveyed, engine):
            for position in positions[name]:
                self._add(position, entries[position], facts, times)
        rows = [self._rows[position] for position in sorted(self._rows)]
        if not rows:
            raise self._nothing_left(len(entries))
        self.book.finished(listed=len(entries), used=len(rows), samples=sum(row.use.samples for row in rows))
        return _tabulate(rows, listing, tuple(self._shapes), tuple(self._geometries))

    def warning(self, listed: int) -> str:
        """Return a text on videos without samples and the reason; "" if there are none, except by ``min_frames``."""
        parts = []
        if self._too_short:
            parts.append(
                f"{self._too_short} of {listed} videos are too short and left out: {self._needed()}. Give "
                "pad='edge' to fill them up, a smaller length or stride, or min_frames to leave them "
                "out without a warning; report() names them."
            )
        if self._too_still:
            parts.append(
                f"{self._too_still} of {listed} videos are too still and left out: no sequence of theirs "
                f"{self._too_little()}. Give a smaller min_motion; report() names them."
            )
        return " ".join(parts)

    def _survey(self, names: Iterable[str], entries: Seq[Entry], engine: Engine) -> Iterator[_Surveyed]:
        """Yield the facts of every video, first those from registers and cached indexes, then those of new indexes."""
        paths = {name: os.path.abspath(name) for name in names if "://" not in name}  # noqa: PTH100  as sources do
        if self.indexes.stream is not None:
            paths = {}  # registers and the headers of cached indexes only hold facts of the best video stream
        register = Register(cache_directory(self.indexes.cache_dir), paths.values())
        urls = set() if self.indexes.stream is not None else {name for name in names if name not in paths}
        registered, shared = self._registered(register, paths.values(), urls)
        known = dict(registered)
        timed = {entry.name for entry in entries if self._by_time(entry.part)}
        unknown: list[tuple[str, bool]] = []
        for name in names:
            path = paths.get(name, "")
            facts = (
                known.get(path)
                or shared.get(name)
                or (self._cached_facts(name, register.stamp(path)) if path else None)
            )
            if facts is None or (isinstance(facts, Facts) and name in timed and not facts.denominator):
                unknown.append((name, name in timed))
                continue
            if path and isinstance(facts, Facts):
                known[path] = facts
            yield name, facts, None
        for (name, _), (facts, times) in zip(unknown, engine.map(self._index_facts, unknown), strict=True):
            if isinstance(facts, Facts) and name in paths:
                known[paths[name]] = facts
            yield name, facts, times
        if known != registered:
            register.save(known)

    def _with_motion(self, surveyed: Iterable[_Surveyed], engine: Engine) -> Iterator[_Surveyed]:
        """Yield the same after loading or computing the motion of each video, on the engine's threads."""
        videos = list(surveyed)
        names = [name if isinstance(facts, Facts) else None for name, facts, _ in videos]
        for (name, facts, times), error in zip(videos, engine.map(self._load_motion, names), strict=True):
            yield name, error or facts, times

    def _load_motion(self, name: str | None) -> SeqpipeError | None:
        """Compute the motion of a video's frames, if samples need it; returns an error instead of raising it."""
        try:
            if name is not None and self.motion is not None:
                self.motion.of(name)
        except SeqpipeError as error:
            return error
        return None

    def _registered(
        self, register: Register, paths: Iterable[str], urls: Collection[str]
    ) -> tuple[dict[str, Facts], dict[str, Facts]]:
        """Return the facts of the earlier survey and, where it lacks some, those of the shared register.

        Of the processes of a host, such as the ranks of a training, one reads the shared register of many files.
        """
        registered = register.load()
        if self.indexes.register is None or (not urls and all(path in registered for path in paths)):
            return registered, {}
        from ..video.index.shared import shared_register

        with register.turn():
            registered = register.load()
            if not urls and all(path in registered for path in paths):
                return registered, {}
            stamps = filter(None, map(register.stamp, paths))
            shared = shared_register(self.indexes.register).facts(stamps, urls)
            if known := {name: facts for name, facts in shared.items() if name not in urls}:
                registered = known | registered
                register.save(registered)
            return registered, shared

    def _cached_facts(self, name: str, stamp: Stamp | None) -> Facts | SeqpipeError | None:
        """Return the facts of a cached index; None if there is none, or the error."""
        try:
            stamp = stamp or open_source(name).stamp()
        except SeqpipeError as error:
            return error
        return None if stamp is None else load_facts(cache_directory(self.indexes.cache_dir), stamp)

    def _index_facts(self, video: tuple[str, bool]) -> tuple[Facts | SeqpipeError, FloatArray | None]:
        """Open an index; returns its facts or error, and its timestamps if facts do not determine them."""
        name, timed = video
        try:
            index = open_index(name, **self.indexes._asdict())
        except SeqpipeError as error:
            return error, None
        facts = Facts.of(index)
        return facts, index.timestamps if timed and not facts.denominator else None

    def _add(
        self, position: int, entry: Entry, facts: Facts | SeqpipeError, times: FloatArray | None
    ) -> None:
        """Add an entry to the rows of the catalog, or record why it is left out."""
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
            geometry = self._geometries.setdefault(facts.geometry, len(self._geometries))
            self._rows[position] = _VideoRow(entry, use, shape, geometry)
        elif use.still:
            self.book.note(
                entry.name, "too still", f"no sequence of its {_frames(length)} {self._too_little()}"
            )
            self._too_still += 1
        else:
            self.book.note(entry.name, "too short", f"it has {_frames(length)}; {self._needed()}")
            self._too_short += length >= (self.min_frames or 0)

    def _use(self, entry: Entry, facts: Facts, times: FloatArray | None) -> _Use:
        """Return the usable frames and the number of samples of an entry.

        Results are cached by frame count, range, and clock if the sampler needs it, unless the sampler needs motion.
        """
        part, motion = entry.part, None if self.motion is None else self.motion.of(entry.name)
        by_time = self._by_time(part)
        key = (facts.frames, *facts.clock) if by_time else (facts.frames,), part
        cacheable = times is None and motion is None
        if cacheable and (cached := self._uses.get(key)):
            return cached
        clock = (facts.timestamps if times is None else times) if by_time else None
        span = Span(0, facts.frames, clock) if part is None else part.of(facts.frames, clock)
        span = replace(span, motion=motion)
        sampler, enough = self.sampler, len(span) >= (self.min_frames or 0)
        samples = sampler.count(span) if enough else 0
        still = enough and not samples and isinstance(sampler, MovingClips) and sampler.clips.count(span) > 0
        # Timestamps are not stored, as thousands of videos would fill memory; Clock loads them again.
        use = _Use(span.first, span.end, span.end_s, samples, self._length(span, samples), still)
        if cacheable:
            self._uses[key] = use
        return use

    def _length(self, span: Span, samples: int) -> int:
        """Return the number of frames of each sample of a span."""
        length = self.sampler.length
        if length is None:
            length = len(self.sampler.clip(span, 0)) if samples else 0
        if self.max_frames is not None and length > self.max_frames:
            raise FrameRangeError(
                f"the sequence of the frames {span.first} to {span.end - 1} has {_frames(length)}",
                allowed=f"max_frames={self.max_frames}",
                advice="Give a larger stride or a lower fps, or leave such ones out with on_error='skip'",
            )
        return length

    def _shape(self, facts: Facts) -> int:
        """Return the index into the distinct output shapes for a video."""
        if facts.geometry not in self._shape_of:
            shape = self.output.frame_shape(facts)
            self._shape_of[facts.geometry] = self._shapes.setdefault(shape, len(self._shapes))
        return self._shape_of[facts.geometry]

    def _by_time(self, part: Range | None) -> bool:
        """Return whether the samples of a range depend on timestamps."""
        return self.by_time or (part is not None and part.in_seconds)

    def _leave_out(self, entry: Entry, error: SeqpipeError) -> None:
        """Raise the error of a video, or note that it is left out."""
        error.source = error.source or entry.name
        if self.on_error == "raise":
            error.advice = ". ".join(part for part in (error.advice, entry.listed_at) if part)
            raise error
        self._first_error = self._first_error or error
        self.book.note(entry.name, "video left out", error)

    def _nothing_left(self, listed: int) -> SeqpipeError:
        """Return the error for a listing of which no video is used."""
        frames, name = self._longest
        if frames < 0 and self._first_error is not None:
            return UnreadableSourceError(
                f"none of the {listed} videos can be used; the first one: {self._first_error.fact}",
                source=self._first_error.source,
                advice="Run seqpipe probe on them for details",
            )
        if self._too_still:
            return ParameterError(
                f"no video moves enough: no sequence of {self._too_still} that are long enough {self._too_little()}",
                advice="Give a smaller min_motion",
            )
        return ParameterError(
            f"no video is long enough: the longest one has {_frames(frames)}, but {self._needed()}",
            source=name,
            advice="Give a smaller length, stride or min_frames, or fill short videos up with pad='edge'",
        )

    def _too_little(self) -> str:
        """Describe the motion that the sequences of a video lack, for messages."""
        least = self.sampler.min_motion if isinstance(self.sampler, MovingClips) else 0
        return f"moves by min_motion={least:g} % of the longer side per second"

    def _needed(self) -> str:
        """Describe the frames that a sample needs, for messages."""
        sampler, least = self.sampler, self.min_frames
        words = [f"min_frames={least} are required"] if least else []
        rate = sampler.fps if isinstance(sampler, (RateWindows, RandomRateClips)) else None
        core = sampler.windows if isinstance(sampler, RateWindows) else sampler
        core = core.clips if isinstance(core, (RandomRateClips, MovingClips)) else core
        if isinstance(core, (Windows, RandomClips, EvenClips)) and core.pad_mode == "none":
            distance = (core.sequence_length - 1) * core.stride
            chosen = f"length={core.sequence_length} with stride={core.stride}"
            if rate is None:
                words.append(f"{chosen} needs {_frames(distance + 1)}")
            else:
                words.append(f"{chosen} at fps={rate:g} needs more than {distance / rate:g} s")
        needed = LEAST_FRAMES if isinstance(sampler, QwenFrames) else 1
        return " and ".join(words) or f"a sample needs {_frames(needed)}"


def _tabulate(
    rows: Seq[_VideoRow],
    listing: Listing,
    shapes: tuple[_Shape, ...],
    geometries: tuple[tuple[int, ...], ...],
) -> Catalog:
    """Return the catalog of the videos that are used."""
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
        lengths=np.array([use.length for use in uses], dtype=np.int64),
        shapes=shapes,
        shape=np.array([row.shape for row in rows], dtype=np.int64),
        geometries=geometries,
        geometry=np.array([row.geometry for row in rows], dtype=np.int64),
    )


def _frames(count: int) -> str:
    return f"{count} frame" if count == 1 else f"{count} frames"
