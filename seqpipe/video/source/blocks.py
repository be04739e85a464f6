"""Blocks of a source that answers slowly, kept while it is opened; and what was read of a source, counted."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import pairwise
from typing import BinaryIO, cast

from .byte_ranges import merged
from .source import Read, Source, Stamp

__all__ = ["Blocks", "Counted"]

_BLOCK = 1 << 16


class _Around(Source):
    """A source like another one, to which all is passed on."""

    def __init__(self, plain: Source) -> None:
        self.plain = plain
        self.name, self.slow, self.path = plain.name, plain.slow, plain.path
        self.stream, self.gap = plain.stream, plain.gap

    def stamp(self) -> Stamp | None:
        return self.plain.stamp()

    def size(self) -> int:
        return self.plain.size()

    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:
        return self.plain.for_demuxer(read)

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        return self.plain.read(ranges)

    def read_on(self, offset: int, size: int) -> bytes:
        return self.plain.read_on(offset, size)

    def close(self) -> None:
        self.plain.close()


class Blocks(_Around):
    """Keeps whatever was read, in whole blocks; a demuxer is given nothing else.

    Tables and the first packets are all that opening a video asks for. What a demuxer would read besides, to guess what
    the tables tell, it takes for the end of the file.

    Args:
        plain: where blocks come from.
    """

    def __init__(self, plain: Source) -> None:
        super().__init__(plain)
        self._held = plain.size()
        self._blocks: dict[int, bytes] = {}

    @classmethod
    def of(cls, source: Source) -> Blocks:
        """Return the blocks of a source that is being opened, the same for all who look into it."""
        if not isinstance(source.held, Blocks):
            source.held = cls(source)
        return source.held

    def size(self) -> int:
        """Its length in bytes, asked once."""
        return self._held

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, size), short where the source ends."""
        wanted = {
            block
            for offset, size in ranges
            for block in range(offset // _BLOCK, (min(offset + size, self._held) + _BLOCK - 1) // _BLOCK)
        }
        missing = sorted(wanted - self._blocks.keys())
        if missing:
            cuts = [0, *(i for i, (a, b) in enumerate(pairwise(missing), 1) if b != a + 1), len(missing)]
            runs = [(missing[a], missing[b - 1] + 1) for a, b in pairwise(cuts)]
            parts = self.plain.read([(a * _BLOCK, min(b * _BLOCK, self._held) - a * _BLOCK) for a, b in runs])
            for (first, end), data in zip(runs, parts, strict=True):
                for block in range(first, end):
                    self._blocks[block] = data[(block - first) * _BLOCK : (block - first + 1) * _BLOCK]
        return [self.kept(offset, size) for offset, size in ranges]

    def kept(self, offset: int, size: int) -> bytes:
        """What was read of a range, as far as that goes without a gap."""
        parts: list[bytes] = []
        end = min(offset + size, self._held)
        while offset < end:
            data = self._blocks.get(offset // _BLOCK, b"")[offset % _BLOCK :][: end - offset]
            if not data:
                break
            parts.append(data)
            offset += len(data)
        return b"".join(parts)

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  nothing is read
        """A file of what is kept."""
        return cast("BinaryIO", io.BufferedReader(_Kept(self), _BLOCK))


class _Kept(io.RawIOBase):
    """A file of what is kept of another one, which ends wherever nothing is."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks, self._at = blocks, 0

    def readinto(self, target: bytearray) -> int:  # type: ignore[override]
        data = self._blocks.kept(self._at, len(target))
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


class Counted(_Around):
    """Counts what is read.

    Args:
        plain: the source.

    Attributes:
        requests: how often it was asked; ranges that lie together count once.
        bytes_read: how much it gave.
    """

    def __init__(self, plain: Source) -> None:
        super().__init__(plain)
        self.requests = self.bytes_read = 0
        self._lock = threading.Lock()

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, size), short where the source ends."""
        parts = self.plain.read(ranges)
        runs = merged(ranges, self.plain.gap)
        behind = sum(size for _, size in ranges) - sum(map(len, parts))  # the source's end
        self._count(len(runs), sum(end - begin for begin, end in runs) - behind)
        return parts

    def read_on(self, offset: int, size: int) -> bytes:
        """One range, by a reader that goes through the source from its start."""
        data = self.plain.read_on(offset, size)
        if not self.slow:  # else it is one of the demuxer's blocks, which were counted
            self._count(1, len(data))
        return data

    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:
        """What ``av.open`` takes; reads of a path are not seen."""
        file = self.plain.for_demuxer(read or self.read)
        if self.slow:
            return file
        return file if isinstance(file, str) else cast("BinaryIO", _CountedFile(file, self._count))

    def _count(self, requests: int, size: int) -> None:
        with self._lock:
            self.requests += requests
            self.bytes_read += size


class _CountedFile:
    """A file that tells how much is read of it."""

    def __init__(self, plain: BinaryIO, count: Callable[[int, int], None]) -> None:
        self._plain, self._count = plain, count
        self.name = getattr(plain, "name", "")
        self.seek, self.tell, self.close, self.seekable = plain.seek, plain.tell, plain.close, _yes

    def read(self, size: int = -1) -> bytes:
        data = self._plain.read(size)
        self._count(1, len(data))
        return data


def _yes() -> bool:
    return True
