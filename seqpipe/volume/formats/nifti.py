"""NIfTI-1 and NIfTI-2: one file (.nii, .nii.gz) or a pair (.hdr, .img)."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from ...array import FloatArray
from ...errors import SourceNotFoundError, UnreadableSourceError
from ..info import VolumeInfo, VolumeLayout, checked_affine, checked_shape
from ..source import Source, open_source
from ..space import from_file_order, quaternion_matrix
from .gunzip import Compression
from .start import Start, path_of
from .stored import Storage, StoredVolume, layout_axes

__all__ = ["SECONDS", "TYPES", "Header", "header_of", "image_of_header", "open_nifti"]

TYPES: Final[Mapping[int, tuple[str, int]]] = {
    2: ("u1", 1),
    4: ("i2", 1),
    8: ("i4", 1),
    16: ("f4", 1),
    32: ("c8", 1),
    64: ("f8", 1),
    128: ("u1", 3),
    256: ("i1", 1),
    512: ("u2", 1),
    768: ("u4", 1),
    1024: ("i8", 1),
    1280: ("u8", 1),
    1792: ("c16", 1),
    2304: ("u1", 4),
}
"""NumPy type string and channels per voxel, by NIfTI datatype code; the other codes have no portable NumPy dtype."""

_UNKNOWN: Final = {0: "unknown", 1: "bits", 1536: "float128", 2048: "complex256"}
SECONDS: Final[Mapping[int, float]] = {8: 1.0, 16: 1e-3, 24: 1e-6}
"""Seconds per unit, by the NIfTI code of units of time."""

_LENGTHS: Final = {0: "unknown", 1: "m", 2: "mm", 3: "µm"}
_FORMS: Final = {1: "scanner", 2: "aligned", 3: "Talairach", 4: "MNI", 5: "template"}


_FIELDS: Final[Mapping[str, tuple[tuple[str, int], tuple[str, int]]]] = {
    "dim": (("8i2", 40), ("8i8", 16)),
    "intent_parameters": (("3f4", 56), ("3f8", 80)),
    "intent_code": (("i2", 68), ("i4", 504)),
    "datatype": (("i2", 70), ("i2", 12)),
    "pixdim": (("8f4", 76), ("8f8", 104)),
    "vox_offset": (("f4", 108), ("i8", 168)),
    "scale": (("2f4", 112), ("2f8", 176)),
    "xyzt_units": (("u1", 123), ("i4", 500)),
    "descrip": (("S80", 148), ("S80", 240)),
    "qform_code": (("i2", 252), ("i4", 344)),
    "sform_code": (("i2", 254), ("i4", 348)),
    "quatern": (("3f4", 256), ("3f8", 352)),
    "qoffset": (("3f4", 268), ("3f8", 376)),
    "srow": (("(3,4)f4", 280), ("(3,4)f8", 400)),
    "intent_name": (("S16", 328), ("S16", 508)),
    "magic": (("S4", 344), ("S4", 4)),
}
"""Type and byte offset of each field in NIfTI-1 and in NIfTI-2, by the names in nifti1.h and nifti2.h."""

_ORDERS: Final[tuple[Literal["<", ">"], ...]] = ("<", ">")

_LAYOUTS: Final = {
    version: np.dtype(
        {
            "names": list(_FIELDS),
            "formats": [field[version - 1][0] for field in _FIELDS.values()],
            "offsets": [field[version - 1][1] for field in _FIELDS.values()],
            "itemsize": size,
        }
    )
    for version, size in ((1, 348), (2, 540))
}


@dataclass(frozen=True)
class Header:
    """Header of a NIfTI file of either version.

    Attributes:
        version: 1 or 2.
        order: ``"<"`` or ``">"``, the byte order.
        size: size of the header in bytes.
        dim: size of each axis, fastest first, without the leading number of axes.
        datatype: NIfTI datatype code.
        pixdim: qfac, then the voxel spacing along each axis.
        vox_offset: byte offset of the first voxel.
        scale: slope and intercept.
        units: ``xyzt_units`` code of length and time.
        qform: code, quaternion (b, c, d) and offset.
        sform: code and three rows.
        descrip: description text.
        single: whether the voxels are in the same file.
        intent: NIfTI intent code, its three parameters and its name.
    """

    version: int
    order: str
    size: int
    dim: tuple[int, ...]
    datatype: int
    pixdim: tuple[float, ...]
    vox_offset: int
    scale: tuple[float, float]
    units: int
    qform: tuple[int, tuple[float, ...], tuple[float, ...]]
    sform: tuple[int, tuple[tuple[float, ...], ...]]
    descrip: str
    single: bool
    intent: tuple[int, tuple[float, ...], str]


def header_of(data: bytes, source: str) -> Header:
    """Parse the header in the first bytes of a file."""
    sizes = {order: struct.unpack_from(f"{order}i", data)[0] if len(data) >= 4 else 0 for order in _ORDERS}
    order_and_size = next(((o, s) for o, s in sizes.items() if s in (348, 540)), None)
    if order_and_size is None or len(data) < order_and_size[1]:
        raise UnreadableSourceError(
            f"the NIfTI header states a size of {sizes['<']} bytes, and the file has {len(data)}",
            source=source,
            allowed="348 bytes for NIfTI-1, 540 for NIfTI-2",
            advice="The file is damaged or truncated: fetch it again",
        )
    order, size = order_and_size
    version = 1 if size == 348 else 2
    at = np.frombuffer(data, _LAYOUTS[version].newbyteorder(order), 1)[0]
    count = int(at["dim"][0])
    if not 1 <= count <= 7:
        raise UnreadableSourceError(
            f"the NIfTI header states {count} axes", source=source, allowed="1 to 7 axes"
        )
    return Header(
        version=version,
        order=order,
        size=size,
        dim=tuple(at["dim"][1 : count + 1].tolist()),
        datatype=int(at["datatype"]),
        pixdim=tuple(at["pixdim"].tolist()),
        vox_offset=_whole(at["vox_offset"]),
        scale=tuple(at["scale"].tolist()),
        units=int(at["xyzt_units"]),
        qform=(int(at["qform_code"]), tuple(at["quatern"].tolist()), tuple(at["qoffset"].tolist())),
        sform=(int(at["sform_code"]), tuple(map(tuple, at["srow"].tolist()))),
        descrip=_text(at["descrip"]),
        single=at["magic"].startswith(b"n+"),
        intent=(int(at["intent_code"]), tuple(at["intent_parameters"].tolist()), _text(at["intent_name"])),
    )


def _whole(value: float) -> int:
    """Return a number of a header as an integer; -1 where it is not finite."""
    return int(value) if np.isfinite(value) else -1


def _text(data: bytes) -> str:
    """Return the text of a header's field."""
    return data.partition(b"\0")[0].decode("latin-1").strip()


def open_nifti(source: Source, start: Start) -> StoredVolume:
    """Open a NIfTI file, or the pair that a header file belongs to."""
    header = header_of(start.head(540), source.name)
    info, stored = _info(header, source.name, compressed=start.compression is not None)
    voxels, compression, offset = source, start.compression, header.vox_offset
    if not header.single:
        voxels, compression = image_of_header(source, "NIfTI")
    elif offset < header.size:
        offset = header.size + 4
    storage = Storage(
        shape=tuple(size for _, size in stored),
        axes=layout_axes("".join(letter for letter, _ in stored)),
        dtype=np.dtype(header.order + TYPES[header.datatype][0]),
        offset=max(0, offset),
        compression=compression,
    )
    return StoredVolume(voxels, info, storage)


def image_of_header(header: Source, word: str) -> tuple[Source, Compression | None]:
    """Return the voxel file that belongs to a header file, and its compression."""
    path = path_of(header)
    if path is None:
        raise UnreadableSourceError(
            f"the voxels of this {word} header are in a separate file",
            source=header.name,
            advice="Open the pair by the path of one of its files",
        )
    stem = path.removesuffix(".gz").removesuffix(".hdr").removesuffix(".HDR")
    for ending in (".img", ".img.gz", ".IMG", ".IMG.gz"):
        if os.path.exists(stem + ending):  # noqa: PTH110  the path is a string
            voxels = open_source(stem + ending)
            return voxels, Start(voxels).compression
    raise SourceNotFoundError(
        f"the voxels of this {word} header are missing",
        source=header.name,
        allowed=f"{stem}.img or {stem}.img.gz",
    )


def _info(header: Header, source: str, *, compressed: bool) -> tuple[VolumeInfo, list[tuple[str, int]]]:
    """Return the info, and the letter and size of each stored axis, slowest first."""
    if header.datatype not in TYPES:
        raise UnreadableSourceError(
            f"voxels have the NIfTI type {header.datatype} ({_UNKNOWN.get(header.datatype, 'undefined')})",
            source=source,
            allowed=", ".join(f"{number} ({code})" for number, (code, _) in TYPES.items()),
            advice="Convert the file to one of these types",
        )
    dim = checked_shape(tuple(header.dim), source)
    code, channels = TYPES[header.datatype]
    sizes = dict(enumerate(dim, 1))
    if any(size > 1 for axis, size in sizes.items() if axis > 5):
        raise UnreadableSourceError(
            f"the volume has the shape {'×'.join(map(str, dim))}",
            source=source,
            allowed="columns, rows, slices, volumes of a series, and values per voxel",
        )
    if sizes.get(5, 1) > 1 and channels > 1:
        raise UnreadableSourceError(
            "voxels are both colors and vectors", source=source, allowed="one of the two"
        )
    series = sizes.get(4, 1) > 1
    shape = [sizes.get(3, 1), sizes.get(2, 1), dim[0], max(channels, sizes.get(5, 1))]
    layout: VolumeLayout = "FDHWC" if series else "DHWC"
    letters = ["W", "H", "D", "F" if series else "", "C" if sizes.get(5, 1) > 1 else ""]
    stored = [(letter, size) for letter, size in zip(letters, dim, strict=False) if letter][::-1]
    stored += [("C", channels)] if channels > 1 else []
    affine, space, notes = _space(header, dim)
    affine, more = checked_affine(affine, source)
    slope, intercept = header.scale
    scaled = np.isfinite(slope) and slope != 0 and np.isfinite(intercept) and (slope, intercept) != (1.0, 0.0)
    step = _time_step(header) if series else None
    info = VolumeInfo(
        source=source,
        format="nifti",
        shape=((sizes[4], *shape) if series else tuple(shape)),
        layout=layout,
        dtype=np.dtype(code),
        affine=affine,
        space=space,
        scale=(float(slope), float(intercept)) if scaled and channels == 1 else None,
        time_step_s=step,
        compressed=compressed,
        notes=(*notes, *more),
        header=_header_facts(header),
        kept=_kept(header, dim),
    )
    return info, stored


def _header_facts(header: Header) -> dict[str, Any]:
    """Return further fields of a header."""
    forms = {"qform": header.qform[0], "sform": header.sform[0]}
    return {
        "version": header.version,
        "byte_order": "little" if header.order == "<" else "big",
        "type": header.datatype,
        "intent": header.intent[0],
        "length_unit": _LENGTHS.get(header.units & 7, str(header.units & 7)),
        "description": header.descrip,
        **forms,
    }


def _kept(header: Header, dim: tuple[int, ...]) -> dict[str, Any]:
    """Return what :mod:`.write` writes again; the affine between two forms that differ is from the sform's space."""
    (qcode, quaternion, offset), (scode, rows) = header.qform, header.sform
    code, parameters, name = header.intent
    kept: dict[str, Any] = {"forms": [qcode, scode], "units": header.units, "step": _finite(header.pixdim[4])}
    if code:
        kept["intent"] = [code, [_finite(value) for value in parameters], name]
    if header.descrip:
        kept["description"] = header.descrip
    if qcode > 0 and scode > 0:
        sform = np.array([*rows, (0, 0, 0, 1)], dtype=np.float64)
        qform = quaternion_matrix(quaternion, np.abs(header.pixdim[1:4]).tolist(), offset, header.pixdim[0])
        usable = np.isfinite(sform).all() and np.isfinite(qform).all() and abs(np.linalg.det(sform)) > 0
        if usable and not _alike(from_file_order(sform), from_file_order(qform), dim):
            kept["to_qform"] = (qform @ np.linalg.inv(sform)).tolist()
    return kept


def _finite(value: float) -> float:
    """Return a number, or 0 where it is not finite."""
    return value if np.isfinite(value) else 0.0


def _time_step(header: Header) -> float | None:
    """Return the interval between volumes in seconds."""
    unit = SECONDS.get(header.units & 0x38)
    step = header.pixdim[4]
    return step * unit if unit and np.isfinite(step) and step > 0 else None


def _space(header: Header, dim: tuple[int, ...]) -> tuple[FloatArray, str, list[str]]:
    """Return the affine over (d, h, w), the rule it follows, and notes; the rules are those of nibabel."""
    notes = []
    spacing = [abs(size) if np.isfinite(size) else 0.0 for size in header.pixdim[1:4]]
    (qcode, quaternion, offset), (scode, rows) = header.qform, header.sform
    unit = header.units & 7
    if unit in (1, 3):
        notes.append(f"the header states lengths in {_LENGTHS[unit]}; they are read as mm, as nibabel does")
    qform = None
    if qcode > 0:
        if np.dot(quaternion, quaternion) > 1 + 1e-4:
            notes.append("the quaternion of the qform is longer than 1")
        qform = from_file_order(quaternion_matrix(quaternion, spacing, offset, header.pixdim[0]))
    if scode > 0:
        sform = from_file_order([*rows, (0, 0, 0, 1)])
        if qform is not None and not _alike(sform, qform, dim):
            notes.append(
                f"sform ({_FORMS.get(scode, scode)}) and qform ({_FORMS.get(qcode, qcode)}) differ: the sform is used; "
                f"the qform has its first voxel at {np.round(qform[:3, 3], 3).tolist()} mm"
            )
        return sform, "sform", notes
    if qform is not None:
        return qform, "qform", notes
    notes.append("neither sform nor qform is set: x runs to the left, and the volume's center is the origin")
    size = [*dim[:3], 1, 1, 1][:3]
    steps = np.array([-1.0, 1.0, 1.0]) * [size or 1.0 for size in spacing]
    matrix = np.eye(4)
    matrix[:3, :3] = np.diag(steps)
    matrix[:3, 3] = -steps * (np.array(size) - 1) / 2
    return from_file_order(matrix), "assumed", notes


def _alike(one: FloatArray, other: FloatArray, dim: tuple[int, ...]) -> bool:
    """Return whether two affines put every voxel at the same place."""
    from ..space import grids_agree

    with np.errstate(invalid="ignore"):
        return grids_agree(one, other, [*reversed([*dim[:3], 1, 1, 1][:3])])
