"""Times of packets on one continuous clock, and times of frames whose packets have none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ...array import BoolArray, IntArray

__all__ = ["fill_missing", "frame_step", "one_clock"]

_LAST_TICK = 1 << 62


def one_clock(pts: IntArray, key: BoolArray, known: BoolArray | None = None, *, step: int = 1) -> IntArray:
    """Shift times that restart, as where two recordings were joined, to continue the times before.

    A key packet restarts the clock if it is not later than the key packet before it, but earlier than another packet.

    Args:
        pts: times in decode order, which are changed in place.
        key: whether the container marks each packet as a key packet.
        known: whether each time is the container's; others only move along. None if all are.
        step: distance of frames in ticks, for a recording of one frame.

    Raises:
        ValueError: the times exceed 64 bits.
    """
    keys = np.flatnonzero(key if known is None else key & known)
    # Shifting a packet shifts all later ones, so that comparisons of later keys stay valid.
    suspects = keys[1:][pts[keys[1:]] <= pts[keys[:-1]]]
    begin, latest = 0, np.empty(0, dtype=np.int64)
    for restart in suspects.tolist():
        part = pts[begin:restart] if known is None else pts[begin:restart][known[begin:restart]]
        latest, begin = np.sort(np.concatenate([latest, part]))[-2:], restart
        last = int(latest[-1])
        if last <= pts[restart]:
            continue
        shift = last + (last - int(latest[0]) if len(latest) > 1 else step) - int(pts[restart])
        if abs(shift) + int(np.abs(pts[restart:]).max()) > _LAST_TICK:
            raise ValueError("its clock exceeds 64 bits")  # becomes an error of the source, see parsing()
        pts[restart:] += shift
    return pts


def frame_step(duration: int, tick: Fraction) -> Fraction:
    """Return the ticks from one frame to the next, for frames without times.

    Args:
        duration: duration of a packet in whole ticks; 0 if unknown.
        tick: ticks by the stream's frame rate, which is used where the duration may be this one rounded.
    """
    return tick if not duration or abs(tick - duration) <= 1 else Fraction(duration)


def fill_missing(pts: IntArray, known: BoolArray, step: Fraction) -> IntArray:
    """Return times counted on from the known time before each frame, and back from the first known one.

    Args:
        pts: times in presentation order.
        known: whether each is known; at least one is.
        step: ticks from one frame to the next.
    """
    number = np.arange(len(pts))
    before = np.maximum.accumulate(np.where(known, number, -1))
    anchor = np.where(before < 0, int(np.argmax(known)), before)
    distance = (number - anchor).tolist()
    return np.array([time + round(n * step) for time, n in zip(pts[anchor].tolist(), distance, strict=True)])
