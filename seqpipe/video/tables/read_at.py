"""Reading a source at many places, a few bytes each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TypeAlias

from ..source.source import Source

__all__ = ["ReadAt", "descriptor_of", "reading"]

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Gives so many bytes from a place on, fewer where the source ends."""


@contextlib.contextmanager
def reading(source: Source) -> Iterator[ReadAt]:
    """Reads a source at many places."""
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
