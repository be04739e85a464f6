"""DICOM segmentations of labels, written by the package highdicom beside the series that they are of."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...array import to_numpy
from ...core.lazy import import_optional
from ...core.natural_order import natural_order
from ...core.whole_file import replacing
from ...errors import OutputError, ParameterError, UnreadableSourceError
from ...sequence import Sequence
from ..reader import VolumeReader

__all__ = ["save_dicom_seg"]


def save_dicom_seg(
    labels: Sequence,
    path: str | os.PathLike[str],
    series: str | os.PathLike[str],
    names: Mapping[int, str],
    *,
    series_description: str = "Segmentation",
) -> None:
    """Write labels as a DICOM segmentation of a series: binary, a segment a class, with the series' patient and study.

    Args:
        labels: integers ``DHWC`` of one channel, on the grid of the series.
        path: path of the file.
        series: folder of the series, with a file a slice.
        names: label → name of its segment; other labels are left out.
        series_description: description of the new series.

    Raises:
        ParameterError: the labels are on another grid, or a named label is no class.
        SourceError: the series cannot be read.
        BackendError: highdicom is not installed.
        OutputError: the file cannot be written.
    """
    highdicom, pydicom = _packages(os.fspath(path))
    with VolumeReader(series) as reader:
        info = reader.info
    sources, data = _slices(pydicom, os.fspath(series)), to_numpy(labels.data)
    placed = labels.affine is not None and np.allclose(labels.affine, info.affine, atol=1e-3)
    if data.shape != (*info.grid, 1) or not placed or len(sources) != info.grid[0]:
        raise ParameterError(
            f"labels of {data.shape[:3]} voxels are not on the grid of the series of {info.where()}",
            source=os.fspath(series),
            allowed="labels on its grid",
            advice="Resample them: seqpipe.volume.resample(labels, like=seqpipe.open(series), interp='vote')",
        )
    if not names or any(not 0 < number < 1 << 16 for number in names):
        raise ParameterError(f"names={dict(names)!r} is not valid", allowed="labels from 1 → names")
    masks = np.stack([data[..., 0] == number for number in names], axis=-1).astype(np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unusual values of the source's fields
        file = highdicom.seg.Segmentation(
            sources,
            masks,
            highdicom.seg.SegmentationTypeValues.BINARY,
            _segments(highdicom, names.values()),
            highdicom.UID(),
            int(sources[0].get("SeriesNumber") or 0) + 100,
            highdicom.UID(),
            1,
            "seqpipe",
            "seqpipe",
            "1",
            "0",
            series_description=series_description,
        )
    try:
        with replacing(Path(path)) as part:
            file.save_as(part)
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", source=os.fspath(path)) from error


def _packages(path: str) -> tuple[Any, Any]:
    """Return the packages highdicom and pydicom."""
    return import_optional("highdicom", "highdicom", path), import_optional("pydicom", "highdicom", path)


def _segments(highdicom: Any, names: Iterable[str]) -> list[Any]:
    """Describe the segments 1, 2, … as tissue that a program has found."""
    code = highdicom.sr.CodedConcept
    program = highdicom.AlgorithmIdentificationSequence(
        "seqpipe", code("123110", "DCM", "Artificial Intelligence"), "1"
    )
    automatic = highdicom.seg.SegmentAlgorithmTypeValues.AUTOMATIC
    tissue = code("85756007", "SCT", "Tissue")
    return [
        highdicom.seg.SegmentDescription(number, name, tissue, tissue, automatic, program)
        for number, name in enumerate(names, 1)
    ]


def _slices(pydicom: Any, folder: str) -> list[Any]:
    """Return the data sets of a series in the order of the reader's slices, with the fields that a study needs."""
    names = natural_order(path.name for path in Path(folder).iterdir() if path.is_file())
    found = [pydicom.dcmread(Path(folder, name), force=True) for name in names if not name.startswith(".")]
    found = [
        dataset
        for dataset in found
        if "ImagePositionPatient" in dataset and int(dataset.get("NumberOfFrames", 1) or 1) == 1
    ]
    if not found:
        raise UnreadableSourceError(
            "there is no slice with a position", source=folder, allowed="a series with a file a slice"
        )
    normal = np.cross(found[0].ImageOrientationPatient[:3], found[0].ImageOrientationPatient[3:])
    for dataset in found:
        for keyword in _OF_STUDY:
            if keyword not in dataset:
                setattr(dataset, keyword, "")
        for keyword in ("StudyInstanceUID", "FrameOfReferenceUID"):
            if not dataset.get(keyword):
                setattr(dataset, keyword, found[0].get(keyword) or pydicom.uid.generate_uid())
    return sorted(found, key=lambda dataset: float(np.dot(normal, dataset.ImagePositionPatient)))


_OF_STUDY = (
    "PatientName",
    "PatientID",
    "PatientBirthDate",
    "PatientSex",
    "AccessionNumber",
    "StudyID",
    "StudyDate",
    "StudyTime",
    "ReferringPhysicianName",
)
"""Fields that a segmentation copies, and that may be empty."""
