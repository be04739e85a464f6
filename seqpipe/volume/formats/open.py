"""Opens a path, URL, bytes, file object, folder or list of files as a volume source, by content."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...core.files.content import HEAD, OTHER_VOLUMES, VOLUME_KINDS, likely_kind, packing_of, volume_kind
from ...errors import ParameterError, SourceError, SourceNotFoundError, UnreadableSourceError
from ...video.source.source import Source, open_source
from .label_files import LabelFiles

if TYPE_CHECKING:
    from ..source import VolumeSource
    from .start import Start

__all__ = ["is_volume", "not_a_volume", "open_files", "open_folder", "open_volume", "split_key", "stamp_of"]

_OPENERS: Final = {
    "nifti": ("nifti", "open_nifti"),
    "nrrd": ("nrrd", "open_nrrd"),
    "metaimage": ("metaimage", "open_metaimage"),
    "npy": ("npy", "open_npy"),
    "npz": ("npy", "open_npz"),
    "tiff": ("tiff", "open_tiff"),
    "dicom": ("dicom", "open_file"),
    "mgh": ("mgh", "open_mgh"),
    "analyze": ("analyze", "open_analyze"),
    "hdf5": ("array_files", "open_hdf5"),
    "b2nd": ("array_files", "open_blosc2"),
    "torch": ("array_files", "open_torch"),
    "vti": ("vti", "open_vti"),
    "netcdf": ("by_library", "open_minc1"),
    **dict.fromkeys(("afni", "ecat", "parrec"), ("by_library", "open_by_nibabel")),
    **dict.fromkeys(("gipl", "mrc", "vtk"), ("by_library", "open_by_simpleitk")),
}
_READ_PACKED: Final = ("nifti", "npy", "mgh", "analyze")
"""Formats whose readers unpack a compressed stream themselves, only as far as needed."""
_WITH_KEYS: Final = ("npz", "hdf5", "torch", "dicom", "vti")
_KEY_MARK: Final = "::"
_WITHOUT_MAGIC: Final = ("cdg", "h261", "h263", "m4v", "mjpeg", "mpegvideo", "tty", "vc1")
"""Formats of FFmpeg that it may take other data for, such as zeros."""
_PAIRED: Final = {
    ".img": (".hdr",),
    ".raw": (".mhd",),
    ".zraw": (".mhd",),
    ".brik": (".HEAD",),
    ".rec": (".PAR", ".par"),
}


def is_volume(origin: Any) -> bool:
    """Return whether an origin is a volume: a file of a volume format, a folder, or a list of files."""
    origin, _ = split_key(origin)
    if isinstance(origin, (Mapping, LabelFiles)) or _is_several(origin) or _folder(origin) is not None:
        return True
    if _headed(origin) is not None:
        return True
    source = open_source(origin)
    return source.stills is None and (_kind(source) is not None or _was_volume(source))


def open_volume(
    origin: Any,
    *,
    series: str | None = None,
    key: str | None = None,
) -> VolumeSource:
    """Open a path, URL, bytes, file object, folder or list of files as a volume.

    Args:
        origin: a file of a volume format; a folder with one DICOM series, at any depth, a Zarr array or images; a
            DICOMDIR; or a list of DICOM files or images; or :class:`LabelFiles`. ``file.h5::/path`` stands for the file
            and the key, ``folder::UID`` for the folder and the series.
        series: for DICOM, the SeriesInstanceUID where there are several.
        key: for NPZ, HDF5, VTI, files of torch and Zarr, the name of the array; for ZIP archives, that of the file.
    """
    if isinstance(origin, (Mapping, LabelFiles)):
        from .structures import open_labels

        return open_labels(LabelFiles(origin) if isinstance(origin, Mapping) else origin, open_volume)
    if _is_several(origin):
        return open_files(list(origin), series=series)
    origin, key = split_key(origin, key)
    folder = _folder(origin)
    if folder is not None:
        return open_folder(folder, series=series, key=key)
    if _is_dicom_directory(origin):
        return _open_tree(os.fspath(origin), series or key)
    return _open_file(open_source(_headed(origin) or origin), series, key)


def _open_file(source: Source, series: str | None, key: str | None) -> VolumeSource:
    """Open a file by its content."""
    from .start import (  # programs that only test whether a file is a volume do not need it
        Start,
        Unpacked,
        members_of,
    )

    start = Start(source)
    kind = start.kind
    if start.compression is not None and kind is not None and kind not in _READ_PACKED:
        source = Unpacked(source)
        start = Start(source)
    if kind == "zip":
        members = members_of(source, key)
        if len(members) > 1:
            return open_files(members, series=series)
        return _open_file(members[0], series, None)
    if kind is None or kind not in _OPENERS:
        raise not_a_volume(source, start, kind)
    module, function = _OPENERS[kind]
    opener = getattr(importlib.import_module(f".{module}", __package__), function)
    if series is not None:
        raise ParameterError(
            f"series={series!r} is for folders and lists of DICOM files, and this is one file",
            source=source.name,
        )
    options = {"key": key} if kind in _WITH_KEYS else {}
    with np.errstate(all="ignore"):  # a damaged header may hold NaN and infinity; the results are checked
        volume: VolumeSource = opener(source, start, **options)
    return volume


def split_key(origin: Any, key: str | None = None) -> tuple[Any, str | None]:
    """Return the file of ``file.h5::/path``, and the key of the array in it; other origins as they are."""
    if key is not None or not isinstance(origin, str) or _KEY_MARK not in origin or "\0" in origin:
        return origin, key
    path, _, name = origin.rpartition(_KEY_MARK)
    if "://" in name or not path or not name or os.path.exists(origin):  # noqa: PTH110  a path as text
        return origin, None  # chained URLs of fsspec, and paths that are so named
    return path, name


def stamp_of(origin: Any, volume: VolumeSource) -> list[Any] | None:
    """Return what identifies the current content of a volume's files, header and voxels; None if unknown."""
    files = [*volume.sources]
    if not files:
        return None
    origin, _ = split_key(origin)
    if not (isinstance(origin, (Mapping, LabelFiles)) or _is_several(origin)) and _folder(origin) is None:
        files.append(open_source(_headed(origin) or origin))
    stamps = [file.stamp() for file in files]
    if None in stamps:
        return None
    found: list[Any] = [list(stamp) for stamp in dict.fromkeys(stamps) if stamp is not None]
    if isinstance(origin, LabelFiles):  # what is made of the files, and the grid that it is on
        found += [repr(replace(origin, like=None)), volume.info.affine.tolist()]
    return found


def not_a_volume(source: Source, start: Start, kind: str | None) -> UnreadableSourceError:
    """Return the error for a file that is not of a volume format, or of one that is not read."""
    allowed = (
        "NIfTI, DICOM, NRRD, MetaImage, MGH, ANALYZE, MINC, HDF5, Zarr, Blosc2, NPY, NPZ, torch, TIFF, VTK, VTI, GIPL, "
        "MRC, AFNI, PAR/REC, ECAT, ZIP archives of one, and folders of DICOM files or images"
    )
    likely = likely_kind(start.raw, source.name)
    if kind in OTHER_VOLUMES and not (kind == packing_of(start.raw) and likely not in (kind, None)):
        what, advice = OTHER_VOLUMES[kind]
        return UnreadableSourceError(
            f"this is {what}, which is not read", source=source.name, allowed=allowed, advice=advice
        )
    begins = f"it begins with {start.raw[:8]!r}"
    if likely is None:
        return UnreadableSourceError(f"this is not a volume: {begins}", source=source.name, allowed=allowed)
    return UnreadableSourceError(
        f"this is not a volume that can be read: by its name or a part of its header it is {VOLUME_KINDS[likely]}, "
        f"but {begins}",
        source=source.name,
        allowed=allowed,
        advice="Its first bytes are damaged: fetch or write the file again"
        + (f". If it is whole: {OTHER_VOLUMES[likely][1]}" if likely in OTHER_VOLUMES else ""),
    )


def _kind(source: Source) -> str | None:
    """Return the volume format of a file by its first bytes; None if it is not a volume."""
    return volume_kind(source.read([(0, HEAD)])[0])


def _was_volume(source: Source) -> bool:
    """Return whether a file was a volume before its first bytes were damaged: by what is left, and it is no video."""
    if likely_kind(source.read([(0, HEAD)])[0], source.name) is None:
        return False
    from ...video.probe.probe import probe

    try:
        return probe(source).container in _WITHOUT_MAGIC
    except SourceError:
        return True


def _is_several(origin: Any) -> bool:
    """Return whether an origin is a list of files."""
    return isinstance(origin, (list, tuple)) and bool(origin)


def _folder(origin: Any) -> str | None:
    """Return the path of a local folder or URL of a Zarr array; None for everything else."""
    if not isinstance(origin, (str, os.PathLike)):
        return None
    name = os.fspath(origin)
    if not isinstance(name, str) or not name or "\0" in name:
        return None
    if (name.rstrip("/").endswith(".zarr") and "://" in name) or name.endswith(".zarr.zip"):
        return name
    # before Python 3.14, Path.is_dir raises without permission
    return name if os.path.isdir(name) else None  # noqa: PTH112


def _headed(origin: Any) -> str | None:
    """Return the header file of a file that contains only voxels; None if there is none."""
    if not isinstance(origin, (str, os.PathLike)) or not isinstance(os.fspath(origin), str):
        return None
    name = str(os.fspath(origin))
    path = Path(name.removesuffix(".gz"))
    endings = _PAIRED.get(path.suffix.lower(), ())
    if not endings or "\0" in name or not os.path.isfile(name):  # noqa: PTH113
        return None
    header = path.with_suffix(endings[0])
    for possible in (f"{path.with_suffix(ending)}{packed}" for ending in endings for packed in ("", ".gz")):
        if os.path.isfile(possible):  # noqa: PTH113
            return possible
    if path.suffix.lower() == ".img":
        raise SourceNotFoundError(
            "the header of these voxels is missing", source=name, allowed=f"the file {header} or {header}.gz"
        )
    return None


_ZARR: Final = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
_IMAGES: Final = (".png", ".tif", ".tiff", ".jpg", ".jpeg", ".bmp", ".pgm", ".webp")
_MOST_PROBED: Final = 8


def open_folder(folder: str, *, series: str | None = None, key: str | None = None) -> VolumeSource:
    """Open the volume in a folder."""
    if (
        "://" in folder
        or folder.rstrip("/").endswith((".zarr", ".zarr.zip"))
        or any((Path(folder) / name).exists() for name in _ZARR)
    ):
        from .array_files import open_zarr

        return open_zarr(folder, key)
    try:
        names = sorted(str(path) for path in Path(folder).iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise SourceError(f"the folder cannot be read ({error.strerror})", source=folder) from error
    files = [name for name in names if Path(name).is_file()]
    images = [name for name in files if name.lower().endswith(_IMAGES)]
    if images and len(images) * 2 > len(files):
        from .image_stack import open_images

        return open_images(images, folder)
    # by content: DICOM files often have no file name extension
    if any(_is_dicom(name) for name in files[:_MOST_PROBED]):
        from .dicom import open_series

        return open_series(files, folder, series or key)
    if series is not None or key is not None or _holds_dicom(folder):
        return _open_tree(folder, series or key)
    raise UnreadableSourceError(
        "the folder does not contain a volume" if files else "the folder does not contain files",
        source=folder,
        allowed="a DICOM series, also in subfolders, a Zarr array, or images of equal size",
        advice="Pass a file, or pass the folder to seqpipe.videos or seqpipe.volumes",
    )


def _holds_dicom(folder: str) -> bool:
    """Return whether the first files below a folder are DICOM."""
    below = (f"{at}/{name}" for at, _, names in os.walk(folder) for name in sorted(names) if name[0] != ".")
    return any(_is_dicom(name) for name in islice(below, _MOST_PROBED))


def _is_dicom_directory(origin: Any) -> bool:
    """Return whether an origin is the path of a DICOMDIR."""
    if not isinstance(origin, (str, os.PathLike)) or not str(origin).upper().endswith("DICOMDIR"):
        return False
    from .dicom_tree import is_directory

    return is_directory(str(origin))


def _open_tree(root: str, series: str | None) -> VolumeSource:
    """Open the series of a DICOM tree."""
    from .dicom import open_series
    from .dicom_tree import files_of_tree

    return open_series(files_of_tree(root), root, series)


def open_files(origins: Seq[Any], *, series: str | None = None) -> VolumeSource:
    """Open several files as a volume: DICOM files, or images in the given order."""
    sources: list[Source] = [open_source(origin) for origin in origins]
    name = f"{sources[0].name}, …" if len(sources) > 1 else sources[0].name
    if _kind(sources[0]) == "dicom":
        from .dicom import open_series

        return open_series(sources, name, series)
    from .image_stack import ImageStack

    return ImageStack(sources, name)


def _is_dicom(name: str) -> bool:
    """Return whether a file is DICOM."""
    try:
        return _kind(open_source(name)) == "dicom"
    except SourceError:
        return False
