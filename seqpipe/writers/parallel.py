"""Work on several threads, with results in order: sources one by one, and groups of files to encode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from typing import TypeVar

from ..video.engine.engine import Engine

__all__ = ["grouped", "in_parallel", "mapped"]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@contextmanager
def in_parallel(
    work: Callable[[ItemT], ResultT], items: Seq[ItemT], threads: int, stop: threading.Event
) -> Iterator[Iterator[ResultT]]:
    """Yield the results of all items in order, from several threads, which stop at the end of the block and on errors.

    Args:
        work: called with each item, on any thread; it returns early once ``stop`` is set.
        items: sources, or parts of the work.
        threads: number of threads.
        stop: set by the first exception, in a thread or in the block.
    """

    def guarded(item: ItemT) -> ResultT:
        try:
            return work(item)
        except BaseException:
            stop.set()
            raise

    with Engine(threads) as engine:
        try:
            yield engine.map(guarded, items)
        finally:
            stop.set()  # the engine joins its threads at the end of the block


def grouped(
    items: Iterable[ItemT], size: int, weight: Callable[[ItemT], int] | None = None
) -> Iterator[list[ItemT]]:
    """Yield consecutive items in groups that reach a size; the last one may be smaller."""
    group, total = list[ItemT](), 0
    for item in items:
        group.append(item)
        total += 1 if weight is None else weight(item)
        if total >= size:
            yield group
            group, total = [], 0
    if group:
        yield group


def mapped(
    function: Callable[[Seq[ItemT]], list[ResultT]], groups: Iterable[list[ItemT]], threads: int
) -> Iterator[ResultT]:
    """Yield the results of a function of groups, one by one and in order; on several threads if there are any."""
    if threads == 1:
        for group in groups:
            yield from function(group)
        return
    with Engine(threads, processes=0) as engine:
        for results in engine.map(function, groups):
            yield from results
