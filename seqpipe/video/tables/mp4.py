"""Sample tables of MP4 and QuickTime files (ISO/IEC 14496-12, 8.5 to 8.7; QuickTime File Format).

``moov`` is read as a whole, and each table becomes a NumPy array. Memory is allocated only for entries whose bytes are
present, never by a count that the file states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import BoolArray, IntArray
from ..source.source import Source
from .entries import Entries
from .facts import before_first_slice
from .gate import Tables, UnusableTablesError

__all__ = [
    "FIRST_BOXES",
    "InterpretedError",
    "Movie",
    "Mp4Track",
    "SampleTable",
    "as_interpreted",
    "boxes_in",
    "edits_of",
    "facts_key",
    "number",
    "read_movie",
    "read_tables",
    "samples_of",
]

FIRST_BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot"})
"""Types of boxes with which such a file may start."""

_HEAD = 1 << 16
_MOST_BOXES = 64
_TAIL = 8 << 20
_LARGEST_MOOV = 64 << 20
# Tables of real files are below 1 % of the data; reading tables larger than the data would be slower than a scan.
_TABLES_OF_SMALL = 1 << 20
_TABLES_SHARE = 50

_AFTER_SAMPLE_ENTRY = 82  # size of a visual sample entry without its boxes, from its type on
_CONFIGURATIONS = {b"avc1": ("h264", b"avcC"), b"hvc1": ("hevc", b"hvcC")}
_LEAST_PACKETS = 8
_COVER = b"covr"
# Object type in the descriptors of ISO/IEC 14496-1, 7.2.6; lengths take up to four bytes.
_AUDIO = re.compile(rb"esds.{4}\x03\x80{0,3}..{3}\x04\x80{0,3}.(.)", re.DOTALL)

_Box: TypeAlias = tuple[bytes, memoryview]
_Words: TypeAlias = npt.NDArray[np.uint32]


class InterpretedError(UnusableTablesError):
    """The tables are consistent, but presentation times follow from FFmpeg's interpretation of them."""


@dataclass(frozen=True, eq=False)
class Mp4Track:
    """Video track.

    Attributes:
        number: ``track_ID``.
        header: body of ``tkhd``.
        description: its only sample entry, from the type on.
        ticks: ticks per second of its media time.
        boxes: bodies of the boxes of its sample table, by type.
        edits: body of ``elst``; empty if there is none.
        length: duration in ticks as stated by ``mdhd``.
    """

    number: int
    header: memoryview
    description: memoryview
    ticks: int
    boxes: dict[bytes, memoryview]
    edits: memoryview
    length: int


@dataclass(frozen=True, eq=False)
class Movie:
    """Contents of ``moov``.

    Attributes:
        moov_range: file offsets of the begin and end of ``moov``.
        brand: the ``ftyp`` box, which influences FFmpeg; empty if the file does not start with it.
        matrix: display matrix of the movie.
        ticks: ticks per second of movie time.
        tracks: the video tracks.
        kinds: for each track of any kind, the values that FFmpeg's stream properties depend on.
        cover: whether the file has, or may have, cover images.
        extends: body of ``mvex``; unless empty, fragments hold further packets.
    """

    moov_range: tuple[int, int]
    brand: bytes
    matrix: bytes
    ticks: int
    tracks: tuple[Mp4Track, ...]
    kinds: tuple[bytes, ...]
    cover: bool
    extends: memoryview


@dataclass(frozen=True, eq=False)
class SampleTable:
    """Packets of a sample table in decode order, one array entry per packet.

    Attributes:
        dts: decode time in ticks.
        duration: ticks to the next packet.
        moved: composition offset (pts - dts) in ticks; None if all are 0.
        size: size in bytes.
        offset: file offset of the packet's bytes.
        key: whether the table marks the packet as a sync sample.
    """

    dts: IntArray
    duration: IntArray
    moved: IntArray | None
    size: IntArray
    offset: IntArray
    key: BoolArray


def read_movie(source: Source) -> Movie:
    """Find and read ``moov``."""
    moov_range, brand, body = _moov(source)
    matrix, ticks, tracks, kinds, extends = b"", 0, [], list[bytes](), memoryview(b"")
    for kind, box in boxes_in(body):
        if kind == b"mvhd":
            ticks = number(box, 20 if _is_long(box) else 12)
            matrix = bytes(box[48 if _is_long(box) else 36 :][:36])
        elif kind == b"mvex":
            extends = box
        elif kind == b"cmov":
            raise UnusableTablesError("its header is compressed")
        elif kind == b"trak":
            kinds.append(_kind_of(box))
            if kinds[-1].startswith(b"vide"):
                tracks.append(_track(box))
    return Movie(
        moov_range=moov_range,
        brand=brand,
        matrix=matrix,
        ticks=ticks,
        tracks=tuple(tracks),
        kinds=tuple(kinds),
        cover=_COVER in bytes(body),
        extends=extends,
    )


def read_tables(movie: Movie, track: Mp4Track) -> Tables:
    """Return the tables of a track."""
    samples = samples_of(track)
    dts, deltas, pts = samples.dts, samples.duration, samples.dts
    if samples.moved is not None:
        if int(samples.moved.min()) < 0:
            raise InterpretedError("packets are shown before they are decoded")
        pts = dts + samples.moved
    last = int(np.argmax(pts))
    if not deltas[last]:
        raise InterpretedError("the duration of its last frame is not stated")
    end = int(pts[last] + deltas[last])
    before, start = _edited(movie, track, pts)
    # Writers include the time before the first frame, or the time removed by an edit, or neither.
    length = int(dts[-1] + deltas[-1])
    if not length <= track.length <= before + max(length, end):
        raise InterpretedError("its stated length differs from the sum of its packets")
    return Tables(
        track=track.number,
        tick=Fraction(1, track.ticks),
        format=bytes(track.description[:4]).decode("latin-1"),
        pts=pts + (before - start),
        size=samples.size,
        offset=samples.offset,
        key=samples.key,
        shown=np.ones(len(pts), dtype=bool),
        delta=int(deltas[0]) if (deltas == deltas[0]).all() else 0,
        duration=int(deltas[last]),
        declared=len(pts),
    )


def samples_of(track: Mp4Track) -> SampleTable:
    """Return the packets listed in ``moov``."""
    boxes = track.boxes
    if not track.ticks:
        raise UnusableTablesError("it has no time base")
    if b"stps" in boxes or _groups(track):
        raise InterpretedError("it has key packets of several kinds")
    size = _sizes(boxes)
    count = len(size)
    deltas = _runs(boxes, b"stts", count)
    if deltas is None or int(deltas.min()) < 0 or int(deltas[:-1].min(initial=1)) <= 0:
        raise UnusableTablesError("times do not ascend")
    return SampleTable(
        dts=np.cumsum(deltas) - deltas,
        duration=deltas,
        moved=_runs(boxes, b"ctts", count),
        size=size,
        offset=_offsets(boxes, size),
        key=_keys(boxes, count),
    )


def as_interpreted(track: Mp4Track, entries: Entries) -> Tables:
    """Return the tables of a track by FFmpeg's index, with the composition offsets of the file's own tables.

    FFmpeg drops and shifts packets by the edit list, but keeps their composition offsets, to which it adds a constant
    where some of them are negative.
    """
    size = _sizes(track.boxes)
    offset, count = _offsets(track.boxes, size), len(size)
    deltas, moved = _runs(track.boxes, b"stts", count), _runs(track.boxes, b"ctts", count)
    if entries.track != track.number or deltas is None:
        raise UnusableTablesError("FFmpeg selects another track")
    order = np.argsort(offset, kind="stable")
    rows = order[np.minimum(np.searchsorted(offset[order], entries.position), count - 1)]
    if not (np.array_equal(offset[rows], entries.position) and np.array_equal(size[rows], entries.size)):
        raise UnusableTablesError("FFmpeg's index lists other packets")
    if len(np.unique(rows)) < len(rows):
        raise UnusableTablesError("its edits show packets twice")
    pts = entries.dts + (0 if moved is None else moved[rows])
    shifts = {packet.pts - int(pts[n]) for n, packet in enumerate(entries.first) if packet.pts is not None}
    if len(shifts) != 1 or any(packet.pts is None for packet in entries.first):
        raise UnusableTablesError("FFmpeg does not shift all presentation times equally")
    pts += shifts.pop()
    last = int(np.argmax(np.where(entries.shown, pts, np.iinfo(np.int64).min)))
    # FFmpeg uses the duration of the table only if there are composition offsets.
    duration = entries.last_duration if moved is None else int(deltas[rows[last]])
    if not duration:
        raise UnusableTablesError("the duration of its last frame is not stated")
    return Tables(
        track=track.number,
        tick=Fraction(1, track.ticks),
        format=bytes(track.description[:4]).decode("latin-1"),
        pts=pts,
        size=entries.size,
        offset=entries.position,
        key=entries.key,
        shown=entries.shown,
        delta=int(deltas[0]) if (deltas == deltas[0]).all() else 0,
        duration=duration,
        declared=entries.declared,
    )


def facts_key(movie: Movie, track: Mp4Track, tables: Tables, head: bytes) -> tuple[object, ...]:
    """Return the values that determine the stream's properties; empty if these are not known."""
    entry = _without_rate(bytes(track.description))
    codec, box = _CONFIGURATIONS.get(entry[:4], ("", b""))
    at = entry.find(box, _AFTER_SAMPLE_ENTRY)
    if movie.cover or not codec or at < 0 or not tables.delta or len(tables) < _LEAST_PACKETS:
        return ()
    units = before_first_slice(codec, entry[at + 4 :], head)
    shape = bytes(track.header[:4]) + bytes(track.header[52 if _is_long(track.header) else 40 :])
    ascending = bool((np.diff(tables.pts) > 0).all())
    key = (
        movie.brand,
        movie.kinds,
        len(track.edits),
        entry,
        shape,
        units,
        track.ticks,
        tables.delta,
        ascending,
    )
    return key if units is not None else ()


def _without_rate(entry: bytes) -> bytes:
    """Return a sample entry without its bit rate box, which differs between clips."""
    at, kept = _AFTER_SAMPLE_ENTRY, [entry[:_AFTER_SAMPLE_ENTRY]]
    while at + 8 <= len(entry):
        size = int.from_bytes(entry[at : at + 4], "big")
        if size < 8:
            break
        if entry[at + 4 : at + 8] != b"btrt":
            kept.append(entry[at : at + size])
        at += size
    return b"".join([*kept, entry[at:]])


def _moov(source: Source) -> tuple[tuple[int, int], bytes, memoryview]:
    """Return the file offsets of ``moov``, the ``ftyp`` box, and the body of ``moov``."""
    file_size = source.size()
    head = memoryview(source.read([(0, min(_HEAD, file_size))])[0])
    at, brand = 0, b""
    for _ in range(_MOST_BOXES):
        if at + 16 > len(head) and source.slow and 0 < file_size - at <= _TAIL:
            source.read([(at, file_size - at)])  # most likely the tables; the blocks are cached
        data = head[at : at + 16] if at + 16 <= len(head) else source.read([(at, 16)])[0]
        if len(data) < 8:
            break
        size, kind = int.from_bytes(data[:4], "big"), bytes(data[4:8])
        before = 8
        if size == 1:
            size, before = int.from_bytes(data[8:16], "big"), 16
        elif size == 0:
            size = file_size - at
        if size < before:
            break
        if kind in (b"moof", b"sidx"):
            raise UnusableTablesError("it is fragmented")
        if kind == b"moov":
            if (
                size > min(_LARGEST_MOOV, file_size // _TABLES_SHARE + _TABLES_OF_SMALL)
                or at + size > file_size
            ):
                raise UnusableTablesError("its tables are too large, or cut")
            inside = head[at : at + size]
            body = inside if len(inside) == size else memoryview(source.read([(at, size)])[0])
            if len(body) != size:
                raise UnusableTablesError("its tables are cut")
            return (at, at + size), brand, body[before:]
        if kind == b"ftyp":
            brand = bytes(head[at : at + size])
        at += size
    raise UnusableTablesError("it has no tables")


def boxes_in(data: memoryview) -> Iterator[_Box]:
    """Yield types and bodies of consecutive boxes."""
    at = 0
    while at + 8 <= len(data):
        size, before = int.from_bytes(data[at : at + 4], "big"), 8
        if size == 1:
            size, before = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        elif size == 0:
            if not any(data[at:]):  # QuickTime ends lists with four zeros
                return
            size = len(data) - at
        if size < before or at + size > len(data):
            raise UnusableTablesError("a box is longer than its parent")
        yield bytes(data[at + 4 : at + 8]), data[at + before : at + size]
        at += size


def _inside(data: memoryview, *kinds: bytes) -> memoryview:
    """Return the body of the first box at a path of box types; empty if there is none."""
    for kind in kinds:
        data = next((body for name, body in boxes_in(data) if name == kind), memoryview(b""))
    return data


def _is_long(box: memoryview) -> bool:
    """Return whether a box has version 1, whose times have 64 bits."""
    return len(box) > 0 and box[0] == 1


def _kind_of(trak: memoryview) -> bytes:
    """Return a track's handler, flags and format; for MPEG-4 audio also its object type."""
    handler = bytes(_inside(trak, b"mdia", b"hdlr")[8:12])
    entry = bytes(_inside(trak, b"mdia", b"minf", b"stbl", b"stsd")[8:])
    form = entry[4:8]
    if handler != b"vide" and (match := _AUDIO.search(entry)):
        form += match[1]
    elif handler != b"vide":
        form = entry
    return handler + bytes(_inside(trak, b"tkhd")[:4]) + form


def _track(trak: memoryview) -> Mp4Track:
    """Parse a track's header and the boxes of its sample table."""
    header, media = _inside(trak, b"tkhd"), _inside(trak, b"mdia")
    clock = _inside(media, b"mdhd")
    long = _is_long(clock)
    boxes: dict[bytes, memoryview] = {}
    groups = 0
    for kind, body in boxes_in(_inside(media, b"minf", b"stbl")):
        if kind in (b"sbgp", b"sgpd"):
            groups += 1
            kind = kind + b"%d" % groups
        if kind in boxes:
            raise UnusableTablesError("a table occurs twice")
        boxes[kind] = body
    descriptions = boxes.get(b"stsd", memoryview(b""))
    if number(descriptions, 4) != 1:
        raise UnusableTablesError("its format changes")
    entry = descriptions[8:]
    if bytes(entry[4:8]) == b"encv":
        raise UnusableTablesError("it is encrypted")
    return Mp4Track(
        number=number(header, 20 if _is_long(header) else 12),
        header=header,
        description=entry[4 : max(8, number(entry, 0))],
        ticks=number(clock, 20 if long else 12),
        boxes=boxes,
        edits=_inside(trak, b"edts", b"elst"),
        length=number(clock, 24, 8) if long else number(clock, 16),
    )


def _groups(track: Mp4Track) -> bool:
    """Return whether sample groups list further random access points."""
    kinds = {bytes(body[4:8]) for kind, body in track.boxes.items() if kind.startswith(b"sbgp")}
    return bool(kinds & {b"rap ", b"sync"})


def number(data: memoryview, at: int, size: int = 4) -> int:
    """Return an unsigned number."""
    if len(data) < at + size:
        raise UnusableTablesError("a table is cut")
    return int.from_bytes(data[at : at + size], "big")


def _table(boxes: dict[bytes, memoryview], kind: bytes, width: int, before: int = 4) -> _Words | None:
    """Return a table of 32-bit numbers with ``width`` columns; None if there is none."""
    body = boxes.get(kind)
    if body is None:
        return None
    count = number(body, before)
    begin = before + 4
    if len(body) < begin + 4 * width * count:
        raise UnusableTablesError("a table is cut")
    return np.frombuffer(body, ">u4", width * count, begin).reshape(count, width)


def _runs(boxes: dict[bytes, memoryview], kind: bytes, count: int) -> IntArray | None:
    """Expand a run-length table of signed values to one value per packet; None if it is missing or empty."""
    runs = _table(boxes, kind, 2)
    if runs is None or not len(runs):
        return None
    many = runs[:, 0].astype(np.int64)
    if int(many.sum()) != count:
        raise UnusableTablesError("its tables differ in their number of packets")
    values: IntArray = np.repeat(runs[:, 1].astype(np.int32).astype(np.int64), many)
    return values


def _sizes(boxes: dict[bytes, memoryview]) -> IntArray:
    """Return the packets' sizes."""
    body = boxes.get(b"stsz")
    if body is not None:
        if number(body, 4):
            raise UnusableTablesError("all packets have the same size")
        sizes = _table(boxes, b"stsz", 1, before=8)
        assert sizes is not None
        return sizes[:, 0].astype(np.int64)
    body = boxes.get(b"stz2", memoryview(b""))
    bits, count = number(body, 4) & 255, number(body, 8)
    packed = np.frombuffer(body, np.uint8, offset=12)
    if bits not in (4, 8, 16) or 8 * len(packed) < bits * count:
        raise UnusableTablesError("a table is cut")
    if bits == 4:
        packed = np.stack([packed >> 4, packed & 15], axis=1).ravel()
    values = packed[: 2 * count].view(">u2") if bits == 16 else packed[:count]
    return values.astype(np.int64)


def _offsets(boxes: dict[bytes, memoryview], size: IntArray) -> IntArray:
    """Return the file offsets of packets, which are contiguous in chunks."""
    short = _table(boxes, b"stco", 1)
    if (short is None) == (b"co64" not in boxes):
        raise UnusableTablesError("it has no table of chunks, or two")
    if short is None:
        halves = _table(boxes, b"co64", 2)
        assert halves is not None
        if len(halves) and int(halves[:, 0].max()) >> 31:
            raise UnusableTablesError("a chunk offset exceeds 63 bits")
        chunks = (halves[:, 0].astype(np.int64) << 32) | halves[:, 1]
    else:
        chunks = short[:, 0].astype(np.int64)
    runs = _table(boxes, b"stsc", 3)
    if runs is None or not len(runs) or not len(chunks) or not (runs[:, 2] == 1).all():
        raise UnusableTablesError("packets are not stored in chunks of one format")
    first = runs[:, 0].astype(np.int64)
    if first[0] != 1 or not (np.diff(first) > 0).all() or int(first[-1]) > len(chunks):
        raise UnusableTablesError("chunks do not ascend")
    each = np.repeat(runs[:, 1].astype(np.int64), np.diff(first, append=len(chunks) + 1))
    if int(each.sum()) != len(size):
        raise UnusableTablesError("its tables differ in their number of packets")
    before = np.cumsum(size) - size
    begins = np.cumsum(each) - each
    filled = each > 0
    moved = chunks[filled] - before[begins[filled]]
    offsets: IntArray = before + np.repeat(moved, each[filled])
    return offsets


def _keys(boxes: dict[bytes, memoryview], count: int) -> BoolArray:
    """Return a mask of the key packets."""
    listed = _table(boxes, b"stss", 1)
    if listed is None:
        return np.ones(count, dtype=bool)
    numbers = listed[:, 0].astype(np.int64)
    if not len(numbers) or not (np.diff(numbers) > 0).all() or not 1 <= numbers[0] <= numbers[-1] <= count:
        raise UnusableTablesError("the table of key packets does not ascend")
    key: BoolArray = np.zeros(count, dtype=bool)
    key[numbers - 1] = True
    return key


def edits_of(movie: Movie, track: Mp4Track) -> tuple[int, int]:
    """Return the ticks that the edit list inserts before the first frame, and the media time at which it starts."""
    rows = _rows_of_edits(movie, track)
    if not rows:
        return 0, 0
    before = (rows[0][0] * track.ticks + movie.ticks // 2) // movie.ticks if len(rows) == 2 else 0
    return before, rows[-1][1]  # rounded as FFmpeg does


def _rows_of_edits(movie: Movie, track: Mp4Track) -> list[tuple[int, int]]:
    """Return (duration, media time) of the edits: at most an empty edit and one that shows the media."""
    edits = track.edits
    if not len(edits):
        return []
    count, width = number(edits, 4), 8 if _is_long(edits) else 4
    rows = []
    for row in range(min(count, 3)):
        at = 8 + row * (2 * width + 4)
        if number(edits, at + 2 * width) != 1 << 16:
            raise InterpretedError("it is edited")
        rows.append((number(edits, at, width), number(edits, at + width, width)))
    nothing = (1 << 8 * width) - 1
    if (
        not movie.ticks
        or not 1 <= count <= 2
        or [begin == nothing for _, begin in rows] != [True, False][-count:]
    ):
        raise InterpretedError("it is edited")
    return rows


def _edited(movie: Movie, track: Mp4Track, pts: IntArray) -> tuple[int, int]:
    """Return the ticks that edits insert before the first frame, and those that they subtract from all times."""
    rows = _rows_of_edits(movie, track)
    if not rows:
        return 0, 0
    before, begin = edits_of(movie, track)
    length = rows[-1][0]
    shown = begin + length * track.ticks // movie.ticks > int(pts.max())
    if begin != int(pts[0]) or begin != int(pts.min()) or not shown:
        raise InterpretedError("it is edited")
    return before, begin
