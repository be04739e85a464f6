"""Panels of volumes as three orthogonal planes.

The page stores the voxels once, as 8-bit levels in one PNG of all slices; its script draws the planes with window,
level and labels. A volume with more voxels than the limit is downsampled over the same extent: images by area
averaging, labels by the nearest voxel.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ..array import FloatArray, to_numpy
from ..errors import ParameterError, printable
from ..parts import Boxes, Points
from ..sequence import Sequence
from ..volume.info import VolumeInfo
from ..volume.regrid import reorient, resample
from ..volume.slice_images import as_real, window_of
from ..volume.space import grids_agree, moved
from .encoding import downsample_mean, downsample_nearest, level_values, mosaic, png, quantize
from .legend import Legend
from .page import PagePanel

__all__ = ["PLANES", "one_volume", "volume_panel"]

MOST_ALONG: Final = 512
"""Largest number of voxels along an axis, so that browsers can decode the image of all slices."""

_ORIENTATION: Final = "LPS"
# name; axes of slices, rows and columns; whether rows are flipped; letters of the left, right, top and bottom sides
PLANES: Final = (
    ("axial", 0, 1, 2, False, "RLAP"),
    ("coronal", 1, 0, 2, True, "RLSI"),
    ("sagittal", 2, 0, 1, True, "APSI"),
)
_STORED: Final = (
    ("slices", 0, 1, 2, False, ""),
    ("rows", 1, 0, 2, False, ""),
    ("columns", 2, 0, 1, False, ""),
)


def one_volume(sequence: Sequence, time: int = 0) -> Sequence:
    """Convert a volume, or one volume of a series, to ``DHWC`` in main memory, with intensity scaling applied."""
    data = to_numpy(sequence.data)
    layout = sequence.layout
    if layout == "FDHWC":
        if not -len(data) <= time < len(data):
            raise ParameterError(
                f"time={time} is not in the series", source=sequence.source, allowed=f"0 to {len(data) - 1}"
            )
        data, layout = data[time], "DHWC"
    if layout == "CDHW":
        data, layout = data.transpose(1, 2, 3, 0), "DHWC"
    if layout == "DHW":
        data, layout = data[..., None], "DHWC"
    volume = replace(sequence, data=data, layout=layout, frames=None, timestamps=None)
    return volume.scaled()


def volume_panel(
    title: str,
    image: Sequence,
    *,
    label: Sequence | None = None,
    names: Mapping[int, str] | None = None,
    window: tuple[float, float] | None = None,
    info: VolumeInfo | None = None,
    marks: Mapping[str, Points | Boxes] | None = None,
    max_voxels: int = 1 << 22,
    **more: Any,
) -> PagePanel:
    """Build the panel of a volume."""
    notes = list(more.pop("notes", ()))
    values, affine = _reoriented(image)
    spacing = image.spacing_mm and replace(image, data=values, affine=affine).spacing_mm
    legend, classes = None, None
    if label is not None:
        fitted = _on_grid(label, image, notes)
        classes, _ = _reoriented(fitted)
        voxel = None if spacing is None else math.prod(spacing)
        legend = Legend(classes[..., 0], label.source or title, voxel, names)
    size = _grid_size(values.shape[:3], spacing or (1.0, 1.0, 1.0), max_voxels)
    data = _encode_voxels(values, size, window, info, notes)
    columns = math.ceil(math.sqrt(size[0]))
    if legend is not None and classes is not None:
        data["label"] = png(mosaic(legend.indices(downsample_nearest(classes[..., 0], size)), columns))
        data["colors"] = [label_class.color for label_class in legend.classes]
        data["classes"] = [str(label_class) for label_class in legend.classes]
    data |= _geometry(image, values.shape[:3], affine, size)
    data["marks"] = _mark_boxes(marks or {}, data["from_stored"], affine is not None and data["affine"])
    data["columns"] = columns
    planes = PLANES if affine is not None else _STORED
    data["planes"] = [
        dict(zip(("slice", "row", "column", "flip"), plane[1:5], strict=True)) for plane in planes
    ]
    return PagePanel(
        title,
        "".join(_figure(number, plane, data) for number, plane in enumerate(planes)),
        classes=[] if legend is None else legend.classes,
        notes=notes,
        data=data,
        **more,
    )


def _reoriented(sequence: Sequence) -> tuple[Any, FloatArray | None]:
    """Return the voxels in LPS orientation and their affine; without an affine, as they are stored."""
    if sequence.affine is None:
        return as_real(sequence.numpy()), None
    result = reorient(sequence, _ORIENTATION)
    return as_real(result.numpy()), result.affine


def _on_grid(label: Sequence, image: Sequence, notes: list[str]) -> Sequence:
    """Resample labels to the image's grid."""
    same = label.shape[:3] == image.shape[:3]
    if label.affine is None or image.affine is None:
        if not same:
            raise ParameterError(
                f"labels of {_dimensions(label.shape[:3])} voxels for an image of {_dimensions(image.shape[:3])}",
                source=label.source,
                allowed="one grid, or an affine for both",
            )
        return label
    if same and grids_agree(label.affine, image.affine, image.shape[:3]):
        return label
    notes.append(
        f"labels are on another grid, of {_dimensions(label.shape[:3])} voxels; resampled by nearest neighbor"
    )
    return resample(label, like=image, interp="nearest", fill_value=0)


def _grid_size(shape: Seq[int], spacing: Seq[float], limit: int) -> tuple[int, int, int]:
    """Return D, H and W of a grid within the limits, with voxels as isotropic as possible."""
    size = [min(n, MOST_ALONG) for n in shape]
    step = min(n * s / m for n, s, m in zip(shape, spacing, size, strict=True))
    while math.prod(size) > limit:
        step *= 1.02
        size = [max(1, min(m, round(n * s / step))) for n, s, m in zip(shape, spacing, size, strict=True)]
    return size[0], size[1], size[2]


def _encode_voxels(
    values: Any, size: tuple[int, int, int], window: Any, info: VolumeInfo | None, notes: list[str]
) -> dict[str, Any]:
    """Encode the voxels as one image, with the values of its levels."""
    channels = values.shape[3]
    colored = channels >= 3 and values.dtype == np.uint8
    if channels > 1:
        notes.append(
            f"voxels have {channels} values: shown {'as colors' if colored else 'is the first'}"
            if not colored or channels > 3
            else "voxels are colors"
        )
    values = values[..., :3] if colored else values[..., :1]
    ends = window or ((0.0, 255.0) if colored else window_of(values, info))
    if size != values.shape[:3]:
        notes.append(
            f"{_dimensions(values.shape[:3])} voxels are shown as {_dimensions(size)}, by area averaging"
        )
        values = downsample_mean(values, size)
        values = values.round().astype(np.uint8) if colored else values
    if values.dtype.kind == "f" and (lost := np.count_nonzero(~np.isfinite(values))):
        notes.append(f"{lost:,} voxels are NaN or infinite; NaN is black")
    columns = math.ceil(math.sqrt(size[0]))
    levels = np.arange(256.0) if colored else level_values(values, ends)
    shown = values if colored else quantize(values, levels)[..., 0]
    return {
        "image": png(mosaic(shown, columns)),
        "channels": 3 if colored else 1,
        "values": [float(f"{level:.7g}") for level in levels],
        "window": [float(end) for end in ends],
    }


def _geometry(
    image: Sequence, shape: Seq[int], affine: FloatArray | None, size: tuple[int, int, int]
) -> dict[str, Any]:
    """Return the geometry of the displayed grid: its spacing, and its transforms to mm and to stored voxels."""
    steps = [n / m for n, m in zip(shape, size, strict=True)]
    start = [(step - 1) / 2 for step in steps]
    own = np.eye(4) if affine is None else affine
    shown = moved(own, start, steps)
    stored = shown if image.affine is None else np.linalg.inv(image.affine) @ shown
    spacing = np.linalg.norm(shown[:3, :3], axis=0)
    return {
        "shape": list(size),
        "spacing": [float(f"{side:.7g}") for side in spacing],
        "affine": None if affine is None else _rows(shown),
        "stored": _rows(stored),
        "from_stored": _rows(np.linalg.inv(stored)),
    }


def _rows(matrix: Any) -> list[list[float]]:
    """Return the first three rows of a matrix, of nine digits."""
    return [[float(f"{value:.9g}") for value in row] for row in matrix[:3]]


def _mark_boxes(marks: Mapping[str, Points | Boxes], from_stored: Any, affine: Any) -> list[dict[str, Any]]:
    """Return the bounds of points and boxes in voxels of the displayed grid."""
    to_grid = np.array([*from_stored, [0, 0, 0, 1]])
    bounds = []
    for name, part in marks.items():
        numbers = np.asarray(to_numpy(part.array), np.float64)
        matrix = to_grid
        if isinstance(part, Points) and part.unit == "mm":
            if not affine:
                continue
            matrix = np.linalg.inv(np.array([*affine, [0, 0, 0, 1]]))
        for row in numbers.reshape(-1, 3 if isinstance(part, Points) else 6):
            ends = [(matrix @ [*row[at : at + 3], 1.0])[:3] for at in range(0, len(row), 3)]
            low, high = np.min(ends, axis=0), np.max(ends, axis=0)
            bounds.append({"name": name, "low": low.round(3).tolist(), "high": high.round(3).tolist()})
    return bounds


def _dimensions(shape: Seq[int]) -> str:
    """Return a shape as text."""
    return "×".join(map(str, shape))


def _figure(number: int, plane: tuple[Any, ...], data: Mapping[str, Any]) -> str:
    """Return the HTML of one plane."""
    name, slices, row, column, _, letters = plane
    shape, spacing = data["shape"], data["spacing"]
    wide, high = shape[column] * spacing[column], shape[row] * spacing[row]
    sides = "".join(
        f'<b class="{side}">{letter}</b>'
        for side, letter in zip(("left", "right", "top", "bottom"), letters, strict=False)
    )
    return (
        f'<figure class="plane" data-plane="{number}" style="flex-grow:{wide / high:.4f}">'
        f'<div class="picture" style="aspect-ratio:{wide:.6g}/{high:.6g}">'
        f'<canvas width="{shape[column]}" height="{shape[row]}" role="img" '
        f'aria-label="{name} plane of {html.escape(printable(str(data.get("title", "the volume"))))}"></canvas>'
        f'<i class="row"></i><i class="column"></i>{sides}</div>'
        f"<figcaption><label>{name} "
        f'<input type="range" min="0" max="{shape[slices] - 1}" value="{shape[slices] // 2}"></label>'
        "<output></output></figcaption></figure>\n"
    )
