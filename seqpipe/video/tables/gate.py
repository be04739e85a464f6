"""Consistency checks of a container's tables; a file whose tables fail them is scanned.

Tables are untrusted input. A wrong entry shifts all later frames, and FFmpeg has special rules for many kinds of
invalid tables. So tables are used only if all their counts agree and nothing in them needs interpretation.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from ...array import BoolArray, IntArray
from ..source.blocks import Blocks
from ..source.source import Source

__all__ = ["ReadAt", "Tables", "UnusableTablesError", "check", "descriptor_of", "note_pass", "reading"]

_LARGEST_TICK = 1 << 62
_LARGEST_PACKET = (1 << 31) - 1


class UnusableTablesError(Exception):
    """The tables are missing, inconsistent, or need an interpretation that only a scan provides."""


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of one video track in decode order, one array entry per packet.

    Attributes:
        track: the container's number of the track, FFmpeg's ``stream.id``; 0 if FFmpeg does not expose it.
        tick: time base in seconds.
        format: the container's name of the codec.
        pts: presentation time in ticks.
        size: size in bytes.
        offset: file offset of the packet's bytes.
        key: whether the container marks the packet as a key packet.
        shown: False if the container marks the packet to be discarded after decoding.
        delta: ticks between consecutive packets in decode order; 0 if they differ.
        duration: duration of the last frame in ticks; 0 if unknown.
        declared: number of packets stated by the container; 0 if it states none.
    """

    track: int
    tick: Fraction
    format: str
    pts: IntArray
    size: IntArray
    offset: IntArray
    key: BoolArray
    shown: BoolArray
    delta: int
    duration: int
    declared: int

    def __len__(self) -> int:
        return len(self.pts)


def check(tables: Tables, file_size: int) -> None:
    """Check the consistency of tables."""
    count = len(tables)
    columns = (tables.size, tables.offset, tables.key, tables.shown)
    if not count or any(len(column) != count for column in columns):
        raise UnusableTablesError("there are no packets, or the tables differ in length")
    if int(tables.size.min()) <= 0 or int(tables.size.max()) > _LARGEST_PACKET:
        raise UnusableTablesError("a packet is empty or too large")
    if not tables.key[0]:
        raise UnusableTablesError("the first packet is not a key packet")
    if int(np.abs(tables.pts).max()) > _LARGEST_TICK:
        raise UnusableTablesError("a time exceeds 62 bits")
    _check_offsets(tables, file_size)
    _check_times(tables)


def _check_offsets(tables: Tables, file_size: int) -> None:
    """Check that packets lie within the file and do not overlap."""
    begins, ends = tables.offset, tables.offset + tables.size
    if int(begins.min()) < 0 or int(ends.max()) > file_size:
        raise UnusableTablesError("a packet lies beyond the end of the file")
    if not (begins[1:] >= ends[:-1]).all():
        order = np.argsort(begins, kind="stable")
        if not (begins[order][1:] >= ends[order][:-1]).all():
            raise UnusableTablesError("packets overlap")


def _check_times(tables: Tables) -> None:
    """Check that times differ, and that leading pictures follow the key frame before their own."""
    pts = tables.pts
    if (np.diff(pts) > 0).all():
        return
    if not (np.diff(np.sort(pts, kind="stable")) > 0).all():
        raise UnusableTablesError("two packets have the same time")
    keys = pts[tables.key]
    if not (np.diff(keys) > 0).all():
        raise UnusableTablesError("the clock runs backwards between key packets")
    # A leading picture is shown before its own key frame, but after the previous one.
    gop = np.maximum.accumulate(np.where(tables.key, np.arange(len(pts)), 0))
    before = np.maximum.accumulate(np.where(tables.key, np.append(-1, gop[:-1]), -1))
    earlier = np.where(before >= 0, pts[np.maximum(before, 0)], np.iinfo(np.int64).min)
    if (pts <= earlier).any():
        raise UnusableTablesError("a frame is shown before the key frame that precedes its own")


_log = logging.getLogger(__name__)
_AHEAD = 8 << 20

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Called with (count, offset); returns that many bytes, fewer at the end of the source."""


def note_pass(source: Source) -> None:
    """Log that a remote source is read as a whole."""
    if source.slow:
        megabytes = source.size() / 1e6
        _log.warning("%s: all of it (%.0f MB) is read once to number its frames", source.name, megabytes)


class _Ahead:
    """Reads a remote source from front to back in large pieces: skipped bytes cost less than a request."""

    def __init__(self, source: Source) -> None:
        self._source, self._end = source, source.size()
        self._begin, self._data = 0, b""

    def read(self, count: int, at: int) -> bytes:
        """Return bytes from an offset on, from a large piece that is kept."""
        offset = at - self._begin
        if not 0 <= offset <= len(self._data) - count:
            size = max(0, min(max(count, _AHEAD), self._end - at))
            self._begin, self._data, offset = at, self._source.read([(at, size)])[0], 0
        return self._data[offset : offset + count]


@contextlib.contextmanager
def reading(source: Source) -> Iterator[ReadAt]:
    """Return a function that reads a source at many offsets."""
    if source.path is None and source.slow and not isinstance(source, Blocks):
        ahead = _Ahead(source)
        yield ahead.read
        return
    if source.path is None:
        yield lambda count, at: source.read([(at, count)])[0]
        return
    with descriptor_of(source) as descriptor:
        yield lambda count, at: os.pread(descriptor, count, at)


@contextlib.contextmanager
def descriptor_of(source: Source) -> Iterator[int]:
    """Open the file of a source that has a path."""
    source.read([(0, 1)])  # raises an error of the source if it cannot be opened
    descriptor = os.open(source.path or "", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
