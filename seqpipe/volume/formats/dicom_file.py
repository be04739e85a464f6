"""One DICOM file, read by pydicom and its plug-ins: its header, its pixels, and what a file without pixels is."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ...core.lazy import import_optional
from ...errors import BackendError, SeqpipeError, UnreadableSourceError
from ..source import AnyArray, Source, damaged
from .start import Start, unpacked

__all__ = ["NoPixelsError", "dataset_of", "frames_of", "header_of", "is_dicom", "pixel_type", "readable"]

TAGS: Final = (
    "SOPClassUID",
    "ImageType",
    "SeriesInstanceUID",
    "SeriesDescription",
    "Modality",
    "PatientID",
    "Rows",
    "Columns",
    "BitsAllocated",
    "PixelRepresentation",
    "SamplesPerPixel",
    "PhotometricInterpretation",
    "NumberOfFrames",
    "ImagePositionPatient",
    "ImageOrientationPatient",
    "PixelSpacing",
    "ImagerPixelSpacing",
    "SpacingBetweenSlices",
    "SliceThickness",
    "RescaleSlope",
    "RescaleIntercept",
    "ModalityLUTSequence",
    "RealWorldValueMappingSequence",
    "DoseGridScaling",
    "GridFrameOffsetVector",
    "RepetitionTime",
    "InstanceNumber",
    "AcquisitionNumber",
    "TemporalPositionIdentifier",
    "EchoTime",
    "TriggerTime",
    "FrameReferenceTime",
    "DimensionIndexSequence",
    "DiffusionBValue",
    "DiffusionGradientOrientation",
    "WindowCenter",
    "WindowWidth",
    "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
)
_PIXELS: Final = {0x7FE00010: "", 0x7FE00008: "f4", 0x7FE00009: "f8"}
"""Tags of pixels → their dtype; that of Pixel Data follows from the header."""
_IMAGES: Final = ("Image Storage", "Dose Storage", "Segmentation Storage", "Parametric Map", "Tomography")
_INTEGERS: Final = (1, 8, 16, 32, 64)


class NoPixelsError(UnreadableSourceError):
    """A sound DICOM file that holds no image: a report, contours, a plan, a directory."""


def is_dicom(source: Source) -> bool:
    """Return whether a file is a DICOM file by its content, packed by gzip or not."""
    return Start(source).kind == "dicom"


def header_of(source: Source, *, every_tag: bool = False) -> Any:
    """Return the header of a file, without its pixels; ``pixels`` of the result is the dtype of float pixels, or ""."""
    pydicom, found = import_optional("pydicom", "dicom"), []

    def at_pixels(tag: Any, _vr: str | None, _length: int) -> bool:
        if tag in _PIXELS:
            found.append(int(tag))
        return bool(found)

    tags = None if every_tag else [pydicom.tag.Tag(name) for name in TAGS]
    with readable(source.name), _file(source) as file:
        header = pydicom.filereader.read_partial(file, at_pixels, force=_is_bare(source), specific_tags=tags)
        if found and "Rows" in header and "Columns" in header:
            header.pixels = _PIXELS[found[0]]
            return header
        raise _without_pixels(source.name, header)


def dataset_of(source: Source, tags: list[str] | None = None) -> Any:
    """Return the data set of a file, without its pixels."""
    pydicom = import_optional("pydicom", "dicom")
    with readable(source.name), _file(source) as file:
        return pydicom.dcmread(file, stop_before_pixels=True, force=_is_bare(source), specific_tags=tags)


def _without_pixels(name: str, header: Any) -> UnreadableSourceError:
    """Return the error for a file without pixels."""
    uid = header.get("SOPClassUID") or getattr(header, "file_meta", {}).get("MediaStorageSOPClassUID")
    kind, modality = getattr(uid, "name", "") or "", header.get("Modality")
    if kind[:1].isdigit():  # the name of an unknown UID, which may be a part of one, is itself
        kind = f"private object {kind}" if "SeriesInstanceUID" in header else ""
    if kind and "Rows" not in header and not any(word in kind for word in _IMAGES):
        described = f"{kind} ({modality})" if modality else kind
        advice = (
            "Open its folder" if "Directory" in kind else "Choose a file with pixels, or a folder of slices"
        )
        return NoPixelsError(
            f"this DICOM file is no image: it is a {described}, without pixels", source=name, advice=advice
        )
    return UnreadableSourceError(
        f"this DICOM file ends before its pixels{f', although it is a {kind}' if kind else ''}",
        source=name,
        advice="The file was cut short: fetch or copy it again",
    )


def pixel_type(header: Any) -> np.dtype[Any]:
    """Return the dtype of the stored pixels."""
    if header.pixels:
        return np.dtype(str(header.pixels))
    bits = int(header.get("BitsAllocated", 16))
    if bits not in _INTEGERS:
        raise UnreadableSourceError(f"pixels have {bits} bits", allowed="1, 8, 16, 32 or 64 bits")
    signed = bits > 1 and int(header.get("PixelRepresentation", 0) or 0)
    return np.dtype(f"{'i' if signed else 'u'}{max(1, bits // 8)}")


def frames_of(source: Source, frames: Seq[int], *, table: bool) -> Iterator[AnyArray]:
    """Yield the stored pixels of frames of a file."""
    pydicom = import_optional("pydicom", "dicom")
    with readable(source.name), _file(source) as file:
        dataset = pydicom.dcmread(file, force=_is_bare(source))
        if "TransferSyntaxUID" not in dataset.file_meta:
            implicit, little = dataset.original_encoding
            syntaxes = pydicom.uid
            explicit = syntaxes.ExplicitVRLittleEndian if little else syntaxes.ExplicitVRBigEndian
            dataset.file_meta.TransferSyntaxUID = syntaxes.ImplicitVRLittleEndian if implicit else explicit
        count = int(dataset.get("NumberOfFrames", 1) or 1)
        try:
            pixels = dataset.pixel_array
            if table:
                descriptor = dataset.ModalityLUTSequence[0].LUTDescriptor
                descriptor[2] = 8 if descriptor[2] <= 8 else 16  # pydicom knows tables of whole bytes
                pixels = pydicom.pixels.apply_modality_lut(pixels, dataset)
        except (AttributeError, ValueError, IndexError, EOFError) as error:
            raise damaged(source.name, f"the pixels cannot be decoded ({error})") from error
        except (RuntimeError, ImportError) as error:
            syntax = dataset.file_meta.TransferSyntaxUID.name
            raise BackendError(
                f"no plug-in of pydicom decodes {syntax} ({error})",
                source=source.name,
                advice="Install one: pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg",
            ) from error
    for frame in frames:
        yield pixels[frame] if count > 1 else pixels


def _is_bare(source: Source) -> bool:
    """Return whether a file has no preamble, but begins with data elements."""
    return is_dicom(source) and Start(source).head(132)[128:] != b"DICM"


@contextlib.contextmanager
def _file(source: Source) -> Iterator[Any]:
    """Yield the file, unpacked."""
    file = unpacked(source).for_demuxer()
    opened = open(file, "rb") if isinstance(file, str) else file  # noqa: PTH123, SIM115  a path as text
    with contextlib.closing(opened):
        yield opened


@contextlib.contextmanager
def readable(name: str) -> Iterator[None]:
    """Convert pydicom's errors on files, and suppress its warnings about unusual values."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SeqpipeError:
        raise
    except Exception as error:
        # pydicom raises various errors for damaged files
        raise UnreadableSourceError(
            f"pydicom cannot read it ({type(error).__name__}: {error})",
            source=name,
            advice="Download or copy the file again",
        ) from error
