"""Samples of several files each in tar archives, as the WebDataset library writes them."""

from __future__ import annotations

import itertools
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..array import Array
from ..errors import ManifestError, SourceNotFoundError, UnreadableSourceError

__all__ = ["TarMember", "read_member", "samples_of"]

_FIELDS = {"v1.1": 3, "v1.2": 4}
"""Fields of a component in an index file, by the version of its format."""


class TarMember(NamedTuple):
    """A file within an archive.

    Attributes:
        extension: the text after the first dot of its name.
        archive: path of the archive; "" for a component that its sample lacks.
        offset: position of its bytes in the archive.
        size: number of its bytes.
        name: its path within the archive; "" if the index file does not tell.
    """

    extension: str
    archive: str = ""
    offset: int = 0
    size: int = 0
    name: str = ""

    @property
    def source(self) -> str:
        """``source_info`` as in DALI; "" for a component that its sample lacks."""
        named = f":{self.name}" if self.name else ""
        return f"{self.archive}:{self.offset}{named}" if self.archive else ""


def read_member(member: TarMember, kind: str) -> Array:
    """Read a file of an archive as an array of a dtype; one that its sample lacks is empty.

    Raises:
        UnreadableSourceError: the archive cannot be read, or ends before.
    """
    if not member.archive:
        return np.zeros(0, kind)
    try:
        left = max(0, Path(member.archive).stat().st_size - member.offset)
        size = min(member.size, left)
        data = np.fromfile(member.archive, np.uint8, size, offset=member.offset)
    except OSError as error:
        raise UnreadableSourceError(
            f"cannot be read: {error.strerror or error}", source=member.source
        ) from error
    if len(data) < member.size:
        raise UnreadableSourceError(
            f"the archive ends after {len(data)} of {member.size} bytes", source=member.source
        )
    return data.view(kind)


def samples_of(archive: str, index: str | None = None) -> Iterator[list[TarMember]]:
    """Iterate over the samples of an archive: by the index file that ``wds2idx`` makes, or by the archive's headers.

    Consecutive files whose paths agree up to the first dot of the name are a sample. Directories, links and files whose
    names begin with a dot are left out.

    Raises:
        SourceNotFoundError: a file does not exist.
        ManifestError: a line of the index is not valid.
        UnreadableSourceError: the file is no archive, or is compressed.
    """
    return _by_headers(archive) if index is None else _by_index(index, archive)


def _by_headers(path: str) -> Iterator[list[TarMember]]:
    """Iterate over the samples of an archive: lists of the files that have one key."""
    if not Path(path).is_file():
        raise SourceNotFoundError("there is no such archive", source=path)
    try:
        with tarfile.open(path, "r:") as archive:
            members = [entry for entry in archive if entry.isfile()]
    except (tarfile.TarError, OSError) as error:
        raise UnreadableSourceError(
            f"not an uncompressed tar archive: {error}",
            source=path,
            advice="Unpack compressed archives first",
        ) from error
    for key, group in itertools.groupby(members, lambda entry: _key(entry.name)):
        if key.rpartition("/")[2]:
            yield [
                TarMember(entry.name[len(key) + 1 :], path, entry.offset_data, entry.size, entry.name)
                for entry in group
            ]


def _key(name: str) -> str:
    """Return the path of a file up to the first dot of its name."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}{file.partition('.')[0]}"


def _by_index(index: str, archive: str) -> Iterator[list[TarMember]]:
    """Iterate over the samples of an archive by its index file, made by DALI's ``wds2idx``."""
    for path in (archive, index):
        if not Path(path).is_file():
            raise SourceNotFoundError("there is no such file", source=path)
    head, *lines = Path(index).read_text(encoding="utf-8").splitlines() or [""]
    allowed = "v1.1 or v1.2 and the number of samples, then a line for each sample, as by wds2idx"
    version, _, count = head.partition(" ")
    if version not in _FIELDS or not count.strip().isdigit() or int(count) != len(lines):
        raise ManifestError(
            f"line 1: {head!r}, and {len(lines)} further lines", source=index, allowed=allowed
        )
    for number, line in enumerate(lines, 2):
        fields, width = line.split(), _FIELDS[version]
        try:
            rows = [fields[n : n + width] for n in range(0, len(fields), width)]
            if any(int(row[1]) < 0 or int(row[2]) < 0 for row in rows):
                raise ValueError(line)
            yield [TarMember(row[0], archive, int(row[1]), int(row[2]), *row[3:width]) for row in rows]
        except (IndexError, ValueError) as error:
            raise ManifestError(f"line {number}: {line!r}", source=index, allowed=allowed) from error
