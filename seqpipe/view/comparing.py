"""Before and after of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from .content import Showing, told
from .page import Page
from .panel import PagePanel
from .params import FRAMES, MAX_VOXELS

__all__ = ["compare"]

_ALIKE: Final = 0.5


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
    """A page that shows a sample before and after an operator or a chain, and what was drawn for it.

    Both are shown with one window and at one place, in mm where they have an affine. Labels are laid over both.

    Args:
        op: an operator or a chain.
        x: a sample: a mapping of names to parts, a sequence, or the path or reader of a volume.
        label: for what is no mapping: its labels.
        names: of classes, by their numbers.
        window: the ends of the range of values that volumes are shown with first; by default the sample's own before.
        epoch: the epoch that draws are for.
        index: the index of the sample.
        frames: how many frames of a clip are shown.
        max_voxels: how many voxels of each volume the page holds.
        title: of the page; by default the operators.

    Raises:
        ParameterError: the sample cannot be shown, or the operator does not take it.
    """
    how = Showing(
        names=names,
        window=window,
        frames=FRAMES.check(frames),
        max_voxels=MAX_VOXELS.check(max_voxels),
        group="compared",
    )
    sample = how.sample(x, label)
    after = op(sample, epoch=epoch, index=index)
    done = told(getattr(after, "history", ())[len(getattr(sample, "history", ())) :])
    befores = how.panels({name: sample[name] for name in sample}, title="before:")
    afters = replace(how, history=done).panels(dict(after), title="after:")
    pairs = [(one, _alike(one, other)) for one, other in zip(befores, afters, strict=True)]
    return Page(
        title or str(getattr(op, "title", "before and after")), [one for pair in pairs for one in pair]
    )


def _alike(before: PagePanel, after: PagePanel) -> PagePanel:
    """What comes after with the window of what was before, where they have most of their ranges in common."""
    if before.data is None or after.data is None:
        return after
    (low, high), (first, last) = before.data["window"], after.data["window"]
    shared = min(high, last) - max(low, first)
    if shared < _ALIKE * (max(high, last) - min(low, first)):
        return after
    return replace(after, data={**after.data, "window": [low, high]})
