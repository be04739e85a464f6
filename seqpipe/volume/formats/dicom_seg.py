"""DICOM segmentations: binary, fractional and label maps, by pydicom, on the grid of their frames.

DICOM PS3.3, A.51 and C.8.20. Frames without a voxel are usually left out: their slices are 0.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import UnreadableSourceError
from ..info import VolumeInfo
from ..source import AnyArray, Box, Source
from ..space import from_axes
from .dicom_file import frames_of, header_of, readable
from .dicom_frames import slices_of
from .dicom_series import DicomSlice
from .indexed import IndexedVolume, info_of_array

__all__ = [
    "Segmentation",
    "is_segmentation",
    "names_segments",
    "open_segmentation",
    "overlapping",
    "segmentation_of",
]

_CLASSES: Final = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
_APART: Final = 1e-2
_SHOWN: Final = 12


@dataclass(eq=False)
class Segmentation:
    """The segments of a file.

    Attributes:
        source: the file.
        kind: ``"BINARY"``, ``"FRACTIONAL"`` or ``"LABELMAP"``.
        names: number of a segment → its label.
        frames: (segment, slice) of each frame; the segment of a label map is 0.
        grid: slices, rows and columns.
        affine: affine over (d, h, w).
        most: value of a fractional segment that stands for 1.
    """

    source: Source
    kind: str
    names: dict[int, str]
    frames: tuple[tuple[int, int], ...]
    grid: tuple[int, int, int]
    affine: FloatArray
    most: int = 1
    _pixels: list[AnyArray] = field(default_factory=list)

    def pixels(self) -> list[AnyArray]:
        """Return the stored pixels of all frames, which stay in memory until :meth:`close`."""
        if not self._pixels:
            self._pixels = list(frames_of(self.source, range(len(self.frames)), table=False))
        return self._pixels

    def read(self, number: int, box: Box) -> AnyArray:
        """Return a window of a segment: bool, or float32 in [0, 1] if it is fractional; ``DHW``."""
        out: AnyArray = np.zeros(box.shape, np.float32 if self.kind == "FRACTIONAL" else np.bool_)
        for (segment, depth), plane in zip(self.frames, self.pixels(), strict=True):
            if box.d[0] <= depth < box.d[1] and segment in (0, number):
                cut = plane[box.slices[1:]]
                if self.kind == "LABELMAP":
                    out[depth - box.d[0]] = cut == number
                else:
                    out[depth - box.d[0]] = (
                        cut / np.float32(self.most) if self.kind == "FRACTIONAL" else cut > 0
                    )
        return out

    def number_of(self, key: str) -> int:
        """Return the number of a segment, by its label or number."""
        found = [number for number, name in self.names.items() if key in (name, str(number))]
        if len(found) == 1:
            return found[0]
        listed = "; ".join(f"{number} ({name})" for number, name in [*self.names.items()][:_SHOWN])
        raise UnreadableSourceError(
            f"there is no segment {key!r}" if not found else f"{len(found)} segments have the label {key!r}",
            source=self.source.name,
            allowed=listed,
        )

    def close(self) -> None:
        """Close the file, and release its pixels."""
        self._pixels = []
        self.source.close()


def is_segmentation(header: Any, name: str) -> bool:
    """Return whether a header of pydicom is that of a segmentation."""
    with readable(name):
        return str(header.get("SOPClassUID", "")) in _CLASSES


def names_segments(source: Source) -> bool:
    """Return whether a segmentation describes its segments; else it is a volume of its frames."""
    return "SegmentSequence" in header_of(source, every_tag=True)


def segmentation_of(source: Source) -> Segmentation:
    """Return the segments of a file, without reading its pixels."""
    header = header_of(source, every_tag=True)
    if "SegmentSequence" not in header:
        raise UnreadableSourceError(
            "this segmentation does not describe its segments",
            source=source.name,
            advice="seqpipe.open gives its frames",
        )
    kind = str(header.get("SegmentationType", "BINARY"))
    with readable(source.name):
        kind = "LABELMAP" if str(header.SOPClassUID) == _CLASSES[1] else kind
        names = {
            int(segment.SegmentNumber): str(segment.get("SegmentLabel", ""))
            for segment in header.SegmentSequence
        }
        slices = list(slices_of(source, header))
        numbers = [0] * len(slices)
        if kind != "LABELMAP":
            shared = header.get("SharedFunctionalGroupsSequence") or []
            per_frame = header.get("PerFrameFunctionalGroupsSequence") or []
            numbers = [_segment(group, shared, source) for group in per_frame]
        else:
            names.pop(0, None)  # the background, which a label map may name
        most = int(header.get("MaximumFractionalValue", 255) or 255)
    if len(numbers) != len(slices):
        raise UnreadableSourceError(
            f"{len(slices)} frames have {len(numbers)} descriptions",
            source=source.name,
            advice="Write it again",
        )
    depths, count, affine = _grid(slices, source.name)
    frames = tuple(zip(numbers, depths, strict=True))
    return Segmentation(source, kind, names, frames, (count, slices[0].rows, slices[0].columns), affine, most)


def _segment(group: Any, shared: Any, source: Source) -> int:
    """Return the number of the segment that a frame is of."""
    for item in (group, *shared):
        found = item.get("SegmentIdentificationSequence")
        if found:
            return int(found[0].ReferencedSegmentNumber)
    raise UnreadableSourceError("a frame does not name its segment", source=source.name)


def _grid(slices: Seq[DicomSlice], source: str) -> tuple[list[int], int, FloatArray]:
    """Return the slice of each frame, the number of slices, and the affine of the volume that frames are planes of."""
    first = slices[0]
    if any(
        dicom_slice.position is None or dicom_slice.orientation is None or dicom_slice.spacing is None
        for dicom_slice in slices
    ):
        raise UnreadableSourceError(
            "frames of this segmentation have no position",
            source=source,
            advice="It is of an image without one",
        )
    orientation = np.array(first.orientation, dtype=np.float64)
    if any(np.abs(np.array(dicom_slice.orientation) - orientation).max() > 1e-4 for dicom_slice in slices):
        raise UnreadableSourceError("frames of this segmentation have different orientations", source=source)
    row, column = orientation[:3], orientation[3:]
    normal = np.cross(row, column)
    positions = np.array([dicom_slice.position for dicom_slice in slices], dtype=np.float64)
    along = positions @ normal
    steps = np.diff(np.unique(np.round(along, 4)))
    step = first.thickness or (float(steps.min()) if len(steps) else 1.0)
    if len(steps) and abs(steps.min() - step) > _APART * step and steps.min() < step:
        step = float(steps.min())  # slices overlap, or the header states the thickness alone
    depths = (along - along.min()) / step
    if np.abs(depths - np.rint(depths)).max() > 0.1:
        raise UnreadableSourceError(
            f"frames of this segmentation are not at multiples of {step:g} mm",
            source=source,
            advice="Write it with all of its slices, on the grid of the image",
        )
    whole = np.rint(depths).astype(int)
    origin = positions[along.argmin()]
    if len(steps):  # the axis of slices as it is, also of a tilted gantry
        last = positions[along.argmax()]
        normal = (last - origin) / (whole.max() * step)
    across, down = (first.spacing or (1.0, 1.0))[::-1]
    axes = np.stack([row * across, column * down, normal * step], axis=1)
    return whole.tolist(), int(whole.max()) + 1, from_axes(axes, origin, lps=True)


def open_segmentation(source: Source, key: str | None = None) -> IndexedVolume:
    """Open a segmentation: a label map of the numbers of its segments, or the fractions of each as a channel."""
    found = segmentation_of(source)
    numbers = [*found.names] if key is None else [found.number_of(key)]
    letters, shape, dtype = (
        "DHW",
        [*found.grid],
        np.dtype(np.uint8 if max(numbers, default=0) < 256 else np.uint16),
    )
    if found.kind == "FRACTIONAL":
        letters, shape, dtype = "DHWC", [*found.grid, len(numbers)], np.dtype(np.float32)

    def window(cut: tuple[slice, ...]) -> AnyArray:
        box = Box(*((span.start, span.stop) for span in cut[:3]))
        if found.kind == "FRACTIONAL":
            return np.stack([found.read(number, box) for number in numbers], axis=-1)
        labels = np.zeros(box.shape, dtype)
        for number in numbers:
            mask = found.read(number, box)
            over = labels[mask]
            if over.any():
                raise overlapping(
                    source.name, found.names, int(over[over > 0][0]), number, int((over > 0).sum())
                )
            labels[mask] = number if key is None else 1
        return labels

    info = _info(found, shape, dtype, letters)
    return IndexedVolume(info, letters, window, (source,), found.close)


def _info(found: Segmentation, shape: Seq[int], dtype: Any, letters: str) -> VolumeInfo:
    """Return the facts of a segmentation."""
    header = {"kind": found.kind.lower(), "segments": {str(n): name for n, name in found.names.items()}}
    return info_of_array(
        found.source.name,
        "dicom-seg",
        shape,
        dtype,
        letters,
        found.affine,
        "dicom",
        header=header,
        compressed=True,
    )


def overlapping(
    source: str, names: dict[int, str], one: int, other: int, count: int
) -> UnreadableSourceError:
    """Return the error for two structures that share voxels."""
    return UnreadableSourceError(
        f"{names.get(one, one)!r} and {names.get(other, other)!r} overlap in {count:,} voxels",
        source=source,
        allowed="structures apart, or a rule for their common voxels",
        advice="Read it as seqpipe.volume.LabelFiles(…, overlap='channels'), 'first' or 'last'; or one by key=…",
    )
