"""Geometry of a DICOM series: positions of the slices, and whether they form a volume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

import numpy as np

from ...array import FloatArray
from ...errors import UnreadableSourceError
from ..space import LPS_TO_RAS

__all__ = ["DicomSlice", "Layers", "arranged"]

_SAME_DIRECTION: Final = 1e-4
_SAME_SPACING: Final = 1e-4
_SAME_POSITION_MM: Final = 1e-2
_UNEVEN: Final = 0.01
_ROUNDED_MM: Final = 0.101
"""Distance of a slice from its place in an even series up to which its position, and the ends', count as rounded."""
_DRIFT_PIXELS: Final = 0.5
_NOTED_PIXELS: Final = 0.02
_GAP: Final = 0.25
_TILT_DEGREES: Final = 0.05
_NAMED: Final = 4


@dataclass(frozen=True)
class DicomSlice:
    """One slice, or one frame of a multi-frame file.

    Attributes:
        name: name of its file.
        frame: index within the file.
        rows: rows of pixels.
        columns: columns of pixels.
        position: ImagePositionPatient in mm, or None.
        orientation: ImageOrientationPatient, six numbers, or None.
        spacing: spacing of rows and of columns in mm, or None.
        thickness: SpacingBetweenSlices, else SliceThickness, in mm, or None.
        scale: slope and intercept.
        number: InstanceNumber, or the index of the frame.
        group: distinguishes slices at one position: temporal position, acquisition.
        contrast: likewise, after these: echo time in ms, b-value in s/mm², and the direction of its gradient.
        phase: likewise: trigger time and reference time in ms.
        dimension: likewise: the file's own dimension indices, without those of the place.
        table: whether a modality table, in place of slope and intercept, gives the values.
        tile: for a slice of a mosaic, its first row and column, and the rows and columns of the whole picture.
    """

    name: str
    frame: int
    rows: int
    columns: int
    position: tuple[float, ...] | None
    orientation: tuple[float, ...] | None
    spacing: tuple[float, float] | None
    thickness: float | None
    scale: tuple[float, float]
    number: int
    group: tuple[int, ...] = ()
    contrast: tuple[float, ...] = ()
    phase: tuple[float, ...] = ()
    dimension: tuple[float, ...] = ()
    table: bool = False
    tile: tuple[int, int, int, int] | None = None

    @property
    def label(self) -> str:
        """File name for messages."""
        return PurePath(self.name).name


@dataclass(frozen=True)
class Layers:
    """Slices in order, with their affine.

    Attributes:
        volumes: for each volume of a series, its slices from the first to the last.
        affine: from (d, h, w) to millimeters.
        space: ``"dicom"``, or ``"assumed"``.
        notes: unusual properties.
    """

    volumes: tuple[tuple[DicomSlice, ...], ...]
    affine: FloatArray
    space: str
    notes: tuple[str, ...]


def arranged(slices: Seq[DicomSlice], source: str) -> Layers:
    """Sort the slices of one series."""
    sizes = Counter((s.rows, s.columns) for s in slices)
    if len(sizes) > 1:
        listed = ", ".join(
            f"{count} of {rows}×{columns}" for (rows, columns), count in sizes.most_common(_NAMED)
        )
        other = next(s.label for s in slices if (s.rows, s.columns) != sizes.most_common(1)[0][0])
        raise _refused(
            f"slices have different sizes: {listed}, {other}", source, "List the files of one stack"
        )
    pixel_notes = _one_spacing(slices, source)
    placed = [s for s in slices if s.position is not None and s.orientation is not None]
    if not placed:
        return _without_places(slices, pixel_notes)
    if len(placed) < len(slices) and len({s.name for s in slices}) > 1:
        raise _refused(
            f"{len(slices) - len(placed)} of {len(slices)} slices have no position: "
            f"{', '.join(s.label for s in slices if s not in placed)}",
            source,
            "List the files of one stack",
        )
    if len(placed) < len(slices):
        return _without_places(slices, pixel_notes)
    orientation = _one_orientation(slices, source)
    row, column = orientation[:3], orientation[3:]
    normal = np.cross(row, column)
    along = {id(s): float(np.dot(normal, s.position or ())) for s in slices}
    ordered = sorted(slices, key=lambda s: (along[id(s)], s.group, s.contrast, s.number))
    volumes = _volumes(ordered, along, source)
    first = volumes[0]
    positions = np.array([s.position for s in first], dtype=np.float64)
    spacing = first[0].spacing or (1.0, 1.0)
    notes = pixel_notes + _contrast_notes(volumes)
    if len(first) > 1:
        step = (positions[-1] - positions[0]) / (len(first) - 1)
        residuals = positions - (positions[0] + np.arange(len(first))[:, None] * step)
        notes += _evenly(first, np.array([along[id(s)] for s in first]), residuals @ normal, source)
        notes += _in_line(first, positions, normal, min(spacing), source)
        _same_places(volumes, min(spacing), source)
        tilt = np.degrees(np.arccos(np.clip(np.dot(step, normal) / np.linalg.norm(step), -1, 1)))
        if tilt > _TILT_DEGREES:
            notes.append(f"the gantry is tilted by {tilt:.2f} degrees: the affine is sheared like the slices")
    else:
        step = normal * (first[0].thickness or 1.0)
        if first[0].thickness is None:
            notes.append("the slice has no thickness: 1 mm is assumed")
    affine = np.eye(4)
    affine[:3, :3] = np.stack([step, column * spacing[0], row * spacing[1]], axis=1)
    affine[:3, 3] = positions[0]
    return Layers(volumes, LPS_TO_RAS @ affine, "dicom", tuple(notes))


def _one_spacing(slices: Seq[DicomSlice], source: str) -> list[str]:
    """Check that all slices have the spacing of most, and return notes on spacing and thickness."""
    usual = Counter(s.spacing for s in slices).most_common(1)[0][0]
    others = [s for s in slices if s.spacing != usual and not _close(s.spacing, usual)]
    if others:
        listed = ", ".join(
            f"{'none' if s.spacing is None else ' × '.join(f'{size:.9g}' for size in s.spacing)} in {s.label}"
            for s in others[:_NAMED]
        )
        most = "none" if usual is None else " × ".join(f"{size:.9g}" for size in usual)
        raise _refused(
            f"slices have different spacings of pixels in mm: {most}, but {listed}",
            source,
            "Such slices are not one grid: list the files of one stack",
        )
    notes = [] if usual else ["the pixels have no spacing: 1 mm is assumed"]
    thick = sorted({s.thickness for s in slices if s.thickness is not None})
    if thick and thick[-1] - thick[0] > _SAME_SPACING * thick[0]:
        other = Counter(s.thickness for s in slices).most_common()[-1][0]
        label = next(s.label for s in slices if s.thickness == other)
        notes.append(
            f"slices have thicknesses from {thick[0]:g} to {thick[-1]:g} mm, as {label}: their positions are used"
        )
    return notes


def _close(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    """Return whether two spacings are equal within rounding."""
    return one is not None and other is not None and bool(np.allclose(one, other, rtol=_SAME_SPACING, atol=0))


def _without_places(slices: Seq[DicomSlice], notes: Seq[str]) -> Layers:
    """Sort slices without positions by their numbers."""
    ordered = tuple(sorted(slices, key=lambda s: (s.number, s.frame)))
    spacing, thickness = ordered[0].spacing or (1.0, 1.0), ordered[0].thickness or 1.0
    affine = np.eye(4)
    affine[:3, :3] = np.stack([[0, 0, thickness], [0, spacing[0], 0], [spacing[1], 0, 0]], axis=1)
    note = "slices have no position: they are taken in the order of their numbers, left, posterior, superior"
    return Layers((ordered,), LPS_TO_RAS @ affine, "assumed", (note, *notes))


def _one_orientation(slices: Seq[DicomSlice], source: str) -> FloatArray:
    """Return the orientation that all slices have, or refuse them."""
    orientations: list[tuple[FloatArray, int]] = []
    for dicom_slice in slices:
        own = _directions(dicom_slice, source)
        for number, (direction, count) in enumerate(orientations):
            if np.abs(direction - own).max() <= _SAME_DIRECTION:
                orientations[number] = direction, count + 1
                break
        else:
            orientations.append((own, 1))
    if len(orientations) > 1:
        orientations.sort(key=lambda item: -item[1])
        listed = "; ".join(
            f"{count} of {np.round(direction, 5).tolist()}" for direction, count in orientations[:_NAMED]
        )
        usual = orientations[0][0]
        other = next(
            s.label for s in slices if np.abs(usual - _directions(s, source)).max() > _SAME_DIRECTION
        )
        listed += f", {other}"
        raise _refused(
            f"slices have {len(orientations)} orientations: {listed}",
            source,
            "A localizer may be among them: list the files of one stack",
        )
    return orientations[0][0]


def _directions(dicom_slice: DicomSlice, source: str) -> FloatArray:
    """Return the directions of rows and of columns: six numbers, two perpendicular unit vectors."""
    orientation = np.array(dicom_slice.orientation, dtype=np.float64)
    vectors = orientation.reshape(2, 3)
    lengths = np.linalg.norm(vectors, axis=1)
    if not (abs(np.dot(*vectors)) <= 1e-3 and np.abs(lengths - 1).max() <= 1e-2):  # NaN is refused, too
        raise _refused(
            f"ImageOrientationPatient of {dicom_slice.label} is {orientation.tolist()}",
            source,
            "Two perpendicular directions of length 1 are needed: correct the file, or leave it out",
        )
    return orientation


def _volumes(
    ordered: Seq[DicomSlice], along: dict[int, float], source: str
) -> tuple[tuple[DicomSlice, ...], ...]:
    """Group slices into volumes: one, or several if every position occurs equally often."""
    by_position: list[list[DicomSlice]] = []
    for dicom_slice in ordered:
        if by_position and abs(along[id(dicom_slice)] - along[id(by_position[-1][0])]) < _SAME_POSITION_MM:
            by_position[-1].append(dicom_slice)
        else:
            by_position.append([dicom_slice])
    counts = {len(at_position) for at_position in by_position}
    if counts == {1}:
        return (tuple(ordered),)
    keys: tuple[Callable[[DicomSlice], tuple[float, ...]], ...] = (
        lambda s: s.group,
        lambda s: (*s.group, *s.contrast),
        lambda s: s.contrast,
        lambda s: s.phase,
        lambda s: s.dimension,
    )
    for key in keys:
        columns = [sorted(at_position, key=key) for at_position in by_position]
        groups = {tuple(map(key, column)) for column in columns}
        if len(groups) == 1 and all(len({*group}) == len(group) for group in groups):
            return tuple(zip(*columns, strict=True))
    twice = [at_position for at_position in by_position if len(at_position) > 1]
    named = "; ".join(
        f"{along[id(at_position[0])]:.2f} mm by {', '.join(s.label for s in at_position[:_NAMED])}"
        for at_position in twice[:_NAMED]
    )
    raise _refused(
        f"{len(twice)} of {len(by_position)} positions have more than one slice: {named}",
        source,
        "Remove the duplicates, or list the files of one volume",
    )


def _contrast_notes(volumes: Seq[Seq[DicomSlice]]) -> list[str]:
    """Return notes on the echo times and b-values of the volumes of a series, where they differ."""
    notes = []
    for number, what in enumerate(("echo times in ms", "b-values in s/mm²")):
        values = [volume[0].contrast[number] for volume in volumes if volume[0].contrast]
        if len(set(values)) > 1:
            notes.append(f"{what} of the volumes: {', '.join(f'{value:g}' for value in values)}")
    return notes


def _evenly(slices: Seq[DicomSlice], positions: FloatArray, residuals: FloatArray, source: str) -> list[str]:
    """Check that slices are evenly spaced, and return notes; the message names missing slices."""
    steps = np.diff(positions)
    usual = float(np.median(steps))
    if np.abs(steps - steps.mean()).max() <= _UNEVEN * usual:
        return []
    if np.abs(residuals).max() <= min(_ROUNDED_MM, _GAP * usual):
        return [
            f"slices are {steps.min():.3f} to {steps.max():.3f} mm apart, as if their positions were rounded: "
            f"{steps.mean():.4f} mm is used"
        ]
    missing: list[str] = []
    for index in np.flatnonzero(steps > 1.5 * usual).tolist():
        count = steps[index] / usual
        if abs(count - round(count)) <= _GAP:
            inner = [positions[index] + usual * n for n in range(1, round(count))]
            where = ", ".join(f"{at:.2f}" for at in inner[:_NAMED])
            missing.append(f"{where} mm (between {slices[index].label} and {slices[index + 1].label})")
    if missing:
        raise _refused(
            f"slices are missing at {'; '.join(missing[:_NAMED])}",
            source,
            f"Slices are {usual:.3f} mm apart: fetch the whole series, or list the files of a part without gaps",
        )
    raise _refused(
        f"slices are unevenly spaced: {steps.min():.3f} to {steps.max():.3f} mm apart",
        source,
        "List the files of an evenly spaced part, or resample the series with the tool that wrote it",
    )


def _in_line(
    slices: Seq[DicomSlice], positions: FloatArray, normal: FloatArray, pixel: float, source: str
) -> list[str]:
    """Check that no slice is shifted within its plane against the line of the others, and return notes."""
    # the median of steps over half of the stack, so that one slice, also the last, does not turn the line
    half = max(1, len(slices) // 2)
    numbers = np.arange(len(slices))[:, None]
    step = np.median((positions[half:] - positions[:-half]) / half, axis=0)
    residuals = positions - numbers * step
    beside = np.cross(residuals - np.median(residuals, axis=0), normal)
    distances = np.linalg.norm(beside, axis=1)
    worst = int(distances.argmax())
    said = f"{slices[worst].label} lies {distances[worst]:.2f} mm beside the line of the other slices"
    if distances[worst] > _DRIFT_PIXELS * pixel:
        raise _refused(said, source, "List the files of one stack")
    return [f"{said}: this is not corrected"] if distances[worst] > _NOTED_PIXELS * pixel else []


def _same_places(volumes: Seq[Seq[DicomSlice]], pixel: float, source: str) -> None:
    """Check that the volumes of a series lie at the same positions."""
    first = np.array([dicom_slice.position for dicom_slice in volumes[0]], dtype=np.float64)
    for volume in volumes[1:]:
        apart = np.linalg.norm(np.array([dicom_slice.position for dicom_slice in volume]) - first, axis=1)
        if apart.max() > _NOTED_PIXELS * pixel + _SAME_POSITION_MM:
            label = volume[int(apart.argmax())].label
            raise _refused(
                f"{label} lies {apart.max():.3g} mm beside the slice of the first volume",
                source,
                "List one volume",
            )


def _refused(fact: str, source: str, advice: str | None = None) -> UnreadableSourceError:
    """Return the error for slices that are no volume."""
    return UnreadableSourceError(fact, source=source, advice=advice)
