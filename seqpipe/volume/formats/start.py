"""Start: the first bytes of a file, decompressed if the file is compressed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from ...core.content import HEAD
from ...errors import UnreadableSourceError
from ..source import Source
from .gunzip import Compression, head_of

__all__ = ["Start"]


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
            return head_of(data, size)
        except zlib.error as error:
            raise UnreadableSourceError(
                f"the compressed data is damaged ({error})",
                source=self.source.name,
                advice="Fetch or copy the file again",
            ) from error
