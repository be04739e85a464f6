"""Sections of a page, each of one volume, video or clip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .legend import Class

__all__ = ["PagePanel"]


@dataclass(frozen=True)
class PagePanel:
    """One section of a page.

    Attributes:
        title: heading of the section.
        body: HTML of the images.
        facts: names and values of its properties.
        classes: classes of its labels.
        notes: remarks such as that voxels were left out.
        history: descriptions of the applied operators, one line each.
        data: JSON data for the page's script; None for panels without one.
        group: name of a group of panels that show the same position; empty for none.
    """

    title: str
    body: str
    facts: Mapping[str, str] = field(default_factory=dict)
    classes: list[Class] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    data: dict[str, Any] | None = None
    group: str = ""
