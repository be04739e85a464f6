"""Byte ranges of a source: which are fetched together, and what each has of that."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Sequence as Seq

__all__ = ["cut_out", "merged"]


def merged(ranges: Seq[tuple[int, int]], gap: int, end: int = sys.maxsize) -> list[tuple[int, int]]:
    """Ascending (begin, end) runs that cover all ranges; gaps of no more than so many bytes are fetched along."""
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


def cut_out(ranges: Seq[tuple[int, int]], runs: Seq[tuple[int, int]], parts: Seq[bytes]) -> list[bytes]:
    """Each range's bytes, from those of the runs that cover them."""
    if len(runs) == 1:  # as most often, and then this takes half as long
        ((begin, _),) = runs
        data = parts[0]
        return [data[offset - begin : offset - begin + size] for offset, size in ranges]
    begins = [begin for begin, _ in runs]
    found = []
    for offset, size in ranges:
        run = bisect.bisect_right(begins, offset) - 1
        begin = offset - begins[run]
        found.append(parts[run][begin : begin + size])
    return found
