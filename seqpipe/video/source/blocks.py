"""Wrappers of sources: a cache of blocks for opening a source with a high latency, and a counter of reads."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import pairwise
from typing import BinaryIO, cast

from .base import Read, Source, Stamp
from .remote import merge_ranges

__all__ = ["Blocks", "CountedSource"]

_BLOCK = 1 << 16


class _WrappedSource(Source):
    """Source that delegates to another one."""

    def __init__(self, source: Source) -> None:
        self.wrapped = source
        self.name, self.slow, self.path = source.name, source.slow, source.path
        self.stream, self.gap, self.stills = source.stream, source.gap, source.stills

    def stamp(self) -> Stamp | None:
        return self.wrapped.stamp()

    def size(self) -> int:
        return self.wrapped.size()

    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:
        return self.wrapped.for_demuxer(read)

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        return self.wrapped.read(ranges)

    def read_sequential(self, offset: int, size: int) -> bytes:
        return self.wrapped.read_sequential(offset, size)

    def close(self) -> None:
        self.wrapped.close()


class Blocks(_WrappedSource):
    """Source that caches all blocks read, and gives a demuxer only cached ones.

    Opening a video reads the container's tables and the first packets. Other blocks, which a demuxer would read to
    guess what the tables state, look like the end of the file to it.

    Args:
        source: the source that blocks are read from.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self._size = source.size()
        self._blocks: dict[int, bytes] = {}

    @classmethod
    def of(cls, source: Source) -> Blocks:
        """Return the blocks of a source that is being opened, shared by all callers."""
        if not isinstance(source.blocks, Blocks):
            source.blocks = cls(source)
        return source.blocks

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), truncated at the end of the source."""
        wanted = {
            block
            for offset, size in ranges
            for block in range(offset // _BLOCK, (min(offset + size, self._size) + _BLOCK - 1) // _BLOCK)
        }
        missing = sorted(wanted - self._blocks.keys())
        if missing:
            cuts = [0, *(i for i, (a, b) in enumerate(pairwise(missing), 1) if b != a + 1), len(missing)]
            runs = [(missing[a], missing[b - 1] + 1) for a, b in pairwise(cuts)]
            pieces = self.wrapped.read(
                [(a * _BLOCK, min(b * _BLOCK, self._size) - a * _BLOCK) for a, b in runs]
            )
            for (first, end), data in zip(runs, pieces, strict=True):
                for block in range(first, end):
                    self._blocks[block] = data[(block - first) * _BLOCK : (block - first + 1) * _BLOCK]
        return [self.cached(offset, size) for offset, size in ranges]

    def cached(self, offset: int, size: int) -> bytes:
        """Return the cached bytes of a range up to the first block that is not cached."""
        pieces: list[bytes] = []
        end = min(offset + size, self._size)
        while offset < end:
            data = self._blocks.get(offset // _BLOCK, b"")[offset % _BLOCK :][: end - offset]
            if not data:
                break
            pieces.append(data)
            offset += len(data)
        return b"".join(pieces)

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  nothing is read
        """Return a file object over the cached blocks."""
        return cast("BinaryIO", io.BufferedReader(_CachedFile(self), _BLOCK))


class _CachedFile(io.RawIOBase):
    """File object over cached blocks, which reads as at its end where a block is not cached."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks, self._at = blocks, 0

    def readinto(self, target: bytearray) -> int:  # type: ignore[override]
        data = self._blocks.cached(self._at, len(target))
        target[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._blocks.size()}[whence]
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class CountedSource(_WrappedSource):
    """Source that counts reads.

    Args:
        source: the source.

    Attributes:
        requests: number of reads; ranges that are read together count once.
        bytes_read: number of bytes read.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.requests = self.bytes_read = 0
        self._lock = threading.Lock()

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), truncated at the end of the source."""
        pieces = self.wrapped.read(ranges)
        runs = merge_ranges(ranges, self.wrapped.gap)
        missing = sum(size for _, size in ranges) - sum(map(len, pieces))  # beyond the source's end
        self._count(len(runs), sum(end - begin for begin, end in runs) - missing)
        return pieces

    def read_sequential(self, offset: int, size: int) -> bytes:
        """Return one range for a reader that goes through the source from its start."""
        data = self.wrapped.read_sequential(offset, size)
        if not self.slow:  # otherwise it comes from the demuxer's blocks, which were counted
            self._count(1, len(data))
        return data

    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:
        """Return the argument of ``av.open``; reads of a local path are not counted."""
        file = self.wrapped.for_demuxer(read or self.read)
        if self.slow:
            return file
        return file if isinstance(file, str) else cast("BinaryIO", _CountedFile(file, self._count))

    def _count(self, requests: int, size: int) -> None:
        with self._lock:
            self.requests += requests
            self.bytes_read += size


class _CountedFile:
    """File object that counts reads."""

    def __init__(self, file: BinaryIO, count: Callable[[int, int], None]) -> None:
        self._file, self._count = file, count
        self.name = getattr(file, "name", "")
        self.seek, self.tell, self.close, self.seekable = file.seek, file.tell, file.close, _yes

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._count(1, len(data))
        return data


def _yes() -> bool:
    return True
