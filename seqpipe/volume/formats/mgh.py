"""MGH and MGZ, the volumes of FreeSurfer.

Header: https://surfer.nmr.mgh.harvard.edu/fswiki/FsTutorial/MghFormat. Big-endian; the affine follows from directions,
spacing and the center of the volume, which is at voxel size / 2.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from ...array import FloatArray
from ...errors import ParameterError, UnreadableSourceError
from ...sequence import Sequence
from ..info import VolumeInfo, checked_affine, checked_shape
from ..source import Source
from ..space import from_file_order, in_file_order
from .start import Start
from .stored import Storage, StoredVolume, affine_of, frames_of, layout_axes

__all__ = ["mgh_bytes", "open_mgh"]

_HEADER: Final = 284
_TYPES: Final = {0: "u1", 1: "i4", 3: "f4", 4: "i2", 10: "u2"}
_WIDENED: Final = {"i1": "i2", "u4": "i4", "i8": "i4", "u8": "i4", "f8": "f4"}
_MILLISECONDS: Final = 1e-3


def open_mgh(source: Source, start: Start) -> StoredVolume:
    """Open an MGH or MGZ file."""
    data = start.head(_HEADER)
    if len(data) < 90:
        raise UnreadableSourceError(
            f"the MGH header has {len(data)} of {_HEADER} bytes",
            source=source.name,
            advice="The file is damaged or truncated: fetch it again",
        )
    _, *sizes, kind, _ = struct.unpack_from(">7i", data)
    if kind not in _TYPES:
        raise UnreadableSourceError(
            f"voxels have the MGH type {kind}",
            source=source.name,
            allowed=", ".join(f"{number} ({code})" for number, code in _TYPES.items()),
        )
    columns, rows, slices, frames = checked_shape(tuple(sizes), source.name)
    known = struct.unpack_from(">h", data, 28)[0] > 0
    letters = "FDHW" if frames > 1 else "DHW"
    storage = Storage(
        shape=(frames, slices, rows, columns)[4 - len(letters) :],
        axes=layout_axes(letters),
        dtype=np.dtype(">" + _TYPES[kind]),
        offset=_HEADER,
        compression=start.compression,
    )
    affine, notes = checked_affine(_affine(data, (columns, rows, slices), known=known), source.name)
    info = VolumeInfo(
        source=source.name,
        format="mgh",
        shape=storage.layout_shape(),
        layout="FDHWC" if frames > 1 else "DHWC",
        dtype=np.dtype(_TYPES[kind]),
        affine=affine,
        space="mgh" if known else "assumed",
        compressed=start.compression is not None,
        notes=notes
        if known
        else (*notes, "the header has no directions: FreeSurfer's coronal ones are used"),
    )
    return StoredVolume(source, info, storage)


def _affine(data: bytes, size: tuple[int, int, int], *, known: bool) -> FloatArray:
    """Return the affine of a header."""
    if known:
        values = np.array(struct.unpack_from(">15f", data, 30), dtype=np.float64)
        spacing, axes, center = values[:3], values[3:12].reshape(3, 3).T, values[12:]
    else:
        spacing, center = np.ones(3), np.zeros(3)
        axes = np.array([[-1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    matrix = np.eye(4)
    matrix[:3, :3] = axes * spacing
    matrix[:3, 3] = center - matrix[:3, :3] @ (np.array(size) / 2)
    return from_file_order(matrix)


def mgh_bytes(sequence: Sequence, *, time_step_s: float | None = None) -> bytes:
    """Encode a volume as an MGH file.

    Args:
        sequence: ``DHW``, ``DHWC`` or ``FDHWC``; channels and volumes of a series are MGH's frames. Scaled values are
            written. Dtypes that MGH does not have are widened: int8 to int16, float64 to float32, 32-bit and 64-bit
            integers to int32.
        time_step_s: interval between the volumes of a series.
    """
    array = frames_of(sequence.scaled())
    code = _WIDENED.get(array.dtype.str[1:], array.dtype.str[1:])
    number = next((n for n, known in _TYPES.items() if known == code), None)
    widened = None if number is None else array.astype(">" + code)
    if widened is None or (array.dtype.kind in "iu" and not np.array_equal(widened, array)):
        raise ParameterError(
            f"MGH has no type for these values of {array.dtype}",
            allowed="uint8, uint16, int16, int32, float32, and what fits in these",
        )
    matrix = in_file_order(affine_of(sequence))
    spacing = np.linalg.norm(matrix[:3, :3], axis=0)
    axes = matrix[:3, :3] / np.where(spacing > 0, spacing, 1.0)
    if np.abs(axes.T @ axes - np.eye(3)).max() > 1e-4:
        raise ParameterError(
            "the affine has a shear, which MGH does not store",
            source=sequence.source,
            advice="Save it as NIfTI, or resample the volume first",
        )
    frames, *grid, channels = array.shape
    size = grid[::-1]
    center = matrix[:3, 3] + matrix[:3, :3] @ (np.array(size) / 2)
    header = struct.pack(">7ih", 1, *size, frames * channels, number, 0, 1)
    header += struct.pack(">15f", *spacing, *axes.T.ravel(), *center)
    step = 0.0 if time_step_s is None else time_step_s / _MILLISECONDS
    voxels = np.moveaxis(widened, -1, 1).tobytes()
    return header.ljust(_HEADER, b"\0") + voxels + struct.pack(">5f", step, 0, 0, 0, 0)
