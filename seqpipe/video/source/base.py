"""Base class of the sources of a video's bytes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Seq
from fractions import Fraction
from typing import BinaryIO, NamedTuple, TypeAlias, Union

from ...errors import UnreadableSourceError

__all__ = ["Origin", "Read", "Source", "SourceView", "Stamp", "Stills", "check_size"]

Origin: TypeAlias = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO, "Source"]
"""Ways in which users specify a video."""

Read: TypeAlias = "Callable[[Seq[tuple[int, int]]], list[bytes]]"
"""Returns the bytes of each (offset, size)."""

Stamp: TypeAlias = tuple[str, int, str]
"""(absolute path or URL, size in bytes, modification time or tag): identity of a content, the key of its index."""


class Stills(NamedTuple):
    """Still images of a source, in the order of presentation.

    Attributes:
        sizes: size of each image in bytes; they are stored one after the other.
        offset: position of the first one.
        times: time of each one, in ticks.
        end: end of the last one, in ticks.
        time_base: seconds per tick.
        rgba_size: width and height of images that are stored as RGBA without a header; None for files of images.
    """

    sizes: Seq[int]
    offset: int
    times: Seq[int]
    end: int
    time_base: Fraction
    rgba_size: tuple[int, int] | None = None


class Source(ABC):
    """Bytes that several threads can read at any offset.

    Attributes:
        name: name in messages and results.
        slow: whether each read has the latency of a remote server.
        path: absolute path of a local file; None for other sources.
        stream: stream to decode, by its number in the container; None for the best video stream.
        gap: ranges at most so many bytes apart are read together.
        blocks: the cached blocks of a slow source, while it is being opened.
        stills: the still images that the source consists of; None for files with a container.
    """

    name: str
    slow: bool = False
    path: str | None = None
    stream: int | None = None
    gap: int = 0
    blocks: Source | None = None
    stills: Stills | None = None

    @abstractmethod
    def stamp(self) -> Stamp | None:
        """Return the identity of the current content and stream, or None if its index cannot be cached."""

    @abstractmethod
    def size(self) -> int:
        """Return the size in bytes."""

    @abstractmethod
    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:
        """Return the argument of ``av.open``; the caller closes it if it is a file object."""

    @abstractmethod
    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), truncated at the end of the source."""

    def read_sequential(self, offset: int, size: int) -> bytes:
        """Return one range for a reader that goes through the source from its start; truncated at the end."""
        return self.read([(offset, size)])[0]

    def close(self) -> None:
        """Close open files; the next read opens them again."""
        return

    def _key(self, name: str) -> str:
        """Return a name that identifies the stream; paths do not end in a line break, a number sign and a number."""
        return name if self.stream is None else f"{name}\n#{self.stream}"


class SourceView:
    """File object with a position of its own over a shared source, for a demuxer."""

    def __init__(self, shared: Source, fetch: Callable[[int, int], bytes]) -> None:
        self._fetch, self._position, self._size = fetch, 0, shared.size()
        self.name = shared.name

    def read(self, size: int = -1) -> bytes:
        """Return bytes from the position on, and move it."""
        left = max(0, self._size - self._position)
        if not left:
            return b""
        data = self._fetch(self._position, left if size < 0 else min(size, left))
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing: the source stays open."""


def check_size(size: int, name: str) -> None:
    """Check that a file is not empty."""
    if size == 0:
        raise UnreadableSourceError(
            "the file is empty (0 bytes)", source=name, advice="Fetch or copy it again"
        )
