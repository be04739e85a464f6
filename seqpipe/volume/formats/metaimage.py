"""MetaImage: .mha, and .mhd with its voxels in another file."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Final

import numpy as np

from ...array import FloatArray
from ...errors import ParameterError
from ...sequence import Sequence
from ..info import VolumeInfo, checked_affine, checked_shape
from ..source import Source
from ..space import from_axes, to_axes
from .gunzip import LEVEL, Compression
from .start import HEADER_MOST, Start, bad_field, companion_file, numbers, required, unpacked, whole_numbers
from .stored import Storage, StoredVolume, affine_of, frames_of, layout_axes

__all__ = ["metaimage_bytes", "open_metaimage"]

_TYPES: Final = {
    "MET_CHAR": "i1",
    "MET_UCHAR": "u1",
    "MET_SHORT": "i2",
    "MET_USHORT": "u2",
    "MET_INT": "i4",
    "MET_UINT": "u4",
    "MET_LONG": "i4",
    "MET_ULONG": "u4",
    "MET_LONG_LONG": "i8",
    "MET_ULONG_LONG": "u8",
    "MET_FLOAT": "f4",
    "MET_DOUBLE": "f8",
}
_LAST: Final = "ElementDataFile"


def open_metaimage(source: Source, start: Start) -> StoredVolume:
    """Open the volume of a MetaImage file."""
    del start
    fields, end = _fields(source)
    count = whole_numbers("NDims", required(fields, "NDims", source.name), 1, source.name)[0]
    if not 2 <= count <= 4:
        raise bad_field("NDims", str(count), "2, 3 or 4", source.name)
    sizes = whole_numbers("DimSize", required(fields, "DimSize", source.name), count, source.name)
    kind = required(fields, "ElementType", source.name)
    code = _TYPES.get(kind.upper().removesuffix("_ARRAY"))
    if code is None:
        raise bad_field("ElementType", kind, ", ".join(_TYPES), source.name)
    if not _is_true(fields.get("BinaryData", "True")):
        raise bad_field("BinaryData", fields["BinaryData"], "True", source.name)
    channels = whole_numbers(
        "ElementNumberOfChannels", fields.get("ElementNumberOfChannels", "1"), 1, source.name
    )[0]
    msb = fields.get("ElementByteOrderMSB", fields.get("BinaryDataByteOrderMSB", "False"))
    stored = list(zip("WHDF", checked_shape(sizes, source.name), strict=False))[::-1]
    stored += [("C", channels)] if channels > 1 else []
    compression: Compression | None = "zlib" if _is_true(fields.get("CompressedData", "False")) else None
    voxels, begin = _voxels(source, required(fields, _LAST, source.name), end)
    skip = whole_numbers("HeaderSize", fields.get("HeaderSize", "0"), 1, source.name)[0]
    begin += max(0, skip)
    if compression is not None and voxels.read([(begin, 2)])[0] == b"\x1f\x8b":
        compression = "gzip"
    storage = Storage(
        shape=tuple(size for _, size in stored),
        axes=layout_axes("".join(letter for letter, _ in stored)),
        dtype=np.dtype((">" if _is_true(msb) else "<") + code),
        compression=compression,
    )
    if compression is None:
        voxels = unpacked(voxels)
    if compression is None and skip < 0:  # the voxels are at the end of the file
        begin = max(0, voxels.size() - storage.nbytes)
    storage = replace(storage, offset=begin) if compression is None else replace(storage, begin=begin)
    affine, notes = checked_affine(_affine(fields, count, source.name), source.name)
    info = VolumeInfo(
        source=source.name,
        format="metaimage",
        shape=storage.layout_shape(),
        layout="FDHWC" if count == 4 else "DHWC",
        dtype=np.dtype(code),
        affine=affine,
        space="metaimage",
        compressed=compression is not None,
        notes=notes,
        header={
            name: fields[name] for name in ("Modality", "Comment", "AnatomicalOrientation") if name in fields
        },
    )
    return StoredVolume(voxels, info, storage)


def _fields(source: Source) -> tuple[dict[str, str], int]:
    """Return the fields of the header, and its end, after the line that names the file of the voxels."""
    data = source.read([(0, min(HEADER_MOST, source.size()))])[0]
    fields: dict[str, str] = {}
    position = 0
    while position < len(data):
        line_end = data.find(b"\n", position)
        line_end = len(data) if line_end < 0 else line_end
        name, mark, value = data[position:line_end].decode("utf-8", "replace").partition("=")
        position = line_end + 1
        if mark:
            fields[name.strip()] = value.strip()
        if name.strip() == _LAST:
            break
    return fields, position


def _voxels(source: Source, file: str, end: int) -> tuple[Source, int]:
    """Return the source of the voxels, and where they begin."""
    if file.upper() == "LOCAL":
        return source, end
    if file.upper().startswith("LIST") or "%" in file:
        raise bad_field(_LAST, file, "LOCAL, or one file", source.name)
    return companion_file(source, file), 0


def _affine(fields: dict[str, str], count: int, source: str) -> FloatArray:
    """Return the affine from (d, h, w) to mm. AnatomicalOrientation is ignored: writers disagree on its meaning."""
    sizes = next((fields[name] for name in ("ElementSpacing", "ElementSize") if name in fields), None)
    offset = next((fields[name] for name in ("Offset", "Position", "Origin") if name in fields), None)
    turned = next((fields[n] for n in ("TransformMatrix", "Rotation", "Orientation") if n in fields), None)
    space = min(count, 3)
    spacing, origin, axes = np.ones(3), np.zeros(3), np.eye(3)
    if sizes is not None:
        spacing[:space] = np.abs(numbers("ElementSpacing", sizes, count, source)[:space])
    if offset is not None:
        origin[:space] = numbers("Offset", offset, count, source)[:space]
    if turned is not None:
        rows = numbers("TransformMatrix", turned, count * count, source).reshape(count, count)
        axes[:space, :space] = rows[:space, :space]
    return from_axes(axes.T * spacing, origin, lps=True)


def _is_true(text: str) -> bool:
    """Return whether a field is true."""
    return text.strip().lower() in ("true", "1", "t", "yes")


def metaimage_bytes(sequence: Sequence) -> bytes:
    """Encode a volume as a MetaImage file with its voxels, in LPS; volumes of a series are a fourth axis."""
    array = frames_of(sequence.scaled())
    code = array.dtype.str[1:]
    name = next((name for name, known in _TYPES.items() if known == code), None)
    if name is None:
        raise ParameterError(f"MetaImage has no type for {array.dtype}", allowed="integers, float32, float64")
    frames, *grid, channels = array.shape
    axes, spacing, origin = to_axes(affine_of(sequence))
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
    data = zlib.compress(array.astype("<" + code).tobytes(), LEVEL)
    lines = [
        "ObjectType = Image",
        f"NDims = {len(sizes)}",
        "BinaryData = True",
        "BinaryDataByteOrderMSB = False",
        "CompressedData = True",
        f"CompressedDataSize = {len(data)}",
        f"TransformMatrix = {_joined(axes.T.ravel())}",
        f"Offset = {_joined(origin)}",
        f"ElementSpacing = {_joined(spacing)}",
        f"DimSize = {' '.join(map(str, sizes))}",
        *([f"ElementNumberOfChannels = {channels}"] if channels > 1 else []),
        f"ElementType = {name}",
        "ElementDataFile = LOCAL",
    ]
    return "\n".join([*lines, ""]).encode() + data


def _joined(values: FloatArray) -> str:
    """Return numbers as the text of a field."""
    return " ".join(repr(float(value)) for value in values)
