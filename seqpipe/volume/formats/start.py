"""Start: the first bytes of a file, decompressed if the file is compressed; and files that are packed as a whole."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, cast

from ...core.files.content import HEAD, UnpackError, packing_of, unpacked_head, volume_kind
from ...errors import UnreadableSourceError
from ..source import Read, Source, Stamp, open_source
from .gunzip import Compression, inflate_all

__all__ = ["Start", "Unpacked", "as_file", "path_of", "unpacked"]

_MOST_HEAD: Final = 1 << 24
_FILE_HEAD: Final = 16


@dataclass
class Start:
    """The beginning of a file.

    Attributes:
        source: the file.
        compression: ``"gzip"``, ``"bzip2"`` or ``"xz"`` if the whole file is such a stream, else None.
    """

    source: Source
    compression: Compression | None = field(init=False)
    _raw: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._raw = self.source.read([(0, HEAD)])[0]
        self.compression = cast("Compression | None", packing_of(self._raw))

    @property
    def raw(self) -> bytes:
        """The first bytes of the file, not decompressed."""
        return self._raw

    @property
    def kind(self) -> str | None:
        """The format of the file, a key of ``VOLUME_KINDS``; None if it is not a volume."""
        kind = volume_kind(self._raw)
        return (volume_kind(self.head()) or kind) if kind is not None and kind == self.compression else kind

    def head(self, size: int = HEAD) -> bytes:
        """Return the first bytes of the decompressed file; fewer if it is shorter.

        Raises:
            UnreadableSourceError: the compressed data is damaged.
        """
        data = self._raw
        if len(data) < size:
            data = self.source.read([(0, size)])[0]
        if self.compression is None:
            return data[:size]
        try:
            found = unpacked_head(data, size)
            # members of a gzip stream may be small, and empty; the blocks of bzip2 are large
            while len(found) < size and len(data) < min(self.source.size(), _MOST_HEAD):
                data = self.source.read([(0, 8 * len(data))])[0]
                found = unpacked_head(data, size)
        except UnpackError as error:
            raise UnreadableSourceError(
                f"the compressed data is damaged ({error})",
                source=self.source.name,
                advice="Fetch or copy the file again",
            ) from error
        return found


class Unpacked(Source):
    """The content of a packed file, in memory from the first read to :meth:`close`.

    Args:
        packed: the file.
        load: returns the content; by default that of a file that is one compressed stream.
        name: name in messages; by default that of the file.
    """

    def __init__(
        self, packed: Source, load: Callable[[], bytes] | None = None, name: str | None = None
    ) -> None:
        self.name, self.packed = name or packed.name, packed
        self._load = load or self._inflated
        self._content: Source | None = None

    def stamp(self) -> Stamp | None:
        """Return the identity of the packed file."""
        return self.packed.stamp()

    def size(self) -> int:
        """Return the size of the content."""
        return self._opened().size()

    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:  # noqa: ARG002  for slow sources
        """Return the content as a file object."""
        return io.BytesIO(self._opened().read([(0, self.size())])[0])

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), truncated at the end.

        Raises:
            DamagedSourceError: the stream is damaged or truncated.
        """
        return self._opened().read(ranges)

    def close(self) -> None:
        """Close the file, and release its content."""
        self._content = None
        self.packed.close()

    def _opened(self) -> Source:
        if self._content is None:
            self._content = open_source(self._load())
        return self._content

    def _inflated(self) -> bytes:
        compression = cast("Compression", packing_of(self.packed.read([(0, _FILE_HEAD)])[0]))
        stream = self.packed.read([(0, self.packed.size())])[0]
        return inflate_all(stream, self.name, compression)


def unpacked(source: Source) -> Source:
    """Return a file, or its content if it is packed as a whole."""
    return source if packing_of(source.read([(0, _FILE_HEAD)])[0]) is None else Unpacked(source)


@contextmanager
def as_file(source: Source, ending: str) -> Iterator[str]:
    """Yield the path of a file for a library that reads only paths; of other sources, that of a temporary copy.

    Args:
        source: the file, or its content.
        ending: file name extension of the copy.
    """
    if source.path is not None:
        yield source.path
        return
    with tempfile.TemporaryDirectory(prefix="seqpipe-") as folder:
        path = Path(folder) / f"volume{ending}"
        path.write_bytes(source.read([(0, source.size())])[0])
        yield os.fspath(path)


def path_of(source: Source) -> str | None:
    """Return the path of a file, packed or not; None for other sources."""
    return source.packed.path if isinstance(source, Unpacked) else source.path
