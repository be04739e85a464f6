"""DICOM: series of files, and multi-frame files, by pydicom and its plug-ins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

import numpy as np

from ...core.files.content import HEAD, likely_kind
from ...errors import UnreadableSourceError
from ..info import VolumeInfo, VolumeLayout, checked_affine, checked_shape
from ..source import AnyArray, Box, Source, chosen_times, damaged, open_source
from .dicom_file import NoPixelsError, frames_of, header_of, is_dicom, pixel_type, readable
from .dicom_frames import number, slices_of
from .dicom_seg import is_segmentation, names_segments, open_segmentation
from .dicom_series import DicomSlice, Layers, arranged
from .indexed import IndexedVolume
from .start import Start

__all__ = ["DicomVolume", "open_file", "open_series"]

_LISTED: Final = 12
_NAMED: Final = 4
_FOREIGN: Final = ("dicomdir", "readme", "license", "version", "lockfile")
_DICOM_ENDINGS: Final = (".dcm", ".dicom", ".ima")


def open_file(source: Source, start: Start, key: str | None = None) -> DicomVolume | IndexedVolume:
    """Open the volume of one file, with all of its frames."""
    del start
    return _volume([source], [header_of(source)], source.name, key)


def _volume(
    sources: Seq[Source], headers: Seq[Any], name: str, key: str | None = None
) -> DicomVolume | IndexedVolume:
    """Return the volume of files with their headers."""
    if len(sources) == 1 and is_segmentation(headers[0], name) and names_segments(sources[0]):
        return open_segmentation(sources[0], key)
    with readable(name):
        return DicomVolume(sources, headers, name)


def open_series(origins: Iterable[Any], name: str, series: str | None = None) -> DicomVolume | IndexedVolume:
    """Open the volume of one series among files."""
    by_series: dict[str, list[tuple[Source, Any]]] = {}
    lost: list[_Lost] = []
    endings = set()
    for origin in origins:
        try:
            source = open_source(origin)
        except UnreadableSourceError as error:
            lost.append(_Lost(str(origin), error.fact))  # an empty file
            continue
        try:
            if not is_dicom(source):
                lost.append(_Lost(source.name, "it does not begin as DICOM", source.read([(0, HEAD)])[0]))
                continue
            header = header_of(source)
        except NoPixelsError:
            continue  # a DICOMDIR or a report next to the slices
        except UnreadableSourceError as error:
            lost.append(_Lost(source.name, error.fact, is_certain=True))
            continue
        finally:
            source.close()
        endings.add(_ending(source.name))
        by_series.setdefault(str(header.get("SeriesInstanceUID", "")), []).append((source, header))
    lost = [file for file in lost if file.belongs(endings)]
    if lost:
        raise _incomplete(lost, name)
    if series is not None and series in by_series:
        chosen = by_series[series]
    elif len(by_series) == 1 and series is None:
        (chosen,) = by_series.values()
    else:
        raise _which(by_series, name, series)
    return _volume([source for source, _ in chosen], [header for _, header in chosen], name)


@dataclass(frozen=True)
class _Lost:
    """A file in the folder of a series that cannot be read."""

    name: str
    reason: str
    head: bytes = b""
    is_certain: bool = False

    def belongs(self, endings: set[str]) -> bool:
        """Return whether it was a DICOM file: by its content, or by its name beside those of the others."""
        ending, name = _ending(self.name), PurePath(self.name).name.lower()
        if self.is_certain or ending in _DICOM_ENDINGS or likely_kind(self.head) == "dicom":
            return True
        if ending not in endings or name.startswith(_FOREIGN):
            return False
        is_text = all(32 <= byte < 127 or byte in b"\t\r\n" for byte in self.head)
        return not self.head or not is_text


def _ending(name: str) -> str:
    """Return the ending of a file's name, in lower case; "" for a number, as at the end of a UID."""
    ending = PurePath(name.lower().removesuffix(".gz")).suffix
    return "" if ending[1:].isdigit() else ending


def _incomplete(lost: Seq[_Lost], name: str) -> UnreadableSourceError:
    """Return the error for files of a series that cannot be read."""
    listed = "; ".join(f"{PurePath(file.name).name} ({file.reason})" for file in lost[:_NAMED])
    more = f"; and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    return UnreadableSourceError(
        f"{len(lost)} of the DICOM files cannot be read: {listed}{more}",
        source=name,
        advice="Fetch or copy them again; to go without them, list the files of the series, or move them away",
    )


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
            part
            for source, header in zip(sources, headers, strict=True)
            for part in slices_of(source, header)
        ]
        self._layers = arranged(slices, name)
        scales = {(dicom_slice.scale, dicom_slice.table) for dicom_slice in slices}
        self._scaled = len(scales) > 1
        kind = np.dtype(np.float32) if self._scaled else _pixel_type(sources, headers, name)
        self.info = _info(self._layers, headers, name, kind, scales)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Return stored voxels; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        wanted = [self._layers.volumes[time][box.d[0] : box.d[1]] for time in chosen]
        voxels = np.empty((len(chosen), *box.shape, self.info.channels), dtype=self.info.dtype)
        planes_by_file: dict[str, list[tuple[DicomSlice, AnyArray]]] = {}
        for volume, target in zip(wanted, voxels, strict=True):
            for dicom_slice, plane in zip(volume, target, strict=True):
                planes_by_file.setdefault(dicom_slice.name, []).append((dicom_slice, plane))
        _, rows, columns = box.slices
        for file, parts in planes_by_file.items():
            frames = frames_of(
                self._sources[file], [dicom_slice.frame for dicom_slice, _ in parts], table=parts[0][0].table
            )
            for (dicom_slice, plane), pixels in zip(parts, frames, strict=True):
                top, left, height, width = dicom_slice.tile or (0, 0, dicom_slice.rows, dicom_slice.columns)
                if pixels.size != height * width * self.info.channels:
                    raise damaged(file, f"{pixels.shape} pixels are not {height}×{width}")
                whole = pixels.reshape(height, width, -1)
                cut = whole[top : top + dicom_slice.rows, left : left + dicom_slice.columns][rows, columns]
                plane[:] = (
                    cut.astype(np.float64) * dicom_slice.scale[0] + dicom_slice.scale[1]
                    if self._scaled
                    else cut
                )
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
    layers: Layers,
    headers: Seq[Any],
    name: str,
    kind: np.dtype[Any],
    scales: set[tuple[tuple[float, float], bool]],
) -> VolumeInfo:
    """Return the facts of a volume of slices."""
    header, first = headers[0], layers.volumes[0]
    channels = int(header.get("SamplesPerPixel", 1) or 1)
    shape: tuple[int, ...] = (len(first), first[0].rows, first[0].columns, channels)
    layout: VolumeLayout = "DHWC"
    if len(layers.volumes) > 1:
        shape, layout = (len(layers.volumes), *shape), "FDHWC"
    affine, more = checked_affine(layers.affine, name)
    scale, _ = next(iter(scales))
    repeated_ms = number(header, "RepetitionTime") if first[0].tile is not None else None
    return VolumeInfo(
        source=name,
        format="dicom",
        shape=checked_shape(shape, name),
        layout=layout,
        dtype=kind,
        affine=affine,
        space=layers.space,
        scale=scale if len(scales) == 1 and scale != (1.0, 0.0) else None,
        time_step_s=repeated_ms / 1000 if repeated_ms and layout == "FDHWC" else None,
        notes=(*layers.notes, *more, *_notes(headers, first[0], scales)),
        header=_facts(header),
    )


def _notes(headers: Seq[Any], first: DicomSlice, scales: set[tuple[tuple[float, float], bool]]) -> list[str]:
    """Return what a header states of values, and how it is read."""
    notes = []
    if len(scales) > 1:
        notes.append("slices have different slopes: they are scaled when they are read, to float32")
    if any(table for _, table in scales):
        notes.append("the modality table of the header is applied when voxels are read")
    photometric = {str(header.get("PhotometricInterpretation", "")) for header in headers}
    if "MONOCHROME1" in photometric:
        notes.append(
            "the photometric interpretation is MONOCHROME1: the lowest values are white; they are not inverted"
        )
    if "PALETTE COLOR" in photometric:
        notes.append("voxels are indices of a palette of colors, which is not applied")
    if first.tile is not None:
        notes.append("each file is a mosaic of slices, which are taken apart")
    if any(header.get("RealWorldValueMappingSequence") for header in headers):
        notes.append("the header maps values to real-world units, too, which is not applied")
    return notes


def _facts(header: Any) -> dict[str, Any]:
    """Return further fields of a header."""
    names = {
        "series": "SeriesInstanceUID",
        "description": "SeriesDescription",
        "modality": "Modality",
        "photometric": "PhotometricInterpretation",
    }
    facts: dict[str, Any] = {name: str(header.get(tag)) for name, tag in names.items() if header.get(tag)}
    center, width = number(header, "WindowCenter"), number(header, "WindowWidth")
    if center is not None and width is not None:
        facts["window"] = [center, width]
    meta = getattr(header, "file_meta", None)
    if meta is not None and "TransferSyntaxUID" in meta:
        facts["transfer_syntax"] = str(meta.TransferSyntaxUID.name)
    return facts


def _pixel_type(sources: Seq[Source], headers: Seq[Any], name: str) -> np.dtype[Any]:
    """Return the dtype of the voxels: that of the pixels, or of the results of modality tables."""
    with_table = [header for header in headers if header.get("ModalityLUTSequence")]
    if with_table:
        bits = max(int(header.ModalityLUTSequence[0].LUTDescriptor[2]) for header in with_table)
        return np.dtype(np.uint8 if bits <= 8 else np.uint16)
    kinds = Counter((pixel_type(header), int(header.get("SamplesPerPixel", 1) or 1)) for header in headers)
    ((usual, channels), _), *others = kinds.most_common()
    if others:
        listed = ", ".join(
            f"{count} of {_in_bits(kind)}{f' × {samples}' if samples > 1 else ''}"
            for (kind, samples), count in kinds.most_common()
        )
        other = next(
            PurePath(source.name).name
            for source, header in zip(sources, headers, strict=True)
            if (pixel_type(header), int(header.get("SamplesPerPixel", 1) or 1)) != (usual, channels)
        )
        raise UnreadableSourceError(f"slices have different types: {listed}, {other}", source=name)
    return usual


def _in_bits(kind: np.dtype[Any]) -> str:
    """Return a dtype in words."""
    words = {"i": ", signed", "f": ", floating point"}
    return f"{8 * kind.itemsize} bits{words.get(kind.kind, '')}"


def _which(
    by_series: dict[str, list[tuple[Source, Any]]], name: str, series: str | None
) -> UnreadableSourceError:
    """Return the error that lists the series to choose from."""
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
