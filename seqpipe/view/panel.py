"""PagePanel: what a page shows of one volume, video or clip."""

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
        title: its heading.
        body: HTML of the pictures.
        facts: names and texts of what is known of it.
        classes: of its labels.
        notes: what the reader of the page must know, such as that voxels were left out.
        history: what operators did to it, a line each.
        data: what the page's script is given, as JSON knows it; None where it has nothing to do.
        group: panels of one group show the same place; empty for none.
    """

    title: str
    body: str
    facts: Mapping[str, str] = field(default_factory=dict)
    classes: list[Class] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    data: dict[str, Any] | None = None
    group: str = ""
