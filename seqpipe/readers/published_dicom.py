"""Series of DICOM files with their segmentations: of a folder or DICOMDIR, and of the Imaging Data Commons."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..core.json_text import parse_json
from ..core.param import check_path
from ..errors import ManifestError, SourceNotFoundError
from ..volume.formats.dicom_tree import DicomSeries, list_series
from ..volume.formats.label_files import LabelFiles
from .published_dataset import PublicDataset, folder_of
from .volumes.listing import IMAGE, LABEL

__all__ = ["dicom", "idc"]

_IDC: Final = "https://portal.imaging.datacommons.cancer.gov"
_IDC_SERIES: Final = ("SeriesInstanceUID", "crdc_series_uuid")
_LABELS: Final = ("SEG", "RTSTRUCT")
_MODALITIES: Final = ("CT", "MR", "PT")


@dataclass(frozen=True)
class _Series:
    """A series of a data set.

    Attributes:
        uid: SeriesInstanceUID, or the number in its place.
        subject: the patient.
        study: StudyInstanceUID, or "".
        modality: its modality.
        labeled: the series that a segmentation is of, or "".
        place: what :func:`seqpipe.open` reads it from; None if it does not exist.
        files: of a segmentation, its files.
    """

    uid: str
    subject: str
    study: str
    modality: str
    labeled: str
    place: str | None
    files: tuple[str, ...] = ()


def dicom(folder: str | os.PathLike[str], *, modalities: Seq[str] = _MODALITIES) -> PublicDataset:
    """List the series of a folder of DICOM files at any depth, or of a DICOMDIR, with their segmentations.

    scans = dicom("/data/pacs_export")
    print(scans)
    train = seqpipe.volumes(scans.cases, Patch(96))

    Each series of the modalities is a case with the part ``image``, and the subject is the patient. Its ``label`` is
    the segmentation or the structure set that refers to it, or, in studies with one series, that of the study. If some
    cases have a label, the others are those for testing. Every file's header is read.

    Args:
        folder: a folder, or the path of a DICOMDIR.
        modalities: modalities of images; other series are left out, and counted in ``notes``.

    Raises:
        SourceError: there is no series, or a file cannot be read.
        BackendError: pydicom is not installed.
    """
    root = check_path("folder", folder)
    found = list_series(root if os.path.isfile(root) else str(folder_of(root)))  # noqa: PTH113  a path as text
    folders = Counter(part for series in found for part in {*map(os.path.dirname, series.files)})
    entries = [
        _Series(
            series.uid,
            series.patient,
            series.study,
            series.modality,
            series.labeled,
            _place(series, folders),
            series.files,
        )
        for series in found
    ]
    others = Counter(
        each.modality or "none" for each in found if each.modality not in (*modalities, *_LABELS)
    )
    listed = ", ".join(f"{count} of {modality}" for modality, count in others.items())
    notes = [f"series of other modalities: {listed}"] if others else []
    return _with_labels("DICOM series", "", root, entries, modalities, notes)


def _place(series: DicomSeries, folders: Mapping[str, int]) -> str:
    """Return the folder of a series; if it is not alone in it, with its UID."""
    inside = {os.path.dirname(path) for path in series.files}  # noqa: PTH120  paths as text
    if len(inside) == 1 and folders[next(iter(inside))] == 1:
        return next(iter(inside))
    return f"{os.path.commonpath(inside)}::{series.uid}"


def idc(
    manifest: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    modalities: Seq[str] = _MODALITIES,
) -> PublicDataset:
    """List downloaded series of the Imaging Data Commons, by a manifest of ``idc-index``.

    chosen = idc_index.IDCClient().index.query("collection_id == 'nlst'").to_csv("nlst.csv")
    scans = idc("nlst.csv", "downloads").checked()

    Each series of the modalities is a case with the part ``image``, and the subject is the patient. Its ``label`` is
    the segmentation or the contours whose ``segmented_SeriesInstanceUID`` names it, or, in studies with one series,
    those of the study. If some cases have a label, the others are those for testing.

    Args:
        manifest: CSV, JSON or JSONL with a row a series: ``SeriesInstanceUID`` or ``crdc_series_uuid``, ``PatientID``,
            and where known ``Modality``, ``StudyInstanceUID``, ``collection_id``, ``segmented_SeriesInstanceUID``.
        folder: folder of the downloads, in which each series has a folder with one of these numbers at the end of its
            name, at any depth.
        modalities: modalities of images; other series are left out.
    """
    name, root = check_path("manifest", manifest), folder_of(folder)
    rows = _idc_rows(name)
    places = {
        part: path
        for path in sorted(root.rglob("*"))
        if path.is_dir()
        for part in (path.name, path.name.rpartition("_")[2])
    }
    entries = []
    for row in rows:
        place = next((places[row[field]] for field in _IDC_SERIES if row.get(field, "") in places), None)
        modality = row.get("Modality", modalities[0])
        is_label = modality in _LABELS and place is not None
        entries.append(
            _Series(
                row[_IDC_SERIES[0]],
                "/".join(filter(None, (row.get("collection_id"), row["PatientID"]))),
                row.get("StudyInstanceUID", ""),
                modality,
                row.get("segmented_SeriesInstanceUID", ""),
                None if place is None else str(place),
                tuple(str(path) for path in sorted(place.iterdir()) if path.suffix != ".json")
                if is_label and place is not None
                else (),
            )
        )
    return _with_labels("Imaging Data Commons", _IDC, str(root), entries, modalities, [])


def _with_labels(
    name: str, home: str, root: str, entries: Seq[_Series], modalities: Seq[str], notes: list[str]
) -> PublicDataset:
    """Return the data set of series: each image with the segmentation that is of it."""
    images = [each for each in entries if each.modality in modalities]
    of_study = Counter(each.study or each.uid for each in images)
    labels: dict[tuple[str, str], list[str]] = {}
    for each in entries:
        if each.modality in _LABELS:
            key = ("series", each.labeled) if each.labeled else ("study", each.study)
            labels.setdefault(key, []).extend(each.files)
    with_label: list[tuple[dict[str, Any], str]] = []
    without: list[tuple[dict[str, Any], str]] = []
    for each in images:
        if each.place is None:
            continue
        found = labels.get(("series", each.uid), [])
        if not found and of_study[each.study] == 1:
            found = labels.get(("study", each.study), [])
        if len(found) > 1:
            notes.append(f"{each.uid} has {len(found)} segmentations: the first one is used")
        if found:
            label = LabelFiles(found[0], like=each.place)
            with_label.append(({IMAGE: each.place, LABEL: label}, each.subject))
        else:
            without.append(({IMAGE: each.place}, each.subject))
    chosen = with_label or without
    missing = [f"{each.uid} of {each.subject.rpartition('/')[2]}" for each in images if each.place is None]
    return PublicDataset(
        name,
        home,
        root,
        tuple(parts for parts, _ in chosen),
        tuple(subject for _, subject in chosen),
        tuple(parts for parts, _ in without) if with_label else (),
        missing=tuple(missing),
        notes=tuple(notes),
    )


def _idc_rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a manifest, as texts by the names of its columns; a series once."""
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
        if name.lower().endswith(".csv"):
            rows: Any = list(csv.DictReader(io.StringIO(text, newline="")))
        elif name.lower().endswith(".jsonl"):
            rows = [parse_json(line) for line in text.splitlines() if line.strip()]
        else:
            rows = parse_json(text)
    except FileNotFoundError as error:
        raise SourceNotFoundError("no such file", source=name) from error
    except (OSError, ValueError, csv.Error) as error:
        raise ManifestError(
            f"it cannot be read ({error})", source=name, allowed="CSV, JSON or JSONL"
        ) from error
    if isinstance(rows, dict) and all(
        isinstance(column, dict) for column in rows.values()
    ):  # as pandas writes it
        numbers = dict.fromkeys(number for column in rows.values() for number in column)
        rows = [{field: column.get(number) for field, column in rows.items()} for number in numbers]
    found: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows if isinstance(rows, list) else [], 1):
        known = (
            {str(k): str(v) for k, v in row.items() if v not in (None, "")} if isinstance(row, dict) else {}
        )
        series = next((known[field] for field in _IDC_SERIES if field in known), None)
        if series is None or "PatientID" not in known:
            raise ManifestError(
                f"row {number} names no series of a patient, but {', '.join(known) or 'nothing'}",
                source=name,
                allowed="SeriesInstanceUID or crdc_series_uuid, and PatientID",
            )
        found.setdefault(series, {_IDC_SERIES[0]: series, **known})
    if not found:
        raise ManifestError("the manifest lists no series", source=name, allowed="a row a series")
    return [*found.values()]
