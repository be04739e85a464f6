"""Reading a source at many places, a few bytes each."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..source.blocks import Blocks
from ..source.source import Source

__all__ = ["ReadAt", "descriptor_of", "note_pass", "reading"]

_log = logging.getLogger(__name__)
_AHEAD = 8 << 20

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Gives so many bytes from a place on, fewer where the source ends."""


def note_pass(source: Source) -> None:
    """Say in the log that all of a source that is far away is read."""
    if source.slow:
        megabytes = source.size() / 1e6
        _log.warning("%s: all of it (%.0f MB) is read once to number its frames", source.name, megabytes)


class _Ahead:
    """Reads a source that is far away from front to back: what is passed over costs less than a request."""

    def __init__(self, source: Source) -> None:
        self._source, self._end = source, source.size()
        self._begin, self._data = 0, b""

    def read(self, count: int, at: int) -> bytes:
        """Bytes from a place on, from a large piece that is kept."""
        offset = at - self._begin
        if not 0 <= offset <= len(self._data) - count:
            size = max(0, min(max(count, _AHEAD), self._end - at))
            self._begin, self._data, offset = at, self._source.read([(at, size)])[0], 0
        return self._data[offset : offset + count]


@contextlib.contextmanager
def reading(source: Source) -> Iterator[ReadAt]:
    """Reads a source at many places."""
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
    """The open file of a source that has a path."""
    source.read([(0, 1)])  # says why it cannot be opened, if so
    descriptor = os.open(source.path or "", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
