"""Arrays in files of other libraries: HDF5 (h5py), Zarr and OME-Zarr (zarr), Blosc2 (blosc2) and tensors (torch).

MINC 2 files, which are HDF5, go to nibabel. Blosc2 arrays of nnU-Net's preprocessed folders have their spacing.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...core.lazy import import_optional
from ...errors import SourceError, UnreadableSourceError
from ..source import AnyArray, Source
from ..space import LPS_TO_RAS, from_axes, from_file_order, in_file_order
from .by_library import open_minc2
from .indexed import IndexedVolume, info_of_array, library_errors
from .npy import AFFINE_KEY, chosen_array, npy_letters, plain_affine
from .start import Start

__all__ = ["open_blosc2", "open_hdf5", "open_torch", "open_zarr"]

_AXES: Final = {"t": "F", "time": "F", "z": "D", "y": "H", "x": "W", "c": "C", "channel": "C"}
_MINC: Final = "minc-2.0"
_MICROMETER: Final = 1e-3
_NO_CHUNK: Final = 2**64 - 1


def open_hdf5(source: Source, start: Start, key: str | None = None) -> IndexedVolume:
    """Open a data set of an HDF5 file; a window is read by chunks.

    An attribute ``affine`` of the data set, or a data set ``affine`` (4×4, over the axes d, h, w) in its group, is its
    affine; else an attribute ``element_size_um`` (z, y, x) is its spacing. Labels of its dimensions (t, c, z, y, x)
    name its axes.
    """
    del start
    h5py = import_optional("h5py", "hdf5", source.name)

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
        letters = _hdf5_letters(data, source.name)
        affine, space = _hdf5_affine(data, arrays)
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
    """Add a node to the arrays of a file, if it is an array of numbers."""
    if isinstance(node, kind) and node.shape and node.dtype.kind in "biufc":  # type: ignore[attr-defined]  # of h5py
        arrays[name] = node


def _hdf5_letters(data: Any, source: str) -> str:
    """Return the axes of an array of an HDF5 file."""
    labels = [_AXES.get(axis.label.lower(), "?") for axis in data.dims]
    known = "?" not in labels and len(set(labels)) == len(labels) and {"H", "W"} <= set(labels)
    return "".join(labels) if known else npy_letters(data.shape, source)


def _hdf5_affine(data: Any, arrays: dict[str, Any]) -> tuple[FloatArray | None, str]:
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


# ---------------------------------------------------------------------- Zarr

_MM: Final = {
    "millimeter": 1.0,
    "micrometer": 1e-3,
    "nanometer": 1e-6,
    "centimeter": 10.0,
    "meter": 1e3,
}


def open_zarr(name: str, key: str | None = None) -> IndexedVolume:
    """Open a Zarr array, or an image of an OME-Zarr group at full resolution; a window is read by chunks."""
    zarr = import_optional("zarr", "zarr")
    try:
        packed = name.endswith(".zip") and "://" not in name
        node = zarr.open(zarr.storage.ZipStore(name, mode="r") if packed else name, mode="r")
        image = _ome_image(dict(node.attrs)) if not hasattr(node, "shape") else None
        array = _with_whole_chunks(_array_of(node, image, key, name))
    except SourceError:
        raise
    except Exception as error:
        # zarr and its stores raise many types of errors
        raise UnreadableSourceError(
            f"zarr cannot open it ({type(error).__name__}: {error})", source=name, advice="Check the path"
        ) from error
    letters = _zarr_letters(image, tuple(array.shape), name)
    affine, space, notes = _ome_space(image, array, letters)
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

    class WholeChunks(WrapperStore[Any]):  # type: ignore[misc]  # zarr's types are not read
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
                size = max(16, int.from_bytes(value[12:16].to_bytes(), "little")) if is_blosc else 1
            if len(value) < size:
                raise ValueError(f"chunk {key} is truncated: it has {len(value)} of {size} bytes")
            return value

    store = StorePath(WholeChunks(array.store), array.path)
    return zarr.Array.from_dict(store, array.metadata.to_dict())


def _size_of_shard(shard: Any, array: Any, sharding: Any) -> int:
    """Return the bytes that the chunks in a shard's index take, with the index; 1 if this has an unusual form."""
    if [type(codec).__name__ for codec in sharding.index_codecs] != ["BytesCodec", "Crc32cCodec"]:
        return 1
    size: int = 16 * math.prod(whole // part for whole, part in zip(array.shards, array.chunks, strict=True))
    behind: int = size + 4 if sharding.index_location.value == "end" else 0
    if len(shard) < size + 4:
        return size + 4
    begin = len(shard) - behind if behind else 0
    index = np.frombuffer(shard[begin : begin + size].to_bytes(), "<u8").reshape(-1, 2)
    stored = index[(index != _NO_CHUNK).any(axis=1)].astype(np.float64)
    return int(stored.sum(axis=1).max(initial=size + 4 - behind)) + behind


def _ome_image(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first image in OME-Zarr metadata of version 0.4 or 0.5."""
    multiscales = attributes.get("ome", attributes).get("multiscales")
    return dict(multiscales[0]) if multiscales else None


def _array_of(node: Any, image: dict[str, Any] | None, key: str | None, name: str) -> Any:
    """Return the named or only array of a group."""
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


def _zarr_letters(image: dict[str, Any] | None, shape: tuple[int, ...], name: str) -> str:
    """Return the axes of a Zarr array."""
    axes = (image or {}).get("axes")
    if not axes:
        return npy_letters(shape, name)
    names = [axis["name"] if isinstance(axis, Mapping) else axis for axis in axes]
    letters = "".join(_AXES.get(axis.lower(), "?") for axis in names)
    if "?" in letters or len(letters) != len(shape) or len(set(letters)) < len(letters):
        raise UnreadableSourceError(f"the axes are {names}", source=name, allowed="t, c, z, y, x")
    return letters


def _ome_space(image: dict[str, Any] | None, array: Any, letters: str) -> tuple[FloatArray, str, list[str]]:
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


# ---------------------------------------------------------------------- Blosc2

_PROPERTIES: Final = frozenset(
    {
        ("builtins", "slice"),
        ("collections", "OrderedDict"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.numeric", "_frombuffer"),
    }
)
"""What the properties of nnU-Net's cases are made of; nothing else is unpickled."""


def open_blosc2(source: Source, start: Start) -> IndexedVolume:
    """Open a Blosc2 array; a window is read by chunks.

    Beside a file ``case.pkl``, as nnU-Net writes it, ``case.b2nd`` and ``case_seg.b2nd`` are ``CDHW``, and their affine
    follows from the properties in it: the grid that the case was cropped and resampled to.
    """
    del start
    blosc2 = import_optional("blosc2", "blosc2", source.name)

    def opened() -> Any:
        if source.path is not None:
            return blosc2.open(source.path, mode="r")
        return blosc2.ndarray_from_cframe(source.read([(0, source.size())])[0])

    with library_errors(source, "blosc2"):
        array = opened()
        shape, dtype, chunks = tuple(array.shape), array.dtype, list(array.chunks)
    properties = _properties_of(source.path)
    affine, space = None, "assumed"
    if properties is None or len(shape) != 4:
        letters = npy_letters(shape, source.name)
    else:
        letters = "CDHW"
        affine, space = _nnunet_affine(properties, shape[1:], source), "nnunet"
    info = info_of_array(
        source.name, "b2nd", shape, dtype, letters, affine, space, header={"chunks": chunks}, compressed=True
    )
    # an array that is opened again is closed between reads
    return IndexedVolume(info, letters, lambda cut: opened()[cut], (source,))


class _Properties(pickle.Unpickler):
    """Unpickles containers, numbers and arrays, and no other object."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _PROPERTIES:
            raise pickle.UnpicklingError(f"{module}.{name} is not read")
        return super().find_class(module, name)


def _properties_of(path: str | None) -> dict[str, Any] | None:
    """Return nnU-Net's properties of a case, from the file beside it; None without one."""
    if path is None:
        return None
    stem = os.fspath(path).removesuffix(".b2nd")
    for name in dict.fromkeys((stem, stem.removesuffix("_seg"))):
        file = Path(f"{name}.pkl")
        if not file.is_file():
            continue
        try:
            found = _Properties(io.BytesIO(file.read_bytes())).load()
        except Exception as error:
            # damaged pickles raise many types of errors
            raise UnreadableSourceError(
                f"the properties of the case cannot be read ({type(error).__name__}: {error})",
                source=str(file),
                advice="Run nnUNetv2_preprocess again",
            ) from error
        if isinstance(found, dict) and "spacing" in found:
            return found
    return None


def _nnunet_affine(properties: dict[str, Any], grid: tuple[int, ...], source: Source) -> FloatArray:
    """Return the affine over (d, h, w) of a case that was transposed, cropped and resampled to a grid."""
    order = _transposed(source.path or "")
    spacing = np.array(properties["spacing"], dtype=np.float64)
    itk = properties.get("sitk_stuff") or {}
    if "direction" in itk and "origin" in itk and len(itk["direction"]) == 9:
        axes = np.array(itk["direction"], dtype=np.float64).reshape(3, 3) * itk["spacing"]
        stored = from_axes(axes, itk["origin"], lps=True)
    elif "nibabel_stuff" in properties and "original_affine" in properties["nibabel_stuff"]:
        stored = from_file_order(properties["nibabel_stuff"]["original_affine"])
    else:
        stored = in_file_order(np.diag([*spacing[::-1], 1.0]))
    turned = np.eye(4)
    turned[:3, :3] = np.eye(3)[:, order]
    box = np.array(properties.get("bbox_used_for_cropping", [[0, 0]] * 3), dtype=np.float64)
    before = properties.get("shape_after_cropping_and_before_resampling", grid)
    factor = np.array(before, dtype=np.float64) / grid
    # voxels are resampled so that the borders of the volume stay
    local = np.diag([*factor, 1.0])
    local[:3, 3] = (factor - 1) / 2 + box[:, 0]
    affine: FloatArray = stored @ turned @ local
    return affine


def _transposed(path: str) -> list[int]:
    """Return the axis of the file for d, h and w, from the plans beside the folder: nnU-Net's ``transpose_forward``."""
    folder = Path(path).parent
    plans = folder.parent / f"{folder.name.rpartition('_')[0].rpartition('_')[0] or folder.name}.json"
    for file in (plans, folder.parent / "nnUNetPlans.json"):
        if file.is_file():
            order = json.loads(file.read_text(encoding="utf-8")).get("transpose_forward", [0, 1, 2])
            if sorted(order) == [0, 1, 2]:
                return [int(axis) for axis in order]
    return [0, 1, 2]


# ---------------------------------------------------------------------- torch

_TORCH_AXES: Final = {4: "CDHW", 5: "FCDHW"}


def open_torch(source: Source, start: Start, key: str | None = None) -> IndexedVolume:
    """Open a tensor, or one of a mapping of names to tensors; ``affine`` in it (4×4, over d, h, w) is its affine.

    Axes are those of torch: ``HW``, ``DHW``, ``CDHW`` or ``FCDHW``. The tensor is in memory, or mapped from the file.
    """
    del start
    torch = import_optional("torch", "torch", source.name)
    kept: dict[str, AnyArray] = {}

    def loaded() -> dict[str, AnyArray]:
        if not kept:
            file: Any = source.path if source.path is not None else source.for_demuxer()
            found = torch.load(file, map_location="cpu", weights_only=True, mmap=source.path is not None)
            tensors = found if isinstance(found, dict) else {"data": found}
            kept.update(
                (str(name), _array_of_tensor(tensor))
                for name, tensor in tensors.items()
                if isinstance(tensor, torch.Tensor)
            )
        return kept

    with library_errors(source, "torch"):
        arrays = loaded()
        if not arrays:
            raise UnreadableSourceError(
                "the file holds no tensor",
                source=source.name,
                allowed="a tensor, or a mapping of names to tensors",
            )
        name = chosen_array([*arrays], key, source.name, "torch file")
        array, affine = arrays[name], arrays.get(AFFINE_KEY)
    letters = _TORCH_AXES.get(array.ndim) or npy_letters(array.shape, source.name)
    matrix = affine.astype(np.float64) if affine is not None and affine.shape == (4, 4) else None
    info = info_of_array(source.name, "torch", array.shape, array.dtype, letters, matrix, "torch")
    return IndexedVolume(info, letters, lambda cut: loaded()[name][cut], (source,), kept.clear)


def _array_of_tensor(tensor: Any) -> AnyArray:
    """Return a tensor as an array; bfloat16, which NumPy does not have, as float32."""
    plain = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    array: AnyArray = plain.detach().numpy()
    return array
