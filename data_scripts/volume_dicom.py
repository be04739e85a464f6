"""DICOM phantoms: series of slices and multi-frame files, written by pydicom."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, EnhancedMRImageStorage, ExplicitVRLittleEndian, generate_uid

__all__ = ["multi_frame", "slices_of", "write_slices"]

_SERIES = generate_uid(entropy_srcs=["seqpipe phantom series"])


def slices_of(array: Any, affine: Any, *, uid: str = _SERIES, description: str = "phantom") -> list[Dataset]:
    """One data set a slice; the affine is over (d, h, w), RAS+, and may be sheared along the slices (a tilted gantry).

    Args:
        array: int16 ``DHW``.
        affine: 4×4.
        uid: the SeriesInstanceUID.
        description: of the series.
    """
    lps = np.diag([-1.0, -1.0, 1.0, 1.0]) @ np.asarray(affine)
    rows, columns = np.linalg.norm(lps[:3, 1]), np.linalg.norm(lps[:3, 2])
    made = []
    for number, pixels in enumerate(array):
        one = _common(uid, description)
        one.SOPInstanceUID = generate_uid(entropy_srcs=[uid, str(number)])
        one.file_meta.MediaStorageSOPInstanceUID = one.SOPInstanceUID
        one.InstanceNumber = number + 1
        one.Rows, one.Columns = pixels.shape
        one.ImagePositionPatient = [f"{x:.6f}" for x in (lps @ [number, 0, 0, 1])[:3]]
        one.ImageOrientationPatient = [f"{x:.10f}" for x in (*lps[:3, 2] / columns, *lps[:3, 1] / rows)]
        one.PixelSpacing = [f"{rows:.8f}", f"{columns:.8f}"]
        one.SliceThickness = f"{np.linalg.norm(lps[:3, 0]):.6f}"
        one.RescaleSlope, one.RescaleIntercept = "1", "0"
        one.PixelData = np.ascontiguousarray(pixels).tobytes()
        made.append(one)
    return made


def write_slices(folder: Path, slices: list[Dataset]) -> Path:
    """The slices as files, in an order of names that is not that of their places."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(slices):
        one.save_as(folder / f"IM{(number * 7919) % 10007:05d}", enforce_file_format=True)
    return folder


def multi_frame(path: Path, array: Any, affine: Any) -> Path:
    """An enhanced multi-frame file, frames with functional groups of their own."""
    plain = slices_of(array, affine)
    one = copy.deepcopy(plain[0])
    one.SOPClassUID = one.file_meta.MediaStorageSOPClassUID = EnhancedMRImageStorage
    one.NumberOfFrames = len(plain)
    for name in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "SliceThickness"):
        delattr(one, name)
    shared, measures, orientation = Dataset(), Dataset(), Dataset()
    measures.PixelSpacing, measures.SliceThickness = plain[0].PixelSpacing, plain[0].SliceThickness
    orientation.ImageOrientationPatient = plain[0].ImageOrientationPatient
    shared.PixelMeasuresSequence, shared.PlaneOrientationSequence = (
        Sequence([measures]),
        Sequence([orientation]),
    )
    one.SharedFunctionalGroupsSequence = Sequence([shared])
    groups = []
    for frame in plain:
        group, position = Dataset(), Dataset()
        position.ImagePositionPatient = frame.ImagePositionPatient
        group.PlanePositionSequence = Sequence([position])
        groups.append(group)
    one.PerFrameFunctionalGroupsSequence = Sequence(groups)
    one.PixelData = b"".join(frame.PixelData for frame in plain)
    one.save_as(path, enforce_file_format=True)
    return path


def _common(uid: str, description: str) -> Dataset:
    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    one.file_meta.MediaStorageSOPClassUID = one.SOPClassUID = CTImageStorage
    one.Modality, one.SeriesDescription = "CT", description
    one.PatientName, one.PatientID = "Phantom", "seqpipe"
    one.SeriesInstanceUID, one.StudyInstanceUID = uid, generate_uid(entropy_srcs=["seqpipe phantom study"])
    one.SamplesPerPixel, one.PhotometricInterpretation = 1, "MONOCHROME2"
    one.BitsAllocated, one.BitsStored, one.HighBit, one.PixelRepresentation = 16, 16, 15, 1
    return one
