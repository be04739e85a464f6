"""Writing NRRD and MetaImage: a text header and compressed voxels in one file."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

import numpy as np

from ...array import FloatArray, to_numpy
from ...errors import ParameterError
from ...sequence import Sequence
from ..source import AnyArray
from ..space import LPS_TO_RAS, in_file_order, to_axes

__all__ = ["metaimage_bytes", "nrrd_bytes"]

_LEVEL: Final = 6
_NRRD: Final = {
    "i1": "int8",
    "u1": "uint8",
    "i2": "int16",
    "u2": "uint16",
    "i4": "int32",
    "u4": "uint32",
    "i8": "int64",
    "u8": "uint64",
    "f4": "float",
    "f8": "double",
}
_META: Final = {
    "i1": "MET_CHAR",
    "u1": "MET_UCHAR",
    "i2": "MET_SHORT",
    "u2": "MET_USHORT",
    "i4": "MET_INT",
    "u4": "MET_UINT",
    "i8": "MET_LONG_LONG",
    "u8": "MET_ULONG_LONG",
    "f4": "MET_FLOAT",
    "f8": "MET_DOUBLE",
}


def nrrd_bytes(sequence: Sequence) -> bytes:
    """Encode a volume as an NRRD file, in LPS; channels and volumes of a series are axes without direction.

    Raises:
        ParameterError: NRRD has no type for the values.
    """
    array, code = _stored(sequence, _NRRD, "NRRD")
    frames, *grid, channels = array.shape
    matrix = LPS_TO_RAS @ in_file_order(_affine(sequence))
    directions = [f"({','.join(repr(float(x)) for x in matrix[:3, axis])})" for axis in range(3)]
    sizes, kinds = [*grid[::-1]], ["domain"] * 3
    if channels > 1:
        sizes, kinds, directions = [channels, *sizes], ["vector", *kinds], ["none", *directions]
    if frames > 1:
        sizes, kinds, directions = [*sizes, frames], [*kinds, "time"], [*directions, "none"]
    lines = [
        "NRRD0004",
        f"type: {_NRRD[code]}",
        f"dimension: {len(sizes)}",
        "space: left-posterior-superior",
        f"sizes: {' '.join(map(str, sizes))}",
        f"space directions: {' '.join(directions)}",
        f"kinds: {' '.join(kinds)}",
        "endian: little",
        "encoding: gzip",
        f"space origin: ({','.join(repr(float(x)) for x in matrix[:3, 3])})",
    ]
    return "\n".join([*lines, "", ""]).encode() + gzip.compress(array.tobytes(), _LEVEL, mtime=0)


def metaimage_bytes(sequence: Sequence) -> bytes:
    """Encode a volume as a MetaImage file with its voxels, in LPS; volumes of a series are a fourth axis.

    Raises:
        ParameterError: MetaImage has no type for the values.
    """
    array, code = _stored(sequence, _META, "MetaImage")
    frames, *grid, channels = array.shape
    axes, spacing, origin = to_axes(_affine(sequence))
    sizes = [*grid[::-1]]
    if frames > 1:
        wider = np.eye(4)
        wider[:3, :3] = axes
        axes, spacing, origin, sizes = (
            wider,
            np.append(spacing, 1.0),
            np.append(origin, 0.0),
            [*sizes, frames],
        )
    data = zlib.compress(array.tobytes(), _LEVEL)
    lines = [
        "ObjectType = Image",
        f"NDims = {len(sizes)}",
        "BinaryData = True",
        "BinaryDataByteOrderMSB = False",
        "CompressedData = True",
        f"CompressedDataSize = {len(data)}",
        f"TransformMatrix = {_numbers(axes.T.ravel())}",
        f"Offset = {_numbers(origin)}",
        f"ElementSpacing = {_numbers(spacing)}",
        f"DimSize = {' '.join(map(str, sizes))}",
        *([f"ElementNumberOfChannels = {channels}"] if channels > 1 else []),
        f"ElementType = {_META[code]}",
        "ElementDataFile = LOCAL",
    ]
    return "\n".join([*lines, ""]).encode() + data


def _stored(sequence: Sequence, types: dict[str, str], word: str) -> tuple[AnyArray, str]:
    """Return the scaled values, ``FDHWC`` of a type of the format, and the code of the type."""
    array = to_numpy(sequence.scaled().data)
    array = array[..., None] if sequence.layout == "DHW" else array
    array = array if sequence.layout == "FDHWC" else array[None]
    if array.dtype.kind == "b" or array.dtype == np.float16:
        array = array.astype(np.uint8 if array.dtype.kind == "b" else np.float32)
    code = array.dtype.str[1:]
    if code not in types:
        raise ParameterError(f"{word} has no type for {array.dtype}", allowed="integers, float32, float64")
    return np.ascontiguousarray(array, "<" + code), code


def _affine(sequence: Sequence) -> FloatArray:
    result: FloatArray = np.eye(4)[:, [2, 1, 0, 3]] if sequence.affine is None else sequence.affine
    return result


def _numbers(values: FloatArray) -> str:
    return " ".join(repr(float(value)) for value in values)
