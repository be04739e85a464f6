"""Start: the first bytes of a file, decompressed if the file is compressed; packed files, and text headers."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, cast

import numpy as np

from ...array import FloatArray
from ...core.files.content import HEAD, UnpackError, packing_of, unpacked_head, volume_kind
from ...core.files.file_system import is_folder
from ...core.files.npy import member_bytes, reading_zip
from ...core.natural_order import natural_order
from ...errors import UnreadableSourceError
from ..source import Read, Source, Stamp, open_source
from .gunzip import Compression, inflate_all

__all__ = [
    "HEADER_MOST",
    "Start",
    "Unpacked",
    "as_file",
    "bad_field",
    "companion_file",
    "members_of",
    "numbers",
    "path_of",
    "required",
    "unpacked",
    "whole_numbers",
]

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
        """Return the first bytes of the decompressed file; fewer if it is shorter."""
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
        """Return the bytes of each (offset, size), truncated at the end."""
        return self._opened().read(ranges)

    def close(self) -> None:
        """Close the file, and release its content."""
        self._content = None
        self.packed.close()

    def _opened(self) -> Source:
        """Return the content."""
        if self._content is None:
            self._content = open_source(self._load())
        return self._content

    def _inflated(self) -> bytes:
        """Return the inflated content."""
        compression = cast("Compression", packing_of(self.packed.read([(0, _FILE_HEAD)])[0]))
        stream = self.packed.read([(0, self.packed.size())])[0]
        return inflate_all(stream, self.name, compression)


def unpacked(source: Source) -> Source:
    """Return a file, or its content if it is packed as a whole."""
    return source if packing_of(source.read([(0, _FILE_HEAD)])[0]) is None else Unpacked(source)


@contextmanager
def as_file(source: Source, ending: str) -> Iterator[str]:
    """Yield the path of a file for a library that reads only paths; of other sources, that of a temporary copy."""
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


# ---------------------------------------------------------------------- ZIP archives

_SHOWN: Final = 10


def members_of(source: Source, key: str | None) -> list[Source]:
    """Return the file in a ZIP archive, or all of its DICOM files."""
    with reading_zip(source.name), zipfile.ZipFile(source.for_demuxer()) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        names = natural_order(entry.filename for entry in entries if not _hidden(entry.filename))
        chosen = [name for name in names if key is None or name == key]
        if len(chosen) > 1:
            with archive.open(chosen[0]) as file:
                first = volume_kind(file.read(HEAD))
            if first == "dicom":
                return [_member(source, name) for name in chosen]
    if len(chosen) == 1:
        return [_member(source, chosen[0])]
    what = f"the archive holds {len(names)} files" if key is None else f"the archive has no file {key!r}"
    raise UnreadableSourceError(
        what,
        source=source.name,
        allowed=_several(names) or "an archive with a file",
        advice="Name one with key=…, or archive.zip::name; unpack pairs of a header and its voxels",
    )


def _member(source: Source, name: str) -> Source:
    """Return a file of an archive."""

    def load() -> bytes:
        with reading_zip(source.name), zipfile.ZipFile(source.for_demuxer()) as archive:
            return bytes(member_bytes(archive, name, source.name))

    return Unpacked(source, load, f"{source.name}::{name}")


def _hidden(name: str) -> bool:
    """Return whether a file of an archive is one that systems add."""
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _several(names: Seq[str]) -> str:
    """Return the first of many names, and the number of the others."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# ---------------------------------------------------------------------- text headers: NRRD, MetaImage

HEADER_MOST: Final = 1 << 20
"""Maximum size of a text header in bytes."""


def required(fields: Mapping[str, str], name: str, source: str) -> str:
    """Return the text of a field."""
    if name not in fields:
        raise UnreadableSourceError(
            f"the header has no field {name!r}",
            source=source,
            advice="The file is damaged or truncated: fetch it again",
        )
    return fields[name]


def bad_field(name: str, value: str, allowed: str, source: str) -> UnreadableSourceError:
    """Return the error for an invalid value of a field."""
    return UnreadableSourceError(f"the header's field {name!r} is {value!r}", source=source, allowed=allowed)


def numbers(name: str, value: str, count: int | None, source: str) -> FloatArray:
    """Parse the numbers of a field."""
    values = _parsed(float, name, value, count, source)
    return np.array(values, dtype=np.float64)


def whole_numbers(name: str, value: str, count: int | None, source: str) -> tuple[int, ...]:
    """Parse the integers of a field."""
    return tuple(_parsed(int, name, value, count, source))


def _parsed(kind: Callable[[str], Any], name: str, value: str, count: int | None, source: str) -> list[Any]:
    """Parse the values of a field."""
    try:
        parts = [kind(part) for part in value.split()]
    except ValueError:
        parts = []
    if not parts or (count is not None and len(parts) != count):
        raise bad_field(name, value, "numbers" if count is None else f"{count} numbers", source)
    return parts


def companion_file(source: Source, name: str) -> Source:
    """Open the voxel file that a header names, relative to the header's folder."""
    path = path_of(source)
    if path is None:
        raise UnreadableSourceError(
            f"the voxels are in the separate file {name!r}",
            source=source.name,
            advice="Open the header by its path",
        )
    file = Path(path).parent / name
    if is_folder(file):  # a name that damage left empty, for example
        raise UnreadableSourceError(
            f"the header names {name!r} as the file of its voxels, which is a folder",
            source=source.name,
            advice="Write the name of the voxel file into the header",
        )
    return open_source(os.fspath(file))
