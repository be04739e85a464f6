"""The blocks of Matroska and WebM files (RFC 8794, RFC 9559): a pass over their headers, which reads no frame's data.

Cues name some key frames only, so that the number of a frame is known once the headers before it were counted. By time
they lead to a part of the file that holds the frame.
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

from ...native import load_functions, memory
from ..source.source import Source
from .gate import Distrusted, Tables
from .heads import before_first_slice
from .read_at import ReadAt, descriptor_of, reading

__all__ = [
    "MAGIC",
    "READ_THROUGH",
    "Cues",
    "Header",
    "facts_key",
    "read_cues",
    "read_header",
    "read_part",
    "read_tables",
]

MAGIC: Final = b"\x1a\x45\xdf\xa3"
"""What such a file begins with."""

_EBML, _SEGMENT, _INFO, _TRACKS, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0x1F43B675
_SCALE, _ENTRY, _VOID, _CRC = 0x2AD7B1, 0xAE, 0xEC, 0xBF
_NUMBER, _TYPE, _CODEC, _DEFAULT_DURATION, _ENCODINGS = 0xD7, 0x83, 0x86, 0x23E383, 0x6D80
_UID, _NAME, _LANGUAGE, _PRIVATE = 0x73C5, 0x536E, 0x22B59C, 0x63A2
_NAMES = {_UID, _NAME, _LANGUAGE}
_CODECS = {"V_MPEG4/ISO/AVC": "h264", "V_MPEGH/ISO/HEVC": "hevc"}
READ_THROUGH: Final = ("V_VP8", "V_VP9")
"""Codecs whose packets may hold hidden frames, which no header of a block tells."""

_LEAST_PACKETS = 8
_FLAG_DEFAULT, _VIDEO_SIZE = 0x88, 0xE0
_TOLD = (_TYPE, _CODEC, _FLAG_DEFAULT, _VIDEO_SIZE)
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

_ROOM = 1 << 16
_KINDS = (np.int64, np.int64, np.int64, np.int64, np.uint8)
_FULL, _CUT, _ODD, _TWO, _LACED, _LONG = range(1, 7)
_ENDS = {
    _CUT: "it is cut, or the length of a part is left open",
    _ODD: "a cluster holds what no plain one does",
    _TWO: "more than one block belongs to a frame",
    _LACED: "frames are laced, or have no time",
    _LONG: "a number is too long",
}
"""Why a pass ends, by the numbers that ``blocks.c`` has for it."""

_Columns: TypeAlias = "tuple[npt.NDArray[Any], ...]"


@dataclass(frozen=True)
class Header:
    """What stands before the first cluster.

    Attributes:
        track: the number of the only track of video.
        codec: Matroska's name of its codec.
        scale: nanoseconds in a tick.
        duration: ticks of a frame by default; 0 if untold.
        entry: the track's description, without its names.
        others: what FFmpeg tells of each track of any kind.
        attached: whether files are attached, or may be.
        begin: where the first cluster begins.
        end: where the segment ends.
        cues: where the cues begin; 0 if that is not told before the first cluster.
        segment: where the segment's parts begin, from which places are counted.
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
    """Key frames of the track of video, ascending, and where they lie.

    Attributes:
        times: presentation time of each in ticks.
        places: where its cluster begins.
    """

    times: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]


@dataclass
class _Blocks:
    """What a pass collects, one entry a packet."""

    pts: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    key: list[bool] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)


def read_header(source: Source) -> Header:
    """Read what stands before the first cluster.

    Raises:
        Distrusted: it is not plain.
        SourceError: the source cannot be read.
    """
    held = source.size()
    with reading(source) as read:
        head = _Window(read, held)
        identity, begin, end = head.element(0)
        if identity != _EBML:
            raise Distrusted("it is no Matroska file")
        identity, at, segment_end = head.element(end)
        if identity != _SEGMENT or segment_end > held:
            raise Distrusted("its segment is cut, or of no stated length")
        scale, entries, segment, cues = _DEFAULT_SCALE, list[bytes](), at, 0
        while at < segment_end:
            before = at
            identity, begin, at = head.element(at)
            if identity == _CLUSTER and before > _LARGEST_HEADER:
                raise Distrusted("its header is larger than any is")
            if identity == _CLUSTER:
                film = _film(scale, entries, before, segment_end, _ATTACHMENTS in read(before, 0))
                return replace(film, cues=cues, segment=segment)
            if identity == _CUES:
                cues = before
            elif identity in (_INFO, _TRACKS, _SEEK_HEAD):
                if at - begin > _LARGEST_HEADER:
                    raise Distrusted("its header is larger than any is")
                body = read(at - begin, begin)
                if identity == _TRACKS:
                    entries = [part for kind, part in _elements(body) if kind == _ENTRY]
                elif identity == _SEEK_HEAD:
                    cues = _place_of_cues(body, segment) or cues
                else:
                    scale = _value(dict(_elements(body)), _SCALE, _DEFAULT_SCALE)
    raise Distrusted("it has no clusters")


def _film(scale: int, entries: list[bytes], begin: int, end: int, attached: bool) -> Header:
    found = [(entry, dict(_elements(entry))) for entry in entries]
    videos = [(entry, parts) for entry, parts in found if _value(parts, _TYPE, 0) == _VIDEO]
    if len(videos) != 1 or not scale:
        raise Distrusted("it has not one track of video")
    _, parts = videos[0]
    if {_ENCODINGS, _TRACK_SCALE, _OPERATION, _CODEC_DELAY} & parts.keys():
        raise Distrusted("its packets are stored encoded, or its clock is moved")
    codec = parts.get(_CODEC, b"").rstrip(b"\0").decode("latin-1")
    return Header(
        track=_value(parts, _NUMBER, 0),
        codec=codec,
        scale=scale,
        duration=_value(parts, _DEFAULT_DURATION, 0) // scale,
        entry={kind: part for kind, part in parts.items() if kind not in _NAMES},
        others=tuple(tuple(parts.get(kind, b"") for kind in _TOLD) for _, parts in found),
        attached=attached,
        begin=begin,
        end=end,
    )


def facts_key(film: Header, tables: Tables, head: bytes) -> tuple[object, ...]:
    """What the facts of the stream depend on; nothing if that is not known.

    Args:
        film: what stands before the first cluster.
        tables: its packets.
        head: the first packet.
    """
    codec = _CODECS.get(film.codec, "")
    if film.attached or not codec or _DEFAULT_DURATION not in film.entry or len(tables) < _LEAST_PACKETS:
        return ()
    told = before_first_slice(codec, film.entry.get(_PRIVATE, b""), head)
    ascending = bool((np.diff(tables.pts) > 0).all())
    key = (film.scale, tuple(sorted(film.entry.items())), film.others, told, ascending)
    return key if told is not None else ()


def read_tables(source: Source, film: Header) -> Tables:
    """The packets of the track of video, by the headers of all blocks.

    Raises:
        Distrusted: something is cut, or is not what plain files have.
        SourceError: the source cannot be read.
    """
    return _tables(film, _by_c(source, film) or _by_python(source, film))


def _tables(film: Header, columns: _Columns) -> Tables:
    pts, size, offset, duration, key = columns
    if len(pts) and int(pts.min()) < 0:
        raise Distrusted("a time is below zero")
    last = int(np.argmax(pts)) if len(pts) else 0
    return Tables(
        track=0,
        tick=Fraction(film.scale, 1_000_000_000),
        format=film.codec,
        pts=pts,
        size=size,
        offset=offset,
        key=key.astype(bool),
        shown=np.ones(len(key), dtype=bool),
        delta=0,
        duration=int(duration[last]) if len(pts) and duration[last] >= 0 else film.duration,
        declared=0,
    )


def read_cues(source: Source, film: Header) -> Cues:
    """The cues of the track of video.

    Raises:
        Distrusted: there are none, or they are not plain.
        SourceError: the source cannot be read.
    """
    if not film.segment < film.cues < film.end:
        raise Distrusted("it has no cues, or does not say where")
    with reading(source) as read:
        identity, begin, end = _Window(read, film.end).element(film.cues)
        if identity != _CUES or end - begin > _LARGEST_CUES:
            raise Distrusted("its cues are not where they are said to be")
        body = read(end - begin, begin)
    found: list[tuple[int, int]] = []
    for kind, point in _elements(body):
        parts = list(_elements(point)) if kind == _CUE else []
        tracks = [dict(_elements(part)) for name, part in parts if name == _CUE_TRACKS]
        own = [track for track in tracks if _value(track, _CUE_TRACK, 0) == film.track]
        found += [(_value(dict(parts), _CUE_TIME, 0), film.segment + _value(t, _CUE_CLUSTER, 0)) for t in own]
    times, places = np.array(found, np.int64).reshape(-1, 2).T
    ascending = len(found) and (np.diff(times) > 0).all() and (np.diff(places) >= 0).all()
    if not ascending or places[0] < film.begin or places[-1] >= film.end:
        raise Distrusted("its cues are in disorder")
    return Cues(times, places)


def read_part(source: Source, film: Header, cues: Cues, first: int, last: int) -> Tables:
    """The packets from one cue to another one, and those leading pictures of the latter that are shown before it.

    Args:
        source: the video; the part is read at once.
        film: what stands before the first cluster.
        cues: of the video.
        first: the cue whose packet is the first one.
        last: the cue up to which they are wanted; the number of cues for all up to the end.

    Raises:
        Distrusted: something is cut, or is not what plain files have.
        SourceError: the source cannot be read.
    """
    begin = int(cues.places[first])
    end, until = film.end, 1 << 62
    if last < len(cues.times):
        end, until = int(cues.places[last]), int(cues.times[last])
    if end - begin > _LARGEST_PART:
        raise Distrusted("its cues are too far apart")
    source.read([(begin, min(end + _BEHIND, film.end) - begin)])
    blocks = _Blocks()
    with reading(source) as read:
        window, at = _Window(read, film.end), begin
        while at < film.end and (at < end or not _is_past(blocks, until)):
            identity, body, at = window.element(at)
            if identity == _CLUSTER:
                _cluster(window, film, body, at, blocks, until=until if body > end else None)
    start = blocks.pts.index(int(cues.times[first])) if int(cues.times[first]) in blocks.pts else 0
    if not blocks.pts or blocks.pts[start] != cues.times[first] or not blocks.key[start]:
        raise Distrusted("a cue leads to no key frame")
    columns = (blocks.pts, blocks.size, blocks.offset, blocks.duration, blocks.key)
    found: _Columns = tuple(map(np.array, columns, _KINDS))
    return _tables(film, tuple(column[start:] for column in found))


def _is_past(blocks: _Blocks, until: int) -> bool:
    """Whether what is to be shown before the key frame of a time has been read: it comes right behind it."""
    return bool(blocks.pts) and blocks.pts[-1] > until


def _place_of_cues(body: bytes, segment: int) -> int:
    for kind, entry in _elements(body):
        parts = dict(_elements(entry)) if kind == _SEEK else {}
        if _value(parts, _SEEK_ID, 0) == _CUES:
            return segment + _value(parts, _SEEK_PLACE, 0)
    return 0


def _by_c(source: Source, film: Header) -> _Columns | None:
    """The blocks, by ``blocks.c``; None where there is no C compiler, or no file."""
    native = _native()
    if native is None or source.path is None:
        return None
    state, parts = np.array([0, film.begin, _FULL], np.int64), list[_Columns]()
    with descriptor_of(source) as descriptor:
        while state[2] == _FULL:
            columns = tuple(np.empty(_ROOM, kind) for kind in _KINDS)
            arguments = (descriptor, film.end, film.track, _ROOM)
            native.seqpipe_blocks(*arguments, *(memory(column) for column in (*columns, state)))
            if state[2] == _FULL and not state[0]:
                return None  # a cluster of more blocks than there is room for
            parts.append(tuple(column[: state[0]] for column in columns))
    if state[2]:
        raise Distrusted(_ENDS[int(state[2])])
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


@cache
def _native() -> Any:
    """What ``blocks.c`` has for it; None where there is no C compiler."""
    count, place = ctypes.c_int64, ctypes.c_void_p
    return load_functions(__package__, "blocks.c", {"blocks": (*[count] * 4, *[place] * 6)})


def _by_python(source: Source, film: Header) -> _Columns:
    """The blocks."""
    blocks = _Blocks()
    with reading(source) as read:
        window = _Window(read, film.end)
        at = film.begin
        while at < film.end:
            identity, begin, at = window.element(at)
            if identity == _CLUSTER:
                _cluster(window, film, begin, at, blocks)
    columns = (blocks.pts, blocks.size, blocks.offset, blocks.duration, blocks.key)
    return tuple(np.array(column, kind) for column, kind in zip(columns, _KINDS, strict=True))


def _cluster(
    window: _Window, film: Header, at: int, end: int, blocks: _Blocks, until: int | None = None
) -> None:
    """The blocks of a cluster; with ``until`` no more of them once one is to be shown later."""
    time: int | None = None
    while at < end and not (until is not None and _is_past(blocks, until)):
        identity, begin, at = window.element(at, end)
        if identity == _TIME:
            time = window.number(begin, at)
        elif identity == _SIMPLE_BLOCK:
            _block(window, film, begin, at, time, blocks, simple=True)
        elif identity == _BLOCK_GROUP:
            _group(window, film, begin, at, time, blocks)
        elif identity in (_ENCRYPTED, _CLUSTER):
            raise Distrusted(_ENDS[_ODD])


def _group(window: _Window, film: Header, at: int, end: int, time: int | None, blocks: _Blocks) -> None:
    refers, added, duration, before = False, False, -1, len(blocks.pts)
    while at < end:
        identity, begin, at = window.element(at, end)
        if identity == _BLOCK:
            _block(window, film, begin, at, time, blocks, simple=False)
        elif identity == _REFERENCE:
            refers = True
        elif identity == _DURATION:
            duration = window.number(begin, at)
        elif identity == _ADDITIONS:
            added = True
    if len(blocks.pts) == before:
        return
    if added or len(blocks.pts) != before + 1:
        raise Distrusted(_ENDS[_TWO])
    blocks.key[-1] = not refers
    if duration >= 0:
        blocks.duration[-1] = duration


def _block(
    window: _Window, film: Header, begin: int, end: int, time: int | None, blocks: _Blocks, *, simple: bool
) -> None:
    track, at = window.size(begin)
    if track != film.track:
        return
    data = window.bytes(at, 3)
    if time is None or len(data) < 3 or data[2] & 6:
        raise Distrusted(_ENDS[_LACED])
    moved = int.from_bytes(data[:2], "big", signed=True)
    blocks.pts.append(time + moved)
    blocks.size.append(end - at - 3)
    blocks.offset.append(at + 3)
    blocks.key.append(simple and data[2] & 0x80 != 0)
    blocks.duration.append(-1)


class _Window:
    """Reads numbers at places that mostly ascend, through a small window.

    Args:
        read: reads so many bytes at a place.
        end: where there is nothing more to read.
    """

    def __init__(self, read: ReadAt, end: int) -> None:
        self._read, self._end = read, end
        self._data, self._begin = b"", 0

    def element(self, at: int, end: int = 1 << 62) -> tuple[int, int, int]:
        """Identity of the element at a place, and where its data begin and end.

        Raises:
            Distrusted: it is cut, or longer than what it lies in, or its length is left open.
        """
        offset = at - self._begin
        if not 0 <= offset <= len(self._data) - 12:
            self._data, self._begin, offset = self._read(_AHEAD, at), at, 0
        data = self._data
        if offset >= len(data) or not data[offset]:
            raise Distrusted("it is cut, or damaged")
        width = 9 - data[offset].bit_length()
        identity = int.from_bytes(data[offset : offset + width], "big")
        offset += width
        if offset >= len(data) or not (first := data[offset]):
            raise Distrusted("it is cut, or damaged")
        width = 9 - first.bit_length()
        size = int.from_bytes(data[offset : offset + width], "big") & ((1 << 7 * width) - 1)
        begin = self._begin + offset + width
        if size == (1 << 7 * width) - 1 or begin + size > min(end, self._end):
            raise Distrusted(_ENDS[_CUT])
        return identity, begin, begin + size

    def bytes(self, at: int, count: int) -> bytes:
        """Some bytes at a place."""
        offset = at - self._begin
        if not 0 <= offset <= len(self._data) - count:
            self._data, self._begin, offset = self._read(_AHEAD, at), at, 0
        return self._data[offset : offset + count]

    def size(self, at: int) -> tuple[int, int]:
        """A number of variable length, and where it ends."""
        first = self.bytes(at, 1)
        if not first or not first[0]:
            raise Distrusted("it is cut, or damaged")
        width = 9 - first[0].bit_length()
        return int.from_bytes(self.bytes(at, width), "big") & ((1 << 7 * width) - 1), at + width

    def number(self, begin: int, end: int) -> int:
        """An unsigned number that is an element's data."""
        data = self.bytes(begin, end - begin) if end - begin <= 8 else b""
        value = int.from_bytes(data, "big")
        if end - begin > 8 or value >> 62:
            raise Distrusted(_ENDS[_LONG])
        if len(data) < end - begin:
            raise Distrusted(_ENDS[_CUT])
        return value


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Identity and data of the elements that follow one another."""
    window = _Window(lambda count, at: data[at : at + count], len(data))
    at = 0
    while at < len(data):
        identity, begin, at = window.element(at)
        yield identity, data[begin:at]


def _value(parts: dict[int, bytes], identity: int, default: int) -> int:
    data = parts.get(identity)
    return default if data is None else int.from_bytes(data[:8], "big")
