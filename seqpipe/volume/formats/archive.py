"""ZIP archives: a file of any format in one, or the files of a DICOM series."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence as Seq
from pathlib import PurePosixPath
from typing import Final

from ...core.files.content import HEAD, volume_kind
from ...core.files.npy import member_bytes, reading_zip
from ...core.natural_order import natural_order
from ...errors import UnreadableSourceError
from ..source import Source
from .start import Unpacked

__all__ = ["members_of"]

_SHOWN: Final = 10


def members_of(source: Source, key: str | None) -> list[Source]:
    """Return the file in a ZIP archive, or all of its DICOM files.

    Args:
        source: the archive.
        key: path of the file in the archive; by default the only one, or all DICOM files.

    Raises:
        UnreadableSourceError: the file does not exist, or there are several that are no DICOM series.
        DamagedSourceError: the archive is damaged.
    """
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
    def load() -> bytes:
        with reading_zip(source.name), zipfile.ZipFile(source.for_demuxer()) as archive:
            return bytes(member_bytes(archive, name, source.name))

    return Unpacked(source, load, f"{source.name}::{name}")


def _hidden(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _several(names: Seq[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
