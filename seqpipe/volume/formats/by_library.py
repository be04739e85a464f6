"""MINC, AFNI, PAR/REC and ECAT by the package nibabel; legacy VTK images, GIPL and MRC by SimpleITK."""

from __future__ import annotations

import importlib
import locale
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Final

import numpy as np

from ...core.lazy import import_optional
from ...errors import UnreadableSourceError
from ..source import AnyArray, Source
from ..space import from_axes, from_file_order
from .indexed import IndexedVolume, info_of_array, library_errors
from .start import Start, as_file, path_of

__all__ = ["open_by_nibabel", "open_by_simpleitk", "open_minc1", "open_minc2"]

_MINC_AXES: Final = {"time": "F", "vector_dimension": "C"}


def open_minc1(source: Source, start: Start) -> IndexedVolume:
    """Open a MINC 1 file: NetCDF; see :func:`open_minc2`."""
    del start
    import_optional("nibabel", "nibabel", source.name)
    from nibabel.externals.netcdf import netcdf_file
    from nibabel.minc1 import Minc1File

    def opened() -> Any:
        return closing(netcdf_file(source.for_demuxer(), mmap=False))

    return _minc(source, opened, Minc1File)


def open_minc2(source: Source) -> IndexedVolume:
    """Open a MINC 2 file: HDF5. Integers are scaled by the range of each slice, to float32."""
    import_optional("nibabel", "nibabel", source.name)
    import h5py
    from nibabel.minc2 import Minc2File

    return _minc(source, lambda: h5py.File(source.for_demuxer(), "r"), Minc2File)


def _minc(source: Source, opened: Callable[[], AbstractContextManager[Any]], kind: Any) -> IndexedVolume:
    """Return a MINC volume, whose file is open only while a window is read."""

    def window(cut: tuple[slice, ...]) -> Any:
        with opened() as file:
            return np.array(kind(file).get_scaled_data(cut))

    with library_errors(source, "nibabel"):
        with opened() as file:
            minc = kind(file)
            dimensions, shape, affine = minc._dim_names, minc.get_data_shape(), minc.get_affine()
            stored = np.dtype(minc.get_data_dtype())
        space = iter("DHW"[3 - sum(name.endswith("space") for name in dimensions) :])
        letters = "".join(
            next(space) if dimension.endswith("space") else _MINC_AXES[dimension] for dimension in dimensions
        )
    dtype = stored if stored.kind == "f" else np.dtype(np.float32)
    info = info_of_array(source.name, "minc", shape, dtype, letters, affine, "minc")
    return IndexedVolume(info, letters, window, (source,))


def open_by_nibabel(source: Source, start: Start) -> IndexedVolume:
    """Open an AFNI, PAR/REC or ECAT volume: the header file of a pair, opened by its path."""
    kind, path = start.kind or "", path_of(source)
    nibabel = import_optional("nibabel", "nibabel", source.name)
    if path is None:
        raise UnreadableSourceError(
            "the voxels are in a separate file", source=source.name, advice="Open the header by its path"
        )
    with library_errors(source, "nibabel"):
        image = importlib.import_module("nibabel.ecat").load(path) if kind == "ecat" else nibabel.load(path)
        letters = "WHDFC"[: len(image.shape)]
        if len(letters) == 4 and image.shape[3] == 1:
            letters = "WHDC"  # one volume is no series
        corner = np.asarray(image.dataobj[(slice(0, 1),) * len(letters)])
        stored = np.dtype(image.get_data_dtype(0) if kind == "ecat" else image.get_data_dtype())
        step = image.header.get_zooms()[3] if "F" in letters and kind != "ecat" else 0
    # values that nibabel scales to float64 are rounded to float32
    dtype = np.dtype(np.float32) if corner.dtype == np.float64 and stored.kind != "f" else corner.dtype
    affine = from_file_order(image.affine)
    interval = float(step) if step else None
    info = info_of_array(source.name, kind, image.shape, dtype, letters, affine, kind, time_step_s=interval)
    return IndexedVolume(info, letters, lambda cut: image.dataobj[cut], (source,))


def open_by_simpleitk(source: Source, start: Start) -> IndexedVolume:
    """Open a VTK, GIPL or MRC file; its voxels are in memory from the first read on."""
    itk = import_optional("SimpleITK", "sitk", source.name)
    kind = start.kind or ""
    kept: dict[str, AnyArray] = {}
    reader = itk.ImageFileReader()

    def window(cut: tuple[slice, ...]) -> Any:
        if "voxels" not in kept:
            with as_file(source, f".{kind}") as path, _locale_kept():
                kept["voxels"] = itk.GetArrayFromImage(itk.ReadImage(path))
        return kept["voxels"][cut]

    with library_errors(source, "SimpleITK"), as_file(source, f".{kind}") as path, _locale_kept():
        reader.SetFileName(path)
        reader.ReadImageInformation()
        size, channels, count = reader.GetSize(), reader.GetNumberOfComponents(), reader.GetDimension()
        small = itk.Image([1] * count, reader.GetPixelID(), channels)
        dtype = itk.GetArrayViewFromImage(small).dtype
        matrix, origin = np.eye(3), np.zeros(3)
        space = min(count, 3)
        axes = np.array(reader.GetDirection()).reshape(count, count) * reader.GetSpacing()
        matrix[:space, :space] = axes[:space, :space]
        origin[:space] = reader.GetOrigin()[:space]
    letters = "FDHW"[4 - count :] + ("C" if channels > 1 else "")
    shape = (*size[::-1], *([channels] if channels > 1 else []))
    info = info_of_array(
        source.name, kind, shape, dtype, letters, from_axes(matrix, origin, lps=True), "itk", compressed=True
    )
    return IndexedVolume(info, letters, window, (source,), kept.clear)


@contextmanager
def _locale_kept() -> Iterator[None]:
    """Restore the locale, which ITK's reader of VTK files sets to C: texts would be read as ASCII from then on."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        yield
    finally:
        locale.setlocale(locale.LC_ALL, before)
