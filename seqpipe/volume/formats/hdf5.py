"""HDF5: a data set of a file, by the package h5py; MINC 2 files go to nibabel."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import BackendError
from ..source import Source
from .by_nibabel import open_minc2
from .indexed import IndexedVolume, info_of_array, library_errors
from .npy import AFFINE_KEY, chosen_array, npy_letters
from .start import Start

__all__ = ["open_hdf5"]

_MINC: Final = "minc-2.0"
_AXES: Final = {"t": "F", "time": "F", "z": "D", "y": "H", "x": "W", "c": "C", "channel": "C"}
_MICROMETER: Final = 1e-3


def open_hdf5(source: Source, start: Start, key: str | None = None) -> IndexedVolume:
    """Open a data set of an HDF5 file; a window is read by chunks.

    An attribute ``affine`` of the data set, or a data set ``affine`` (4×4, over the axes d, h, w) in its group, is its
    affine; else an attribute ``element_size_um`` (z, y, x) is its spacing. Labels of its dimensions (t, c, z, y, x)
    name its axes.

    Args:
        source: the file.
        start: its first bytes.
        key: path of the data set in the file; by default the only one, or the one named ``image`` or ``data``.

    Raises:
        UnreadableSourceError: the data set is missing, or does not hold numbers.
        BackendError: h5py is not installed.
    """
    del start
    try:
        import h5py
    except ImportError as error:
        raise BackendError(
            "h5py is not installed", source=source.name, advice="Install it: pip install 'seqpipe[hdf5]'"
        ) from error

    def opened() -> Any:
        # not kept open: handles of HDF5 do not survive a fork
        return h5py.File(source.for_demuxer(), "r")

    with library_errors(source, "h5py"), opened() as file:
        if _MINC in file and key is None:
            return open_minc2(source)
        arrays: dict[str, Any] = {}
        file.visititems(lambda name, node: _note(arrays, name, node, h5py.Dataset))
        path = chosen_array([*arrays], None if key is None else key.strip("/"), source.name, "HDF5 file")
        data = arrays[path]
        letters = _letters(data, source.name)
        affine, space = _affine(data, arrays)
        header = {"path": f"/{path}", "chunks": None if data.chunks is None else list(data.chunks)}
        packed = data.compression is not None
        info = info_of_array(
            source.name,
            "hdf5",
            data.shape,
            data.dtype,
            letters,
            affine,
            space,
            header=header,
            compressed=packed,
        )

    def window(cut: tuple[slice, ...]) -> Any:
        with opened() as file:
            return file[path][cut]

    return IndexedVolume(info, letters, window, (source,))


def _note(arrays: dict[str, Any], name: str, node: Any, kind: type) -> None:
    if isinstance(node, kind) and node.shape and node.dtype.kind in "biufc":  # type: ignore[attr-defined]  # of h5py
        arrays[name] = node


def _letters(data: Any, source: str) -> str:
    labels = [_AXES.get(axis.label.lower(), "?") for axis in data.dims]
    known = "?" not in labels and len(set(labels)) == len(labels) and {"H", "W"} <= set(labels)
    return "".join(labels) if known else npy_letters(data.shape, source)


def _affine(data: Any, arrays: dict[str, Any]) -> tuple[FloatArray | None, str]:
    """Return the affine over (d, h, w) and its rule; None if the file has none."""
    beside = arrays.get("/".join([*data.name.strip("/").split("/")[:-1], AFFINE_KEY]))
    for stated in (data.attrs.get(AFFINE_KEY), beside):
        if stated is not None and np.shape(stated) == (4, 4):
            return np.array(stated, dtype=np.float64), "hdf5"
    size = data.attrs.get("element_size_um")
    if size is None or np.shape(size) != (3,):
        return None, "assumed"
    matrix = np.zeros((4, 4))
    matrix[[2, 1, 0], [0, 1, 2]] = np.array(size, dtype=np.float64) * _MICROMETER
    matrix[3, 3] = 1.0
    return matrix, "element_size_um"
