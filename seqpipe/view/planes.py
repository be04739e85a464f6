"""A volume as a panel of three orthogonal planes.

The voxels are in the page once, as 8-bit levels in one lossless PNG of all slices; the page's script cuts the planes,
and applies window, level and labels. A volume of more voxels than the limit is shown on a coarser grid of the same
extent: means of images, the voxel at the center of labels.
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
from ..volume.pictures import window_of
from ..volume.resampling.regrid import reorient, resample
from ..volume.space import grids_agree, moved
from .encoding import area_averaged, encoded, level_values, mosaic, nearest_taken, plain, png
from .legend import Legend
from .panel import PagePanel

__all__ = ["one_volume", "volume_panel"]

MOST_ALONG: Final = 512
"""Voxels along an axis, so that the picture of all slices is one that browsers decode."""

_TURNED: Final = "LPS"
# name, axes of slices, rows and columns, whether rows run backwards; what lies left, right, at the top, at the bottom
_PLANES: Final = (
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
    """A volume as ``DHWC`` in main memory, scaled; of a series, one of its volumes.

    Raises:
        ParameterError: there is no such volume in the series.
    """
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
    alone = replace(sequence, data=data, layout=layout, frames=None, timestamps=None)
    return alone.scaled()


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
    """The panel of a volume.

    Args:
        title: its heading.
        image: ``DHWC``, scaled; see :func:`one_volume`.
        label: a number of a class for each voxel, on any grid that lies where the image does.
        names: of classes, by their numbers.
        window: the ends of the range of values that is shown first; by default the file's own, else percentiles.
        info: of the file.
        marks: points and boxes in voxels or mm, by their names.
        max_voxels: how many the page may hold.
        **more: facts, notes, history and group of the panel.

    Raises:
        ParameterError: the labels are none, or on no grid that can be brought onto the image's.
    """
    notes = list(more.pop("notes", ()))
    values, affine = _turned(image)
    spacing = image.spacing_mm and replace(image, data=values, affine=affine).spacing_mm
    legend, places = None, None
    if label is not None:
        fitted = _on_grid(label, image, notes)
        places, _ = _turned(fitted)
        voxel = None if spacing is None else math.prod(spacing)
        legend = Legend(places[..., 0], label.source or title, voxel, names)
    size = _coarser(values.shape[:3], spacing or (1.0, 1.0, 1.0), max_voxels)
    data = _picture(values, size, window, info, notes)
    columns = math.ceil(math.sqrt(size[0]))
    if legend is not None and places is not None:
        taken = nearest_taken(places[..., 0], size)
        data["label"] = png(mosaic(legend.places(taken), columns))
        data["colors"] = [one.color for one in legend.classes]
        data["classes"] = [str(one) for one in legend.classes]
    data |= _space(image, values.shape[:3], affine, size)
    data["marks"] = _marks(marks or {}, data["from_stored"], affine is not None and data["affine"])
    data["columns"] = columns
    planes = _PLANES if affine is not None else _STORED
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


def _turned(sequence: Sequence) -> tuple[Any, FloatArray | None]:
    """The voxels in the order of the planes, and their affine."""
    if sequence.affine is None:
        return plain(sequence.numpy()), None
    turned = reorient(sequence, _TURNED)
    return plain(turned.numpy()), turned.affine


def _on_grid(label: Sequence, image: Sequence, notes: list[str]) -> Sequence:
    """The labels on the image's grid."""
    same = label.shape[:3] == image.shape[:3]
    if label.affine is None or image.affine is None:
        if not same:
            raise ParameterError(
                f"labels of {_by(label.shape[:3])} voxels for an image of {_by(image.shape[:3])}",
                source=label.source,
                allowed="one grid, or an affine for both",
            )
        return label
    if same and grids_agree(label.affine, image.affine, image.shape[:3]):
        return label
    notes.append(
        f"labels are on another grid, of {_by(label.shape[:3])} voxels: shown is the one that is nearest to each voxel"
    )
    return resample(label, like=image, interp="nearest", fill_value=0)


def _coarser(shape: Seq[int], spacing: Seq[float], limit: int) -> tuple[int, int, int]:
    """D, H and W of a grid of the same extent with few enough voxels, as even in mm as can be."""
    size = [min(n, MOST_ALONG) for n in shape]
    step = min(n * s / m for n, s, m in zip(shape, spacing, size, strict=True))
    while math.prod(size) > limit:
        step *= 1.02
        size = [max(1, min(m, round(n * s / step))) for n, s, m in zip(shape, spacing, size, strict=True)]
    return size[0], size[1], size[2]


def _picture(
    values: Any, size: tuple[int, int, int], window: Any, info: VolumeInfo | None, notes: list[str]
) -> dict[str, Any]:
    """The voxels as one picture, and what its levels mean."""
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
        notes.append(f"{_by(values.shape[:3])} voxels are shown as {_by(size)}: means of what each covers")
        values = area_averaged(values, size)
        values = values.round().astype(np.uint8) if colored else values
    if values.dtype.kind == "f" and (lost := np.count_nonzero(~np.isfinite(values))):
        notes.append(f"{lost:,} voxels are NaN or infinite; NaN is black")
    columns = math.ceil(math.sqrt(size[0]))
    levels = np.arange(256.0) if colored else level_values(values, ends)
    shown = values if colored else encoded(values, levels)[..., 0]
    return {
        "image": png(mosaic(shown, columns)),
        "channels": 3 if colored else 1,
        "values": [float(f"{level:.7g}") for level in levels],
        "window": [float(end) for end in ends],
    }


def _space(
    image: Sequence, shape: Seq[int], affine: FloatArray | None, size: tuple[int, int, int]
) -> dict[str, Any]:
    """Where the shown voxels lie: in mm, and in the array as it is stored."""
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
    return [[float(f"{value:.9g}") for value in row] for row in matrix[:3]]


def _marks(marks: Mapping[str, Points | Boxes], from_stored: Any, affine: Any) -> list[dict[str, Any]]:
    """Points and the corners of boxes in voxels of what is shown."""
    into = np.array([*from_stored, [0, 0, 0, 1]])
    found = []
    for name, part in marks.items():
        numbers = np.asarray(to_numpy(part.array), np.float64)
        matrix, order = into, [0, 1, 2]
        if isinstance(part, Points) and part.unit == "mm":
            if not affine:
                continue
            matrix = np.linalg.inv(np.array([*affine, [0, 0, 0, 1]]))
        for row in numbers.reshape(-1, 3 if isinstance(part, Points) else 6):
            ends = [(matrix @ [*row[at : at + 3][order], 1.0])[:3] for at in range(0, len(row), 3)]
            low, high = np.min(ends, axis=0), np.max(ends, axis=0)
            found.append({"name": name, "low": low.round(3).tolist(), "high": high.round(3).tolist()})
    return found


def _by(shape: Seq[int]) -> str:
    return "×".join(map(str, shape))


def _figure(number: int, plane: tuple[Any, ...], data: Mapping[str, Any]) -> str:
    """HTML of one plane."""
    name, along, row, column, _, letters = plane
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
        f'<input type="range" min="0" max="{shape[along] - 1}" value="{shape[along] // 2}"></label>'
        "<output></output></figcaption></figure>\n"
    )
