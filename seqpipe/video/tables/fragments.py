"""Tables of fragmented MP4 files (ISO/IEC 14496-12, 8.8).

``moov`` describes the codec and mostly lists no packets. Each ``moof`` lists the packets of the ``mdat`` after it. So
all boxes of the file are visited, without reading frame data.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import BoolArray, IntArray
from ..source.blocks import Blocks
from ..source.source import Source
from .gate import ReadAt, Tables, UnusableTablesError, reading
from .mp4 import Movie, Mp4Track, SampleTable, boxes_in, edits_of, number, samples_of

__all__ = ["read_fragments"]

_Words: TypeAlias = npt.NDArray[np.uint32]

_AHEAD: Final = 4096
_SKIPPED_BOXES: Final = frozenset(
    {b"mdat", b"free", b"skip", b"sidx", b"ssix", b"styp", b"prft", b"emsg", b"mfra", b"uuid"}
)
_LARGEST_MOOF: Final = 16 << 20
_LARGEST_SIDX: Final = 1 << 16
_TAIL: Final = 1 << 12
_WHOLE_HEAD: Final = 16
_MOST_PACKETS: Final = 1 << 24
# Flags of tfhd and trun.
_BASE_OFFSET, _DESCRIPTION, _DURATION, _SIZE, _FLAGS, _BASE_IS_MOOF = 0x1, 0x2, 0x8, 0x10, 0x20, 0x20000
_DATA_OFFSET, _FIRST_FLAGS = 0x1, 0x4
_EACH_DURATION, _EACH_SIZE, _EACH_FLAGS, _EACH_MOVED = 0x100, 0x200, 0x400, 0x800
_NO_KEY: Final = 0x10000 | 0x1000000
"""Sample flags "is not a sync sample" and "depends on others"; FFmpeg marks packets with neither as key packets."""


@dataclass
class _Packets:
    """Columns of the packets, one part per run of samples."""

    dts: list[IntArray] = field(default_factory=list)
    duration: list[IntArray] = field(default_factory=list)
    size: list[IntArray] = field(default_factory=list)
    offset: list[IntArray] = field(default_factory=list)
    moved: list[IntArray] = field(default_factory=list)
    key: list[BoolArray] = field(default_factory=list)
    count: int = 0

    def add(self, dts: int, run: _Run, offset: int) -> tuple[int, int]:
        """Append a run that starts at a decode time and offset; returns its end in both."""
        times, sizes = np.cumsum(run.duration), np.cumsum(run.size)
        self.dts.append(times - run.duration + dts)
        self.duration.append(run.duration)
        self.size.append(run.size)
        self.offset.append(sizes - run.size + offset)
        self.moved.append(run.moved)
        self.key.append(run.key)
        self.count += len(run.size)
        if self.count > _MOST_PACKETS:
            raise UnusableTablesError("it has too many packets")
        return dts + int(times[-1]), offset + int(sizes[-1])

    def add_samples(self, samples: SampleTable) -> None:
        """Append the packets listed in ``moov``."""
        self.dts.append(samples.dts)
        self.duration.append(samples.duration)
        self.size.append(samples.size)
        self.offset.append(samples.offset)
        self.moved.append(np.zeros_like(samples.dts) if samples.moved is None else samples.moved)
        self.key.append(samples.key)
        self.count += len(samples.size)


@dataclass(frozen=True)
class _Run:
    """Packets of one run of samples."""

    duration: IntArray
    size: IntArray
    moved: IntArray
    key: BoolArray


def read_fragments(source: Source, movie: Movie, track: Mp4Track) -> Tables:
    """Return the tables of a track from ``moov`` and all fragments."""
    packets, declared = _Packets(), 0
    before, begin = edits_of(movie, track)
    if any(track.boxes.get(b"stsz", b"")[8:12]) or b"stz2" in track.boxes:
        if before or begin:
            raise UnusableTablesError("it is edited, and not only fragments hold its packets")
        samples = samples_of(track)
        packets.add_samples(samples)
        declared = len(samples.size)
    default = _defaults(movie, track)
    with reading(source) as read:
        ahead = _Ahead(source, movie.moov_range[1]).read if source.slow else read
        for moof_offset, moof in _moofs(ahead, movie.moov_range[1], source.size()):
            _fragment(moof_offset, moof, track, default, begin - before, packets)
    if not packets.count:
        raise UnusableTablesError("it has no packets")
    dts, moved, key = np.concatenate(packets.dts), np.concatenate(packets.moved), np.concatenate(packets.key)
    if not (np.diff(dts) > 0).all():
        raise UnusableTablesError("fragments overlap in time")
    # FFmpeg shifts times by the most negative composition offset that it has read so far.
    if int(moved.min()) < min(0, int(packets.moved[0].min())):
        raise UnusableTablesError("a later fragment shifts all times")
    pts: IntArray = dts + moved - min(0, int(moved.min()))
    duration = np.concatenate(packets.duration)
    return Tables(
        track=track.number,
        tick=Fraction(1, track.ticks),
        format=bytes(track.description[:4]).decode("latin-1"),
        pts=pts,
        size=np.concatenate(packets.size),
        offset=np.concatenate(packets.offset),
        key=key,
        shown=np.ones(len(pts), dtype=bool),
        delta=int(duration[0]) if (duration == duration[0]).all() else 0,
        duration=int(duration[np.argmax(pts)]),
        declared=declared,
    )


def _defaults(movie: Movie, track: Mp4Track) -> tuple[int, int, int]:
    """Return the default duration, size and flags of a track's packets."""
    defaults = [
        (number(box, 12), number(box, 16), number(box, 20))
        for kind, box in boxes_in(movie.extends)
        if kind == b"trex" and number(box, 4) == track.number
    ]
    if len(defaults) != 1:
        raise UnusableTablesError("its track has no defaults, or two")
    return defaults[0]


class _Ahead:
    """Reads the headers of all fragments of a slow source concurrently, if a table lists their offsets.

    The table is ``sidx`` after ``moov``, or ``mfra`` at the end of the file. It is used only for prefetching: a
    fragment that it lacks is read when it is reached.

    Args:
        source: the video.
        at: offset of the end of ``moov``.
    """

    def __init__(self, source: Source, at: int) -> None:
        self._source = source
        self._begins: list[int] = []
        self._parts: list[bytes] = []
        begins = sorted({at, *_of_sidx(source, at), *_of_mfra(source)})
        if len(begins) > 1:
            size = source.size()
            ranges = [(begin, min(_AHEAD, size - begin)) for begin in begins if at <= begin < size]
            direct = (
                source.wrapped if isinstance(source, Blocks) else source
            )  # exact ranges, not whole blocks
            self._begins, self._blocks = [begin for begin, _ in ranges], direct.read(ranges)

    def read(self, count: int, at: int) -> bytes:
        """Return bytes at an offset."""
        block = bisect.bisect_right(self._begins, at) - 1
        if block >= 0:
            begin = at - self._begins[block]
            data = self._blocks[block][begin : begin + count]
            # The header of a skipped box suffices.
            if len(data) == count or (count == _AHEAD and len(data) >= _WHOLE_HEAD and _suffices(data)):
                return data
        return self._source.read([(at, count)])[0]


def _suffices(data: bytes) -> bool:
    """Return whether a box is not a ``moof``, or is complete."""
    return data[4:8] != b"moof" or int.from_bytes(data[:4], "big") <= len(data)


def _of_sidx(source: Source, at: int) -> list[int]:
    """Return the offsets of the segments listed by a ``sidx`` box at an offset."""
    head = memoryview(source.read([(at, min(_LARGEST_SIDX, source.size() - at))])[0])
    try:
        size = number(head, 0)
        if bytes(head[4:8]) != b"sidx" or size > len(head):
            return []
        body = head[8:size]
        wide = 8 if body[0] == 1 else 4
        begin = at + size + number(body, 12 + wide, wide)
        count = number(body, 14 + 2 * wide, 2)
        rows = np.frombuffer(body, ">u4", 3 * count, 16 + 2 * wide).reshape(count, 3)
    except (UnusableTablesError, ValueError):
        return []
    ends = begin + np.cumsum(rows[:, 0] & 0x7FFFFFFF, dtype=np.int64)
    return [begin, *ends[:-1].tolist()]


def _of_mfra(source: Source) -> list[int]:
    """Return the offsets of the fragments listed by an ``mfra`` box at the end of the file."""
    file_size = source.size()
    tail = source.read([(file_size - min(_TAIL, file_size), min(_TAIL, file_size))])[0]
    if tail[-12:-8] != b"mfro":
        return []
    size = int.from_bytes(tail[-4:], "big")
    if not 16 <= size <= min(file_size, _LARGEST_MOOF):
        return []
    body = memoryview(tail[-size:] if size <= len(tail) else source.read([(file_size - size, size)])[0])[8:]
    segment_offsets: list[int] = []
    try:
        for kind, table in boxes_in(body):
            if kind == b"tfra":
                wide = 16 if table[0] == 1 else 8
                numbers = sum((number(table, 8) >> shift & 3) + 1 for shift in (4, 2, 0))
                count, step = number(table, 12), wide + numbers
                rows = np.frombuffer(table, np.uint8, count * step, 16).reshape(count, step)
                offsets = np.ascontiguousarray(rows[:, wide // 2 : wide]).view(f">u{wide // 2}")
                segment_offsets += offsets[:, 0].tolist()
    except (UnusableTablesError, ValueError):
        return []
    return [begin for begin in segment_offsets if 0 <= begin < file_size]


def _moofs(read: ReadAt, at: int, end: int) -> Iterator[tuple[int, memoryview]]:
    """Yield offset and body of each ``moof`` box of the file."""
    while at < end:
        head = memoryview(read(_AHEAD, at))
        inside = 0
        while inside + 16 <= len(head) or (len(head) < _AHEAD and inside + 8 <= len(head)):
            size, kind, before = number(head, inside), bytes(head[inside + 4 : inside + 8]), 8
            if size == 1:
                size, before = number(head, inside + 8, 8), 16
            if size < before or at + inside + size > end:
                raise UnusableTablesError("a box is cut, or has no stated length")
            if kind == b"moof":
                if size > _LARGEST_MOOF:
                    raise UnusableTablesError("its tables are too large")
                if inside + size > len(head):
                    if inside:
                        break  # read again from the start of the box
                    head = memoryview(read(size, at))
                if len(head) < inside + size:
                    raise UnusableTablesError("its tables are cut")
                yield at + inside, head[inside + before : inside + size]
            elif kind not in _SKIPPED_BOXES:
                raise UnusableTablesError(f"boxes {kind!r} are not supported between fragments")
            inside += size
        if not inside:
            raise UnusableTablesError("it is cut in the middle of a box")
        at += inside


def _fragment(
    moof_offset: int,
    moof: memoryview,
    track: Mp4Track,
    default: tuple[int, int, int],
    shift: int,
    packets: _Packets,
) -> None:
    """Add the packets that one ``moof`` lists of the track."""
    end = moof_offset  # end of the previous track's data
    for kind, traf in boxes_in(moof):
        if kind != b"traf":
            continue
        boxes = list(boxes_in(traf))
        if [kind for kind, _ in boxes].count(b"tfhd") != 1:
            raise UnusableTablesError("a fragment has no track header, or two")
        head = next(body for kind, body in boxes if kind == b"tfhd")
        ours = number(head, 4) == track.number
        base, values = _head(head, moof_offset, end, default if ours else (0, 0, 0))
        dts = _decoding_time(boxes) - shift if ours else 0
        for kind, body in boxes:
            if kind != b"trun" or not number(body, 4):
                continue
            flags = number(body, 0) & 0xFFFFFF
            if not flags & _DATA_OFFSET:
                raise UnusableTablesError("a run has no data offset")
            run = _run(body, flags, values)
            offset = base + int.from_bytes(body[8:12], "big", signed=True)
            end = offset + int(run.size.sum())
            if ours:
                dts, end = packets.add(dts, run, offset)


def _head(
    head: memoryview, moof_offset: int, end: int, default: tuple[int, int, int]
) -> tuple[int, tuple[int, ...]]:
    """Return the base offset of a fragment's runs, and their default duration, size and flags."""
    flags, at = number(head, 0) & 0xFFFFFF, 8
    base = moof_offset if flags & _BASE_IS_MOOF else end
    if flags & _BASE_OFFSET:
        base, at = number(head, at, 8), at + 8
    if flags & _DESCRIPTION:
        if number(head, at) != 1:
            raise UnusableTablesError("its format changes")
        at += 4
    values = list(default)
    for which, flag in enumerate((_DURATION, _SIZE, _FLAGS)):
        if flags & flag:
            values[which], at = number(head, at), at + 4
    return base, tuple(values)


def _decoding_time(boxes: list[tuple[bytes, memoryview]]) -> int:
    """Return the base decode time of a fragment."""
    bodies = [body for kind, body in boxes if kind == b"tfdt"]
    if len(bodies) != 1:
        raise UnusableTablesError("a fragment has no decode time")
    time = number(bodies[0], 4, 8) if bodies[0][0] == 1 else number(bodies[0], 4)
    if time >> 62:
        raise UnusableTablesError("a time exceeds 62 bits")
    return time


def _run(body: memoryview, flags: int, values: tuple[int, ...]) -> _Run:
    """Parse a ``trun`` box."""
    count, at = number(body, 4), 12
    first = number(body, at) if flags & _FIRST_FLAGS else None
    at += 0 if first is None else 4
    there = [bit for bit in (_EACH_DURATION, _EACH_SIZE, _EACH_FLAGS, _EACH_MOVED) if flags & bit]
    if not there and count > 1:
        raise UnusableTablesError("all packets of a run have the same size")
    if len(body) < at + 4 * count * len(there):
        raise UnusableTablesError("a table is cut")
    rows = np.frombuffer(body, ">u4", count * len(there), at).reshape(count, len(there))
    columns = {bit: rows[:, n] for n, bit in enumerate(there)}
    sample = columns.get(_EACH_FLAGS)
    key = np.full(count, not values[2] & _NO_KEY) if sample is None else sample & _NO_KEY == 0
    if first is not None and sample is None:
        key[0] = not first & _NO_KEY
    moved = columns.get(_EACH_MOVED)
    return _Run(
        duration=_each(columns.get(_EACH_DURATION), values[0], count),
        size=_each(columns.get(_EACH_SIZE), values[1], count),
        moved=np.zeros(count, np.int64) if moved is None else moved.astype(np.int32).astype(np.int64),
        key=key,
    )


def _each(column: _Words | None, value: int, count: int) -> IntArray:
    return np.full(count, value, np.int64) if column is None else column.astype(np.int64)
