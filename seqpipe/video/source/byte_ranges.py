"""Byte ranges: merging of ranges that are read together, and slicing of the bytes read."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Sequence as Seq

__all__ = ["merge_ranges", "slice_ranges"]


def merge_ranges(ranges: Seq[tuple[int, int]], gap: int, end: int = sys.maxsize) -> list[tuple[int, int]]:
    """Return ascending (begin, end) runs that cover all (offset, size) ranges, across gaps of at most ``gap`` bytes."""
    runs: list[tuple[int, int]] = []
    begin = stop = -1
    for offset, size in sorted(ranges):
        last = offset + size
        if begin >= 0 and offset <= stop + gap:
            if last > stop:
                stop = last
        else:
            if begin >= 0:
                runs.append((begin, stop))
            begin, stop = offset, last
    if begin >= 0:
        runs.append((begin, stop))
    return [(min(begin, end), min(stop, end)) for begin, stop in runs]


def slice_ranges(ranges: Seq[tuple[int, int]], runs: Seq[tuple[int, int]], parts: Seq[bytes]) -> list[bytes]:
    """Return the bytes of each range from the bytes of the runs that cover them."""
    if len(runs) == 1:  # the usual case, which takes half the time this way
        ((begin, _),) = runs
        data = parts[0]
        return [data[offset - begin : offset - begin + size] for offset, size in ranges]
    begins = [begin for begin, _ in runs]
    slices = []
    for offset, size in ranges:
        run = bisect.bisect_right(begins, offset) - 1
        begin = offset - begins[run]
        slices.append(parts[run][begin : begin + size])
    return slices
