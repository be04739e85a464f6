"""Folders and lists of files: a Zarr array, a DICOM series, or a stack of pictures."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, Final

from ..content import kind_of_head
from ..errors import SourceError, UnreadableSourceError
from .source import Source, VolumeSource, open_source
from .start import Start

__all__ = ["open_files", "open_folder"]

_ZARR: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
_PICTURES: Final = (".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp", ".pgm", ".webp")
_LOOKED_AT: Final = 8


def open_folder(folder: str, *, series: str | None = None, key: str | None = None) -> VolumeSource:
    """The volume in a folder.

    Args:
        folder: its path, or the URL of a Zarr array.
        series: for DICOM, the SeriesInstanceUID where there are several.
        key: for Zarr, the path of the array in its group.

    Raises:
        UnreadableSourceError: no volume is in it.
        SourceError: it cannot be read.
    """
    if (
        "://" in folder
        or folder.rstrip("/").endswith(".zarr")
        or any((Path(folder) / name).exists() for name in _ZARR)
    ):
        from .zarr_file import open_zarr

        return open_zarr(folder, key)
    try:
        names = sorted(str(path) for path in Path(folder).iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SourceError(f"the folder cannot be read ({error.strerror})", source=folder) from error
    files = [name for name in names if Path(name).is_file() and Path(name).stat().st_size]
    pictures = [name for name in files if name.lower().endswith(_PICTURES)]
    if pictures and len(pictures) * 2 > len(files):
        from .stack import open_pictures

        return open_pictures(pictures, folder)
    # looked at by content: DICOM files often have no ending
    if series is not None or any(_is_dicom(name) for name in files[:_LOOKED_AT]):
        from .dicom import open_series

        return open_series(map(open_source, files), folder, series)
    raise UnreadableSourceError(
        "this is a folder without a volume" if files else "this is a folder without files",
        source=folder,
        allowed="a DICOM series, a Zarr array, or pictures of equal size",
        advice="Name a file; or give the folder to readers.Video(file_root=…) or readers.Volume(file_root=…)",
    )


def open_files(origins: Seq[Any], *, series: str | None = None) -> VolumeSource:
    """The volume that several files make: DICOM files, or pictures in their order.

    Args:
        origins: paths, URLs, bytes or file objects.
        series: for DICOM, the SeriesInstanceUID where there are several.

    Raises:
        UnreadableSourceError: they make no volume.
    """
    sources: list[Source] = [open_source(origin) for origin in origins]
    name = f"{sources[0].name}, …" if len(sources) > 1 else sources[0].name
    if kind_of_head(Start(sources[0]).raw) == "dicom":
        from .dicom import open_series

        return open_series(sources, name, series)
    from .stack import PictureStack

    return PictureStack(sources, name)


def _is_dicom(name: str) -> bool:
    try:
        return kind_of_head(Start(open_source(name)).raw) == "dicom"
    except SourceError:
        return False
