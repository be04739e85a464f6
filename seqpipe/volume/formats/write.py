"""Writing volumes: NIfTI, MGH, NRRD and MetaImage with their affines, NPY and NPZ."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...array import FloatArray, to_numpy
from ...core.whole_file import open_new, replacing
from ...errors import OutputError, ParameterError, described_type
from ...parts import Part
from ...sequence import Sequence
from ..space import in_file_order
from .gunzip import LEVEL
from .metaimage import metaimage_bytes
from .mgh import mgh_bytes
from .nifti import SECONDS, TYPES
from .nrrd import nrrd_bytes
from .stored import affine_of, frames_of

__all__ = ["ENDINGS", "content", "nifti_bytes", "quaternion_of", "save"]

ENDINGS: Final = (".nii", ".nii.gz", ".mgh", ".mgz", ".nrrd", ".mha", ".npy", ".npz")

_CODES: Final = {np.dtype(code): number for number, (code, channels) in TYPES.items() if channels == 1}
_COLORS: Final = {3: 128, 4: 2304}
_MOST_NIFTI1: Final = 32767
_SCANNER: Final = 1
_MM: Final = 2
_SECOND: Final = 8
_LENGTH_UNITS: Final = 0x07
_TIME_UNITS: Final = 0x38
_SQUARE: Final = 1e-4


def save(
    sequence: Sequence | Part, path: str | os.PathLike[str], *, time_step_s: float | None = None
) -> None:
    """Write a volume to a file in the format of its extension.

    ``.nii`` and ``.nii.gz`` are NIfTI-1 (NIfTI-2 where an axis is longer than 32767) with the affine as sform, and as
    qform if it has no shear; values are written as they are, those stored with a scale with their slope and intercept.
    Of a volume that was read from NIfTI, the codes of the forms, units, the interval between volumes, intent and
    description are kept. ``.mgh`` and ``.mgz`` are FreeSurfer's, with the affine; volumes of a series and channels are
    frames. ``.nrrd`` and ``.mha`` are compressed, with the affine in LPS. ``.npz`` contains ``image`` and ``affine``,
    ``.npy`` the array alone. Formats other than NIfTI have no place for a scale, so it is applied. The file appears
    under its name only when it is complete.

    Args:
        sequence: ``DHWC``, ``DHW`` or ``FDHWC``, on any device; or a part of a sample, such as
            :class:`seqpipe.parts.Labels`, of one.
        path: path of the file, in an existing folder.
        time_step_s: interval between the volumes of a series; by default that of the sequence's timestamps.

    Raises:
        ParameterError: the extension or the layout is unsupported, the format does not support the dtype or the
            affine, or the value is not a sequence.
        OutputError: the file cannot be written.
    """
    if isinstance(sequence, Part):
        sequence = sequence.data
    if not isinstance(sequence, Sequence):
        raise ParameterError(
            f"{described_type(sequence)} has no position in space",
            source="save",
            allowed="a Sequence, or a part of a sample with one",
            advice="Give arrays as Sequence(array, 'DHWC', affine=…)",
        )
    name = os.fspath(path)
    ending = next((e for e in sorted(ENDINGS, key=len, reverse=True) if name.lower().endswith(e)), None)
    if ending is None:
        raise ParameterError(f"path={name!r} has an unknown ending", allowed=", ".join(ENDINGS))
    if sequence.layout not in ("DHW", "DHWC", "FDHWC"):
        raise ParameterError(f"a sequence {sequence.layout} is not a volume", allowed="DHW, DHWC, FDHWC")
    data = content(sequence, ending, time_step_s=time_step_s)
    try:
        with replacing(Path(name)) as part, open_new(part) as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", source=name) from error


def content(sequence: Sequence, ending: str, *, time_step_s: float | None = None) -> bytes:
    """Encode a volume as a file with one of :data:`ENDINGS`; see :func:`save`."""
    if ending in (".nii", ".nii.gz"):
        data = nifti_bytes(sequence, time_step_s=time_step_s)
        return _gzip(data) if ending == ".nii.gz" else data
    if ending in (".mgh", ".mgz"):
        data = mgh_bytes(sequence, time_step_s=time_step_s)
        return _gzip(data) if ending == ".mgz" else data
    if ending in (".nrrd", ".mha"):
        return nrrd_bytes(sequence) if ending == ".nrrd" else metaimage_bytes(sequence)
    file = io.BytesIO()
    if ending == ".npy":
        np.save(file, to_numpy(sequence.scaled().data))
    else:
        arrays: dict[str, Any] = {"image": to_numpy(sequence.scaled().data)}
        arrays |= {} if sequence.affine is None else {"affine": sequence.affine}
        np.savez_compressed(file, **arrays)
    return file.getvalue()


def nifti_bytes(sequence: Sequence, *, time_step_s: float | None = None) -> bytes:
    """Encode a volume as a ``.nii`` file; see :func:`save`."""
    array = frames_of(sequence)
    array = array.astype(array.dtype.newbyteorder("<"))
    frames, *grid, channels = array.shape
    colors = channels in _COLORS and array.dtype == np.uint8
    code = _COLORS[channels] if colors else _CODES.get(array.dtype.newbyteorder("="))
    if code is None:
        raise ParameterError(
            f"NIfTI has no type for {array.dtype}", allowed=", ".join(sorted(kind.name for kind in _CODES))
        )
    dim = [*reversed(grid)]
    if frames > 1 or (channels > 1 and not colors):
        dim.append(frames)
    if channels > 1 and not colors:
        dim.append(channels)
        array = np.moveaxis(array, -1, 0)
    bits = array.dtype.itemsize * 8 * (channels if colors else 1)
    header = _header(dim, code, bits, in_file_order(affine_of(sequence)), sequence, time_step_s)
    return header + array.tobytes()


def _fourth_step(sequence: Sequence, time_step_s: float | None) -> tuple[float, int]:
    """Return the interval between volumes, and the code of its unit: that of the source, else seconds."""
    unit = int(sequence.header.get("units", 0)) & _TIME_UNITS
    if time_step_s is None and sequence.timestamps is not None:
        time_step_s = _even_step(sequence.timestamps)
    if time_step_s:
        unit = unit if unit in SECONDS else _SECOND
        return time_step_s / SECONDS[unit], unit
    step, stride = sequence.header.get("step"), 1.0
    if sequence.frames is not None:
        stride = _even_step(sequence.frames.astype(np.float64)) or 0.0
    if not step or not stride or (sequence.timestamps is not None and unit in SECONDS):
        return 1.0, _SECOND
    return float(step) * stride, unit


def _even_step(values: FloatArray) -> float | None:
    """Return the distance of neighbors, if it is the same everywhere and not 0."""
    steps = np.diff(values)
    even = len(steps) and np.allclose(steps, steps[0], rtol=1e-4) and steps[0] > 0
    return float(steps.mean()) if even else None


def quaternion_of(matrix: FloatArray) -> tuple[FloatArray, FloatArray, float] | None:
    """Return the quaternion (b, c, d), spacing and qfac of an affine over (i, j, k); None if it is not a rotation."""
    spacing = np.linalg.norm(matrix[:3, :3], axis=0)
    if not spacing.all():
        return None
    rotation = matrix[:3, :3] / spacing
    if not np.abs(rotation.T @ rotation - np.eye(3)).max() <= _SQUARE:  # NaN is refused, too
        return None
    qfac = 1.0 if np.linalg.det(rotation) > 0 else -1.0
    rotation = rotation * [1, 1, qfac]
    # the eigenvector of the largest eigenvalue is stable for all rotations (Bar-Itzhack, 2000)
    xx, yx, zx, xy, yy, zy, xz, yz, zz = rotation.ravel()
    symmetric = np.array(
        [
            [xx + yy + zz, 0, 0, 0],
            [yz - zy, xx - yy - zz, 0, 0],
            [zx - xz, yx + xy, yy - xx - zz, 0],
            [xy - yx, zx + xz, zy + yz, zz - xx - yy],
        ]
    )
    vector = np.linalg.eigh(symmetric, UPLO="L")[1][:, -1]
    vector = -vector if vector[0] < 0 else vector
    return vector[1:], spacing, qfac


def _header(
    dim: Seq[int],
    code: int,
    bits: int,
    matrix: FloatArray,
    sequence: Sequence,
    time_step_s: float | None,
) -> bytes:
    """Return the header and the empty extension after it."""
    is_nifti2 = max(dim) > _MOST_NIFTI1
    spacing = np.linalg.norm(matrix[:3, :3], axis=0)
    kept = sequence.header
    to_qform = np.array(kept.get("to_qform", np.eye(4)), dtype=np.float64)
    qform = quaternion_of(to_qform @ matrix)
    quaternion, _, qfac = qform if qform is not None else (np.zeros(3), None, 1.0)
    offset = (to_qform @ matrix)[:3, 3]
    step, time_unit = _fourth_step(sequence, time_step_s) if len(dim) > 3 else (0.0, _SECOND)
    steps = [qfac, *spacing, step, 0.0, 0.0, 0.0]
    sizes = [len(dim), *dim, *[1] * (7 - len(dim))]
    intent, parameters, name = kept.get("intent", (1007 if len(dim) == 5 else 0, (0.0, 0.0, 0.0), ""))
    qcode, scode = kept.get("forms", (0, 0))
    if qcode <= 0 and scode <= 0:
        qcode = scode = _SCANNER
    if qform is None:
        scode, qcode = (scode if scode > 0 else qcode), 0
    units = (int(kept.get("units", 0)) & _LENGTH_UNITS or _MM) | time_unit
    slope, intercept = sequence.scale or (1.0, 0.0)
    description = _cut(kept.get("description", ""), 79)
    data = bytearray(544 if is_nifti2 else 352)

    def put(offset: int, form: str, *values: Any) -> None:
        struct.pack_into("<" + form, data, offset, *values)

    if is_nifti2:
        put(0, "i8shh", 540, b"n+2\0\r\n\x1a\n", code, bits)
        put(16, "8q8dq2d", *sizes, *steps, 544, slope, intercept)
        put(80, "3d", *parameters)
        put(240, "79s", description)
        put(344, "2i6d12d", qcode, scode, *quaternion, *offset, *matrix[:3].ravel())
        put(500, "2i15s", units, intent, _cut(name, 15))
        return bytes(data)
    put(0, "i", 348)
    put(40, "8h", *sizes)
    put(56, "3f3h", *parameters, intent, code, bits)
    put(76, "8f3f", *steps, 352.0, slope, intercept)
    put(123, "B", units)
    put(148, "79s", description)
    put(252, "2h6f12f", qcode, scode, *quaternion, *offset, *matrix[:3].ravel())
    put(328, "15s", _cut(name, 15))
    put(344, "4s", b"n+1\0")
    return bytes(data)


def _cut(text: str, size: int) -> bytes:
    """Return a text as bytes of at most a size."""
    return text.encode("latin-1", "replace")[:size]


def _gzip(data: bytes) -> bytes:
    """Return data packed by gzip."""
    import deflate

    return bytes(deflate.gzip_compress(data, LEVEL))
