"""Structures of :class:`LabelFiles`: masks of files, segments, contours and regions on one grid.

Contours are those of DICOM RT structure sets, read by pydicom. A voxel belongs to a structure if its center is inside
of an odd number of the structure's closed contours in its slice (DICOM PS3.3, C.8.8.6.3: holes are contours inside of
others, or keyholes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from ...array import FloatArray, scaled_values
from ...errors import ParameterError, UnreadableSourceError
from ..info import VolumeInfo
from ..regrid import grid_of, resampled_window
from ..source import AnyArray, Box, Source, VolumeSource, open_source
from .dicom_file import dataset_of, header_of, is_dicom
from .dicom_seg import is_segmentation, overlapping, segmentation_of
from .indexed import IndexedVolume, info_of_array
from .label_files import LabelFiles, Overlap

__all__ = ["Structures", "open_labels"]

_Read: TypeAlias = Callable[[Box], AnyArray]


def open_labels(labels: LabelFiles, open_volume: Callable[[Any], VolumeSource]) -> VolumeSource:
    """Open labels as a volume."""
    like = None if labels.like is None else _info_of(labels.like, open_volume)
    if isinstance(labels.files, Mapping):
        found = _of_masks(labels.files, like, open_volume, labels.threshold)
    else:
        found = _of_file(labels, like, open_volume)
    if labels.regions is not None:
        return found.of_regions(labels.regions, str(labels)).volume("channels", str(labels))
    return found.chosen(labels.wanted(), str(labels)).volume(labels.overlap, str(labels))


def _of_file(
    labels: LabelFiles, like: VolumeInfo | None, open_volume: Callable[[Any], VolumeSource]
) -> Structures:
    """Return the structures of one file."""
    if isinstance(labels.files, (str, bytes)) or hasattr(labels.files, "__fspath__"):
        source = open_source(labels.files)
        if is_dicom(source):
            return _of_dicom(labels, source, like)
    return _of_label_map(open_volume(labels.files), like)


def _of_dicom(labels: LabelFiles, source: Source, like: VolumeInfo | None) -> Structures:
    """Return the structures of a DICOM file."""
    if _is_structure_set(source):
        if like is None:
            raise ParameterError(
                "contours have no grid of their own",
                source=source.name,
                allowed="like=…, the series that they were drawn on",
            )
        contours = _contours_of(source)
        wanted = labels.wanted() or {structure.name: 0 for structure in contours.values()}
        skip = labels.outside == "skip"
        return Structures(
            like,
            {
                structure.name: partial(_read_contours, structure, like, source.name, skip)
                for structure in contours.values()
                if structure.name in wanted and structure.polygons
            },
            {},
            (source,),
        )
    if not is_segmentation(header_of(source), source.name):
        raise UnreadableSourceError(
            "this DICOM file holds an image",
            source=source.name,
            allowed="a segmentation, or an RT structure set",
        )
    found = segmentation_of(source)
    info = _own_info(source.name, found.grid, found.affine)
    reads = {
        name or str(number): _on(like, info, partial(_above, partial(found.read, number), labels.threshold))
        for number, name in found.names.items()
    }
    numbers = {name or str(number): number for number, name in found.names.items()}
    return Structures(like or info, reads, numbers, (source,))


@dataclass(frozen=True, eq=False)
class Structures:
    """Structures on one grid.

    Attributes:
        info: facts of a volume on the grid.
        reads: name of a structure → what reads a window of its mask, bool ``DHW``.
        numbers: name of a structure → its label.
        sources: the files.
        label_map: what reads a window of a label map, of which there are regions.
    """

    info: VolumeInfo
    reads: Mapping[str, _Read]
    numbers: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    label_map: _Read | None = None

    def chosen(self, wanted: Mapping[str, int], source: str) -> Structures:
        """Return the wanted structures, in their order, with their labels."""
        missing = [name for name in wanted if name not in self.reads]
        if missing or not self.reads:
            raise UnreadableSourceError(
                f"there is no structure {', '.join(map(repr, missing))}"
                if missing
                else "there is no structure",
                source=source,
                allowed=", ".join(self.reads) or "a file with structures, or a label map with regions=…",
            )
        numbers = wanted or self.numbers or {name: number for number, name in enumerate(self.reads, 1)}
        return Structures(self.info, {name: self.reads[name] for name in numbers}, numbers, self.sources)

    def of_regions(self, regions: Mapping[str, Seq[int]], source: str) -> Structures:
        """Return the regions of a label map as structures."""
        if self.label_map is None:
            raise UnreadableSourceError(
                "regions are made of the labels of a label map",
                source=source,
                allowed="a label map",
                advice="Name the structures with classes=…",
            )
        reads = {name: partial(_region, self.label_map, tuple(labels)) for name, labels in regions.items()}
        return Structures(self.info, reads, {name: n for n, name in enumerate(reads, 1)}, self.sources)

    def volume(self, overlap: Overlap, source: str) -> VolumeSource:
        """Return the structures as a volume."""
        kind = np.dtype(np.uint8 if max(self.numbers.values()) < 256 else np.uint16)
        channels = overlap == "channels"
        letters = "DHWC" if channels else "DHW"
        shape = (*self.info.grid, len(self.reads)) if channels else self.info.grid
        info = info_of_array(
            source,
            "labels",
            shape,
            np.uint8 if channels else kind,
            letters,
            self.info.affine,
            self.info.space,
            header={"classes": {str(number): name for name, number in self.numbers.items()}},
            compressed=True,
        )

        def window(cut: tuple[slice, ...]) -> AnyArray:
            box = Box(*((span.start, span.stop) for span in cut[:3]))
            if channels:
                return np.stack([read(box) for read in self.reads.values()], axis=-1)
            return self._merged(box, kind, overlap, source)

        return IndexedVolume(info, letters, window, self.sources)

    def _merged(self, box: Box, kind: np.dtype[Any], overlap: Overlap, source: str) -> AnyArray:
        """Return a box of all structures in one volume."""
        labels = np.zeros(box.shape, kind)
        for name, read in self.reads.items():
            mask = read(box)
            taken = labels[mask]
            if overlap == "raise" and taken.any():
                names = {number: name for name, number in self.numbers.items()}
                raise overlapping(
                    source, names, int(taken[taken > 0][0]), self.numbers[name], int((taken > 0).sum())
                )
            labels[mask & (labels == 0) if overlap == "first" else mask] = self.numbers[name]
        return labels


def _of_masks(
    files: Mapping[str, Any],
    like: VolumeInfo | None,
    open_volume: Callable[[Any], VolumeSource],
    threshold: float,
) -> Structures:
    """Return the structures of files with one structure each."""
    reads: dict[str, _Read] = {}
    sources: list[Source] = []
    grid = like
    for name, file in files.items():
        mask = open_volume(file)
        if mask.info.layout != "DHWC" or mask.info.channels != 1:
            raise UnreadableSourceError(
                f"the mask of {name!r} is {'×'.join(map(str, mask.info.shape))} {mask.info.layout}",
                source=str(file),
                allowed="DHWC, one channel",
            )
        if grid is None:
            grid = mask.info
        elif like is None and not mask.info.same_grid(grid):
            raise UnreadableSourceError(
                f"the mask of {name!r} is on another grid: {mask.info.where()}; {grid.where()}",
                source=str(file),
                allowed="masks on one grid",
                advice="Give the image as like=…, whose grid they are brought to",
            )
        reads[str(name)] = _on(like, mask.info, partial(_mask, mask, threshold))
        sources += mask.sources
    if grid is None:
        raise ParameterError("there is no mask", source="LabelFiles", allowed="one file or more")
    return Structures(grid, reads, {}, tuple(sources))


def _of_label_map(volume: VolumeSource, like: VolumeInfo | None) -> Structures:
    """Return the labels of a volume as structures."""
    read = _on(like, volume.info, partial(_values, volume))
    return Structures(like or volume.info, {}, {}, tuple(volume.sources), read)


def _on(like: VolumeInfo | None, info: VolumeInfo, read: _Read) -> _Read:
    """Return what reads a window of the target grid: as stored if it is that grid, else the nearest voxels."""
    if like is None or info.same_grid(like):
        return read
    grid = grid_of(info, None, like, interp="nearest", fill_value=0)

    def resampled(box: Box) -> AnyArray:
        kinds = []

        def stored(part: Box) -> AnyArray:
            data = read(part)[..., None]
            kinds.append(data.dtype.kind)
            return data.astype(np.uint8) if kinds[0] == "b" else data

        data = resampled_window(grid, box, info, stored)[..., 0]
        return data.astype(np.bool_) if kinds[0] == "b" else data

    return resampled


def _mask(volume: VolumeSource, threshold: float, box: Box) -> AnyArray:
    """Read a box of a mask."""
    result: AnyArray = _values(volume, box) >= threshold
    return result


def _values(volume: VolumeSource, box: Box) -> AnyArray:
    """Read a box of a volume, scaled."""
    data = volume.read(box)[..., 0]
    if volume.info.scale is None:
        return data
    scaled: AnyArray = scaled_values(data, *volume.info.scale)
    return scaled


def _above(read: _Read, threshold: float, box: Box) -> AnyArray:
    """Return where a box is above a threshold."""
    data = read(box)
    result: AnyArray = data if data.dtype == np.bool_ else data >= threshold
    return result


def _region(read: _Read, labels: tuple[int, ...], box: Box) -> AnyArray:
    """Return where a box has one of the labels."""
    result: AnyArray = np.isin(np.rint(read(box)), labels)
    return result


def _read_contours(contours: _Contours, info: VolumeInfo, source: str, skip: bool, box: Box) -> AnyArray:
    """Return where a box is inside of contours."""
    mask: AnyArray = _filled(contours, info.affine, info.grid, box, source, skip=skip)
    return mask


def _info_of(like: Any, open_volume: Callable[[Any], VolumeSource]) -> VolumeInfo:
    """Return the info of the image: of a reader, or of a file that is opened for it."""
    info = getattr(like, "info", None)
    if info is None:
        info = open_volume(like).info
    result: VolumeInfo = info
    return result


def _own_info(source: str, grid: tuple[int, int, int], affine: Any) -> VolumeInfo:
    """Return the facts of a grid without an image."""
    return info_of_array(source, "dicom-seg", grid, np.uint8, "DHW", affine, "dicom")


# ---------------------------------------------------------------------- RT structure sets

_STRUCTURES: Final = "1.2.840.10008.5.1.4.1.1.481.3"
_TO_RAS: Final = np.array([-1.0, -1.0, 1.0])
_OUT_OF_PLANE: Final = 0.5
_OUTSIDE: Final = 0.5


@dataclass(frozen=True, eq=False)
class _Contours:
    """The contours of one structure.

    Attributes:
        name: its name.
        polygons: points of each closed contour, float64 (n, 3), in mm, RAS+.
    """

    name: str
    polygons: tuple[FloatArray, ...]


def _is_structure_set(source: Source) -> bool:
    """Return whether a DICOM file is a structure set."""
    return str(dataset_of(source, ["SOPClassUID"]).get("SOPClassUID", "")) == _STRUCTURES


def _contours_of(source: Source) -> dict[int, _Contours]:
    """Return the structures of a file by the number of their ROI, in its order.

    Contours of other types than CLOSED_PLANAR, such as points, fill no voxel and are left out.
    """
    dataset = dataset_of(source)
    names = {
        int(item.ROINumber): str(item.get("ROIName", ""))
        for item in dataset.get("StructureSetROISequence") or []
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
    return {number: _Contours(names.get(number, ""), tuple(found)) for number, found in polygons.items()}


def _filled(
    contours: _Contours,
    affine: FloatArray,
    grid: tuple[int, int, int],
    box: Box,
    source: str,
    *,
    skip: bool = False,
) -> AnyArray:
    """Return the voxels of a structure in a window of a grid: bool ``DHW``."""
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
