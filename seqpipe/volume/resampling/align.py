"""Aligning the parts of a sample to one grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ParameterError
from ...parts import Image, Labels, Sample, as_part
from ...sequence import Sequence
from ..space import grids_agree
from .gather import RegridInterpolation
from .regrid import resample

__all__ = ["align"]


def align(
    sample: Mapping[str, Any],
    to: str | None = None,
    *,
    interp: RegridInterpolation = "linear",
    antialias: bool = True,
    fill_value: float | None = None,
) -> Sample:
    """Resample the images and labels of a sample to one grid, as operators on samples require.

    ``align({"ct": ct, "pet": pet, "label": Labels(mask)})`` resamples PET and labels to the grid of the CT. Points and
    boxes are unchanged: in mm they do not depend on a grid, in voxels they refer to the grid of the part ``to``.

    Args:
        sample: parts by name; images and labels are sequences ``DHWC`` with an affine.
        to: name of the part with the target grid; by default the first image, or the first labels if there is none.
        interp: interpolation of images; labels have their own ``interp``, and are 0 outside.
        antialias: see :func:`resample`.
        fill_value: value outside images; None repeats the edge.

    Returns:
        The sample with its names and part types; a part that is already on the grid is not copied.

    Raises:
        ParameterError: the part ``to`` does not exist, or a part has no affine.
    """
    parts = {name: as_part(value) for name, value in sample.items()}
    voxels = {name: one for name, one in parts.items() if isinstance(one, (Image, Labels))}
    images = [name for name, one in voxels.items() if isinstance(one, Image)]
    chosen = to if to is not None else next(iter([*images, *voxels]), None)
    if chosen is None or chosen not in voxels:
        raise ParameterError(
            f"the sample has no image or labels {to!r}" if to is not None else "the sample has no images",
            source="align",
            allowed=", ".join(voxels) or "images and labels",
        )
    grid = _with_affine(chosen, voxels[chosen].data)
    aligned: dict[str, Any] = dict(sample)
    for name, one in voxels.items():
        own = _with_affine(name, one.data)
        same = own.shape[-4:-1] == grid.shape[-4:-1]
        if same and grids_agree(own.affine, grid.affine, own.shape[-4:-1]):
            continue
        how: Any = one.interp if isinstance(one, Labels) else interp
        outside = 0 if isinstance(one, Labels) else fill_value
        resampled = resample(own.scaled(), like=grid, interp=how, antialias=antialias, fill_value=outside)
        aligned[name] = resampled if sample[name] is one.data else one.with_data(resampled)
    return Sample(aligned, getattr(sample, "history", ()))


def _with_affine(name: str, data: Any) -> Sequence:
    """Return the sequence of a part, which must have an affine.

    Raises:
        ParameterError: it has no affine.
    """
    if not isinstance(data, Sequence) or data.affine is None or not data.layout.endswith("DHWC"):
        raise ParameterError(
            f"{name} has no affine",
            source="align",
            allowed="sequences DHWC with an affine, as seqpipe.open(…).sequence() returns",
        )
    return data
