"""Panels of videos and clips: thumbnails of frames with their numbers and times."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from ..array import to_numpy
from ..errors import ParameterError
from ..parts import Boxes, Points
from ..sampling.clock import clock_text
from ..sequence import Sequence
from .encoding import Pixels, colors, jpeg, png
from .legend import Legend
from .page import PagePanel

__all__ = ["clip_panel", "frames_panel", "spread"]

WIDTH: Final = 320
"""Largest width of a thumbnail in pixels."""


def spread(count: int, most: int) -> list[int]:
    """Return at most ``most`` of the numbers below ``count``, spread evenly, including the first and the last."""
    return (
        np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int)).tolist() if count else []
    )


def clip_panel(
    title: str,
    clip: Sequence,
    *,
    label: Sequence | None = None,
    names: Mapping[int, str] | None = None,
    marks: Mapping[str, Points | Boxes] | None = None,
    frames: int = 24,
    **more: Any,
) -> PagePanel:
    """Build the panel of a clip or an image."""
    array = _frames_of(clip)
    indices = spread(len(array), frames)
    if len(indices) < len(array):
        more["notes"] = [*more.get("notes", ()), f"{len(indices)} of {len(array)} frames are shown"]
    pictures = colors(array[indices])
    masks, legend = None, None
    if label is not None:
        full = _frames_of(label)[..., 0]
        full = np.broadcast_to(full, (len(array), *full.shape[1:])) if len(full) == 1 else full
        if full.shape != array.shape[:3]:
            raise ParameterError(
                f"masks of {full.shape[0]} frames of {full.shape[2]}×{full.shape[1]} pixels",
                source=label.source or title,
                allowed=f"{array.shape[0]} frames of {array.shape[2]}×{array.shape[1]} pixels, as the images",
            )
        legend = Legend(full, label.source or title, names=names)
        masks = [legend.colorize(full[index]) for index in indices]
    numbers = None if clip.frames is None else np.atleast_1d(clip.frames)[indices]
    times = None if clip.timestamps is None else np.atleast_1d(clip.timestamps)[indices]
    return frames_panel(
        title,
        list(pictures),
        numbers=indices if numbers is None else numbers.tolist(),
        times=[None] * len(indices) if times is None else times.tolist(),
        masks=masks,
        drawings=[_svg_marks(marks or {}, index, len(array)) for index in indices],
        classes=[] if legend is None else legend.classes,
        **more,
    )


def frames_panel(
    title: str,
    pictures: Seq[Pixels],
    *,
    numbers: Seq[int],
    times: Seq[float | None],
    masks: Seq[Pixels] | None = None,
    drawings: Seq[str] | None = None,
    **more: Any,
) -> PagePanel:
    """Build the panel of some frames."""
    figures = [
        _figure(
            picture,
            numbers[index],
            times[index],
            None if masks is None else masks[index],
            "" if drawings is None else drawings[index],
        )
        for index, picture in enumerate(pictures)
    ]
    return PagePanel(title, f'<div class="strip">\n{"".join(figures)}</div>\n', **more)


def _frames_of(clip: Sequence) -> Any:
    """Return the pixels as ``FHWC`` in main memory."""
    data, layout = to_numpy(clip.data), clip.layout
    if "F" not in layout:
        data, layout = data[None], f"F{layout}"
    if "C" not in layout:
        return data[..., None]
    return np.moveaxis(data, layout.index("C"), -1)


def _downscaled(picture: Pixels, *, masked: bool) -> Pixels:
    """Return a picture that is at most as wide as pages show it."""
    import cv2

    height, width = picture.shape[:2]
    if width <= WIDTH:
        return picture
    size = (WIDTH, max(1, round(height * WIDTH / width)))
    method = cv2.INTER_NEAREST if masked else cv2.INTER_AREA
    result: Pixels = cv2.resize(np.ascontiguousarray(picture), size, interpolation=method)
    return result


def _figure(picture: Pixels, number: int, time: float | None, mask: Pixels | None, drawing: str) -> str:
    """Return a frame as HTML."""
    height, width = picture.shape[:2]
    padded = number < 0
    when = "" if time is None or not np.isfinite(time) else clock_text(time)
    alt = ("padding" if padded else f"frame {number}") + (when and f" at {when}")
    images = f'<img src="{jpeg(_downscaled(picture, masked=False))}" alt="{alt}" loading="lazy">'
    if mask is not None:
        images += f'<img class="mask" src="{png(_downscaled(mask, masked=True))}" alt="">'
    if drawing:
        images += f'<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none">{drawing}</svg>'
    return (
        f'<figure><div class="picture" style="aspect-ratio:{width}/{height}">{images}</div>'
        f"<figcaption><b>{'padding' if padded else number}</b><span>{when}</span></figcaption></figure>\n"
    )


def _svg_marks(marks: Mapping[str, Points | Boxes], frame: int, count: int) -> str:
    """Return the points and boxes of a frame as SVG."""
    elements = []
    for part in marks.values():
        numbers = np.asarray(to_numpy(part.array), np.float64)
        rows = numbers[frame] if numbers.ndim == 3 and len(numbers) == count else numbers
        for row in rows.reshape(-1, 2 if isinstance(part, Points) else 4):
            if not np.isfinite(row).all():
                continue
            if isinstance(part, Points):
                elements.append(f'<circle cx="{row[0]:.2f}" cy="{row[1]:.2f}" r="3"/>')
            else:
                x, y, right, bottom = row
                elements.append(
                    f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(0, right - x):.2f}" height="{max(0, bottom - y):.2f}"/>'
                )
    return "".join(elements)
