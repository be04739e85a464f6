"""Encoding of many files: groups of items on several threads, results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from typing import TypeVar

from ..video.engine.engine import Engine

__all__ = ["grouped", "mapped"]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


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
