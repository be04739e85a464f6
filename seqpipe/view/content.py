"""What a page shows of whatever the user holds: a path, a reader, a sequence, a batch, a sample of several parts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from ..array import to_numpy
from ..errors import ParameterError
from ..parts import Boxes, Flow, Image, Labels, Part, Points, as_part
from ..sequence import Batch, Sequence
from ..video.reader import VideoReader
from ..volume.formats.open import is_volume
from ..volume.reader import VolumeReader
from .encoding import colors
from .page import Page
from .panel import PagePanel
from .params import FRAMES, MAX_VOXELS, TIME
from .planes import one_volume, volume_panel
from .strip import chosen, clip_panel, frames_panel

__all__ = ["Showing", "shared_voxels", "show", "told"]

PAGE_VOXELS: Final = 1 << 25
"""How many voxels all volumes of a page have together, at most."""
MOST_SAMPLES: Final = 8
"""How many samples of a batch are shown."""
_LAYOUTS: Final = {2: "HW", 3: "HWC", 4: "FHWC", 5: "NFHWC"}


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
    """A page that shows volumes as three orthogonal planes, and videos and clips as frames with their times.

    A page is one HTML file that needs no network. In a notebook it appears where it is the result of a cell.

    Args:
        *shown: paths and URLs of videos and volumes, readers, sequences, batches (8 samples at most), arrays, and
            mappings of names to parts, as :mod:`seqpipe.parts` has them.
        label: labels that are laid over the images: as ``shown``, one for all or a list with one for each; for
            mappings, the name of a part that is not marked as labels.
        names: of classes, by their numbers.
        window: the ends of the range of values that volumes are shown with first; by default the file's own
            window, else percentiles 0.5 to 99.5.
        time: which volume of a series is shown.
        frames: how many frames of a video or clip are shown, spread evenly.
        max_voxels: how many voxels of each volume the page holds; a larger volume is shown on a coarser grid. All
            volumes of a page share 32 Mi voxels.
        layout: of arrays; by default HW, HWC, FHWC or NFHWC, by the number of axes.
        title: of the page.

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
    if window is not None and not window[0] < window[1]:
        raise ParameterError(f"window={window!r} is empty", allowed="a lower end below the upper one")
    how = Showing(
        names=names,
        window=window,
        time=TIME.check(time),
        frames=FRAMES.check(frames),
        max_voxels=MAX_VOXELS.check(max_voxels),
        layout=layout,
    )
    how = replace(how, max_voxels=shared_voxels(how.max_voxels, len(shown)))
    panels = [panel for one, its in zip(shown, labels, strict=True) for panel in how.panels(one, its)]
    return Page(title or " · ".join(dict.fromkeys(panel.title for panel in panels[:3])), panels)


def shared_voxels(max_voxels: int, count: int) -> int:
    """How many voxels each of some volumes on one page may have."""
    return max(8, min(max_voxels, PAGE_VOXELS // max(1, count)))


@dataclass(frozen=True)
class Showing:
    """How things are shown; arguments as :func:`show` has them.

    Attributes:
        group: panels of one group show the same place.
        history: what operators did to what is shown, a line each.
    """

    names: Mapping[int, str] | None = None
    window: tuple[float, float] | None = None
    time: int = 0
    frames: int = 24
    max_voxels: int = 1 << 22
    layout: str | None = None
    group: str = ""
    history: list[str] = field(default_factory=list)

    def panels(self, one: Any, label: Any = None, title: str = "") -> list[PagePanel]:
        """The panels of one thing.

        Args:
            one: as :func:`show` takes it.
            label: of it.
            title: by default its source.

        Raises:
            ParameterError: it cannot be shown.
        """
        if isinstance(one, Mapping):
            return self._of_sample(one, label, title)
        with ExitStack() as opened:
            if isinstance(one, (str, os.PathLike, bytes)):
                reader = (VolumeReader if is_volume(one) else VideoReader)(one)
                one = opened.enter_context(reader)
            if isinstance(one, VideoReader):
                return [self._of_video(one, title)]
            if isinstance(one, VolumeReader):
                return [self._of_file(one, label, title)]
        if isinstance(one, Part):
            return self._of_sample({title or type(one).__name__.lower(): one}, label, "")
        if isinstance(one, Batch):
            return self._of_batch(one, label, title)
        return [self._of_sequence(self._sequence(one), label, title)]

    def sample(self, one: Any, label: Any = None) -> Mapping[str, Any]:
        """Whatever is given as a sample of parts, in memory; arguments as :meth:`panels` has them."""
        if isinstance(one, Mapping):
            return one
        parts = {"image": self._sequence(one)}
        return parts if label is None else {**parts, "label": Labels(self._sequence(label))}

    def _sequence(self, one: Any) -> Sequence:
        """A sequence, or an array as one."""
        if isinstance(one, Sequence):
            return one
        if isinstance(one, VolumeReader):
            return one.sequence(times=self.time) if one.info.layout == "FDHWC" else one.sequence()
        if isinstance(one, (str, os.PathLike, bytes)):
            with VolumeReader(one) as reader:
                return self._sequence(reader)
        array = to_numpy(one) if hasattr(one, "__dlpack__") or isinstance(one, np.ndarray) else None
        if array is None or array.ndim not in _LAYOUTS:
            raise ParameterError(
                f"a value of type {type(one).__name__} cannot be shown",
                allowed="paths, readers, sequences, batches, arrays of 2 to 5 axes, and mappings of names to parts",
            )
        letters = self.layout or _LAYOUTS[array.ndim]
        if letters[0] == "N":
            if len(array) != 1:
                raise ParameterError(
                    f"an array {letters} of {len(array)} samples",
                    allowed="one sample",
                    advice="Show one of them",
                )
            array, letters = array[0], letters[1:]
        return Sequence(array, letters)

    def _of_video(self, reader: VideoReader, title: str) -> PagePanel:
        numbers = chosen(len(reader), self.frames)
        pictures, times = [], []
        for frame in reader.stream(numbers, host=True):
            pictures.append(colors(frame.numpy()[None])[0])
            times.append(float(np.ravel(frame.timestamps)[0]) if frame.timestamps is not None else None)
        left = len(reader) - len(numbers)
        return frames_panel(
            title or reader.info.source,
            pictures,
            numbers=numbers,
            times=times,
            facts=reader.info.describe(),
            notes=[f"{len(numbers)} of {len(reader):,} frames are shown"] if left else [],
            group=self.group,
            history=self.history,
        )

    def _of_file(self, reader: VolumeReader, label: Any, title: str) -> PagePanel:
        info = reader.info
        series = info.frames > 1
        notes = [f"shown is volume {self.time} of {info.frames}"] if series else []
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

    def _of_sequence(self, one: Sequence, label: Any, title: str, marks: Any = None) -> PagePanel:
        title = title or one.source or ("volume" if "D" in one.layout else "clip")
        label = None if label is None else self._sequence(label)
        more = {"facts": one.describe(), "group": self.group, "history": self.history, "marks": marks}
        if "D" not in one.layout:
            return clip_panel(title, one, label=label, names=self.names, frames=self.frames, **more)
        whole = one_volume(one, self.time)
        return volume_panel(
            title,
            whole,
            label=None if label is None else one_volume(label, self.time),
            names=self.names,
            window=self.window,
            max_voxels=self.max_voxels,
            **more,
        )

    def _of_batch(self, batch: Batch, label: Any, title: str) -> list[PagePanel]:
        shown = batch.sequences[:MOST_SAMPLES]
        labels = label.sequences if isinstance(label, Batch) else [label] * len(shown)
        how = replace(self, max_voxels=shared_voxels(self.max_voxels // len(shown), 1))
        return [
            how._of_sequence(
                one, its, f"{title} {number}".strip() if title else one.source and f"{one.source} {number}"
            )
            for number, (one, its) in enumerate(zip(shown, labels, strict=False))
        ]

    def _of_sample(self, sample: Mapping[str, Any], label: Any, title: str) -> list[PagePanel]:
        if isinstance(label, str):
            if label not in sample:
                raise ParameterError(
                    f"label={label!r} is no part of the sample", allowed=", ".join(map(repr, sample))
                )
            value = sample[label]
            sample = {**sample, label: value if isinstance(value, Labels) else Labels(value)}
            label = None
        parts = {name: as_part(value) for name, value in sample.items()}
        how = replace(self, history=self.history or told(getattr(sample, "history", ())))
        batches = [part.data for part in parts.values() if isinstance(part.data, Batch)]
        if batches:
            singles = range(min(MOST_SAMPLES, *map(len, batches), MOST_SAMPLES))
            how = replace(how, max_voxels=shared_voxels(self.max_voxels // len(singles), 1))
            return [
                panel
                for n in singles
                for panel in how._of_parts(
                    {
                        name: part.with_data(part.data[n]) if isinstance(part.data, Batch) else part
                        for name, part in parts.items()
                    },
                    label,
                    f"{title} {n}".strip(),
                )
            ]
        return how._of_parts(parts, label, title)

    def _of_parts(self, parts: Mapping[str, Part], label: Any, title: str) -> list[PagePanel]:
        """A panel for each image, with the labels, points and boxes of the sample."""
        marks = {name: part for name, part in parts.items() if isinstance(part, (Points, Boxes))}
        masks = [part.data for part in parts.values() if isinstance(part, Labels)]
        images = {name: part.data for name, part in parts.items() if isinstance(part, (Image, Flow))}
        over = label if label is not None else masks[0] if masks else None
        if not images and over is not None:
            alone = self._sequence(over)
            empty = np.zeros(alone.shape, np.uint8)
            images = {
                next(n for n, p in parts.items() if isinstance(p, Labels)): alone.with_pixels(
                    empty, alone.layout
                )
            }
        if not images:
            raise ParameterError(
                f"a sample of {', '.join(parts) or 'no parts'} has no image", allowed="images or labels"
            )
        return [
            self._of_sequence(self._sequence(data), over, f"{title} {name}".strip(), marks)
            for name, data in images.items()
        ]


def told(history: Iterable[Mapping[str, Any]]) -> list[str]:
    """A history of operators, a line each: the name, and what was drawn."""
    lines = []
    for entry in history:
        drawn = dict(entry["drawn"])
        acts = drawn.pop("acts", True)
        known = {name: value for name, value in drawn.items() if value is not None}
        given = {name: value for name, value in known.items() if name in entry["op"]} or known
        values = ", ".join(f"{name} = {_short(value)}" for name, value in given.items())
        lines.append(f"{entry['op']['op']}: {values or 'nothing drawn' if np.any(acts) else 'did not act'}")
    return lines


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(_short, value[:12]))
        return f"[{shown}{', …' if len(value) > 12 else ''}]"
    return f"{value:.5g}" if isinstance(value, float) else str(value)
