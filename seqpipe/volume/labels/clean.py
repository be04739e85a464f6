"""Cleaning of labels: the largest component, small objects, holes; and regions to labels. By SciPy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any

import numpy as np

from ...array import to_numpy
from ...core.lazy import import_optional
from ...core.param import Param
from ...errors import ParameterError
from ...sequence import Sequence
from ..source import AnyArray

__all__ = ["fill_holes", "keep_largest", "remove_small", "to_labels", "to_regions"]

_CONNECTIVITY = Param(
    name="connectivity", doc="1: voxels that share a face are neighbors; 2: an edge; 3: a corner", lo=1, hi=3
)


def keep_largest(
    labels: Sequence, classes: Iterable[int] | None = None, *, connectivity: int = 1
) -> Sequence:
    """Keep the largest connected component of each class; other voxels of the class become 0.

    Args:
        labels: integers ``DHWC`` of one channel.
        classes: the classes that are cleaned; by default all but 0.
        connectivity: 1, 2 or 3: voxels that share a face, an edge or a corner are neighbors.

    Raises:
        ParameterError: the labels are not integers of one channel.
        BackendError: SciPy is not installed.
    """
    return _cleaned(labels, classes, connectivity, lambda sizes, _: sizes == sizes.max())


def remove_small(
    labels: Sequence,
    classes: Iterable[int] | None = None,
    *,
    min_mm3: float | None = None,
    min_voxels: int | None = None,
    connectivity: int = 1,
) -> Sequence:
    """Remove connected components of each class that are smaller than a volume; their voxels become 0.

    Args:
        labels: integers ``DHWC`` of one channel.
        classes: the classes that are cleaned; by default all but 0.
        min_mm3: least volume of a component, in mm³; or
        min_voxels: least number of its voxels.
        connectivity: 1, 2 or 3: voxels that share a face, an edge or a corner are neighbors.

    Raises:
        ParameterError: both or neither of the sizes are given, or the labels are not integers of one channel.
        BackendError: SciPy is not installed.
    """
    if (min_mm3 is None) == (min_voxels is None):
        raise ParameterError("min_mm3 and min_voxels exclude one another", allowed="one of them")

    def wanted(sizes: AnyArray, voxel_mm3: float) -> AnyArray:
        kept: AnyArray = sizes * voxel_mm3 >= min_mm3 if min_mm3 is not None else sizes >= min_voxels
        return kept

    return _cleaned(labels, classes, connectivity, wanted)


def fill_holes(labels: Sequence, classes: Iterable[int] | None = None, *, by_slice: bool = False) -> Sequence:
    """Give the voxels of 0 that a class encloses to that class.

    Args:
        labels: integers ``DHWC`` of one channel.
        classes: the classes that are filled, in this order; by default all but 0.
        by_slice: whether a hole is one in its slice, rather than in three dimensions.

    Raises:
        ParameterError: the labels are not integers of one channel.
        BackendError: SciPy is not installed.
    """
    ndimage, data, numbers = import_optional("scipy.ndimage", "scipy"), *_checked(labels, classes)
    for number in numbers:
        mask = data == number
        planes = mask if by_slice else mask[None]
        filled = np.stack([ndimage.binary_fill_holes(plane) for plane in planes])
        data[(filled if by_slice else filled[0]) & (data == 0)] = number
    return _like(labels, data)


def to_regions(labels: Sequence, regions: Mapping[str, Seq[int]]) -> Sequence:
    """Return a channel of 0 and 1 for each region, uint8 ``DHWC``; regions may overlap.

    Args:
        labels: integers ``DHWC`` of one channel.
        regions: name of a region → the labels it consists of.

    Raises:
        ParameterError: the labels are not integers of one channel.
    """
    data, _ = _checked(labels, ())
    channels = [np.isin(data, tuple(classes)) for classes in regions.values()]
    return replace(labels, data=np.stack(channels, axis=-1).astype(np.uint8))


def to_labels(regions: Sequence, labels: Iterable[int], *, least: float = 0.5) -> Sequence:
    """Return the labels of overlapping regions: of a voxel, that of the last region it belongs to.

    Args:
        regions: ``DHWC``, a channel a region: masks, or scores.
        labels: label of each channel; for BraTS' WT, TC and ET, 2, 1 and 4.
        least: least value of a voxel that belongs to a region.

    Raises:
        ParameterError: there is not one label for each channel.
    """
    data, numbers = to_numpy(regions.data), [int(label) for label in labels]
    if regions.layout != "DHWC" or data.shape[-1] != len(numbers):
        raise ParameterError(
            f"there are {len(numbers)} labels for {data.shape} {regions.layout}",
            source="to_labels",
            allowed="one for each channel of DHWC",
        )
    result = np.zeros(data.shape[:3], np.uint8 if max(numbers, default=0) < 256 else np.int16)
    for channel, number in enumerate(numbers):
        result[data[..., channel] >= least] = number
    return replace(regions, data=result[..., None]).of_kind("labels")


def _cleaned(labels: Sequence, classes: Iterable[int] | None, connectivity: int, wanted: Any) -> Sequence:
    """Return labels with the components of each class that are wanted, by their numbers of voxels."""
    ndimage, data, numbers = import_optional("scipy.ndimage", "scipy"), *_checked(labels, classes)
    around = ndimage.generate_binary_structure(3, _CONNECTIVITY.check(connectivity))
    spacing = labels.spacing_mm or (1.0, 1.0, 1.0)
    for number in numbers:
        parts, count = ndimage.label(data == number, around)
        if count:
            sizes = np.bincount(parts.ravel(), minlength=count + 1)[1:]
            kept = np.concatenate([[True], wanted(sizes, float(np.prod(spacing)))])
            data[~kept[parts]] = 0
    return _like(labels, data)


def _checked(labels: Sequence, classes: Iterable[int] | None) -> tuple[AnyArray, list[int]]:
    """Return a copy of the labels, ``DHW``, and the classes."""
    data = to_numpy(labels.data)
    if (
        labels.layout not in ("DHWC", "DHW")
        or data.dtype.kind not in "biu"
        or data.size != np.prod(data.shape[:3])
    ):
        raise ParameterError(
            f"labels are {data.dtype} {data.shape} {labels.layout}",
            source="labels",
            allowed="integers, DHWC of one channel",
        )
    plain = data.reshape(data.shape[:3]).copy()
    numbers = [int(number) for number in (np.unique(plain) if classes is None else classes)]
    return plain, [number for number in numbers if number or classes is not None]


def _like(labels: Sequence, data: AnyArray) -> Sequence:
    """Return labels with other voxels."""
    return replace(labels, data=data.reshape(labels.data.shape))
