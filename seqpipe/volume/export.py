"""Conversion of volumes for other libraries, with their order of axes and coordinate system.

These libraries index (i, j, k), columns first; seqpipe indexes (d, h, w). Arrays are transposed as views, affines
accordingly. The slope and intercept of stored values are applied first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import FloatArray, to_numpy
from ..core.lazy import import_optional
from ..errors import ParameterError
from ..sequence import Sequence
from .reader import VolumeReader
from .source import AnyArray
from .space import in_file_order, to_axes

__all__ = ["to_monai", "to_nibabel", "to_sitk", "to_torchio"]


def to_nibabel(volume: Sequence | VolumeReader) -> Any:
    """Return a ``nibabel.Nifti1Image``: ``(i, j, k)``, ``(i, j, k, t)``, or ``(i, j, k, t, channel)``.

    Raises:
        BackendError: nibabel is not installed.
        ParameterError: the value is not a volume with an affine.
    """
    nibabel = import_optional("nibabel", "nibabel")
    array, affine = _array_and_affine(volume)
    frames, _, _, _, channels = array.shape
    turned = array.transpose(3, 2, 1, 0, 4)
    turned = turned[..., 0] if channels == 1 else turned
    turned = turned[..., 0] if frames == 1 and channels == 1 else turned
    return nibabel.Nifti1Image(turned, in_file_order(affine), dtype=array.dtype)


def to_sitk(volume: Sequence | VolumeReader) -> Any:
    """Return a ``SimpleITK.Image``, 3-D, or 4-D for a series; channels make a vector image.

    Raises:
        BackendError: SimpleITK is not installed.
        ParameterError: the value is not a volume with an affine.
    """
    itk = import_optional("SimpleITK", "sitk")
    array, affine = _array_and_affine(volume)
    vector = array.shape[-1] > 1
    plain = array if vector else array[..., 0]
    axes, spacing, origin = to_axes(affine)
    if array.shape[0] > 1:
        wider = np.eye(4)
        wider[:3, :3] = axes
        axes, spacing, origin = wider, np.append(spacing, 1.0), np.append(origin, 0.0)
    else:
        plain = plain[0]
    image = itk.GetImageFromArray(plain, isVector=vector)
    image.SetSpacing(spacing.tolist())
    image.SetOrigin(origin.tolist())
    image.SetDirection(axes.ravel().tolist())
    return image


def to_torchio(volume: Sequence | VolumeReader) -> dict[str, Any]:
    """Return the arguments of ``torchio.ScalarImage`` and ``LabelMap``: ``tensor`` (C, i, j, k) and ``affine``.

    ``torchio.ScalarImage(**to_torchio(volume))`` is the image; a series has its volumes in C. The tensor is a NumPy
    array, which TorchIO accepts.

    Raises:
        ParameterError: the value is not a volume with an affine.
    """
    array, affine = _channels_first(volume)
    return {"tensor": array, "affine": in_file_order(affine)}


def to_monai(volume: Sequence | VolumeReader) -> dict[str, Any]:
    """Return the arguments of ``monai.data.MetaTensor``: ``x`` (C, i, j, k) and ``affine``.

    ``MetaTensor(**to_monai(volume))`` is the image for MONAI's transforms. ``x`` is a NumPy array, which MetaTensor
    accepts; a series has its volumes in C.

    Raises:
        ParameterError: the value is not a volume with an affine.
    """
    array, affine = _channels_first(volume)
    return {"x": array, "affine": in_file_order(affine)}


def _channels_first(volume: Sequence | VolumeReader) -> tuple[AnyArray, FloatArray]:
    """Return (C, i, j, k), contiguous; in a series of vectors, the volumes are the outer axis of C."""
    array, affine = _array_and_affine(volume)
    turned = array.transpose(0, 4, 3, 2, 1)
    return np.ascontiguousarray(turned.reshape(-1, *turned.shape[2:])), affine


def _array_and_affine(volume: Sequence | VolumeReader) -> tuple[AnyArray, FloatArray]:
    """Return ``FDHWC``, scaled, and the affine over (d, h, w)."""
    sequence = volume.sequence() if isinstance(volume, VolumeReader) else volume
    if sequence.layout not in ("DHW", "DHWC", "FDHWC") or sequence.affine is None:
        raise ParameterError(
            f"a sequence {sequence.layout} with{'out' if sequence.affine is None else ''} an affine is not a volume",
            source=sequence.source,
            allowed="DHW, DHWC or FDHWC with an affine",
        )
    array = to_numpy(sequence.scaled().data)
    array = array[..., None] if sequence.layout == "DHW" else array
    return array if sequence.layout == "FDHWC" else array[None], sequence.affine
