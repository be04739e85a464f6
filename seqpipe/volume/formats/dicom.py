"""DICOM: series of files, and multi-frame files, by pydicom and its plug-ins."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ...errors import BackendError, SeqpipeError, UnreadableSourceError
from ..info import VolumeInfo, VolumeLayout, checked_affine
from ..source import AnyArray, Box, Source, chosen_times, damaged
from .dicom_series import DicomSlice, Layers, arranged
from .start import Start

__all__ = ["DicomVolume", "open_file", "open_series"]

_TAGS: Final = (
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
    "InstanceNumber",
    "AcquisitionNumber",
    "TemporalPositionIdentifier",
    "WindowCenter",
    "WindowWidth",
    "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
)
_LISTED: Final = 12


def open_file(source: Source, start: Start) -> DicomVolume:
    """Open the volume of one file, with all of its frames.

    Args:
        source: the file.
        start: its first bytes.

    Raises:
        UnreadableSourceError: it has no image, or its frames do not form a volume.
        BackendError: pydicom is not installed.
    """
    del start
    header = _header(source)
    with _readable(source.name):
        return DicomVolume([source], [header], source.name)


def open_series(sources: Iterable[Source], name: str, series: str | None = None) -> DicomVolume:
    """Open the volume of one series among files.

    Args:
        sources: the files; those without an image are skipped.
        name: name of the folder or list, for messages.
        series: the SeriesInstanceUID, if there are several.

    Raises:
        UnreadableSourceError: there is no such series, there are several, or its slices do not form a volume.
        BackendError: pydicom is not installed.
    """
    by_series: dict[str, list[tuple[Source, Any]]] = {}
    for source in sources:
        try:
            header = _header(source)
        except UnreadableSourceError:
            continue  # a DICOMDIR, a report or another file next to the slices
        finally:
            source.close()
        by_series.setdefault(str(header.get("SeriesInstanceUID", "")), []).append((source, header))
    if series is not None and series in by_series:
        chosen = by_series[series]
    elif len(by_series) == 1 and series is None:
        (chosen,) = by_series.values()
    else:
        raise _which(by_series, name, series)
    with _readable(name):
        return DicomVolume([source for source, _ in chosen], [header for _, header in chosen], name)


class DicomVolume:
    """A :class:`~seqpipe.volume.source.VolumeSource` of DICOM slices.

    Args:
        sources: the files.
        headers: their headers from pydicom, without pixels.
        name: common name of the files.

    Raises:
        UnreadableSourceError: the slices do not form a volume.
    """

    def __init__(self, sources: Seq[Source], headers: Seq[Any], name: str) -> None:
        self._sources = {source.name: source for source in sources}
        slices = [
            one for source, header in zip(sources, headers, strict=True) for one in _slices(source, header)
        ]
        self._layers = arranged(slices, name)
        scales = {one.scale for volume in self._layers.volumes for one in volume}
        self._scaled = len(scales) > 1
        self._type = _pixel_type(headers, name)
        self.info = _info(self._layers, headers[0], name, self._type, scales)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Return stored voxels; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        wanted = [self._layers.volumes[time][box.d[0] : box.d[1]] for time in chosen]
        voxels = np.empty((len(chosen), *box.shape, self.info.channels), dtype=self.info.dtype)
        planes_by_file: dict[str, list[tuple[DicomSlice, AnyArray]]] = {}
        for volume, target in zip(wanted, voxels, strict=True):
            for one, plane in zip(volume, target, strict=True):
                planes_by_file.setdefault(one.name, []).append((one, plane))
        _, rows, columns = box.slices
        for file, parts in planes_by_file.items():
            frames = _frames(self._sources[file], [one.frame for one, _ in parts])
            for (one, plane), pixels in zip(parts, frames, strict=True):
                if pixels.size != one.rows * one.columns * self.info.channels:
                    raise damaged(file, f"{pixels.shape} pixels are not {one.rows}×{one.columns}")
                cut = pixels.reshape(one.rows, one.columns, -1)[rows, columns]
                plane[:] = cut.astype(np.float64) * one.scale[0] + one.scale[1] if self._scaled else cut
        return voxels if self.info.layout == "FDHWC" else voxels[0]

    @property
    def sources(self) -> Seq[Source]:
        """Files that hold the voxels."""
        return tuple(self._sources.values())

    def close(self) -> None:
        """Close the files."""
        for source in self._sources.values():
            source.close()


def _info(
    layers: Layers, header: Any, name: str, kind: np.dtype[Any], scales: set[tuple[float, float]]
) -> VolumeInfo:
    first = layers.volumes[0]
    channels = int(header.get("SamplesPerPixel", 1) or 1)
    shape: tuple[int, ...] = (len(first), first[0].rows, first[0].columns, channels)
    layout: VolumeLayout = "DHWC"
    if len(layers.volumes) > 1:
        shape, layout = (len(layers.volumes), *shape), "FDHWC"
    affine, more = checked_affine(layers.affine, name)
    notes = [*layers.notes, *more]
    if len(scales) > 1:
        notes.append("slices have different slopes: they are scaled when they are read, to float32")
    scale = next(iter(scales))
    return VolumeInfo(
        source=name,
        format="dicom",
        shape=shape,
        layout=layout,
        dtype=np.dtype(np.float32) if len(scales) > 1 else kind,
        affine=affine,
        space=layers.space,
        scale=scale if len(scales) == 1 and scale != (1.0, 0.0) else None,
        notes=tuple(notes),
        header=_facts(header),
    )


def _facts(header: Any) -> dict[str, Any]:
    names = {
        "series": "SeriesInstanceUID",
        "description": "SeriesDescription",
        "modality": "Modality",
        "photometric": "PhotometricInterpretation",
    }
    facts: dict[str, Any] = {name: str(header.get(tag)) for name, tag in names.items() if header.get(tag)}
    center, width = _number(header, "WindowCenter"), _number(header, "WindowWidth")
    if center is not None and width is not None:
        facts["window"] = [center, width]
    meta = getattr(header, "file_meta", None)
    if meta is not None and "TransferSyntaxUID" in meta:
        facts["transfer_syntax"] = str(meta.TransferSyntaxUID.name)
    return facts


def _pixel_type(headers: Seq[Any], name: str) -> np.dtype[Any]:
    kinds = Counter(
        (
            int(h.get("BitsAllocated", 16)),
            int(h.get("PixelRepresentation", 0) or 0),
            int(h.get("SamplesPerPixel", 1) or 1),
        )
        for h in headers
    )
    if len(kinds) > 1:
        listed = ", ".join(
            f"{n} of {b} bits{', signed' if s else ''}" for (b, s, _), n in kinds.most_common()
        )
        raise UnreadableSourceError(f"slices have different types: {listed}", source=name)
    bits, signed, _ = next(iter(kinds))
    if bits not in (8, 16, 32):
        raise UnreadableSourceError(f"pixels have {bits} bits", source=name, allowed="8, 16 or 32 bits")
    return np.dtype(f"{'i' if signed else 'u'}{bits // 8}")


def _slices(source: Source, header: Any) -> Iterator[DicomSlice]:
    """Yield the slices of one file: its frames, or the file itself."""
    count = int(header.get("NumberOfFrames", 1) or 1)
    shared = _group(header, "SharedFunctionalGroupsSequence", 0)
    several = count > 1 or "PerFrameFunctionalGroupsSequence" in header
    for frame in range(count):
        own = _group(header, "PerFrameFunctionalGroupsSequence", frame) if several else None
        groups = [own, shared, header]
        measures = _first(groups, "PixelMeasuresSequence", ("PixelSpacing",))
        position = _first(groups, "PlanePositionSequence", ("ImagePositionPatient",))
        if several and own is None and shared is None and count > 1:
            position = None  # one position for all frames, which are no volume
        orientation = _first(groups, "PlaneOrientationSequence", ("ImageOrientationPatient",))
        transformed = _first(groups, "PixelValueTransformationSequence", ("RescaleSlope",))
        content = _first([own], "FrameContentSequence", ("TemporalPositionIndex",))
        spacing = _values(measures, "PixelSpacing", 2) or _values(header, "ImagerPixelSpacing", 2)
        thickness = _number(measures, "SpacingBetweenSlices") or _number(measures, "SliceThickness")
        slope, intercept = _number(transformed, "RescaleSlope"), _number(transformed, "RescaleIntercept")
        yield DicomSlice(
            name=source.name,
            frame=frame,
            rows=int(header.Rows),
            columns=int(header.Columns),
            position=_values(position, "ImagePositionPatient", 3),
            orientation=_values(orientation, "ImageOrientationPatient", 6),
            spacing=None if spacing is None else (spacing[0], spacing[1]),
            thickness=thickness or _number(header, "SliceThickness"),
            scale=(slope or 1.0, 0.0 if intercept is None else intercept),
            number=frame if count > 1 else int(_number(header, "InstanceNumber") or 0),
            group=(
                int(
                    _number(content, "TemporalPositionIndex")
                    or _number(header, "TemporalPositionIdentifier")
                    or 0
                ),
                int(_number(header, "AcquisitionNumber") or 0),
            ),
        )


def _group(header: Any, name: str, index: int) -> Any:
    sequence = header.get(name)
    return sequence[index] if sequence is not None and index < len(sequence) else None


def _first(groups: Seq[Any], sequence: str, fields: Seq[str]) -> Any:
    """Return the data set with the fields: an item of the sequence, or the data set that contains it."""
    for group in groups:
        if group is None:
            continue
        inner = group.get(sequence)
        if inner is not None and len(inner) and fields[0] in inner[0]:
            return inner[0]
        if fields[0] in group:
            return group
    return None


def _values(group: Any, name: str, count: int) -> tuple[float, ...] | None:
    value = None if group is None else group.get(name)
    if value is None or not hasattr(value, "__len__") or len(value) != count:
        return None
    return tuple(float(part) for part in value)


def _number(group: Any, name: str) -> float | None:
    value = None if group is None else group.get(name)
    if value is None or value == "":
        return None
    if hasattr(value, "__len__") and not isinstance(value, str):
        value = value[0] if len(value) else None
    return None if value is None else float(value)


def _header(source: Source) -> Any:
    """Return the header of a file, without its pixels.

    Raises:
        UnreadableSourceError: it is not a DICOM file, or has no image.
    """
    with _readable(source.name):
        header = _pydicom().dcmread(source.for_demuxer(), stop_before_pixels=True, specific_tags=list(_TAGS))
    if "Rows" not in header or "Columns" not in header:
        raise UnreadableSourceError(
            "this DICOM file has no image",
            source=source.name,
            advice="Choose a file with pixels, or a folder",
        )
    return header


def _frames(source: Source, frames: Seq[int]) -> Iterator[AnyArray]:
    """Yield the stored pixels of frames of a file."""
    with _readable(source.name):
        dataset = _pydicom().dcmread(source.for_demuxer())
        count = int(dataset.get("NumberOfFrames", 1) or 1)
        try:
            pixels = dataset.pixel_array
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


@contextmanager
def _readable(name: str) -> Iterator[None]:
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


def _pydicom() -> Any:
    try:
        import pydicom
    except ImportError as error:
        raise BackendError(
            "pydicom is not installed", advice="Install it: pip install 'seqpipe[dicom]'"
        ) from error
    return pydicom


def _which(
    by_series: dict[str, list[tuple[Source, Any]]], name: str, series: str | None
) -> UnreadableSourceError:
    if not by_series:
        return UnreadableSourceError("there is no DICOM file with an image", source=name)
    ordered = sorted(by_series.items(), key=lambda item: -len(item[1]))
    listed = "; ".join(
        f"{uid or 'without a UID'} ({files[0][1].get('SeriesDescription') or 'no description'}, {len(files)} files)"
        for uid, files in ordered[:_LISTED]
    )
    more = f"; and {len(by_series) - _LISTED} more" if len(by_series) > _LISTED else ""
    fact = f"there are {len(by_series)} series" if series is None else f"there is no series {series!r}"
    return UnreadableSourceError(fact, source=name, allowed=listed + more, advice="Choose one by series=…")
