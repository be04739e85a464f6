"""Contours of DICOM RT structure sets as voxels of an image's grid, by pydicom.

A voxel belongs to a structure if its center is inside of an odd number of the structure's closed contours in its slice
(DICOM PS3.3, C.8.8.6.3: holes are contours inside of others, or keyholes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...array import FloatArray
from ...errors import UnreadableSourceError
from ..source import AnyArray, Box, Source
from .dicom_file import dataset_of

__all__ = ["Contours", "contours_of", "filled", "is_structure_set"]

_STRUCTURES: Final = "1.2.840.10008.5.1.4.1.1.481.3"
_TO_RAS: Final = np.array([-1.0, -1.0, 1.0])
_OUT_OF_PLANE: Final = 0.5
_OUTSIDE: Final = 0.5


@dataclass(frozen=True, eq=False)
class Contours:
    """The contours of one structure.

    Attributes:
        name: its name.
        polygons: points of each closed contour, float64 (n, 3), in mm, RAS+.
    """

    name: str
    polygons: tuple[FloatArray, ...]


def is_structure_set(source: Source) -> bool:
    """Return whether a DICOM file is a structure set."""
    return str(dataset_of(source, ["SOPClassUID"]).get("SOPClassUID", "")) == _STRUCTURES


def contours_of(source: Source) -> dict[int, Contours]:
    """Return the structures of a file by the number of their ROI, in its order.

    Contours of other types than CLOSED_PLANAR, such as points, fill no voxel and are left out.

    Raises:
        UnreadableSourceError: it is damaged.
    """
    dataset = dataset_of(source)
    names = {
        int(one.ROINumber): str(one.get("ROIName", ""))
        for one in dataset.get("StructureSetROISequence") or []
    }
    polygons: dict[int, list[FloatArray]] = {number: [] for number in names}
    for roi in dataset.get("ROIContourSequence") or []:
        for contour in roi.get("ContourSequence") or []:
            if str(contour.get("ContourGeometricType", "")).startswith("CLOSED"):
                points = np.array(contour.ContourData, dtype=np.float64)
                if len(points) % 3 or not np.isfinite(points).all():
                    raise UnreadableSourceError(
                        f"a contour of {names.get(int(roi.ReferencedROINumber))!r} has {len(points)} numbers",
                        source=source.name,
                        allowed="three finite ones for each point",
                    )
                polygons.setdefault(int(roi.ReferencedROINumber), []).append(points.reshape(-1, 3) * _TO_RAS)
    return {number: Contours(names.get(number, ""), tuple(found)) for number, found in polygons.items()}


def filled(
    contours: Contours,
    affine: FloatArray,
    grid: tuple[int, int, int],
    box: Box,
    source: str,
    *,
    skip: bool = False,
) -> AnyArray:
    """Return the voxels of a structure in a window of a grid: bool ``DHW``.

    Args:
        contours: the structure.
        affine: affine of the grid.
        grid: slices, rows and columns.
        box: the window.
        source: name of the file, for messages.
        skip: whether to leave out contours outside of the grid.

    Raises:
        UnreadableSourceError: a contour is outside of the grid, or not in a plane of its slices.
    """
    inverse, mask = np.linalg.inv(affine), np.zeros(box.shape, np.bool_)
    for points in contours.polygons:
        voxels = points @ inverse[:3, :3].T + inverse[:3, 3]
        depth = float(voxels[:, 0].mean())
        if np.abs(voxels[:, 0] - depth).max() > _OUT_OF_PLANE:
            raise UnreadableSourceError(
                f"a contour of {contours.name!r} goes through "
                f"{np.ptp(voxels[:, 0]) + 1:.0f} slices of the image",
                source=source,
                allowed="contours in the planes of the slices",
                advice="Give the series that they were drawn on as like=…, and resample the labels",
            )
        low, high = voxels[:, 1:].min(axis=0), voxels[:, 1:].max(axis=0)
        size = np.array(grid[1:])
        if (
            not -_OUTSIDE <= depth <= grid[0] - _OUTSIDE
            or (high < -_OUTSIDE).any()
            or (low > size - _OUTSIDE).any()
        ):
            if skip:
                continue
            raise UnreadableSourceError(
                f"a contour of {contours.name!r} is outside of the image, around "
                f"{', '.join(f'{x:.1f}' for x in points.mean(axis=0))} mm",
                source=source,
                allowed="contours inside of the image",
                advice="Give the series that they were drawn on as like=…, or outside='skip'",
            )
        plane = min(max(round(depth), 0), grid[0] - 1) - box.d[0]
        if 0 <= plane < box.shape[0]:
            mask[plane] ^= _inside(voxels[:, 1:] - np.array(box.start[1:]), box.shape[1:])
    return mask


def _inside(polygon: FloatArray, shape: tuple[int, ...]) -> AnyArray:
    """Return the pixels whose centers are inside of a polygon of (row, column) points, by the even-odd rule.

    Each edge turns all pixels to the right of it, in the rows whose centers it crosses; rows are half-open.
    """
    turns = np.zeros((shape[0], shape[1] + 1), np.bool_)
    for (h0, w0), (h1, w1) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        if h0 == h1:
            continue
        low, high = min(h0, h1), max(h0, h1)
        rows = np.arange(max(0, int(np.ceil(low))), min(shape[0], int(np.ceil(high))))
        crossings = w0 + (rows - h0) * ((w1 - w0) / (h1 - h0))
        turns[rows, np.clip(np.ceil(crossings), 0, shape[1]).astype(int)] ^= True
    result: AnyArray = np.logical_xor.accumulate(turns[:, :-1], axis=1)
    return result
