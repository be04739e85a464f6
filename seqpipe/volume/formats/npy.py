"""NPY and NPZ: arrays without an affine; never unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...core.files.npy import array_of_npy, member_bytes, npy_header, reading_zip
from ...errors import UnreadableSourceError
from ..info import VolumeInfo, checked_affine, checked_shape
from ..source import AnyArray, Box, Source, chosen_times, damaged, open_source
from .gunzip import check_size
from .start import Start
from .stored import Storage, StoredVolume, layout_axes

__all__ = ["AFFINE_KEY", "NpzVolume", "chosen_array", "npy_letters", "open_npy", "open_npz", "plain_affine"]

_LAYOUTS: Final = {2: "HW", 3: "DHW", 5: "FDHWC"}
_MOST_CHANNELS: Final = 4
AFFINE_KEY: Final = "affine"
"""Name of the 4×4 matrix beside an array, over its axes d, h and w."""
_ASSUMED: Final = "NumPy arrays have no affine: 1 mm and RAS are assumed"


def npy_letters(shape: Seq[int], source: str) -> str:
    """Return the layout of a plain array: ``HW``, ``DHW``, ``DHWC`` up to 4 channels, else ``FDHW``, or ``FDHWC``."""
    if len(shape) == 4:
        return "DHWC" if shape[-1] <= _MOST_CHANNELS else "FDHW"
    if len(shape) not in _LAYOUTS:
        raise UnreadableSourceError(
            f"the array has {len(shape)} axes",
            source=source,
            allowed="HW, DHW, DHWC (up to 4 channels), FDHW, FDHWC",
        )
    return _LAYOUTS[len(shape)]


def plain_affine(spacing_mm: Seq[float] = (1.0, 1.0, 1.0)) -> FloatArray:
    """Return the affine assumed for a file without one: columns to the right, rows to the front, slices up."""
    depth, height, width = spacing_mm
    matrix = np.zeros((4, 4))
    matrix[0, 2], matrix[1, 1], matrix[2, 0], matrix[3, 3] = width, height, depth, 1.0
    return matrix


def open_npy(source: Source, start: Start) -> StoredVolume:
    """Open an NPY file."""
    head = start.head(1 << 16)
    shape, fortran, dtype, offset = npy_header(head, source.name)
    info, storage = _described(shape, fortran, dtype, source.name, "npy")
    info = replace(info, compressed=start.compression is not None)
    return StoredVolume(source, info, replace(storage, offset=offset, compression=start.compression))


def _described(
    shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any], source: str, form: str
) -> tuple[VolumeInfo, Storage]:
    """Return the facts of an array, and how it is stored."""
    letters = npy_letters(checked_shape(shape, source), source)
    if fortran:
        shape, letters = shape[::-1], letters[::-1]
    stored = dtype if dtype.kind != "b" else np.dtype(np.uint8)
    storage = Storage(shape=shape, axes=layout_axes(letters), dtype=stored)
    info = VolumeInfo(
        source=source,
        format=form,
        shape=storage.layout_shape(),
        layout="FDHWC" if "F" in letters else "DHWC",
        dtype=stored.newbyteorder("="),
        affine=plain_affine(),
        space="assumed",
        notes=(_ASSUMED,),
    )
    return info, storage


def open_npz(source: Source, start: Start, key: str | None = None) -> NpzVolume:
    """Open an array of an NPZ file; an array ``affine`` (4×4, over the axes d, h, w) in it is its affine."""
    del start
    return NpzVolume(source, key)


class NpzVolume:
    """A :class:`~seqpipe.volume.source.VolumeSource` of one array of an archive.

    Args:
        source: the file.
        key: name of the array; None for the only one, or the one named ``image``, ``data`` or ``arr_0``.

    Raises:
        UnreadableSourceError: the array is missing, or does not hold numbers.
    """

    def __init__(self, source: Source, key: str | None) -> None:
        self._source = source
        with self._archive() as archive:
            names = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
            self._entry = names[chosen_array([*names], key, source.name)]
            with archive.open(self._entry) as stream:
                shape, fortran, dtype, offset = npy_header(stream.read(1 << 16), source.name)
            info, storage = _described(shape, fortran, dtype, source.name, "npz")
            packed = archive.getinfo(self._entry).compress_size
            check_size(offset + storage.nbytes, packed, source.name, "zlib")
            affine = self._affine(archive, names.get(AFFINE_KEY))
        if affine is not None:
            affine, notes = checked_affine(affine, source.name)
            info = replace(info, affine=affine, space="npz", notes=notes)
        self.info = replace(info, compressed=True)
        self._storage, self._offset = storage, offset

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        with self._archive() as archive:
            data = member_bytes(archive, self._entry, self.info.source)
        if (short := self._offset + self._storage.nbytes - len(data)) > 0:
            raise damaged(self.info.source, f"the array is {short:,} bytes too short")
        stored = StoredVolume(open_source(data.data), self.info, replace(self._storage, offset=self._offset))
        return stored.read(box, chosen)

    @property
    def sources(self) -> Seq[Source]:
        """The files with the voxels."""
        return (self._source,)

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        """Open the archive."""
        with (
            reading_zip(self._source.name),
            zipfile.ZipFile(self._source.for_demuxer()) as archive,
        ):
            yield archive

    def _affine(self, archive: zipfile.ZipFile, name: str | None) -> FloatArray | None:
        """Return the affine in an archive."""
        if name is None or archive.getinfo(name).file_size > 1 << 12:
            return None
        matrix = array_of_npy(member_bytes(archive, name, self._source.name), self._source.name)
        return matrix.astype(np.float64) if matrix.shape == (4, 4) else None


def chosen_array(names: list[str], key: str | None, source: str, what: str = "archive") -> str:
    """Return the name of the array to read: the requested one, the only one, or the one with a usual name."""
    if key is not None and key in names:
        return key
    arrays = [name for name in names if name.rpartition("/")[2] != AFFINE_KEY]
    usual = [name for name in ("image", "data", "arr_0") if name in arrays]
    if key is None and (len(arrays) == 1 or usual):
        return usual[0] if usual else arrays[0]
    raise UnreadableSourceError(
        f"the {what} has no array {key!r}" if key is not None else f"the {what} has {len(arrays)} arrays",
        source=source,
        allowed=", ".join(arrays) or f"a{'n'[: what[0] in 'aeiou']} {what} with an array",
        advice="Name one with key=…, or path::name",
    )
