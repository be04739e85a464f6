"""Survey: one look at each listed video, to know how many samples it gives.

The heads of cached indexes tell; where there is none, the index is built, on all threads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..array import FloatArray
from ..errors import ParameterError, SeqpipeError, UnreadableSourceError
from ..sampling import RandomClips, RandomRateClips, RateWindows, Sampler, Span, Windows
from ..sampling.params import OnError
from ..video.cache import cache_directory, load_summary
from ..video.engine import Engine
from ..video.info import StreamInfo
from ..video.open import open_index
from ..video.output import OutputSpec
from ..video.source import open_source
from .entry import Entry
from .report import ReportBook
from .selection import Catalog

__all__ = ["Survey"]

_Shape = tuple[int, int, int]


class _Seen(NamedTuple):
    """What a look at a video shows; timestamps only if they are needed."""

    info: StreamInfo
    timestamps: FloatArray | None


class _Row(NamedTuple):
    """An entry of the catalog."""

    entry: Entry
    span: Span
    samples: int
    shape: int


@dataclass
class Survey:
    """Looks at videos.

    Attributes:
        sampler: says how many samples a video gives.
        output: says what shape its pictures get.
        by_time: whether the sampler needs timestamps.
        min_frames: videos, or ranges, with fewer frames are left out.
        on_error: whether a video that cannot be used is raised or left out.
        cache_dir: where indexes are kept.
        book: where what was left out is written down.
    """

    sampler: Sampler
    output: OutputSpec
    by_time: bool
    min_frames: int | None
    on_error: OnError
    cache_dir: str | os.PathLike[str] | None
    book: ReportBook
    _rows: dict[int, _Row] = field(default_factory=dict)
    _shapes: dict[_Shape, int] = field(default_factory=dict)
    _shape_of: dict[tuple[int, int, int, bool], int] = field(default_factory=dict)
    _longest: tuple[int, str] = (-1, "")
    _first_error: SeqpipeError | None = None

    def catalog(self, entries: Seq[Entry], engine: Engine) -> Catalog:
        """The videos that give samples.

        Args:
            entries: what was listed.
            engine: builds missing indexes.

        Raises:
            SourceError: a video cannot be used, and ``on_error`` is "raise"; or none can.
            ParameterError: the crop leaves a picture, and ``on_error`` is "raise"; or all videos are too short.
        """
        places: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            places.setdefault(entry.name, []).append(place)
        for name, seen in self._look(places, entries, engine):
            for place in places[name]:
                self._note(place, entries[place], seen)
        rows = [self._rows[place] for place in sorted(self._rows)]
        if not rows:
            raise self._nothing_left(len(entries))
        self.book.finished(listed=len(entries), used=len(rows), samples=sum(row.samples for row in rows))
        return _tabulate(rows, tuple(self._shapes))

    def _look(
        self, places: dict[str, list[int]], entries: Seq[Entry], engine: Engine
    ) -> Iterator[tuple[str, _Seen | SeqpipeError]]:
        """A look at every video: at once where the head of a local index tells all, else on the threads."""
        directory = cache_directory(self.cache_dir)
        later: list[tuple[str, bool]] = []
        for name, its in places.items():
            by_time = self.by_time or any(_in_seconds(entries[place]) for place in its)
            seen = None if by_time or "://" in name else self._quickly(name, directory)
            if seen is None:
                later.append((name, by_time))
            else:
                yield name, seen
        for (name, _), found in zip(later, engine.map(self._thoroughly, later), strict=True):
            yield name, found

    def _quickly(self, name: str, directory: Path) -> _Seen | SeqpipeError | None:
        try:
            stamp = open_source(name).stamp()
        except SeqpipeError as error:
            return error
        info = None if stamp is None else load_summary(directory, stamp)
        return None if info is None else _Seen(info, None)

    def _thoroughly(self, wanted: tuple[str, bool]) -> _Seen | SeqpipeError:
        name, by_time = wanted
        try:
            index = open_index(name, cache_dir=self.cache_dir)
        except SeqpipeError as error:
            return error
        return _Seen(index.info, index.timestamps if by_time else None)

    def _note(self, place: int, entry: Entry, seen: _Seen | SeqpipeError) -> None:
        if isinstance(seen, SeqpipeError):
            self._leave_out(entry, seen)
            return
        frames = seen.info.frame_count or 0
        try:
            shape = self._shape(seen.info)
            span = (
                Span(0, frames, seen.timestamps)
                if entry.part is None
                else entry.part.of(frames, seen.timestamps)
            )
            count = self.sampler.count(span) if len(span) >= (self.min_frames or 0) else 0
        except SeqpipeError as error:
            self._leave_out(entry, error)
            return
        self._longest = max(self._longest, (len(span), entry.name))
        if count:
            # The timestamps of ten thousand videos are not kept: the clock fetches them again.
            self._rows[place] = _Row(entry, Span(span.first, span.end, None, span.end_s), count, shape)
        else:
            self.book.note(entry.name, "too short", f"it has {_frames(len(span))}; {self._needed()}")

    def _shape(self, info: StreamInfo) -> int:
        """The place among all shapes of the one that the video's pictures get."""
        geometry = (info.width, info.height, info.rotation_degrees, info.flipped)
        if geometry not in self._shape_of:
            shape = self.output.frame_shape(info)
            self._shape_of[geometry] = self._shapes.setdefault(shape, len(self._shapes))
        return self._shape_of[geometry]

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
        return ParameterError(
            f"no video is long enough: the longest one has {_frames(frames)}, but {self._needed()}",
            source=name,
            advice="Give a smaller sequence_length, stride or min_frames, or fill short videos up with pad_mode='edge'",
        )

    def _needed(self) -> str:
        """What a sample takes, in words."""
        sampler, least = self.sampler, self.min_frames
        words = [f"min_frames={least} are asked for"] if least else []
        rate = sampler.fps if isinstance(sampler, (RateWindows, RandomRateClips)) else None
        core = sampler.windows if isinstance(sampler, RateWindows) else sampler
        core = core.clips if isinstance(core, RandomRateClips) else core
        if isinstance(core, (Windows, RandomClips)) and core.pad_mode == "none":
            distance = (core.sequence_length - 1) * core.stride
            chosen = f"sequence_length={core.sequence_length} with stride={core.stride}"
            if rate is None:
                words.append(f"{chosen} needs {_frames(distance + 1)}")
            else:
                words.append(f"{chosen} at fps={rate:g} needs more than {distance / rate:g} s")
        return " and ".join(words) or "a sample needs 1 frame"


def _tabulate(rows: Seq[_Row], shapes: tuple[_Shape, ...]) -> Catalog:
    counts = np.array([row.samples for row in rows], dtype=np.int64)
    return Catalog(
        names=tuple(row.entry.name for row in rows),
        keys=tuple(row.entry.key for row in rows),
        labels=np.array([row.entry.label for row in rows], dtype=np.int64),
        first=np.array([row.span.first for row in rows], dtype=np.int64),
        end=np.array([row.span.end for row in rows], dtype=np.int64),
        end_s=np.array([np.nan if row.span.end_s is None else row.span.end_s for row in rows]),
        bounds=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]),
        shapes=shapes,
        shape=np.array([row.shape for row in rows], dtype=np.int64),
    )


def _in_seconds(entry: Entry) -> bool:
    return entry.part is not None and entry.part.in_seconds


def _frames(count: int) -> str:
    return f"{count} frame" if count == 1 else f"{count} frames"
