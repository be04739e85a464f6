"""Measures of predicted labels beside a truth: Dice, volumes and surface distances, a row a case and class."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ...array import to_numpy
from ...core.lazy import import_optional
from ...core.whole_file import write_durably
from ...errors import OutputError, ParameterError
from ...sequence import Sequence
from ..reader import VolumeReader
from ..source import AnyArray
from ..space import grids_agree

__all__ = ["LabelMeasures", "measure", "write_table"]


@dataclass(frozen=True)
class LabelMeasures:
    """Measures of one class of one case.

    Attributes:
        case: name of the case.
        label: the class.
        dice: ``2 |A ∩ B| / (|A| + |B|)``; 1 if both are empty.
        volume_ml: predicted volume in ml.
        truth_ml: true volume in ml.
        hd_mm: Hausdorff distance of the surfaces: the greatest distance of a voxel of one surface to the other surface,
            in mm; NaN if one of them is empty, as the next ones.
        hd95_mm: the greater of the 95th percentiles of the distances from one surface to the other, and back.
        assd_mm: mean distance of all voxels of both surfaces to the other one.
        surface_dice: share of both surfaces' voxels within the tolerance of the other surface.
    """

    case: str
    label: int
    dice: float
    volume_ml: float
    truth_ml: float
    hd_mm: float
    hd95_mm: float
    assd_mm: float
    surface_dice: float


def measure(
    prediction: Any,
    truth: Any,
    classes: Iterable[int] | None = None,
    *,
    case: str = "",
    ignore: int | None = None,
    tolerance_mm: float = 1.0,
) -> list[LabelMeasures]:
    """Return the measures of each class.

    A surface consists of the voxels of a class with a face beside another class or the border of the volume; distances
    are between centers of voxels.

    Args:
        prediction: labels: an origin of :func:`seqpipe.open`, or a sequence ``DHWC`` with an affine.
        truth: likewise, on the same grid.
        classes: the classes; by default all of the truth and the prediction, but 0.
        case: name of the case; by default that of the truth's file.
        ignore: label of the truth whose voxels are left out.
        tolerance_mm: tolerance of ``surface_dice``, in mm.

    Raises:
        SourceError: a file cannot be read.
        ParameterError: the grids differ.
        BackendError: SciPy is not installed.
    """
    found, known = _labels(prediction), _labels(truth)
    predicted, expected = to_numpy(found.data), to_numpy(known.data)
    apart = found.affine is not None and known.affine is not None
    if predicted.shape != expected.shape or (
        apart and not grids_agree(found.affine, known.affine, predicted.shape[:3])
    ):
        raise ParameterError(
            f"the prediction {predicted.shape} and the truth {expected.shape} are on different grids",
            source=case or known.source,
            allowed="one grid",
            advice="Resample the prediction: seqpipe.volume.resample(prediction, like=truth, interp='vote')",
        )
    predicted, expected = predicted[..., 0].copy(), expected[..., 0].copy()
    if ignore is not None:
        predicted[expected == ignore] = 0
        expected[expected == ignore] = 0
    numbers = (
        sorted({*np.unique(predicted).tolist(), *np.unique(expected).tolist()} - {0})
        if classes is None
        else classes
    )
    spacing = known.spacing_mm or (1.0, 1.0, 1.0)
    name = case or known.source
    return [_of_class(name, int(n), predicted == n, expected == n, spacing, tolerance_mm) for n in numbers]


def write_table(rows: Iterable[LabelMeasures], path: str | os.PathLike[str]) -> None:
    """Write measures as a CSV file, with the mean of each class at the end.

    Raises:
        OutputError: the file cannot be written.
    """
    listed, text = list(rows), io.StringIO(newline="")
    writer = csv.DictWriter(text, [column.name for column in fields(LabelMeasures)])
    writer.writeheader()
    for row in listed:
        writer.writerow({name: _text(value) for name, value in asdict(row).items()})
    for label in sorted({row.label for row in listed}):
        of_class = [asdict(row) for row in listed if row.label == label]
        numbers = [name for name in of_class[0] if name not in ("case", "label")]
        values = {name: np.array([row[name] for row in of_class]) for name in numbers}
        means = {name: _mean(numbers) for name, numbers in values.items()}
        writer.writerow(
            {"case": "mean", "label": label, **{name: _text(value) for name, value in means.items()}}
        )
    try:
        write_durably(Path(path), text.getvalue().encode())
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", source=os.fspath(path)) from error


def _mean(values: AnyArray) -> float:
    """Return the mean of the values that are not NaN; NaN if all are."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _text(value: Any) -> Any:
    """Return a value as a cell of the table."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _labels(volume: Any) -> Sequence:
    """Return a volume of labels."""
    if isinstance(volume, Sequence):
        return volume
    with VolumeReader(volume) as reader:
        return reader.sequence()


def _of_class(
    case: str,
    label: int,
    predicted: AnyArray,
    expected: AnyArray,
    spacing: tuple[float, ...],
    tolerance: float,
) -> LabelMeasures:
    """Return the measures of one class."""
    ml = float(np.prod(spacing)) / 1000
    both, total = (
        np.count_nonzero(predicted & expected),
        np.count_nonzero(predicted) + np.count_nonzero(expected),
    )
    dice = 2 * both / total if total else 1.0
    distances: list[Any] = [np.nan] * 4
    if predicted.any() and expected.any():
        there, back = _surface_distances(predicted, expected, spacing)
        together = np.concatenate([there, back])
        distances = [
            together.max(),
            max(np.percentile(there, 95), np.percentile(back, 95)),
            together.mean(),
            np.mean(together <= tolerance),
        ]
    hd, hd95, assd, surface = (float(value) for value in distances)
    return LabelMeasures(
        case,
        label,
        float(dice),
        float(np.count_nonzero(predicted) * ml),
        float(np.count_nonzero(expected) * ml),
        hd,
        hd95,
        assd,
        surface,
    )


def _surface_distances(
    predicted: AnyArray, expected: AnyArray, spacing: tuple[float, ...]
) -> tuple[AnyArray, AnyArray]:
    """Return the distance in mm of each voxel of one surface to the other, and back; in the box of both."""
    ndimage = import_optional("scipy.ndimage", "scipy")
    spans = []
    for axis in range(3):
        hits = np.flatnonzero((predicted | expected).any(axis=tuple(n for n in range(3) if n != axis)))
        spans.append(slice(hits[0], hits[-1] + 1))
    # the border of the box is outside of both
    masks = [np.pad(mask[tuple(spans)], 1) for mask in (predicted, expected)]
    surfaces = [mask & ~ndimage.binary_erosion(mask) for mask in masks]
    fields_mm = [ndimage.distance_transform_edt(~surface, sampling=spacing) for surface in surfaces]
    return fields_mm[1][surfaces[0]], fields_mm[0][surfaces[1]]
