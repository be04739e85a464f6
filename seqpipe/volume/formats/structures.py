"""Structures of :class:`LabelFiles`: masks of files, segments, contours and regions on one grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...errors import ParameterError, UnreadableSourceError
from ...sequence import scaled_values
from ..info import VolumeInfo
from ..regrid import grid_of, resampled_window
from ..source import AnyArray, Box, Source, VolumeSource, open_source
from .dicom_file import header_of, is_dicom
from .dicom_seg import is_segmentation, overlapping, segmentation_of
from .indexed import IndexedVolume, info_of_array
from .label_files import LabelFiles, Overlap
from .rt_struct import Contours, contours_of, filled, is_structure_set

__all__ = ["Structures", "open_labels"]

_Read: TypeAlias = Callable[[Box], AnyArray]


def open_labels(labels: LabelFiles, open_volume: Callable[[Any], VolumeSource]) -> VolumeSource:
    """Open labels as a volume.

    Args:
        labels: the files.
        open_volume: opens one file.

    Raises:
        SourceError: a file cannot be opened, grids differ, or a structure does not exist.
        ParameterError: contours have no image.
    """
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
    if isinstance(labels.files, (str, bytes)) or hasattr(labels.files, "__fspath__"):
        source = open_source(labels.files)
        if is_dicom(source):
            return _of_dicom(labels, source, like)
    return _of_label_map(open_volume(labels.files), like)


def _of_dicom(labels: LabelFiles, source: Source, like: VolumeInfo | None) -> Structures:
    if is_structure_set(source):
        if like is None:
            raise ParameterError(
                "contours have no grid of their own",
                source=source.name,
                allowed="like=…, the series that they were drawn on",
            )
        contours = contours_of(source)
        wanted = labels.wanted() or {one.name: 0 for one in contours.values()}
        skip = labels.outside == "skip"
        return Structures(
            like,
            {
                one.name: partial(_read_contours, one, like, source.name, skip)
                for one in contours.values()
                if one.name in wanted and one.polygons
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
            box = Box(*((one.start, one.stop) for one in cut[:3]))
            if channels:
                return np.stack([read(box) for read in self.reads.values()], axis=-1)
            return self._merged(box, kind, overlap, source)

        return IndexedVolume(info, letters, window, self.sources)

    def _merged(self, box: Box, kind: np.dtype[Any], overlap: Overlap, source: str) -> AnyArray:
        labels = np.zeros(box.shape, kind)
        for name, read in self.reads.items():
            mask = read(box)
            taken = labels[mask]
            if overlap == "raise" and taken.any():
                names = {number: one for one, number in self.numbers.items()}
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
    result: AnyArray = _values(volume, box) >= threshold
    return result


def _values(volume: VolumeSource, box: Box) -> AnyArray:
    data = volume.read(box)[..., 0]
    if volume.info.scale is None:
        return data
    scaled: AnyArray = scaled_values(data, *volume.info.scale)
    return scaled


def _above(read: _Read, threshold: float, box: Box) -> AnyArray:
    data = read(box)
    result: AnyArray = data if data.dtype == np.bool_ else data >= threshold
    return result


def _region(read: _Read, labels: tuple[int, ...], box: Box) -> AnyArray:
    result: AnyArray = np.isin(np.rint(read(box)), labels)
    return result


def _read_contours(contours: Contours, info: VolumeInfo, source: str, skip: bool, box: Box) -> AnyArray:
    mask: AnyArray = filled(contours, info.affine, info.grid, box, source, skip=skip)
    return mask


def _info_of(like: Any, open_volume: Callable[[Any], VolumeSource]) -> VolumeInfo:
    """Return the info of the image: of a reader, or of a file that is opened for it."""
    info = getattr(like, "info", None)
    if info is None:
        info = open_volume(like).info
    result: VolumeInfo = info
    return result


def _own_info(source: str, grid: tuple[int, int, int], affine: Any) -> VolumeInfo:
    return info_of_array(source, "dicom-seg", grid, np.uint8, "DHW", affine, "dicom")
