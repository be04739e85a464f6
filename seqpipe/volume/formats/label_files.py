"""LabelFiles: labels as clinics store them - a file a structure, segmentations, contours, regions - as one volume."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ...core.param import choice
from ...errors import ParameterError

__all__ = ["LabelFiles", "Overlap"]

Overlap: TypeAlias = Literal["raise", "first", "last", "channels"]

_OVERLAP: Final = choice("overlap", "Voxels of several structures", ("raise", "first", "last", "channels"))
_OUTSIDE: Final = choice("outside", "Contours outside of the image", ("raise", "skip"))


@dataclass(frozen=True)
class LabelFiles:
    """Labels of one case from files that are no label map, as an origin of :func:`seqpipe.open` and of cases.

    labels = LabelFiles({"cord": "cord.nii.gz", "lesion": "lesion.nii.gz"}, overlap="last")
    labels = LabelFiles("rtstruct.dcm", like="ct", classes={"Heart": 1, "Lung_L": 2})
    labels = LabelFiles("seg.nii.gz", regions={"WT": (1, 2, 4), "TC": (1, 4), "ET": (4,)})

    The result is a label map, uint8 or uint16 ``DHWC`` of one channel; with ``overlap="channels"`` or ``regions``, a
    mask of 0 and 1 a channel.

    Attributes:
        files: one file for each structure, whose voxels are its mask; or a DICOM segmentation, an RT structure set, or,
            with ``regions``, a label map.
        like: volume that defines the grid: the image, as a path, folder or reader; required for contours. By default
            the grid of the first file, which all of them share.
        classes: name of a structure → its label, or the names in the order of labels from 1; others are left out. By
            default all: numbers of segments, or the order in which they are given.
        overlap: voxels of several structures: an error, the first or the last structure in the order of ``classes``,
            or a channel for each structure.
        regions: name of a region → the labels it consists of; regions may overlap, and are channels.
        threshold: least value of a mask or fraction that belongs to its structure.
        outside: contours outside of the image: an error, or left out.

    Raises:
        ParameterError: an argument is invalid.
    """

    files: Any
    like: Any = None
    classes: Mapping[str, int] | Seq[str] | None = None
    overlap: Overlap = "raise"
    regions: Mapping[str, Seq[int]] | None = None
    threshold: float = 0.5
    outside: Literal["raise", "skip"] = "raise"

    def __post_init__(self) -> None:
        _OVERLAP.check(self.overlap)
        _OUTSIDE.check(self.outside)
        if isinstance(self.files, Mapping) and not self.files:
            raise ParameterError("files is empty", source="LabelFiles", allowed="one file or more")
        if self.regions is not None and (isinstance(self.files, Mapping) or self.classes is not None):
            raise ParameterError(
                "regions are made of the labels of one label map",
                source="LabelFiles",
                allowed="regions with one file, and without classes",
            )
        numbers = [*self.wanted().values()]
        if any(not 0 < number < 1 << 16 for number in numbers) or len(set(numbers)) < len(numbers):
            raise ParameterError(
                f"classes={self.classes!r} is not valid",
                source="LabelFiles",
                allowed="different numbers from 1 to 65535",
            )

    def __str__(self) -> str:
        files = self.files.values() if isinstance(self.files, Mapping) else [self.files]
        return " + ".join(str(file) for file in files)

    def wanted(self) -> dict[str, int]:
        """Return the label of each structure; nothing if all are wanted."""
        if self.classes is None:
            return {}
        if isinstance(self.classes, Mapping):
            return {str(name): int(number) for name, number in self.classes.items()}
        return {str(name): number for number, name in enumerate(self.classes, 1)}
