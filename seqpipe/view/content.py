"""Panels of paths, readers, sequences, batches and samples of several parts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ..array import DEFAULT_LAYOUTS, to_numpy
from ..errors import ParameterError
from ..parts import Boxes, Flow, Image, Labels, Part, Points, as_part
from ..sequence import Batch, Sequence
from ..video.reader import VideoReader
from ..volume.formats.open import is_volume
from ..volume.reader import VolumeReader
from .encoding import colors
from .page import Page, PagePanel
from .params import FRAMES, MAX_VOXELS, TIME
from .planes import one_volume, volume_panel
from .strip import clip_panel, frames_panel, spread

__all__ = ["PanelBuilder", "format_history", "shared_voxels", "show"]

PAGE_VOXELS: Final = 1 << 25
"""Largest number of voxels of all volumes of a page together."""
MOST_SAMPLES: Final = 8
"""Largest number of samples shown of a batch."""


def show(
    *shown: Any,
    label: Any = None,
    names: Mapping[int, str] | None = None,
    window: tuple[float, float] | None = None,
    time: int = 0,
    frames: int = 24,
    max_voxels: int = 1 << 22,
    layout: str | None = None,
    title: str = "",
) -> Page:
    """Create a page that shows volumes as three orthogonal planes, and videos and clips as frames with their times.

    A page is one HTML file that needs no network. A notebook displays it as the result of a cell.

    Args:
        *shown: paths and URLs of videos and volumes, readers, sequences, batches (8 samples at most), arrays, and
            mappings of names to parts, as :mod:`seqpipe.parts` has them.
        label: labels overlaid on the images: as ``shown``, one for all or a list with one for each; for mappings, the
            name of a part that is not marked as labels.
        names: names of classes, by class number.
        window: lower and upper end of the initial display range of volumes; by default the file's window, otherwise
            percentiles 0.5 to 99.5.
        time: index of the volume shown of a series.
        frames: number of frames shown of a video or clip, spread evenly.
        max_voxels: largest number of voxels stored for each volume; a larger volume is shown on a coarser grid. All
            volumes of a page share 32 Mi voxels.
        layout: layout of arrays; by default HW, HWC, FHWC or NFHWC, by the number of axes.
        title: title of the page.

    Raises:
        ParameterError: there is nothing to show, or labels do not fit.
        SourceError: a file cannot be read.
    """
    if not shown:
        raise ParameterError("there is nothing to show", allowed="one volume, video or sample, or more")
    labels = list(label) if isinstance(label, (list, tuple)) else [label] * len(shown)
    if len(labels) != len(shown):
        raise ParameterError(
            f"{len(labels)} labels for {len(shown)} to show", allowed="one for all, or one for each"
        )
    builder = PanelBuilder(
        names=names,
        window=window,
        time=TIME.check(time),
        frames=FRAMES.check(frames),
        max_voxels=shared_voxels(MAX_VOXELS.check(max_voxels), len(shown)),
        layout=layout,
    )
    panels = [
        panel for value, label in zip(shown, labels, strict=True) for panel in builder.panels(value, label)
    ]
    return Page(title or " · ".join(dict.fromkeys(panel.title for panel in panels[:3])), panels)


def shared_voxels(max_voxels: int, count: int) -> int:
    """Return the largest number of voxels for each of ``count`` volumes of one page."""
    return max(8, min(max_voxels, PAGE_VOXELS // max(1, count)))


@dataclass(frozen=True)
class PanelBuilder:
    """Builds panels; see :func:`show` for the other parameters.

    Attributes:
        group: name of a group of panels that show the same position.
        history: descriptions of the applied operators, one line each.

    Raises:
        ParameterError: the window is empty.
    """

    names: Mapping[int, str] | None = None
    window: tuple[float, float] | None = None
    time: int = 0
    frames: int = 24
    max_voxels: int = 1 << 22
    layout: str | None = None
    group: str = ""
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.window is not None and not self.window[0] < self.window[1]:
            raise ParameterError(
                f"window={self.window!r} is empty", allowed="a lower end below the upper one"
            )

    def panels(self, shown: Any, label: Any = None, title: str = "") -> list[PagePanel]:
        """Build the panels of one value."""
        if isinstance(shown, Mapping):
            return self._sample_panels(self.sample(shown), label, title)
        with ExitStack() as opened:
            if isinstance(shown, (str, os.PathLike, bytes)):
                reader = (VolumeReader if is_volume(shown) else VideoReader)(shown)
                shown = opened.enter_context(reader)
            if isinstance(shown, VideoReader):
                return [self._video_panel(shown, title)]
            if isinstance(shown, VolumeReader):
                return [self._file_panel(shown, label, title)]
        if isinstance(shown, Part):
            return self._sample_panels({title or type(shown).__name__.lower(): shown}, label, "")
        if isinstance(shown, Batch):
            return self._batch_panels(shown, label, title)
        return [self._sequence_panel(self._sequence(shown), label, title)]

    def sample(self, shown: Any, label: Any = None) -> Mapping[str, Any]:
        """Convert a value to a sample of parts in memory; see :meth:`panels` for the parameters."""
        if isinstance(
            shown, Mapping
        ):  # a data set's samples also hold numbers, times and paths, which nothing moves
            return {name: value for name, value in shown.items() if _is_moved(value)} or shown
        parts = {"image": self._sequence(shown)}
        return parts if label is None else {**parts, "label": Labels(self._sequence(label))}

    def _sequence(self, shown: Any) -> Sequence:
        """Convert a sequence, reader, path or array to a sequence."""
        if isinstance(shown, Sequence):
            return shown
        if isinstance(shown, VolumeReader):
            return shown.sequence(times=self.time) if shown.info.layout == "FDHWC" else shown.sequence()
        if isinstance(shown, (str, os.PathLike, bytes)):
            with VolumeReader(shown) as reader:
                return self._sequence(reader)
        array = to_numpy(shown) if hasattr(shown, "__dlpack__") or isinstance(shown, np.ndarray) else None
        if array is None or array.ndim not in DEFAULT_LAYOUTS:
            raise ParameterError(
                f"a value of type {type(shown).__name__} cannot be shown",
                allowed="paths, readers, sequences, batches, arrays of 2 to 5 axes, and mappings of names to parts",
            )
        letters = self.layout or DEFAULT_LAYOUTS[array.ndim]
        if letters[0] == "N":
            if len(array) != 1:
                raise ParameterError(
                    f"an array {letters} of {len(array)} samples",
                    allowed="one sample",
                    advice="Show one of them",
                )
            array, letters = array[0], letters[1:]
        return Sequence(array, letters)

    def _video_panel(self, reader: VideoReader, title: str) -> PagePanel:
        """Build the panel of a video that is open."""
        numbers = spread(len(reader), self.frames)
        frames, times = [], []
        for frame in reader.stream(numbers, host=True):
            frames.append(colors(frame.numpy()[None])[0])
            times.append(float(np.ravel(frame.timestamps)[0]) if frame.timestamps is not None else None)
        is_partial = len(numbers) < len(reader)
        return frames_panel(
            title or reader.info.source,
            frames,
            numbers=numbers,
            times=times,
            facts=reader.info.describe(),
            notes=[f"{len(numbers)} of {len(reader):,} frames are shown"] if is_partial else [],
            group=self.group,
            history=self.history,
        )

    def _file_panel(self, reader: VolumeReader, label: Any, title: str) -> PagePanel:
        """Build the panel of a volume that is open."""
        info = reader.info
        notes = [f"shown is volume {self.time} of {info.frames}"] if info.frames > 1 else []
        return volume_panel(
            title or info.source,
            one_volume(self._sequence(reader)),
            label=None if label is None else one_volume(self._sequence(label)),
            names=self.names,
            window=self.window,
            info=info,
            max_voxels=self.max_voxels,
            facts=info.describe(),
            notes=notes,
            group=self.group,
            history=self.history,
        )

    def _sequence_panel(self, sequence: Sequence, label: Any, title: str, marks: Any = None) -> PagePanel:
        """Build the panel of a sequence."""
        title = title or sequence.source or ("volume" if "D" in sequence.layout else "clip")
        label = None if label is None else self._sequence(label)
        more: dict[str, Any] = {
            "facts": sequence.describe(),
            "group": self.group,
            "history": self.history,
            "marks": marks,
        }
        if sequence.layout == "FDHWC" and len(sequence.data) > 1:
            more["notes"] = [f"shown is volume {self.time} of {len(sequence.data)}"]
        if "D" not in sequence.layout:
            return clip_panel(title, sequence, label=label, names=self.names, frames=self.frames, **more)
        return volume_panel(
            title,
            one_volume(sequence, self.time),
            label=None if label is None else one_volume(label, self.time),
            names=self.names,
            window=self.window,
            max_voxels=self.max_voxels,
            **more,
        )

    def _batch_panels(self, batch: Batch, label: Any, title: str) -> list[PagePanel]:
        """Build a panel for each member of a batch."""
        shown = batch.sequences[:MOST_SAMPLES]
        if isinstance(label, Batch) and len(label) != len(batch):
            raise ParameterError(
                f"labels of {len(label)} samples for a batch of {len(batch)}", allowed="one for each sample"
            )
        labels = label.sequences[:MOST_SAMPLES] if isinstance(label, Batch) else [label] * len(shown)
        builder = replace(self, max_voxels=shared_voxels(self.max_voxels // len(shown), 1))
        return [
            builder._sequence_panel(
                value,
                label,
                f"{title} {number}".strip() if title else value.source and f"{value.source} {number}",
            )
            for number, (value, label) in enumerate(zip(shown, labels, strict=True))
        ]

    def _sample_panels(self, sample: Mapping[str, Any], label: Any, title: str) -> list[PagePanel]:
        """Build the panels of the parts of a sample."""
        if isinstance(label, str):
            if label not in sample:
                raise ParameterError(
                    f"label={label!r} is no part of the sample", allowed=", ".join(map(repr, sample))
                )
            value = sample[label]
            sample = {**sample, label: value if isinstance(value, Labels) else Labels(value)}
            label = None
        parts = {name: as_part(value) for name, value in sample.items()}
        builder = replace(self, history=self.history or format_history(getattr(sample, "history", ())))
        batches = [part.data for part in parts.values() if isinstance(part.data, Batch)]
        if not batches:
            return builder._part_panels(parts, label, title)
        count = min(MOST_SAMPLES, *map(len, batches))
        builder = replace(builder, max_voxels=shared_voxels(self.max_voxels // count, 1))
        panels = []
        for n in range(count):
            singles = {
                name: part.with_data(part.data[n]) if isinstance(part.data, Batch) else part
                for name, part in parts.items()
            }
            panels += builder._part_panels(singles, label, f"{title} {n}".strip())
        return panels

    def _part_panels(self, parts: Mapping[str, Part], label: Any, title: str) -> list[PagePanel]:
        """Build a panel for each image, with the labels, points and boxes of the sample."""
        marks = {name: part for name, part in parts.items() if isinstance(part, (Points, Boxes))}
        masks = {name: part.data for name, part in parts.items() if isinstance(part, Labels)}
        images = {name: part.data for name, part in parts.items() if isinstance(part, (Image, Flow))}
        over = label if label is not None else next(iter(masks.values()), None)
        if not images and masks:  # labels alone are shown on black
            mask = self._sequence(over)
            images = {next(iter(masks)): mask.with_pixels(np.zeros(mask.shape, np.uint8), mask.layout)}
        if not images:
            raise ParameterError(
                f"a sample of {', '.join(parts) or 'no parts'} has no image", allowed="images or labels"
            )
        return [
            self._sequence_panel(self._sequence(data), over, f"{title} {name}".strip(), marks)
            for name, data in images.items()
        ]


def _is_moved(value: Any) -> bool:
    """Return whether operators on space move a part."""
    return isinstance(value, (Batch, Sequence, Part)) or getattr(value, "ndim", 0) > 1


def format_history(history: Iterable[Mapping[str, Any]]) -> list[str]:
    """Describe a history of operators, one line each: the name and the random draws."""
    lines = []
    for entry in history:
        drawn = dict(entry["drawn"])
        acts = drawn.pop("acts", True)
        drawn = {name: value for name, value in drawn.items() if value is not None}
        parameters = {name: value for name, value in drawn.items() if name in entry["op"]} or drawn
        values = ", ".join(f"{name} = {_short(value)}" for name, value in parameters.items())
        lines.append(f"{entry['op']['op']}: {values or 'nothing drawn' if np.any(acts) else 'did not act'}")
    return lines


def _short(value: Any) -> str:
    """Return a value as a short text."""
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(_short, value[:12]))
        return f"[{shown}{', …' if len(value) > 12 else ''}]"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
