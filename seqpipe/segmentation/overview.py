"""Overview of a data set of volumes for quality control: a page with one row a case."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from ..array import to_numpy
from ..core.keywords import refuses_unknown
from ..core.param import Param
from ..errors import ParameterError
from ..readers.volumes.case import VolumeRules, cut_at, load_case
from ..readers.volumes.listing import Case, Cases, cases
from ..readers.volumes.options import Prepare, Whole
from ..sequence import Sequence
from ..view.encoding import Pixels, jpeg, png
from ..view.legend import Class, Legend
from ..view.page import Page, PagePanel
from ..view.planes import PLANES, one_volume
from ..volume.info import VolumeInfo
from ..volume.reader import VolumeReader
from ..volume.regrid import reorient
from ..volume.slice_images import as_real, slice_size, window_of, windowed
from ..volume.source import AnyArray
from .each_case import CaseErrors, Progress, each_case
from .fingerprint import times_text

__all__ = ["overview"]

_SIZE: Final = Param(name="size", doc="Longer side of a plane in pixels", lo=16, hi=2048)
_ORIENTATION: Final = "LPS"
_SPACING_RATIO: Final = 2.0
"""Ratio of a spacing to the median of the data set above which it is noted."""
_DEVIATIONS: Final = 6.0
"""Distance of a mean from the median of the means, in deviations estimated by quartiles, above which it is noted."""
_QUARTILES_TO_STD: Final = 1.349
_FEW: Final = 5
"""Number of cases below which nothing is said about the rarity of classes and values."""


@dataclass(frozen=True)
class _Row:
    """One case of the page, and what it is compared with others by."""

    key: str
    title: str
    body: str
    classes: list[Class]
    warnings: list[str]
    facts: Mapping[str, str]
    spacing_mm: tuple[float, ...]
    orientation: str
    mean: float
    digest: bytes


@refuses_unknown("seqpipe.overview")
def overview(
    source: Any,
    chain: Callable[..., Any] | None = None,
    *,
    image: str | None = None,
    names: Mapping[int, str] | None = None,
    window: tuple[float, float] | None = None,
    size: int = 200,
    epoch: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    on_error: CaseErrors = "skip",
    title: str = "",
) -> Page:
    """Create a page of a data set for quality control: one row a case, with three planes, labels and warnings.

    seqpipe.overview("Task09_Spleen/").save("overview.html")
    seqpipe.overview(cases[:20], recipes.nnunet((64, 128, 128)))      # before and after a recipe

    Planes go through the slices with most labeled voxels; without labels, through the middle. A row has warnings on
    irregular headers, parts on other grids, voxels that are not finite, constant images, labels without foreground,
    and voxels equal to those of another case. It also names what differs from the other cases: spacing, orientation,
    mean, and classes that no other case has.

    Args:
        source: what :func:`seqpipe.cases` takes, or its result.
        chain: operators; each row then shows a case before and after them, with the draws of its index.
        image: name of the image that is shown; by default the first.
        names: names of classes, by class number; other labels are then noted.
        window: values shown as black and white; by default the file's window, otherwise percentiles 0.5 to 99.5.
        size: longer side of a plane, in pixels.
        epoch: the epoch of the draws of ``chain``.
        workers: number of threads, each with a case in memory; by default one for each core.
        progress: called with the number of cases that are done, and of all.
        on_error: policy for cases that cannot be read: "skip", a row with the reason, or "raise".
        title: title of the page.

    Raises:
        ParameterError: an argument is out of bounds, or no image has the name.
        SourceError: a case cannot be read and ``on_error`` is "raise"; or all of them.
    """
    given = source if isinstance(source, Cases) else cases(source)
    images = [name for name in given.entries[0].parts if name not in given.label_names]
    if image is not None and image not in images:
        raise ParameterError(f"image={image!r} is no image of the cases", allowed=", ".join(images))
    if not images:
        raise ParameterError(
            "the cases have no image", source="overview", allowed="images, with or without labels"
        )
    draw = _RowBuilder(
        image or images[0], given.label_names, chain, dict(names or {}), window, _SIZE.check(size), epoch,
        {id(case): number for number, case in enumerate(given)},
    )  # fmt: skip
    results = list(each_case(given, draw.row, workers=workers, progress=progress, on_error=on_error))
    rows = [row for _, row in results if isinstance(row, _Row)]
    panels = [
        PagePanel(row.title, row.body, row.facts, row.classes, row.warnings + _beside_others(row, rows))
        if isinstance(row, _Row)
        else PagePanel(case.key, "", notes=[f"cannot be read: {row}"])
        for case, row in results
    ]
    head = _summary(rows, len(given), sum(bool(panel.notes) for panel in panels))
    return Page(title or f"{len(given)} cases", [head, *panels])


@dataclass(frozen=True)
class _RowBuilder:
    """Reads cases and draws their rows; see :func:`overview` for the fields."""

    image: str
    labels: tuple[str, ...]
    chain: Callable[..., Any] | None
    names: Mapping[int, str]
    window: tuple[float, float] | None
    size: int
    epoch: int
    numbers: Mapping[int, int] = field(default_factory=dict)

    def row(self, case: Case) -> _Row:
        """Read a case and return its row."""
        rules = VolumeRules(Whole(), Prepare(align="first"), self.labels)
        infos = _infos(case)
        loaded = load_case(case, rules)
        parts = cut_at(loaded, (0, 0, 0), loaded.grid, rules)
        volume = _reoriented(parts[self.image])
        mask = _reoriented(parts[self.labels[0]]) if self.labels else None
        info, values = infos[self.image], as_real(volume.numpy())
        ends = self.window or window_of(values[..., :1], info)
        voxel_mm3 = float(np.prod(volume.spacing_mm or (1.0,)))
        legend = None if mask is None else Legend(_classes(mask), case.key, voxel_mm3, self.names)
        figures = self._figures("", volume, mask, legend, ends)
        if self.chain is not None:
            after = self.chain(parts, epoch=self.epoch, index=self.numbers[id(case)])
            turned = _reoriented(after[self.image])
            later = _reoriented(after[self.labels[0]]) if self.labels and self.labels[0] in after else None
            moved = None if later is None else Legend(_classes(later), case.key, None, self.names)
            figures += self._figures(
                "after: ", turned, later, moved, self._window_after(turned, values, ends)
            )
        warnings = [*_header_notes(infos), *(f"{name}: {note}" for name, note in loaded.notes)]
        warnings += _value_notes(values, legend, self.names)
        finite = values[np.isfinite(values)]
        low, high = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
        spacing = volume.spacing_mm or (1.0, 1.0, 1.0)
        return _Row(
            case.key,
            f"{case.key} · {times_text(info.grid)} voxels · {times_text(info.spacing_mm)} mm {info.orientation} · "
            f"{info.dtype} {low:.5g} to {high:.5g}",
            f'<div class="strip" style="display:flex;flex-wrap:wrap;align-items:flex-end">\n{"".join(figures)}</div>\n',
            [] if legend is None else legend.classes,
            warnings,
            info.describe(),
            tuple(spacing),
            info.orientation,
            float(finite.mean(dtype=np.float64)) if finite.size else float("nan"),
            hashlib.blake2b(np.ascontiguousarray(parts[self.image].numpy()).data, digest_size=16).digest(),
        )  # fmt: skip

    def _window_after(
        self, after: Sequence, before: AnyArray, ends: tuple[float, float]
    ) -> tuple[float, float]:
        """Return the window of an image behind a chain: that before it, unless the chain changed the range."""
        if self.window is not None:
            return self.window
        found = window_of(as_real(after.numpy())[..., :1])
        known = window_of(before[..., :1])
        overlap = min(found[1], known[1]) - max(found[0], known[0])
        return ends if overlap > (max(found[1], known[1]) - min(found[0], known[0])) / 2 else found

    def _figures(
        self,
        prefix: str,
        volume: Sequence,
        mask: Sequence | None,
        legend: Legend | None,
        window: tuple[float, float],
    ) -> list[str]:
        """Draw the three planes of a volume."""
        values = as_real(volume.numpy())
        spacing = volume.spacing_mm or (1.0, 1.0, 1.0)
        classes = None if mask is None else _classes(mask)
        figures = []
        for name, along, row, column, is_flipped, _ in PLANES:
            place = values.shape[along] // 2
            if classes is not None and classes.any():
                others = tuple(axis for axis in range(3) if axis != along)
                place = int(np.count_nonzero(classes, axis=others).argmax())
            draw = partial(_plane, axis=along, place=place, is_flipped=is_flipped)
            size = slice_size((values.shape[row], values.shape[column]), (spacing[row], spacing[column]))
            share = self.size / max(size)
            size = (max(1, round(size[0] * share)), max(1, round(size[1] * share)))
            overlay = None if classes is None or legend is None else legend.colorize(draw(classes))
            figures.append(_figure(f"{prefix}{name} {place}", _gray(draw(values), window), overlay, size))
        return figures


def _infos(case: Case) -> dict[str, VolumeInfo]:
    """Read the headers of a case."""
    found = {}
    for name, origin in case.parts.items():
        with VolumeReader(origin) as reader:
            found[name] = reader.info
    return found


def _reoriented(part: Any) -> Sequence:
    """Return a volume as ``DHWC`` in the orientation of the page."""
    sequence: Sequence = one_volume(getattr(part, "data", part) if not isinstance(part, Sequence) else part)
    return sequence if sequence.affine is None else reorient(sequence, _ORIENTATION)


def _classes(mask: Sequence) -> AnyArray:
    """Return class numbers ``DHW``; of regions, which are channels, that of the last at a voxel."""
    values: AnyArray = to_numpy(mask.data)
    if values.shape[-1] == 1:
        return values[..., 0]
    numbers = np.arange(1, values.shape[-1] + 1)
    highest: AnyArray = ((values > 0) * numbers).max(axis=-1)
    return highest


def _plane(values: AnyArray, *, axis: int, place: int, is_flipped: bool) -> AnyArray:
    """Return one slice, with its upper side first."""
    found: AnyArray = values.take(place, axis=axis)
    return found[::-1] if is_flipped else found


def _gray(plane: AnyArray, window: tuple[float, float]) -> Pixels:
    """Return a slice as RGB; 8-bit colors stay as they are."""
    if plane.shape[-1] >= 3 and plane.dtype == np.uint8:
        return plane[..., :3]
    return np.repeat(windowed(plane[..., :1], window), 3, axis=-1)


def _figure(caption: str, picture: Pixels, mask: Pixels | None, size: tuple[int, int]) -> str:
    """Return the HTML of one plane of ``size`` rows and columns."""
    import cv2

    rows, columns = size
    shown = cv2.resize(np.ascontiguousarray(picture), (columns, rows), interpolation=cv2.INTER_AREA)
    images = f'<img src="{jpeg(shown)}" alt="{caption}" loading="lazy">'
    if mask is not None:
        fitted = cv2.resize(np.ascontiguousarray(mask), (columns, rows), interpolation=cv2.INTER_NEAREST)
        images += f'<img class="mask" src="{png(fitted)}" alt="">'
    return (
        f'<figure style="width:{columns}px">'
        f'<div class="picture" style="aspect-ratio:{columns}/{rows};cursor:auto">{images}</div>'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _header_notes(infos: Mapping[str, VolumeInfo]) -> list[str]:
    """Return what is irregular about the headers of a case."""
    first_name, first = next(iter(infos.items()))
    notes = [f"{name}: {note}" for name, info in infos.items() for note in info.notes]
    notes += [
        f"{name} is on another grid than {first_name} ({info.where()}; {first.where()})"
        for name, info in infos.items()
        if not info.same_grid(first)
    ]
    return notes


def _value_notes(values: AnyArray, legend: Legend | None, names: Mapping[int, str]) -> list[str]:
    """Return what is irregular about the voxels of a case."""
    notes = []
    if values.dtype.kind == "f" and (lost := int(np.count_nonzero(~np.isfinite(values)))):
        notes.append(f"{lost:,} voxels are NaN or infinite")
    if values.size and (values == values.flat[0]).all():
        notes.append(f"every voxel is {values.flat[0]:g}")
    if legend is not None and not legend.classes:
        notes.append("the label has no foreground")
    if legend is not None and names and (unknown := [each for each in legend.classes if not each.name]):
        notes.append(f"labels without a name: {', '.join(str(each) for each in unknown)}")
    return notes


def _beside_others(row: _Row, rows: Seq[_Row]) -> list[str]:
    """Return what sets a case apart from the others."""
    notes = [
        f"the voxels are those of {other.key}"
        for other in rows
        if other is not row and other.digest == row.digest
    ]
    middle = np.median([each.spacing_mm for each in rows], axis=0)
    ratio = np.maximum(row.spacing_mm / middle, middle / row.spacing_mm)
    if ratio.max() > _SPACING_RATIO:
        notes.append(f"spacing {times_text(row.spacing_mm)} mm; the median is {times_text(middle)} mm")
    usual, count = Counter(each.orientation for each in rows).most_common(1)[0]
    if row.orientation != usual and 2 * count > len(rows):
        notes.append(f"orientation {row.orientation}; {count} of {len(rows)} are {usual}")
    if len(rows) < _FEW:
        return notes
    means = np.array([each.mean for each in rows])
    quarter, median, three_quarters = np.nanpercentile(means, (25, 50, 75))
    deviation = (three_quarters - quarter) / _QUARTILES_TO_STD
    if abs(row.mean - median) > _DEVIATIONS * deviation > 0:
        notes.append(f"mean {row.mean:.4g}; the median of the means is {median:.4g}")
    held = Counter(label.value for each in rows for label in each.classes)
    notes += [f"no other case has the label {label.value}" for label in row.classes if held[label.value] == 1]
    return notes


def _summary(rows: Seq[_Row], count: int, noted: int) -> PagePanel:
    """Return the first section: the ranges of the data set."""
    lines = [f"{count} cases, {count - len(rows)} cannot be read, {noted} with warnings"]
    if rows:
        spacings = np.array([row.spacing_mm for row in rows])
        lines += [
            f"spacing {times_text(spacings.min(0))} to {times_text(spacings.max(0))} mm, "
            f"median {times_text(np.median(spacings, 0))} mm",
            "orientation " + _counted(row.orientation for row in rows),
        ]
        if labels := _counted(label.name or str(label.value) for row in rows for label in row.classes):
            lines.append(f"labels, with the number of cases: {labels}")
    return PagePanel("data set", "", history=lines)


def _counted(values: Any) -> str:
    """Return the different values with their counts, the most frequent first."""
    return ", ".join(f"{value}: {number}" for value, number in Counter(values).most_common())
