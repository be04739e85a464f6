"""NRRD: .nrrd, and .nhdr with its voxels in a separate file."""

from __future__ import annotations

import gzip
import math
import re
from dataclasses import replace
from typing import Final

import numpy as np

from ...array import FloatArray
from ...errors import ParameterError, UnreadableSourceError
from ...sequence import Sequence
from ..info import VolumeInfo, checked_affine, checked_shape
from ..source import Source, damaged, open_source
from ..space import LPS_TO_RAS, from_file_order, in_file_order
from .gunzip import LEVEL, Compression, check_size, inflate_all
from .start import HEADER_MOST, Start, bad_field, companion_file, numbers, required, unpacked, whole_numbers
from .stored import Storage, StoredVolume, affine_of, frames_of, layout_axes

__all__ = ["nrrd_bytes", "open_nrrd"]

_TYPES: Final = {
    "i1": ("signed char", "int8", "int8_t"),
    "u1": ("uchar", "unsigned char", "uint8", "uint8_t"),
    "i2": ("short", "short int", "signed short", "signed short int", "int16", "int16_t"),
    "u2": ("ushort", "unsigned short", "unsigned short int", "uint16", "uint16_t"),
    "i4": ("int", "signed int", "int32", "int32_t"),
    "u4": ("uint", "unsigned int", "uint32", "uint32_t"),
    "i8": ("longlong", "long long", "long long int", "signed long long", "int64", "int64_t"),
    "u8": ("ulonglong", "unsigned long long", "unsigned long long int", "uint64", "uint64_t"),
    "f4": ("float",),
    "f8": ("double",),
}
_CODES: Final = {name: code for code, names in _TYPES.items() for name in names}
_ENCODINGS: Final[dict[str, Compression | None]] = {
    "raw": None,
    "gzip": "gzip",
    "gz": "gzip",
    "bzip2": "bzip2",
    "bz2": "bzip2",
}
_TEXT: Final = ("ascii", "text", "txt")
_LAS_TO_RAS: Final = np.diag([-1.0, 1.0, 1.0, 1.0])
_SPACES: Final = {
    "right-anterior-superior": np.eye(4),
    "ras": np.eye(4),
    "left-anterior-superior": _LAS_TO_RAS,
    "las": _LAS_TO_RAS,
    "left-posterior-superior": LPS_TO_RAS,
    "lps": LPS_TO_RAS,
}
_VECTOR = re.compile(r"none|\([^)]*\)")


def open_nrrd(source: Source, start: Start) -> StoredVolume:
    """Open an NRRD file."""
    del start
    fields, end = _fields(source)
    code = _CODES.get(required(fields, "type", source.name).lower())
    if code is None:
        raise bad_field("type", fields["type"], ", ".join(names[0] for names in _TYPES.values()), source.name)
    count = whole_numbers("dimension", required(fields, "dimension", source.name), 1, source.name)[0]
    sizes = checked_shape(
        whole_numbers("sizes", required(fields, "sizes", source.name), count, source.name), source.name
    )
    letters, affine, space, notes = _axes(fields, sizes, source.name)
    encoding = required(fields, "encoding", source.name).lower()
    if encoding not in _ENCODINGS and encoding not in _TEXT:
        raise bad_field("encoding", encoding, "raw, gzip, bzip2, ascii", source.name)
    order = ">" if fields.get("endian", "little").lower() == "big" else "<"
    stored = [(letter, size) for letter, size in zip(letters, sizes, strict=True)][::-1]
    storage = Storage(
        shape=tuple(size for _, size in stored),
        axes=layout_axes("".join(letter for letter, _ in stored)),
        dtype=np.dtype(order + code),
        compression=_ENCODINGS.get(encoding),
    )
    affine, more = checked_affine(affine, source.name)
    kept = ("content", "kinds", "measurement frame", "modality")
    info = VolumeInfo(
        source=source.name,
        format="nrrd",
        shape=storage.layout_shape(),
        layout="FDHWC" if "F" in letters else "DHWC",
        dtype=np.dtype(code),
        affine=affine,
        space=space,
        compressed=storage.compression is not None,
        notes=(*notes, *more),
        header={name: fields[name] for name in kept if name in fields},
    )
    return _with_voxels(source, fields, end, info, storage, encoding)


def _fields(source: Source) -> tuple[dict[str, str], int]:
    """Return the header's fields by lower-case name, and the byte offset of its end."""
    data = source.read([(0, min(HEADER_MOST, source.size()))])[0]
    fields: dict[str, str] = {}
    offset = 0
    while True:
        line_end = data.find(b"\n", offset)
        if line_end < 0:
            # a header may end without an empty line only if its voxels are in another file
            if "data file" in fields or "datafile" in fields:
                return fields, len(data)
            raise UnreadableSourceError(
                "the NRRD header has no end",
                source=source.name,
                advice="The file is damaged or truncated: fetch it again",
            )
        line = data[offset:line_end].decode("utf-8", "replace").rstrip("\r")
        offset = line_end + 1
        if not line:
            return fields, offset
        if line.startswith(("#", "NRRD")):
            continue
        name, mark, value = line.partition(":")
        if mark:
            fields[name.strip().lower()] = value.removeprefix("=").strip()


def _axes(
    fields: dict[str, str], sizes: tuple[int, ...], source: str
) -> tuple[list[str], FloatArray, str, list[str]]:
    """Return a letter for each axis, fastest first; the affine over (d, h, w), its rule, and notes."""
    kinds = fields.get("kinds", "").lower().split() or ["domain"] * len(sizes)
    vectors = _directions(fields, kinds, len(sizes), source)
    spatial = [axis for axis, vector in enumerate(vectors) if vector is not None]
    if not 1 <= len(spatial) <= 3 or len(sizes) - len(spatial) > 2:
        raise UnreadableSourceError(
            f"{len(spatial)} of {len(sizes)} axes are spatial",
            source=source,
            allowed="1 to 3 spatial axes and up to 2 others",
        )
    letters = ["?"] * len(sizes)
    for axis, letter in zip(spatial, "WHD", strict=False):
        letters[axis] = letter
    for axis, letter in enumerate(letters):
        if letter == "?":
            series = kinds[axis : axis + 1] == ["time"]
            letters[axis] = "F" if series or "C" in letters else "C"
    if len(set(letters)) < len(letters):
        raise UnreadableSourceError("several axes are series", source=source, allowed="one series of volumes")
    matrix = np.eye(4)
    for column, axis in enumerate(spatial):
        matrix[:3, column] = vectors[axis]
    matrix[:3, 3] = _origin(fields, source)
    name = fields.get("space", "").lower()
    to_ras = _SPACES.get(name)
    notes = []
    if to_ras is None:
        stated = f"the unknown space {fields['space']!r}" if name else "no space"
        notes.append(f"the header states {stated}: left, posterior, superior is assumed, as ITK does")
    affine = from_file_order((LPS_TO_RAS if to_ras is None else to_ras) @ matrix)
    return letters, affine, "assumed" if to_ras is None else "nrrd", notes


def _directions(fields: dict[str, str], kinds: list[str], count: int, source: str) -> list[FloatArray | None]:
    """Return the step along each axis in mm; None for axes that are not spatial."""
    if "space directions" in fields:
        text = fields["space directions"]
        groups = _VECTOR.findall(text)
        if len(groups) != count:
            raise bad_field("space directions", text, f"{count} vectors, or none", source)
        return [
            None if vector == "none" else _vector("space directions", vector, source) for vector in groups
        ]
    steps = numbers("spacings", fields["spacings"], count, source) if "spacings" in fields else np.ones(count)
    spatial = [
        axis
        for axis, kind in enumerate(kinds[:count])
        if kind in ("domain", "space") and np.isfinite(steps[axis])
    ]
    vectors: list[FloatArray | None] = [None] * count
    for column, axis in enumerate(spatial[:3] or range(min(count, 3))):
        vectors[axis] = np.eye(3)[column] * (steps[axis] if np.isfinite(steps[axis]) else 1.0)
    return vectors


def _origin(fields: dict[str, str], source: str) -> FloatArray:
    """Return the origin of a header."""
    text = fields.get("space origin")
    return np.zeros(3) if text is None else _vector("space origin", text, source)


def _vector(name: str, text: str, source: str) -> FloatArray:
    """Parse a vector."""
    values = numbers(name, text.strip("() ").replace(",", " "), None, source)
    if len(values) not in (2, 3):
        raise bad_field(name, text, "vectors of 3 numbers", source)
    return np.array([*values, 0.0][:3])


def _with_voxels(
    source: Source, fields: dict[str, str], end: int, info: VolumeInfo, storage: Storage, encoding: str
) -> StoredVolume:
    """Return the volume with its voxels in this file or in the one that the header names."""
    file = fields.get("data file", fields.get("datafile"))
    voxels, begin = source, end
    if file is not None:
        if file.upper().startswith("LIST") or "%" in file:
            raise bad_field("data file", file, "one file", source.name)
        voxels, begin = companion_file(source, file), 0
    lines = whole_numbers("line skip", fields.get("line skip", "0"), 1, source.name)[0]
    if lines:
        begin = _skip_lines(voxels, begin, lines)
    skip = whole_numbers("byte skip", fields.get("byte skip", "0"), 1, source.name)[0]
    if encoding in _TEXT:
        return StoredVolume(_from_text(voxels, begin, storage, info), info, replace(storage, offset=0))
    if skip < 0 and storage.compression is not None:
        # the voxels are the last of the inflated bytes, whose number only inflating tells
        stream = voxels.read([(begin, voxels.size() - begin)])[0]
        voxels, begin = open_source(inflate_all(stream, source.name, storage.compression)), 0
        storage = replace(storage, compression=None)
    if storage.compression is None:
        voxels = unpacked(voxels) if file is not None else voxels
        begin = voxels.size() - storage.nbytes + skip + 1 if skip < 0 else begin + skip
        if begin < 0:
            check_size(storage.nbytes - skip - 1, voxels.size(), source.name, None)
        return StoredVolume(voxels, info, replace(storage, offset=begin))
    return StoredVolume(voxels, info, replace(storage, begin=begin, offset=max(0, skip)))


def _skip_lines(source: Source, begin: int, count: int) -> int:
    """Return the byte offset after lines of a file that begin at an offset."""
    for _ in range(count):
        length = source.read([(begin, HEADER_MOST)])[0].find(b"\n") + 1
        if not length:
            raise damaged(source.name, f"the file has fewer than the {count} lines before its voxels")
        begin += length
    return begin


def _from_text(voxels: Source, begin: int, storage: Storage, info: VolumeInfo) -> Source:
    """Return voxels written as text as a source of their bytes."""
    check_size(storage.nbytes // storage.dtype.itemsize, voxels.size() - begin, info.source, None)
    text = voxels.read([(begin, voxels.size() - begin)])[0]
    try:
        values = np.array(text.replace(b",", b" ").split()).astype(np.float64)
    except ValueError as error:
        raise damaged(info.source, f"the voxels are not all numbers ({error})") from error
    stored = values.astype(storage.dtype)
    if stored.nbytes != storage.nbytes:
        raise damaged(
            info.source,
            f"the file has {len(values):,} values, and its header states {math.prod(storage.shape):,}",
        )
    return open_source(stored.tobytes())


def nrrd_bytes(sequence: Sequence) -> bytes:
    """Encode a volume as an NRRD file, in LPS; channels and volumes of a series are axes without direction."""
    array = frames_of(sequence.scaled())
    code = array.dtype.str[1:]
    if code not in _TYPES:
        raise ParameterError(f"NRRD has no type for {array.dtype}", allowed="integers, float32, float64")
    frames, *grid, channels = array.shape
    matrix = LPS_TO_RAS @ in_file_order(affine_of(sequence))
    directions = [f"({','.join(repr(float(x)) for x in matrix[:3, axis])})" for axis in range(3)]
    sizes, kinds = [*grid[::-1]], ["domain"] * 3
    if channels > 1:
        sizes, kinds, directions = [channels, *sizes], ["vector", *kinds], ["none", *directions]
    if frames > 1:
        sizes, kinds, directions = [*sizes, frames], [*kinds, "time"], [*directions, "none"]
    lines = [
        "NRRD0004",
        "type: " + {"f4": "float", "f8": "double"}.get(code, array.dtype.name),
        f"dimension: {len(sizes)}",
        "space: left-posterior-superior",
        f"sizes: {' '.join(map(str, sizes))}",
        f"space directions: {' '.join(directions)}",
        f"kinds: {' '.join(kinds)}",
        "endian: little",
        "encoding: gzip",
        f"space origin: ({','.join(repr(float(x)) for x in matrix[:3, 3])})",
    ]
    return "\n".join([*lines, "", ""]).encode() + gzip.compress(
        array.astype("<" + code).tobytes(), LEVEL, mtime=0
    )
