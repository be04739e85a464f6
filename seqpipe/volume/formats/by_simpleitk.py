"""Legacy VTK images, GIPL and MRC, by the package SimpleITK."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import BackendError
from ..source import AnyArray, Source
from ..space import from_axes
from .indexed import IndexedVolume, info_of_array, library_errors
from .start import Start, as_file

__all__ = ["open_by_simpleitk"]


def open_by_simpleitk(source: Source, start: Start) -> IndexedVolume:
    """Open a VTK, GIPL or MRC file; its voxels are in memory from the first read on.

    Raises:
        UnreadableSourceError: SimpleITK cannot read it.
        BackendError: SimpleITK is not installed.
    """
    try:
        import SimpleITK
    except ImportError as error:
        raise BackendError(
            "SimpleITK is not installed", source=source.name, advice="Install it: pip install 'seqpipe[sitk]'"
        ) from error
    kind = start.kind or ""
    kept: dict[str, AnyArray] = {}
    reader = SimpleITK.ImageFileReader()

    def window(cut: tuple[slice, ...]) -> Any:
        if "voxels" not in kept:
            with as_file(source, f".{kind}") as path:
                kept["voxels"] = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(path))
        return kept["voxels"][cut]

    with library_errors(source, "SimpleITK"), as_file(source, f".{kind}") as path:
        reader.SetFileName(path)
        reader.ReadImageInformation()
        size, channels, count = reader.GetSize(), reader.GetNumberOfComponents(), reader.GetDimension()
        small = SimpleITK.Image([1] * count, reader.GetPixelID(), channels)
        dtype = SimpleITK.GetArrayViewFromImage(small).dtype
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
