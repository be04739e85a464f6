"""Gate: which tables of a container are plain enough to be believed; all others are read by a scan.

Tables are bytes of a stranger. One wrong entry moves every later frame, and FFmpeg has a rule of its own for each kind
of nonsense. So tables are used only where every count agrees with every other and nothing in them needs interpreting.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ...array import BoolArray, IntArray

__all__ = ["Distrusted", "Tables", "check"]

_LARGEST_TICK = 1 << 62
_LARGEST_PACKET = (1 << 31) - 1


class Distrusted(Exception):  # noqa: N818 - no error of the user's: the file is scanned instead
    """The tables are missing, contradict themselves, or need an interpretation that only the scan has."""


@dataclass(frozen=True, eq=False)
class Tables:
    """What a container's tables say of one video track, one entry a packet, in decode order.

    Attributes:
        track: the container's number of the track, as FFmpeg's ``stream.id``; 0 where FFmpeg does not tell it.
        tick: of its clock, in seconds.
        format: the container's name of the codec.
        pts: presentation time in ticks.
        size: bytes.
        offset: where the packet's bytes lie in the file.
        key: the container says that decoding can start here.
        shown: the container does not say that it is to be discarded once it is decoded.
        delta: ticks from each packet to the next in decode order; 0 where that differs.
        duration: ticks for which the packet of the last frame is shown; 0 if untold.
        declared: packets that the container promises; 0 if it promises none.
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
    """See that tables are plain.

    Raises:
        Distrusted: they are not; says why.
    """
    count = len(tables)
    columns = (tables.size, tables.offset, tables.key, tables.shown)
    if not count or any(len(column) != count for column in columns):
        raise Distrusted("there are no packets, or not as many in each table")
    if int(tables.size.min()) <= 0 or int(tables.size.max()) > _LARGEST_PACKET:
        raise Distrusted("a packet is empty or larger than any is")
    if not tables.key[0]:
        raise Distrusted("the first packet is no key packet")
    if int(np.abs(tables.pts).max()) > _LARGEST_TICK:
        raise Distrusted("a time is beyond all clocks")
    _check_places(tables, file_size)
    _check_times(tables)


def _check_places(tables: Tables, file_size: int) -> None:
    begins, ends = tables.offset, tables.offset + tables.size
    if int(begins.min()) < 0 or int(ends.max()) > file_size:
        raise Distrusted("a packet lies beyond the end of the file")
    if not (begins[1:] >= ends[:-1]).all():
        order = np.argsort(begins, kind="stable")
        if not (begins[order][1:] >= ends[order][:-1]).all():
            raise Distrusted("packets overlap")


def _check_times(tables: Tables) -> None:
    pts = tables.pts
    if (np.diff(pts) > 0).all():
        return
    if not (np.diff(np.sort(pts, kind="stable")) > 0).all():
        raise Distrusted("two packets have one time")
    keys = pts[tables.key]
    if not (np.diff(keys) > 0).all():
        raise Distrusted("the clock runs backwards between key packets")
    # A leading picture is shown before its own key frame, but behind the one before it.
    gop = np.maximum.accumulate(np.where(tables.key, np.arange(len(pts)), 0))
    before = np.maximum.accumulate(np.where(tables.key, np.append(-1, gop[:-1]), -1))
    earlier = np.where(before >= 0, pts[np.maximum(before, 0)], np.iinfo(np.int64).min)
    if (pts <= earlier).any():
        raise Distrusted("a packet is shown before the key frame before its own")
