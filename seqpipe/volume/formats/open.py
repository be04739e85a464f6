"""Opens a path, URL, bytes, file object, folder or list of files as a volume source, by content."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...core.content import HEAD, VOLUME_KINDS, volume_kind
from ...errors import SourceError, SourceNotFoundError, UnreadableSourceError
from ...video.source.source import Source, open_source

if TYPE_CHECKING:
    from ..source import VolumeSource
    from .start import Start

__all__ = ["is_volume", "not_a_volume", "open_files", "open_folder", "open_volume", "stamp_of"]

_OPENERS: Final = {
    "nifti": ("nifti", "open_nifti"),
    "nrrd": ("nrrd", "open_nrrd"),
    "metaimage": ("metaimage", "open_metaimage"),
    "npy": ("npy", "open_npy"),
    "npz": ("npy", "open_npz"),
    "tiff": ("image_stack", "open_tiff"),
    "dicom": ("dicom", "open_file"),
}
_PAIRED: Final = {".img": ".hdr", ".raw": ".mhd", ".zraw": ".mhd"}


def is_volume(origin: Any) -> bool:
    """Return whether an origin is a volume: a file of a volume format, a folder, or a list of files.

    Raises:
        SeqpipeError: the origin cannot be opened.
    """
    if _is_several(origin) or _folder(origin) is not None:
        return True
    return _headed(origin) is not None or _kind(open_source(origin)) is not None


def open_volume(
    origin: Any,
    *,
    series: str | None = None,
    key: str | None = None,
) -> VolumeSource:
    """Open a path, URL, bytes, file object, folder or list of files as a volume.

    Args:
        origin: a file of a volume format; a folder with one DICOM series, a Zarr array or images; or a list of DICOM
            files or images.
        series: for DICOM, the SeriesInstanceUID where there are several.
        key: for NPZ, the name of the array; for Zarr, the path of the array in its group.

    Raises:
        SourceNotFoundError: the file does not exist.
        UnreadableSourceError: it is not a supported volume.
        BackendError: the format needs a package that is not installed.
    """
    if _is_several(origin):
        return open_files(list(origin), series=series)
    folder = _folder(origin)
    if folder is not None:
        return open_folder(folder, series=series, key=key)
    source = open_source(_headed(origin) or origin)
    from .start import Start  # programs that only test whether a file is a volume do not need it

    start = Start(source)
    kind = volume_kind(start.raw)
    if kind is None or kind not in _OPENERS:
        raise not_a_volume(source, start, kind)
    module, function = _OPENERS[kind]
    opener = getattr(importlib.import_module(f".{module}", __package__), function)
    options = {"key": key} if kind == "npz" else {}
    with np.errstate(all="ignore"):  # a damaged header may hold NaN and infinity; the results are checked
        volume: VolumeSource = opener(source, start, **options)
    return volume


def stamp_of(origin: Any, volume: VolumeSource) -> list[Any] | None:
    """Return what identifies the current content of a volume's files, header and voxels; None if unknown.

    Args:
        origin: the argument of :func:`open_volume`.
        volume: its result.
    """
    files = [*volume.sources]
    if not files:
        return None
    if not _is_several(origin) and _folder(origin) is None:
        files.append(open_source(_headed(origin) or origin))
    stamps = [file.stamp() for file in files]
    return None if None in stamps else [list(stamp) for stamp in dict.fromkeys(stamps) if stamp is not None]


def not_a_volume(source: Source, start: Start, kind: str | None) -> UnreadableSourceError:
    """Return the error for a file that is not of a volume format."""
    what = VOLUME_KINDS.get(kind or "", f"not a volume: it begins with {start.raw[:8]!r}")
    return UnreadableSourceError(
        f"this is {what}",
        source=source.name,
        allowed="NIfTI, DICOM, NRRD, MetaImage, NPY, NPZ, TIFF, Zarr, and folders of DICOM files or images",
        advice="A NIfTI file has its magic at byte 344 (version 1) or 4 (version 2)"
        if kind == "analyze"
        else None,
    )


def _kind(source: Source) -> str | None:
    """Return the volume format of a file by its first bytes; None if it is not a volume."""
    return volume_kind(source.read([(0, HEAD)])[0])


def _is_several(origin: Any) -> bool:
    return isinstance(origin, (list, tuple)) and bool(origin)


def _folder(origin: Any) -> str | None:
    """Return the path of a local folder or URL of a Zarr array; None for everything else."""
    if not isinstance(origin, (str, os.PathLike)):
        return None
    name = os.fspath(origin)
    if not isinstance(name, str) or not name or "\0" in name:
        return None
    if name.rstrip("/").endswith((".zarr", ".zarr.zip")) and "://" in name:
        return name
    # before Python 3.14, Path.is_dir raises without permission
    return name if os.path.isdir(name) else None  # noqa: PTH112


def _headed(origin: Any) -> str | None:
    """Return the header file of a file that contains only voxels; None if there is none."""
    if not isinstance(origin, (str, os.PathLike)) or not isinstance(os.fspath(origin), str):
        return None
    name = str(os.fspath(origin))
    path = Path(name.removesuffix(".gz"))
    ending = _PAIRED.get(path.suffix.lower())
    if ending is None or "\0" in name or not os.path.isfile(name):  # noqa: PTH113
        return None
    header = path.with_suffix(ending)
    if os.path.isfile(header):  # noqa: PTH113
        return str(header)
    if path.suffix.lower() == ".img":
        raise SourceNotFoundError(
            "the header of these voxels is missing", source=name, allowed=f"the file {header}"
        )
    return None


_ZARR: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
_IMAGES: Final = (".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp", ".pgm", ".webp")
_MOST_PROBED: Final = 8


def open_folder(folder: str, *, series: str | None = None, key: str | None = None) -> VolumeSource:
    """Open the volume in a folder.

    Args:
        folder: its path, or the URL of a Zarr array.
        series: for DICOM, the SeriesInstanceUID where there are several.
        key: for Zarr, the path of the array in its group.

    Raises:
        UnreadableSourceError: the folder does not contain a volume.
        SourceError: the folder cannot be read.
    """
    if (
        "://" in folder
        or folder.rstrip("/").endswith(".zarr")
        or any((Path(folder) / name).exists() for name in _ZARR)
    ):
        from .zarr import open_zarr

        return open_zarr(folder, key)
    try:
        names = sorted(str(path) for path in Path(folder).iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SourceError(f"the folder cannot be read ({error.strerror})", source=folder) from error
    files = [name for name in names if Path(name).is_file() and Path(name).stat().st_size]
    images = [name for name in files if name.lower().endswith(_IMAGES)]
    if images and len(images) * 2 > len(files):
        from .image_stack import open_images

        return open_images(images, folder)
    # by content: DICOM files often have no file name extension
    if series is not None or any(_is_dicom(name) for name in files[:_MOST_PROBED]):
        from .dicom import open_series

        return open_series(map(open_source, files), folder, series)
    raise UnreadableSourceError(
        "the folder does not contain a volume" if files else "the folder does not contain files",
        source=folder,
        allowed="a DICOM series, a Zarr array, or images of equal size",
        advice="Pass a file, or pass the folder to seqpipe.videos or seqpipe.volumes",
    )


def open_files(origins: Seq[Any], *, series: str | None = None) -> VolumeSource:
    """Open several files as a volume: DICOM files, or images in the given order.

    Args:
        origins: paths, URLs, bytes or file objects.
        series: for DICOM, the SeriesInstanceUID where there are several.

    Raises:
        UnreadableSourceError: the files are not one volume.
    """
    sources: list[Source] = [open_source(origin) for origin in origins]
    name = f"{sources[0].name}, …" if len(sources) > 1 else sources[0].name
    if _kind(sources[0]) == "dicom":
        from .dicom import open_series

        return open_series(sources, name, series)
    from .image_stack import ImageStack

    return ImageStack(sources, name)


def _is_dicom(name: str) -> bool:
    try:
        return _kind(open_source(name)) == "dicom"
    except SourceError:
        return False
