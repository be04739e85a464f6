"""Indexes of AVI files (``idx1``, and the ``indx`` and ``ix##`` of OpenDML), as read by FFmpeg.

AVI counts chunks and has no presentation times: only streams without reordering are read from tables.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...array import IntArray
from ..probe.recognize import HEAD, declared_size
from ..source.source import Source
from .entries import read_entries
from .gate import Distrusted, Tables, reading

__all__ = ["is_avi", "read_tables"]

_BEFORE_DATA: Final = 8
"""Size of a chunk's header, at which FFmpeg's index points."""


def is_avi(head: bytes) -> bool:
    """Return whether a file is AVI, by its first 12 bytes."""
    return head[:4] == b"RIFF" and head[8:12] == b"AVI "


def read_tables(source: Source) -> Tables:
    """Return the tables of the video.

    Raises:
        Distrusted: there is no index, or it is not consistent.
        UnreadableSourceError: the file is not a video that can be decoded.
        SourceError: the source cannot be read.
    """
    stated = declared_size(source.read([(0, HEAD)])[0])
    if stated is None or stated > source.size():
        raise Distrusted("it is cut, or has no stated length")
    entries = read_entries(source, before_data=_BEFORE_DATA)
    count = len(entries.dts)
    if entries.declared != count or not np.array_equal(entries.dts, np.arange(count)):
        raise Distrusted("its index does not list all frames in order")
    if any(packet.pts != packet.dts or packet.duration != 1 for packet in entries.first):
        raise Distrusted("the times of FFmpeg's packets differ from those of its index")
    _check_chunks(source, entries.position, entries.size)
    return Tables(
        track=0,
        tick=entries.tick,
        format="",
        pts=entries.dts,
        size=entries.size,
        offset=entries.position,
        key=entries.key,
        shown=entries.shown,
        delta=1,
        duration=1,
        declared=count,
    )


def _check_chunks(source: Source, offset: IntArray, size: IntArray) -> None:
    """Check that each offset has a chunk of the same name and the stated size, by which FFmpeg reads."""
    if not (np.diff(offset) > 0).all() or int(offset[0]) < _BEFORE_DATA:
        raise Distrusted("its index is not in the order of its data")
    names = set()
    with reading(source) as read:
        for begin, count in zip((offset - _BEFORE_DATA).tolist(), size.tolist(), strict=True):
            head = read(_BEFORE_DATA, begin)
            names.add(head[:4])
            if int.from_bytes(head[4:], "little") != count or len(names) > 1:
                raise Distrusted("its index contradicts its chunks")
