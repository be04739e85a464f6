"""Start: the first bytes of a file, decompressed if the file is compressed; and files that gzip packs as a whole."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import BinaryIO

from ...core.files.content import HEAD, gunzipped_head, volume_kind
from ...errors import UnreadableSourceError
from ..source import Read, Source, Stamp, open_source
from .gunzip import Compression, inflate_all

__all__ = ["Start", "Unpacked", "path_of", "unpacked"]

_MOST_HEAD = 1 << 24


@dataclass
class Start:
    """The beginning of a file.

    Attributes:
        source: the file.
        compression: ``"gzip"`` if the whole file is a gzip stream, else None.
    """

    source: Source
    compression: Compression | None = field(init=False)
    _raw: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._raw = self.source.read([(0, HEAD)])[0]
        self.compression = "gzip" if self._raw.startswith(b"\x1f\x8b") else None

    @property
    def raw(self) -> bytes:
        """The first bytes of the file, not decompressed."""
        return self._raw

    @property
    def kind(self) -> str | None:
        """The format of the file, a key of ``VOLUME_KINDS``; None if it is not a volume."""
        kind = volume_kind(self._raw)
        return (volume_kind(self.head()) or "gzip") if kind == "gzip" else kind

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
            found = gunzipped_head(data, size)
            # members of a gzip stream may be small, and empty
            while len(found) < size and len(data) < min(self.source.size(), _MOST_HEAD):
                data = self.source.read([(0, 8 * len(data))])[0]
                found = gunzipped_head(data, size)
        except zlib.error as error:
            raise UnreadableSourceError(
                f"the compressed data is damaged ({error})",
                source=self.source.name,
                advice="Fetch or copy the file again",
            ) from error
        return found


class Unpacked(Source):
    """The content of a file that gzip packs as a whole, in memory from the first read to :meth:`close`.

    Args:
        packed: the file.
    """

    def __init__(self, packed: Source) -> None:
        self.name, self.packed = packed.name, packed
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
            stream = self.packed.read([(0, self.packed.size())])[0]
            self._content = open_source(inflate_all(stream, self.name))
        return self._content


def unpacked(source: Source) -> Source:
    """Return a file, or its content if gzip packs it as a whole."""
    return Unpacked(source) if source.read([(0, 2)])[0] == b"\x1f\x8b" else source


def path_of(source: Source) -> str | None:
    """Return the path of a file, packed or not; None for other sources."""
    return source.packed.path if isinstance(source, Unpacked) else source.path
