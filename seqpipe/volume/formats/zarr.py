"""Zarr arrays and OME-Zarr images, by the package zarr."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import BackendError, SourceError, UnreadableSourceError
from ..space import LPS_TO_RAS
from .indexed import IndexedVolume, info_of_array
from .npy import npy_letters, plain_affine

__all__ = ["open_zarr"]

_AXES: Final = {"t": "F", "c": "C", "z": "D", "y": "H", "x": "W"}
_MM: Final = {
    "millimeter": 1.0,
    "micrometer": 1e-3,
    "nanometer": 1e-6,
    "centimeter": 10.0,
    "meter": 1e3,
}
_NO_CHUNK: Final = 2**64 - 1


def open_zarr(name: str, key: str | None = None) -> IndexedVolume:
    """Open a Zarr array, or an image of an OME-Zarr group at full resolution; a window is read by chunks.

    Args:
        name: path of the folder or of a ZIP archive of one, or a URL.
        key: path of the array in the group; by default the full resolution of the first image.

    Raises:
        UnreadableSourceError: the array does not exist, or does not hold numbers.
        BackendError: zarr is not installed.
    """
    try:
        import zarr
    except ImportError as error:
        raise BackendError(
            "zarr is not installed", advice="Install it: pip install 'seqpipe[zarr]'"
        ) from error
    try:
        packed = name.endswith(".zip") and "://" not in name
        node = zarr.open(zarr.storage.ZipStore(name, mode="r") if packed else name, mode="r")
        image = _image(dict(node.attrs)) if not hasattr(node, "shape") else None
        array = _with_whole_chunks(_array_of(node, image, key, name))
    except SourceError:
        raise
    except Exception as error:
        # zarr and its stores raise many types of errors
        raise UnreadableSourceError(
            f"zarr cannot open it ({type(error).__name__}: {error})", source=name, advice="Check the path"
        ) from error
    letters = _letters(image, tuple(array.shape), name)
    affine, space, notes = _space(image, array, letters)
    header = {"chunks": list(array.chunks), "path": array.path}
    info = info_of_array(
        name, "zarr", array.shape, array.dtype, letters, affine, space, notes=notes, header=header
    )
    return IndexedVolume(info, letters, array.__getitem__)


def _with_whole_chunks(array: Any) -> Any:
    """Return the array with chunks that are truncated refused.

    zarr takes an empty shard for a missing one, and the decoder of Blosc reads beyond the end of its input.
    """
    import zarr
    from zarr.storage import StorePath, WrapperStore

    sharding = next(
        (codec for codec in getattr(array.metadata, "codecs", ()) if hasattr(codec, "index_codecs")), None
    )
    is_blosc = sharding is None and any("Blosc" in type(codec).__name__ for codec in array.compressors[-1:])

    class WholeChunks(WrapperStore[Any]):
        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            """Return the bytes of a chunk or shard, or a range of them; None for one that is missing."""
            value = await super().get(key, prototype, byte_range)
            if value is None:
                return None
            if byte_range is not None:
                size = getattr(byte_range, "suffix", None) or byte_range.end - byte_range.start
            elif sharding is not None:
                size = _size_of_shard(value, array, sharding)
            else:
                size = int.from_bytes(value[12:16].to_bytes(), "little") if is_blosc else 1
            if len(value) < size:
                raise ValueError(f"chunk {key} is truncated: it has {len(value)} of {size} bytes")
            return value

    store = StorePath(WholeChunks(array.store), array.path)
    return zarr.Array.from_dict(store, array.metadata.to_dict())


def _size_of_shard(shard: Any, array: Any, sharding: Any) -> int:
    """Return the bytes that the chunks in a shard's index take, with the index; 1 for an index of another form."""
    if [type(codec).__name__ for codec in sharding.index_codecs] != ["BytesCodec", "Crc32cCodec"]:
        return 1
    size = 16 * math.prod(whole // part for whole, part in zip(array.shards, array.chunks, strict=True))
    behind = size + 4 if sharding.index_location.value == "end" else 0
    if len(shard) < size + 4:
        return size + 4
    begin = len(shard) - behind if behind else 0
    index = np.frombuffer(shard[begin : begin + size].to_bytes(), "<u8").reshape(-1, 2)
    stored = index[(index != _NO_CHUNK).any(axis=1)].astype(np.float64)
    return int(stored.sum(axis=1).max(initial=size + 4 - behind)) + behind


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
