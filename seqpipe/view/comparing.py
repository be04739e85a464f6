"""Comparison of samples before and after operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from .content import PanelBuilder, format_history
from .page import Page, PagePanel
from .params import FRAMES, MAX_VOXELS

__all__ = ["compare"]

_COMMON_RANGE: Final = 0.5


def compare(
    op: Callable[..., Any],
    x: Any,
    *,
    label: Any = None,
    names: Mapping[int, str] | None = None,
    window: tuple[float, float] | None = None,
    epoch: int = 0,
    index: int = 0,
    frames: int = 12,
    max_voxels: int = 1 << 22,
    title: str = "",
) -> Page:
    """Create a page of a sample before and after an operator or a chain, with the random draws of the operators.

    Both are shown with the same window and at the same position, in mm where they have an affine. Labels are overlaid
    on both.

    Args:
        op: an operator or a chain.
        x: a sample: a mapping of names to parts, a sequence, or the path or reader of a volume.
        label: labels of a sample that is not a mapping.
        names: names of classes, by class number.
        window: lower and upper end of the initial display range of volumes; by default that of the sample before.
        epoch: the epoch of the random draws.
        index: the index of the sample.
        frames: number of frames shown of a clip.
        max_voxels: largest number of voxels stored for each volume.
        title: title of the page; by default the operators.

    Raises:
        ParameterError: the sample cannot be shown, or the operator does not accept it.
    """
    builder = PanelBuilder(
        names=names,
        window=window,
        frames=FRAMES.check(frames),
        max_voxels=MAX_VOXELS.check(max_voxels),
        group="compared",
    )
    sample = builder.sample(x, label)
    after = op(sample, epoch=epoch, index=index)
    history = format_history(getattr(after, "history", ())[len(getattr(sample, "history", ())) :])
    befores = _by_name("before:", builder.panels({name: sample[name] for name in sample}, title="before:"))
    afters = _by_name("after:", replace(builder, history=history).panels(dict(after), title="after:"))
    panels = []
    for name in dict.fromkeys((*befores, *afters)):  # operators may add and remove parts
        if name in befores:
            panels.append(befores[name])
        if name in afters:
            panels.append(_same_window(befores.get(name), afters[name]))
    return Page(title or str(getattr(op, "title", "before and after")), panels)


def _by_name(prefix: str, panels: list[PagePanel]) -> dict[str, PagePanel]:
    """Return panels by the names that pair them."""
    return {panel.title.removeprefix(prefix): panel for panel in panels}


def _same_window(before: PagePanel | None, after: PagePanel) -> PagePanel:
    """Return the panel after with the window of the one before if their ranges mostly overlap."""
    if before is None or before.data is None or after.data is None:
        return after
    (low, high), (first, last) = before.data["window"], after.data["window"]
    shared = min(high, last) - max(low, first)
    if shared < _COMMON_RANGE * (max(high, last) - min(low, first)):
        return after
    return replace(after, data={**after.data, "window": [low, high]})
