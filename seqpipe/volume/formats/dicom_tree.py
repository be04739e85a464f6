"""DICOM trees: the files of patients, studies and series in a folder at any depth, or as a DICOMDIR lists them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...core.lazy import import_optional
from ...errors import SourceError, UnreadableSourceError
from ..source import open_source
from .dicom_file import dataset_of, is_dicom, readable

__all__ = ["DicomSeries", "files_of_tree", "is_directory", "list_series"]

_DIRECTORY: Final = "DICOMDIR"
_TAGS: Final = (
    "PatientID",
    "StudyInstanceUID",
    "SeriesInstanceUID",
    "SeriesDescription",
    "Modality",
    "ReferencedSeriesSequence",
    "ReferencedFrameOfReferenceSequence",
)


@dataclass(frozen=True)
class DicomSeries:
    """One series of a DICOM tree.

    Attributes:
        uid: SeriesInstanceUID.
        patient: PatientID.
        study: StudyInstanceUID.
        description: SeriesDescription, or "".
        modality: such as ``"CT"``, ``"SEG"``, ``"RTSTRUCT"``.
        files: its files, in the order of their names.
        labeled: SeriesInstanceUID of the images that a segmentation or structure set is of, or "".
    """

    uid: str
    patient: str
    study: str
    description: str
    modality: str
    files: tuple[str, ...]
    labeled: str = ""


def is_directory(path: str) -> bool:
    """Return whether a file is a DICOMDIR, by its name and content."""
    return Path(path).name.upper() == _DIRECTORY and os.path.isfile(path) and is_dicom(open_source(path))  # noqa: PTH113


def list_series(root: str) -> list[DicomSeries]:
    """List the series of a folder, at any depth, or of a DICOMDIR, ordered by patient, study and series.

    Raises:
        SourceError: a file cannot be read, or there is no series.
        BackendError: pydicom is not installed.
    """
    headers: dict[str, Any] = {}
    files: dict[str, list[str]] = {}
    for path in files_of_tree(root):
        source = open_source(path)
        try:
            header = dataset_of(source, list(_TAGS))
        finally:
            source.close()
        uid = str(header.get("SeriesInstanceUID", ""))
        if uid:  # a DICOMDIR has none
            headers.setdefault(uid, header)
            files.setdefault(uid, []).append(path)
    if not headers:
        raise UnreadableSourceError(
            "there is no DICOM series", source=root, allowed="DICOM files at any depth"
        )
    found = [_series(uid, header, files[uid]) for uid, header in headers.items()]
    return sorted(found, key=lambda series: (series.patient, series.study, series.uid))


def files_of_tree(root: str) -> Iterator[str]:
    """Yield the DICOM files of a folder at any depth, or those that a DICOMDIR lists."""
    if is_directory(root):
        yield from _files_of_directory(root)
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = f"{folder}/{name}"
            if not name.startswith(".") and name.upper() != _DIRECTORY and _is_dicom(path):
                yield path


def _is_dicom(path: str) -> bool:
    """Return whether a file of a folder is DICOM; an empty file is not."""
    try:
        return is_dicom(open_source(path))
    except SourceError:
        return False


def _files_of_directory(path: str) -> list[str]:
    """Return the files that a DICOMDIR lists."""
    pydicom = import_optional("pydicom", "dicom", path)
    with readable(path):
        records = pydicom.dcmread(path).DirectoryRecordSequence
    names = [record.ReferencedFileID for record in records if "ReferencedFileID" in record]
    parts = [[name] if isinstance(name, str) else list(name) for name in names]
    found = [os.path.join(os.path.dirname(path), *part) for part in parts]  # noqa: PTH118, PTH120  paths as text
    missing = [name for name in found if not os.path.isfile(name)]  # noqa: PTH113
    if missing:
        raise UnreadableSourceError(
            f"{len(missing)} of the {len(found)} listed files do not exist, such as {missing[0]}",
            source=path,
            advice="Copy the whole medium, with its folders",
        )
    return found


def _series(uid: str, header: Any, files: list[str]) -> DicomSeries:
    """Return the series of a header."""
    return DicomSeries(
        uid,
        str(header.get("PatientID", "")),
        str(header.get("StudyInstanceUID", "")),
        str(header.get("SeriesDescription", "")),
        str(header.get("Modality", "")),
        tuple(sorted(files)),
        _labeled(header),
    )


def _labeled(header: Any) -> str:
    """Return the series that a segmentation or structure set refers to."""
    for item in header.get("ReferencedSeriesSequence") or []:
        return str(item.get("SeriesInstanceUID", ""))
    for frame in header.get("ReferencedFrameOfReferenceSequence") or []:
        for study in frame.get("RTReferencedStudySequence") or []:
            for item in study.get("RTReferencedSeriesSequence") or []:
                return str(item.get("SeriesInstanceUID", ""))
    return ""
