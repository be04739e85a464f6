"""Blocks of Matroska and WebM files (RFC 8794, RFC 9559), by a pass over their headers that reads no frame data.

Cues list some key frames only: the number of a frame is known only after counting all block headers before it. By time,
the cues lead to the part of the file that holds a frame.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...core.native import buffer_of, load_functions
from ..source.source import Source
from .facts import before_first_slice
from .gate import ReadAt, Tables, UnusableTablesError, descriptor_of, reading

__all__ = [
    "HIDDEN_FRAME_CODEC_IDS",
    "MAGIC",
    "Cues",
    "MatroskaHeader",
    "facts_key",
    "read_cues",
    "read_header",
    "read_part",
    "read_tables",
]

MAGIC: Final = b"\x1a\x45\xdf\xa3"
"""First bytes of a Matroska file."""

_EBML, _SEGMENT, _INFO, _TRACKS, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0x1F43B675
_SCALE, _ENTRY, _VOID, _CRC = 0x2AD7B1, 0xAE, 0xEC, 0xBF
_NUMBER, _TYPE, _CODEC, _DEFAULT_DURATION, _ENCODINGS = 0xD7, 0x83, 0x86, 0x23E383, 0x6D80
_UID, _NAME, _LANGUAGE, _PRIVATE = 0x73C5, 0x536E, 0x22B59C, 0x63A2
_NAMES = {_UID, _NAME, _LANGUAGE}
_CODECS = {"V_MPEG4/ISO/AVC": "h264", "V_MPEGH/ISO/HEVC": "hevc"}
HIDDEN_FRAME_CODEC_IDS: Final = ("V_VP8", "V_VP9")
"""Codecs with hidden frames, which block headers do not mark."""

_LEAST_PACKETS = 8
_FLAG_DEFAULT, _VIDEO_SIZE = 0x88, 0xE0
_FFMPEG_ELEMENTS = (_TYPE, _CODEC, _FLAG_DEFAULT, _VIDEO_SIZE)
_ATTACHMENTS = b"\x19\x41\xa4\x69"
_TRACK_SCALE, _OPERATION, _CODEC_DELAY = 0x23314F, 0xE2, 0x56AA
_TIME, _SIMPLE_BLOCK, _BLOCK_GROUP = 0xE7, 0xA3, 0xA0
_BLOCK, _REFERENCE, _DURATION, _ADDITIONS, _ENCRYPTED = 0xA1, 0xFB, 0x9B, 0x75A1, 0xAF
_SEEK_HEAD, _SEEK, _SEEK_ID, _SEEK_PLACE = 0x114D9B74, 0x4DBB, 0x53AB, 0x53AC
_CUES, _CUE, _CUE_TIME, _CUE_TRACKS, _CUE_TRACK, _CUE_CLUSTER = 0x1C53BB6B, 0xBB, 0xB3, 0xB7, 0xF7, 0xF1
_LARGEST_CUES, _LARGEST_PART, _BEHIND = 64 << 20, 256 << 20, 1 << 16
_VIDEO = 1
_DEFAULT_SCALE = 1_000_000
_AHEAD = 512
_LARGEST_HEADER = 1 << 20

_CAPACITY = 1 << 16
_KINDS = (np.int64, np.int64, np.int64, np.int64, np.uint8)
_FULL, _CUT, _ODD, _TWO, _LACED, _LONG = range(1, 7)
_ENDS = {
    _CUT: "it is cut, or an element has no stated length",
    _ODD: "a cluster holds an unsupported element",
    _TWO: "a frame has more than one block",
    _LACED: "frames are laced, or have no time",
    _LONG: "a number is too long",
}
"""Reasons why a pass ends, by the status of ``blocks.c``."""

_Columns: TypeAlias = "tuple[npt.NDArray[Any], ...]"


@dataclass(frozen=True)
class MatroskaHeader:
    """Elements before the first cluster.

    Attributes:
        track: number of the only video track.
        codec: Matroska's name of its codec.
        scale: nanoseconds per tick.
        duration: default duration of a frame in ticks; 0 if unknown.
        entry: elements of the track entry, without its names.
        others: for each track of any kind, the elements that FFmpeg's stream properties depend on.
        attached: whether the file has, or may have, attachments.
        begin: file offset of the first cluster.
        end: file offset of the segment's end.
        cues: file offset of the cues; 0 if not known before the first cluster.
        segment: file offset of the segment's data, to which positions are relative.
    """

    track: int
    codec: str
    scale: int
    duration: int
    entry: dict[int, bytes]
    others: tuple[tuple[bytes, ...], ...]
    attached: bool
    begin: int
    end: int
    cues: int = 0
    segment: int = 0


@dataclass(frozen=True)
class Cues:
    """Cues of the video track, ascending.

    Attributes:
        times: presentation time of each key frame in ticks.
        offsets: file offset of its cluster.
    """

    times: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


@dataclass
class _Blocks:
    """Columns collected by a pass, one entry per packet."""

    pts: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    key: list[bool] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)


def read_header(source: Source) -> MatroskaHeader:
    """Read the elements before the first cluster."""
    file_size = source.size()
    with reading(source) as read:
        head = _Window(read, file_size)
        identity, begin, end = head.element(0)
        if identity != _EBML:
            raise UnusableTablesError("it is not a Matroska file")
        identity, at, segment_end = head.element(end)
        if identity != _SEGMENT or segment_end > file_size:
            raise UnusableTablesError("its segment is cut, or has no stated length")
        scale, entries, segment, cues = _DEFAULT_SCALE, list[bytes](), at, 0
        while at < segment_end:
            before = at
            identity, begin, at = head.element(at)
            if identity == _CLUSTER and before > _LARGEST_HEADER:
                raise UnusableTablesError("its header is too large")
            if identity == _CLUSTER:
                header = _header(scale, entries, before, segment_end, _ATTACHMENTS in read(before, 0))
                return replace(header, cues=cues, segment=segment)
            if identity == _CUES:
                cues = before
            elif identity in (_INFO, _TRACKS, _SEEK_HEAD):
                if at - begin > _LARGEST_HEADER:
                    raise UnusableTablesError("its header is too large")
                body = read(at - begin, begin)
                if identity == _TRACKS:
                    entries = [content for kind, content in _elements(body) if kind == _ENTRY]
                elif identity == _SEEK_HEAD:
                    cues = _offset_of_cues(body, segment) or cues
                else:
                    scale = _value(dict(_elements(body)), _SCALE, _DEFAULT_SCALE)
    raise UnusableTablesError("it has no clusters")


def _header(scale: int, entries: list[bytes], begin: int, end: int, attached: bool) -> MatroskaHeader:
    """Return the header of the only video track."""
    tracks = [(entry, dict(_elements(entry))) for entry in entries]
    videos = [(entry, elements) for entry, elements in tracks if _value(elements, _TYPE, 0) == _VIDEO]
    if len(videos) != 1 or not scale:
        raise UnusableTablesError("it does not have exactly one video track")
    _, elements = videos[0]
    if {_ENCODINGS, _TRACK_SCALE, _OPERATION, _CODEC_DELAY} & elements.keys():
        raise UnusableTablesError("its packets are stored encoded, or its clock is moved")
    codec = elements.get(_CODEC, b"").rstrip(b"\0").decode("latin-1")
    return MatroskaHeader(
        track=_value(elements, _NUMBER, 0),
        codec=codec,
        scale=scale,
        duration=_value(elements, _DEFAULT_DURATION, 0) // scale,
        entry={kind: content for kind, content in elements.items() if kind not in _NAMES},
        others=tuple(tuple(elements.get(kind, b"") for kind in _FFMPEG_ELEMENTS) for _, elements in tracks),
        attached=attached,
        begin=begin,
        end=end,
    )


def facts_key(header: MatroskaHeader, tables: Tables, head: bytes) -> tuple[object, ...]:
    """Return the values that determine the stream's properties; empty if these are not known."""
    codec = _CODECS.get(header.codec, "")
    if header.attached or not codec or _DEFAULT_DURATION not in header.entry or len(tables) < _LEAST_PACKETS:
        return ()
    units = before_first_slice(codec, header.entry.get(_PRIVATE, b""), head)
    ascending = bool((np.diff(tables.pts) > 0).all())
    key = (header.scale, tuple(sorted(header.entry.items())), header.others, units, ascending)
    return key if units is not None else ()


def read_tables(source: Source, header: MatroskaHeader) -> Tables:
    """Read the packets of the video track from the headers of all blocks."""
    return _tables(header, _by_c(source, header) or _by_python(source, header))


def _tables(header: MatroskaHeader, columns: _Columns) -> Tables:
    """Return packets as checked tables."""
    pts, size, offset, duration, key = columns
    if len(pts) and int(pts.min()) < 0:
        raise UnusableTablesError("a time is below zero")
    last = int(np.argmax(pts)) if len(pts) else 0
    return Tables(
        track=0,
        tick=Fraction(header.scale, 1_000_000_000),
        format=header.codec,
        pts=pts,
        size=size,
        offset=offset,
        key=key.astype(bool),
        shown=np.ones(len(key), dtype=bool),
        delta=0,
        duration=int(duration[last]) if len(pts) and duration[last] >= 0 else header.duration,
        declared=0,
    )


def read_cues(source: Source, header: MatroskaHeader) -> Cues:
    """Read the cues of the video track."""
    if not header.segment < header.cues < header.end:
        raise UnusableTablesError("it has no cues, or does not say where")
    with reading(source) as read:
        identity, begin, end = _Window(read, header.end).element(header.cues)
        if identity != _CUES or end - begin > _LARGEST_CUES:
            raise UnusableTablesError("its cues are not at the stated position")
        body = read(end - begin, begin)
    cues: list[tuple[int, int]] = []
    for kind, point in _elements(body):
        elements = list(_elements(point)) if kind == _CUE else []
        tracks = [dict(_elements(content)) for name, content in elements if name == _CUE_TRACKS]
        own = [track for track in tracks if _value(track, _CUE_TRACK, 0) == header.track]
        cues += [
            (_value(dict(elements), _CUE_TIME, 0), header.segment + _value(t, _CUE_CLUSTER, 0)) for t in own
        ]
    times, offsets = np.array(cues, np.int64).reshape(-1, 2).T
    ascending = len(cues) and (np.diff(times) > 0).all() and (np.diff(offsets) >= 0).all()
    if not ascending or offsets[0] < header.begin or offsets[-1] >= header.end:
        raise UnusableTablesError("its cues do not ascend")
    return Cues(times, offsets)


def read_part(source: Source, header: MatroskaHeader, cues: Cues, first: int, last: int) -> Tables:
    """Read the packets from one cue to another, with the leading pictures of the latter."""
    begin = int(cues.offsets[first])
    end, until = header.end, 1 << 62
    if last < len(cues.times):
        end, until = int(cues.offsets[last]), int(cues.times[last])
    if end - begin > _LARGEST_PART:
        raise UnusableTablesError("its cues are too far apart")
    source.read([(begin, min(end + _BEHIND, header.end) - begin)])
    blocks = _Blocks()
    with reading(source) as read:
        window, at = _Window(read, header.end), begin
        while at < header.end and (at < end or not _is_past(blocks, until)):
            identity, body, at = window.element(at)
            if identity == _CLUSTER:
                _cluster(window, header, body, at, blocks, until=until if body > end else None)
    start = blocks.pts.index(int(cues.times[first])) if int(cues.times[first]) in blocks.pts else 0
    if not blocks.pts or blocks.pts[start] != cues.times[first] or not blocks.key[start]:
        raise UnusableTablesError("a cue does not lead to a key frame")
    columns = (blocks.pts, blocks.size, blocks.offset, blocks.duration, blocks.key)
    arrays: _Columns = tuple(map(np.array, columns, _KINDS))
    return _tables(header, tuple(column[start:] for column in arrays))


def _is_past(blocks: _Blocks, until: int) -> bool:
    """Return whether all leading pictures of the key frame at a time were read: they follow it directly."""
    return bool(blocks.pts) and blocks.pts[-1] > until


def _offset_of_cues(body: bytes, segment: int) -> int:
    """Return the position of the cues by the seek head; None without one."""
    for kind, entry in _elements(body):
        elements = dict(_elements(entry)) if kind == _SEEK else {}
        if _value(elements, _SEEK_ID, 0) == _CUES:
            return segment + _value(elements, _SEEK_PLACE, 0)
    return 0


def _by_c(source: Source, header: MatroskaHeader) -> _Columns | None:
    """Read the blocks by ``blocks.c``; None without a C compiler, or for a source that is not a local file."""
    native = _native()
    if native is None or source.path is None:
        return None
    state, elements = np.array([0, header.begin, _FULL], np.int64), list[_Columns]()
    with descriptor_of(source) as descriptor:
        while state[2] == _FULL:
            columns = tuple(np.empty(_CAPACITY, kind) for kind in _KINDS)
            arguments = (descriptor, header.end, header.track, _CAPACITY)
            native.seqpipe_blocks(*arguments, *(buffer_of(column) for column in (*columns, state)))
            if state[2] == _FULL and not state[0]:
                return None  # a cluster with more blocks than the arrays have entries
            elements.append(tuple(column[: state[0]] for column in columns))
    if state[2]:
        raise UnusableTablesError(_ENDS[int(state[2])])
    return tuple(np.concatenate(columns) for columns in zip(*elements, strict=True))


@cache
def _native() -> Any:
    """Load ``blocks.c``; None without a C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    return load_functions(__package__, "blocks.c", {"blocks": (*[count] * 4, *[pointer] * 6)})


def _by_python(source: Source, header: MatroskaHeader) -> _Columns:
    """Read the blocks in Python."""
    blocks = _Blocks()
    with reading(source) as read:
        window = _Window(read, header.end)
        at = header.begin
        while at < header.end:
            identity, begin, at = window.element(at)
            if identity == _CLUSTER:
                _cluster(window, header, begin, at, blocks)
    columns = (blocks.pts, blocks.size, blocks.offset, blocks.duration, blocks.key)
    return tuple(np.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True))


def _cluster(
    window: _Window, header: MatroskaHeader, at: int, end: int, blocks: _Blocks, until: int | None = None
) -> None:
    """Read the blocks of a cluster; with ``until`` only up to the first one that is shown later."""
    time: int | None = None
    while at < end and not (until is not None and _is_past(blocks, until)):
        identity, begin, at = window.element(at, end)
        if identity == _TIME:
            time = window.number(begin, at)
        elif identity == _SIMPLE_BLOCK:
            _block(window, header, begin, at, time, blocks, simple=True)
        elif identity == _BLOCK_GROUP:
            _group(window, header, begin, at, time, blocks)
        elif identity in (_ENCRYPTED, _CLUSTER):
            raise UnusableTablesError(_ENDS[_ODD])


def _group(
    window: _Window, header: MatroskaHeader, at: int, end: int, time: int | None, blocks: _Blocks
) -> None:
    """Add the packet of a block group."""
    refers, added, duration, before = False, False, -1, len(blocks.pts)
    while at < end:
        identity, begin, at = window.element(at, end)
        if identity == _BLOCK:
            _block(window, header, begin, at, time, blocks, simple=False)
        elif identity == _REFERENCE:
            refers = True
        elif identity == _DURATION:
            duration = window.number(begin, at)
        elif identity == _ADDITIONS:
            added = True
    if len(blocks.pts) == before:
        return
    if added or len(blocks.pts) != before + 1:
        raise UnusableTablesError(_ENDS[_TWO])
    blocks.key[-1] = not refers
    if duration >= 0:
        blocks.duration[-1] = duration


def _block(
    window: _Window,
    header: MatroskaHeader,
    begin: int,
    end: int,
    time: int | None,
    blocks: _Blocks,
    *,
    simple: bool,
) -> None:
    """Add the packet of a block."""
    track, at = window.size(begin)
    if track != header.track:
        return
    data = window.bytes(at, 3)
    if time is None or len(data) < 3 or data[2] & 6:
        raise UnusableTablesError(_ENDS[_LACED])
    moved = int.from_bytes(data[:2], "big", signed=True)
    blocks.pts.append(time + moved)
    blocks.size.append(end - at - 3)
    blocks.offset.append(at + 3)
    blocks.key.append(simple and data[2] & 0x80 != 0)
    blocks.duration.append(-1)


class _Window:
    """Reads EBML elements and numbers at mostly ascending offsets, through a small buffer.

    Args:
        read: called with (count, offset); returns bytes.
        end: offset of the end of the data.
    """

    def __init__(self, read: ReadAt, end: int) -> None:
        self._read, self._end = read, end
        self._data, self._begin = b"", 0

    def element(self, at: int, end: int = 1 << 62) -> tuple[int, int, int]:
        """Return the ID of the element at an offset, and the begin and end of its data."""
        offset = at - self._begin
        if not 0 <= offset <= len(self._data) - 12:
            self._data, self._begin, offset = self._read(_AHEAD, at), at, 0
        data = self._data
        if offset >= len(data) or not data[offset]:
            raise UnusableTablesError("it is cut, or damaged")
        width = 9 - data[offset].bit_length()
        identity = int.from_bytes(data[offset : offset + width], "big")
        offset += width
        if offset >= len(data) or not (first := data[offset]):
            raise UnusableTablesError("it is cut, or damaged")
        width = 9 - first.bit_length()
        size = int.from_bytes(data[offset : offset + width], "big") & ((1 << 7 * width) - 1)
        begin = self._begin + offset + width
        if size == (1 << 7 * width) - 1 or begin + size > min(end, self._end):
            raise UnusableTablesError(_ENDS[_CUT])
        return identity, begin, begin + size

    def bytes(self, at: int, count: int) -> bytes:
        """Return bytes at an offset."""
        offset = at - self._begin
        if not 0 <= offset <= len(self._data) - count:
            self._data, self._begin, offset = self._read(_AHEAD, at), at, 0
        return self._data[offset : offset + count]

    def size(self, at: int) -> tuple[int, int]:
        """Return a number of variable length, and its end."""
        first = self.bytes(at, 1)
        if not first or not first[0]:
            raise UnusableTablesError("it is cut, or damaged")
        width = 9 - first[0].bit_length()
        return int.from_bytes(self.bytes(at, width), "big") & ((1 << 7 * width) - 1), at + width

    def number(self, begin: int, end: int) -> int:
        """Return an element's data as an unsigned number."""
        data = self.bytes(begin, end - begin) if end - begin <= 8 else b""
        value = int.from_bytes(data, "big")
        if end - begin > 8 or value >> 62:
            raise UnusableTablesError(_ENDS[_LONG])
        if len(data) < end - begin:
            raise UnusableTablesError(_ENDS[_CUT])
        return value


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield ID and data of consecutive elements."""
    window = _Window(lambda count, at: data[at : at + count], len(data))
    at = 0
    while at < len(data):
        identity, begin, at = window.element(at)
        yield identity, data[begin:at]


def _value(elements: dict[int, bytes], identity: int, default: int) -> int:
    data = elements.get(identity)
    return default if data is None else int.from_bytes(data[:8], "big")
