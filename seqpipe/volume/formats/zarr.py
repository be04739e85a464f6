"""Zarr arrays and OME-Zarr images, by the package zarr; a window is read by chunks."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import BackendError, SourceError, UnreadableSourceError
from ..info import VolumeInfo, checked_affine, checked_shape
from ..source import AnyArray, Box, Source, chosen_times, damaged
from ..space import LPS_TO_RAS
from .npy import npy_letters, plain_affine
from .stored import layout_axes

__all__ = ["ZarrVolume", "open_zarr"]

_AXES: Final = {"t": "F", "c": "C", "z": "D", "y": "H", "x": "W"}
_MM: Final = {
    "millimeter": 1.0,
    "micrometer": 1e-3,
    "nanometer": 1e-6,
    "centimeter": 10.0,
    "meter": 1e3,
}


def open_zarr(name: str, key: str | None = None) -> ZarrVolume:
    """Open a Zarr array, or an image of an OME-Zarr group at full resolution.

    Args:
        name: path of the folder, or a URL.
        key: path of the array in the group; by default the full resolution of the first image.

    Raises:
        UnreadableSourceError: the array does not exist.
        BackendError: zarr is not installed.
    """
    return ZarrVolume(name, key)


class ZarrVolume:
    """A :class:`~seqpipe.volume.source.VolumeSource` of a chunked array.

    Args:
        name: path of the folder, or a URL.
        key: path of the array in the group; None for the default.

    Raises:
        UnreadableSourceError: the array does not exist, or does not hold numbers.
        BackendError: zarr is not installed.
    """

    def __init__(self, name: str, key: str | None) -> None:
        try:
            import zarr
        except ImportError as error:
            raise BackendError(
                "zarr is not installed", advice="Install it: pip install 'seqpipe[zarr]'"
            ) from error
        try:
            node = zarr.open(name, mode="r")
            image = _image(dict(node.attrs)) if not hasattr(node, "shape") else None
            self._array = _array_of(node, image, key, name)
        except SourceError:
            raise
        except Exception as error:
            # zarr and its stores raise many types of errors
            raise UnreadableSourceError(
                f"zarr cannot open it ({type(error).__name__}: {error})", source=name, advice="Check the path"
            ) from error
        shape = checked_shape(tuple(self._array.shape), name)
        dtype = np.dtype(self._array.dtype)
        if dtype.kind not in "biufc":
            raise UnreadableSourceError(f"the array has the dtype {dtype}", source=name, allowed="numbers")
        self._letters = _letters(image, shape, name)
        axes = layout_axes(self._letters)
        affine, space, notes = _space(image, self._array, self._letters)
        affine, more = checked_affine(affine, name)
        self.info = VolumeInfo(
            source=name,
            format="zarr",
            shape=tuple(1 if axis is None else shape[axis] for axis in axes),
            layout="FDHWC" if "F" in self._letters else "DHWC",
            dtype=np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("="),
            affine=affine,
            space=space,
            notes=(*notes, *more),
            header={"chunks": list(self._array.chunks), "path": self._array.path},
        )

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        first, last = min(chosen), max(chosen) + 1
        spans = {"F": (first, last), "D": box.d, "H": box.h, "W": box.w}
        cut = tuple(slice(*spans[letter]) if letter in spans else slice(None) for letter in self._letters)
        try:
            voxels = np.asarray(self._array[cut])
        except Exception as error:
            # codecs and stores raise many types of errors
            raise damaged(
                self.info.source, f"chunks cannot be read ({type(error).__name__}: {error})"
            ) from error
        axes = layout_axes(self._letters)
        view = voxels.transpose([axis for axis in axes if axis is not None])
        for position, axis in enumerate(axes):
            if axis is None:
                view = np.expand_dims(view, position)
        if self.info.layout == "FDHWC":
            view = view[[time - first for time in chosen]]
        return np.ascontiguousarray(view.astype(self.info.dtype, copy=False))

    @property
    def sources(self) -> Seq[Source]:
        """No files: each chunk is a file, or an object of a store."""
        return ()

    def close(self) -> None:
        """Do nothing: no file is open."""


def _image(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first image in OME-Zarr metadata of version 0.4 or 0.5."""
    multiscales = attributes.get("ome", attributes).get("multiscales")
    return dict(multiscales[0]) if multiscales else None


def _array_of(node: Any, image: dict[str, Any] | None, key: str | None, name: str) -> Any:
    if hasattr(node, "shape"):
        return node
    path = key if key is not None else (image["datasets"][0]["path"] if image else None)
    names = sorted(node.array_keys())
    if path is None and len(names) == 1:
        path = names[0]
    if path is None or path not in node or not hasattr(node[path], "shape"):
        raise UnreadableSourceError(
            f"the group has no array {path!r}" if path is not None else f"the group has {len(names)} arrays",
            source=name,
            allowed=", ".join(names) or "a group with an array",
            advice="Name one with key=…",
        )
    return node[path]


def _letters(image: dict[str, Any] | None, shape: tuple[int, ...], name: str) -> str:
    axes = (image or {}).get("axes")
    if not axes:
        return npy_letters(shape, name)
    names = [axis["name"] if isinstance(axis, Mapping) else axis for axis in axes]
    letters = "".join(_AXES.get(axis.lower(), "?") for axis in names)
    if "?" in letters or len(letters) != len(shape) or len(set(letters)) < len(letters):
        raise UnreadableSourceError(f"the axes are {names}", source=name, allowed=", ".join(_AXES))
    return letters


def _space(image: dict[str, Any] | None, array: Any, letters: str) -> tuple[FloatArray, str, list[str]]:
    """Return the affine over (d, h, w), its rule and notes; x of OME-Zarr runs left, y back, z up, as in ITK."""
    if image is None:
        return plain_affine(), "assumed", ["the array has no affine: 1 mm and RAS are assumed"]
    axes = image.get("axes") or []
    dataset = next(
        (d for d in image["datasets"] if d["path"] == array.path.rpartition("/")[2]), image["datasets"][0]
    )
    scale, shift = np.ones(len(letters)), np.zeros(len(letters))
    for change in [
        *dataset.get("coordinateTransformations", []),
        *image.get("coordinateTransformations", []),
    ]:
        if change.get("type") == "scale":
            factors = np.array(change["scale"], dtype=np.float64)
            scale, shift = scale * factors, shift * factors
        elif change.get("type") == "translation":
            shift = shift + np.array(change["translation"], dtype=np.float64)
    units = {axis["name"].lower(): axis.get("unit") for axis in axes if isinstance(axis, Mapping)}
    matrix, notes = np.zeros((4, 4)), []
    matrix[3, 3] = 1.0
    for row, (axis, letter) in enumerate(zip("xyz", "WHD", strict=True)):
        unit = units.get(axis)
        factor = _MM.get(unit or "millimeter", 1.0)
        if unit not in _MM:
            notes.append(f"{axis} has the unit {unit!r}: mm is assumed")
        column = "DHW".index(letter)
        index = letters.find(letter)
        matrix[row, column] = scale[index] * factor if index >= 0 else 1.0
        matrix[row, 3] = shift[index] * factor if index >= 0 else 0.0
    return LPS_TO_RAS @ matrix, "ome-zarr", notes
