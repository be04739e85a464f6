"""What data sets ask of the decoding engine below them, and have not yet waited for: seen without looking into them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from seqpipe.errors import DeviceMemoryError
from seqpipe.video.engine.engine import Engine, PendingRead

__all__ = ["SmallDevice", "UnderWay", "on_allocation"]


class UnderWay:
    """Watches all engines.

    Attributes:
        begun: for each read, its number of sequences.
        seen: for each read that was waited for, the bytes of those under way just before, its own included.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun: list[int] = []
        self.seen: list[list[int]] = []
        self._bytes: dict[int, int] = {}
        submit, part, result, cancel = Engine.submit, PendingRead.part, PendingRead.result, PendingRead.cancel

        def submitted(engine: Engine, requests: Any) -> Any:
            read: Any = submit(engine, requests)
            read.number = len(self.begun)
            self.begun.append(len(requests))
            self._bytes[read.number] = sum(one.out.nbytes for one in requests if one.out is not None)
            return read

        def parted(read: Any, first: int, end: int) -> Any:
            found: Any = part(read, first, end)
            found.number = read.number
            return found

        def waited(read: Any) -> Any:
            self.seen.append(self.bytes)
            try:
                return result(read)
            finally:
                self._bytes.pop(read.number, None)

        def canceled(read: Any) -> None:
            self._bytes.pop(read.number, None)
            cancel(read)

        for name, function in (("part", parted), ("result", waited), ("cancel", canceled)):
            patch.setattr(PendingRead, name, function)
        patch.setattr(Engine, "submit", submitted)

    @property
    def bytes(self) -> list[int]:
        """The bytes of each read that is under way, in their order; 0 where each sequence gets its own array."""
        return [self._bytes[number] for number in sorted(self._bytes)]

    def clear(self) -> None:
        """Forget what has ended."""
        self.begun.clear()
        self.seen.clear()


def on_allocation(
    patch: pytest.MonkeyPatch, allocate: Callable[[Callable[..., Any], tuple[int, ...], Any], Any]
) -> None:
    """Let engines that are made from now on allocate pixels by a function, which is given their own one, too."""
    make = Engine.__init__

    def made(engine: Any, *given: Any, **options: Any) -> None:
        make(engine, *given, **options)
        engine.allocate = functools.partial(allocate, engine.allocate)

    patch.setattr(Engine, "__init__", made)


class SmallDevice:
    """Main memory that has room for some batches only; memory comes back with its last reader."""

    def __init__(self, patch: pytest.MonkeyPatch, room: int) -> None:
        self.room, self.refused = room, 0
        self._held: list[Any] = []
        on_allocation(patch, self._allocate)

    def _allocate(self, _: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        self._held = [one for one in self._held if one() is not None]
        if len(self._held) >= self.room:
            self.refused += 1
            raise DeviceMemoryError("no room", advice="End other programs")
        array = np.empty(shape, dtype)
        self._held.append(weakref.ref(array))
        return array
