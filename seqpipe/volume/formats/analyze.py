"""ANALYZE 7.5: a header .hdr and voxels .img, as SPM and other programs before NIfTI wrote them.

The format has no orientation. As nibabel, we take x to run to the left; SPM's origin is used if the header has one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...array import FloatArray
from ...errors import UnreadableSourceError
from ..info import VolumeInfo, VolumeLayout, checked_affine, checked_shape
from ..source import Source
from ..space import from_file_order
from .nifti import image_of_header
from .start import Start
from .stored import Storage, StoredVolume, layout_axes

__all__ = ["open_analyze"]

_SIZE: Final = 348
_TYPES: Final = {
    2: ("u1", 1),
    4: ("i2", 1),
    8: ("i4", 1),
    16: ("f4", 1),
    32: ("c8", 1),
    64: ("f8", 1),
    128: ("u1", 3),
}


def open_analyze(source: Source, start: Start) -> StoredVolume:
    """Open the pair that an ANALYZE header belongs to."""
    data = start.head(_SIZE)
    order = "<" if data[:4] == _SIZE.to_bytes(4, "little") else ">"
    shorts = np.frombuffer(data, order + "i2", _SIZE // 2)
    floats = np.frombuffer(data, order + "f4", _SIZE // 4).astype(np.float64)
    count, kind = int(shorts[20]), int(shorts[35])
    if not 1 <= count <= 7 or kind not in _TYPES:
        what = f"type {kind}" if 1 <= count <= 7 else f"{count} axes"
        raise UnreadableSourceError(
            f"the ANALYZE header states {what}",
            source=source.name,
            allowed="1 to 4 axes, and the types " + ", ".join(f"{n} ({c})" for n, (c, _) in _TYPES.items()),
        )
    dim = checked_shape(tuple(int(size) for size in shorts[21 : 21 + count]), source.name)
    if any(size > 1 for size in dim[4:]):
        raise UnreadableSourceError(
            f"the volume has the shape {'×'.join(map(str, dim))}",
            source=source.name,
            allowed="4 axes or fewer",
        )
    columns, rows, slices, frames = [*dim[:4], 1, 1, 1][:4]
    code, channels = _TYPES[kind]
    letters = ("FDHW" if frames > 1 else "DHW") + ("C" if channels > 1 else "")
    sizes = {"F": frames, "D": slices, "H": rows, "W": columns, "C": channels}
    voxels, compression = image_of_header(source, "ANALYZE")
    storage = Storage(
        shape=tuple(sizes[letter] for letter in letters),
        axes=layout_axes(letters),
        dtype=np.dtype(order + code),
        offset=max(0, int(floats[27])) if np.isfinite(floats[27]) else 0,
        compression=compression,
    )
    affine, notes = checked_affine(_affine(data, order, (columns, rows, slices)), source.name)
    layout: VolumeLayout = "FDHWC" if frames > 1 else "DHWC"
    info = VolumeInfo(
        source=source.name,
        format="analyze",
        shape=storage.layout_shape(),
        layout=layout,
        dtype=np.dtype(code),
        affine=affine,
        space="assumed",
        scale=_scale(data, order) if channels == 1 else None,
        compressed=compression is not None,
        notes=(*notes, "ANALYZE headers have no orientation: x is taken to run to the left, as nibabel does"),
        header={"description": data[148:228].partition(b"\0")[0].decode("latin-1").strip()},
    )
    return StoredVolume(voxels, info, storage)


def _affine(data: bytes, order: str, size: tuple[int, int, int]) -> FloatArray:
    """Return the affine over (d, h, w): about SPM's origin, which counts from 1, else about the center."""
    spacing = np.abs(np.frombuffer(data, order + "f4", 3, 80).astype(np.float64))
    origin = np.frombuffer(data, order + "i2", 3, 253).astype(np.float64)
    # as in SPM and nibabel, an origin far outside of the volume is none
    known = origin.any() and (origin > -np.array(size)).all() and (origin < 2 * np.array(size)).all()
    center = origin - 1 if known else (np.array(size) - 1) / 2
    steps = np.where(spacing > 0, spacing, 1.0) * [-1, 1, 1]
    matrix = np.diag([*steps, 1.0])
    matrix[:3, 3] = -center * steps
    return from_file_order(matrix)


def _scale(data: bytes, order: str) -> tuple[float, float] | None:
    """Return slope and intercept as SPM: stated, else from the ranges of the stored and the calibrated values."""
    slope, intercept = np.frombuffer(data, order + "f4", 2, 112).tolist()
    if not np.isfinite(slope) or slope == 0:
        top, bottom = np.frombuffer(data, order + "f4", 2, 124).tolist()
        most, least = np.frombuffer(data, order + "i4", 2, 140).tolist()
        if most == least or top == bottom or not np.isfinite([top, bottom]).all():
            return None
        slope = (top - bottom) / (most - least)
        intercept = bottom - slope * least
    intercept = intercept if np.isfinite(intercept) else 0.0
    return None if (slope, intercept) == (1.0, 0.0) else (slope, intercept)
