"""Slices of one DICOM file: its frames, the planes of a dose, the tiles of a mosaic, or the file itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ...errors import BackendError
from ..source import Source, damaged
from .dicom_file import header_of
from .dicom_series import DicomSlice

__all__ = ["number", "slices_of"]

_COUNT_OF_TILES: Final = (0x0019, 0x100A)
_DIMENSIONS_OF_PLACE: Final = (0x00200032, 0x00209056, 0x00209057)
"""Tags of the position, the stack, and the number in the stack of a frame."""


def slices_of(source: Source, header: Any) -> Iterator[DicomSlice]:
    """Yield the slices of one file."""
    tiled = "MOSAIC" in [str(word).upper() for word in np.atleast_1d(header.get("ImageType") or [])]
    offsets = _dose_offsets(header)
    for frame, frame_slice in enumerate(_frames(source, header)):
        if tiled:
            yield from _tiles(source, frame_slice)
        elif offsets is not None and frame_slice.position is not None and frame_slice.orientation is not None:
            yield replace(frame_slice, position=_dose_place(frame_slice, offsets, frame))
        else:
            yield frame_slice


def _frames(source: Source, header: Any) -> Iterator[DicomSlice]:
    """Yield the frames of one file."""
    count = int(header.get("NumberOfFrames", 1) or 1)
    shared = _group(header, "SharedFunctionalGroupsSequence", 0)
    several = count > 1 or "PerFrameFunctionalGroupsSequence" in header
    for frame in range(count):
        own = _group(header, "PerFrameFunctionalGroupsSequence", frame) if several else None
        groups = [own, shared, header]
        measures = _first(groups, "PixelMeasuresSequence", ("PixelSpacing",))
        position = _first(groups, "PlanePositionSequence", ("ImagePositionPatient",))
        if several and own is None and shared is None and count > 1 and _dose_offsets(header) is None:
            position = None  # one position for all frames, which are no volume
        orientation = _first(groups, "PlaneOrientationSequence", ("ImageOrientationPatient",))
        transformed = _first(groups, "PixelValueTransformationSequence", ("RescaleSlope",))
        content = _first([own], "FrameContentSequence", ("TemporalPositionIndex",))
        spacing = _values(measures, "PixelSpacing", 2) or _values(header, "ImagerPixelSpacing", 2)
        thickness = number(measures, "SpacingBetweenSlices") or number(measures, "SliceThickness")
        slope, intercept = number(transformed, "RescaleSlope"), number(transformed, "RescaleIntercept")
        slope = number(header, "DoseGridScaling") or slope
        table = bool(header.get("ModalityLUTSequence"))
        yield DicomSlice(
            name=source.name,
            frame=frame,
            rows=int(header.Rows),
            columns=int(header.Columns),
            position=_values(position, "ImagePositionPatient", 3),
            orientation=_values(orientation, "ImageOrientationPatient", 6),
            spacing=None if spacing is None else (spacing[0], spacing[1]),
            thickness=thickness or number(header, "SliceThickness"),
            scale=(1.0, 0.0) if table else (slope or 1.0, 0.0 if intercept is None else intercept),
            table=table,
            number=frame if count > 1 else int(number(header, "InstanceNumber") or 0),
            group=(
                int(
                    number(content, "TemporalPositionIndex")
                    or number(header, "TemporalPositionIdentifier")
                    or 0
                ),
                int(number(header, "AcquisitionNumber") or 0),
            ),
            contrast=_contrast(groups),
            phase=_phase(groups),
            dimension=_dimension(own, header),
        )


def _contrast(groups: Seq[Any]) -> tuple[float, ...]:
    """Return the echo time, the b-value and the direction of its gradient; zeros where there are none."""
    echo = _first(groups, "MREchoSequence", ("EffectiveEchoTime",))
    time = number(echo, "EffectiveEchoTime") or number(groups[-1], "EchoTime") or 0.0
    diffusion = _first(groups, "MRDiffusionSequence", ("DiffusionBValue",))
    gradient = _first(
        [diffusion, groups[-1]],
        "DiffusionGradientDirectionSequence",
        ("DiffusionGradientOrientation",),
    )
    direction = _values(gradient, "DiffusionGradientOrientation", 3) or (0.0, 0.0, 0.0)
    return (time, number(diffusion, "DiffusionBValue") or 0.0, *direction)


def _phase(groups: Seq[Any]) -> tuple[float, ...]:
    """Return the trigger time and the reference time in ms; zeros where there are none."""
    trigger = _first(groups[:-1], "CardiacSynchronizationSequence", ("NominalCardiacTriggerDelayTime",))
    delay = number(trigger, "NominalCardiacTriggerDelayTime") or number(groups[-1], "TriggerTime")
    return (delay or 0.0, number(groups[-1], "FrameReferenceTime") or 0.0)


def _dimension(own: Any, header: Any) -> tuple[float, ...]:
    """Return the dimension indices of a frame, without those of its place."""
    content = _first([own], "FrameContentSequence", ("DimensionIndexValues",))
    pointers = [item.get("DimensionIndexPointer") for item in header.get("DimensionIndexSequence") or []]
    if content is None or not pointers:
        return ()
    values = np.atleast_1d(content.DimensionIndexValues).tolist()
    return tuple(
        value for value, tag in zip(values, pointers, strict=False) if tag not in _DIMENSIONS_OF_PLACE
    )


def _dose_offsets(header: Any) -> tuple[float, ...] | None:
    """Return the position of each frame of a dose; None where the header has none, or not one for each frame."""
    offsets = header.get("GridFrameOffsetVector")
    values = tuple(float(value) for value in np.atleast_1d([] if offsets is None else offsets))
    return values if values and len(values) == int(header.get("NumberOfFrames", 1) or 1) else None


def _dose_place(dicom_slice: DicomSlice, offsets: Seq[float], frame: int) -> tuple[float, ...]:
    """Return the position of a frame of a dose; see DICOM PS3.3, C.8.8.3.2.

    Offsets are distances along the normal if the first of them is 0, else z coordinates.
    """
    first = np.array(dicom_slice.position, dtype=np.float64)
    if offsets[0] != 0:
        return float(first[0]), float(first[1]), offsets[frame]
    normal = np.cross((dicom_slice.orientation or ())[:3], (dicom_slice.orientation or ())[3:])
    return tuple((first + offsets[frame] * normal).tolist())


def _tiles(source: Source, mosaic: DicomSlice) -> Iterator[DicomSlice]:
    """Yield the slices of a mosaic of Siemens: a square of tiles, the picture's position being that of its corner.

    The position of the first slice is that of the mosaic's center, less half of a tile, as in nibabel.
    """
    count, direction = _siemens(source)
    side = math.ceil(math.sqrt(count))
    if count < 1 or mosaic.rows % side or mosaic.columns % side:
        raise damaged(
            source.name, f"a mosaic of {count} slices does not fit {mosaic.rows}×{mosaic.columns} pixels"
        )
    rows, columns = mosaic.rows // side, mosaic.columns // side
    first, step = None, np.zeros(3)
    if mosaic.position is not None and mosaic.orientation is not None and mosaic.spacing is not None:
        row, column = np.array(mosaic.orientation[:3]), np.array(mosaic.orientation[3:])
        first = np.array(mosaic.position) + column * mosaic.spacing[0] * (mosaic.rows - rows) / 2
        first = first + row * mosaic.spacing[1] * (mosaic.columns - columns) / 2
        normal = np.cross(row, column)
        reverse = direction is not None and np.dot(direction, normal) < 0
        step = normal * (mosaic.thickness or 1.0) * (-1 if reverse else 1)
    for tile in range(count):
        yield replace(
            mosaic,
            rows=rows,
            columns=columns,
            tile=(tile // side * rows, tile % side * columns, mosaic.rows, mosaic.columns),
            position=None if first is None else tuple((first + tile * step).tolist()),
            number=tile,
            group=(*mosaic.group, mosaic.number),
        )


def _siemens(source: Source) -> tuple[int, Any]:
    """Return the number of slices of a mosaic, and the direction in which they follow each other if it is known."""
    try:
        from nibabel.nicom import csareader
    except ImportError as error:
        raise BackendError(
            "this is a mosaic of Siemens, a picture of many slices, whose header nibabel reads; it is not installed",
            source=source.name,
            advice="Install it: pip install 'seqpipe[nibabel]'",
        ) from error
    header = header_of(source, every_tag=True)
    facts = csareader.get_csa_header(header)
    count = csareader.get_n_mosaic(facts) if facts else None
    stated = header.get(_COUNT_OF_TILES)
    if not count and stated is not None:
        count = stated.value
    if not count:
        raise damaged(
            source.name, "this is a mosaic of Siemens, and its header does not tell the number of slices"
        )
    return int(count), csareader.get_slice_normal(facts) if facts else None


def _group(header: Any, name: str, index: int) -> Any:
    """Return an item of a sequence, or None."""
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
    """Return the numbers of a field, if these are as many as wanted."""
    value = None if group is None else group.get(name)
    if value is None or not hasattr(value, "__len__") or len(value) != count:
        return None
    return tuple(float(part) for part in value)


def number(group: Any, name: str) -> float | None:
    """Return the number of a field, the first of several; None without one."""
    value = None if group is None else group.get(name)
    if value is None or value == "":
        return None
    if hasattr(value, "__len__") and not isinstance(value, str):
        value = value[0] if len(value) else None
    return None if value is None else float(value)
