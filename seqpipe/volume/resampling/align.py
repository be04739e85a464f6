"""A sample of several parts on one grid."""

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
    """A sample whose images and labels lie on one grid, as operators on samples ask for.

    ``align({"ct": ct, "pet": pet, "label": Labels(mask)})`` brings PET and labels to the grid of the CT. Points and
    boxes stay as they are: in mm they do not depend on a grid, in voxels they count those of the part ``to``.

    Args:
        sample: parts by name; images and labels are sequences ``DHWC`` with an affine.
        to: the name of the part whose grid is taken; the first image by default, or else the first part.
        interp: how images are interpolated; labels are by their own ``interp``, and 0 where they know nothing.
        antialias: as :func:`resample` has it.
        fill_value: of images, for places outside of them; None repeats the edge.

    Returns:
        The sample with its names and kinds; a part that lies on the grid already is not copied.

    Raises:
        ParameterError: there is no such part, or a part has no place in space.
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
    grid = _placed(chosen, voxels[chosen].data)
    found: dict[str, Any] = dict(sample)
    for name, one in voxels.items():
        own = _placed(name, one.data)
        same = own.shape[-4:-1] == grid.shape[-4:-1]
        if same and grids_agree(own.affine, grid.affine, own.shape[-4:-1]):
            continue
        how: Any = one.interp if isinstance(one, Labels) else interp
        outside = 0 if isinstance(one, Labels) else fill_value
        made = resample(own.scaled(), like=grid, interp=how, antialias=antialias, fill_value=outside)
        found[name] = made if sample[name] is one.data else one.with_data(made)
    return Sample(found, getattr(sample, "history", ()))


def _placed(name: str, data: Any) -> Sequence:
    """The sequence of a part that has a place in space.

    Raises:
        ParameterError: it has none.
    """
    if not isinstance(data, Sequence) or data.affine is None or not data.layout.endswith("DHWC"):
        raise ParameterError(
            f"{name} has no place in space",
            source="align",
            allowed="sequences DHWC with an affine, as seqpipe.open(…).sequence() gives",
        )
    return data
