"""Reads of a few bytes each at many offsets of a source."""

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
