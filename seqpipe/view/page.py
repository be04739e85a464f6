"""HTML pages as one self-contained file of panels."""

from __future__ import annotations

import html
import json
import os
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..core.whole_file import write_durably
from ..errors import OutputError, printable
from .legend import Class

__all__ = ["Page", "PagePanel"]

_NOTEBOOK_HEIGHT = 640


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


@dataclass(frozen=True)
class Page:
    """A self-contained HTML page; it fetches nothing.

    Attributes:
        title: heading of the page.
        panels: sections of the page.
        columns: number of sections side by side.
    """

    title: str
    panels: list[PagePanel]
    columns: int = 1

    @property
    def html(self) -> str:
        """The page as HTML."""
        return string.Template(_file("page.html")).substitute(
            title=_text(self.title),
            style=_file("page.css"),
            script=_file("page.js"),
            columns=self.columns,
            panels="".join(map(_section, self.panels)),
        )

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the page to a file atomically, replacing an existing file.

        Returns:
            The file's size in bytes.

        Raises:
            OutputError: the file cannot be written.
        """
        file = Path(path)
        data = self.html.encode("utf-8")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_durably(file, data)
        except OSError as error:
            raise OutputError(
                f"cannot write {printable(str(file))} ({error.strerror or error})",
                advice="Name a file in a folder that you may write to",
            ) from error
        return len(data)

    def __repr__(self) -> str:
        return f"Page({self.title!r}, {len(self.panels)} panels)"

    def _repr_html_(self) -> str:
        """The page in an iframe, for notebooks."""
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="{_NOTEBOOK_HEIGHT}" style="border:0"></iframe>'


@cache
def _file(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _text(value: str) -> str:
    """Return a text as HTML."""
    return html.escape(printable(value), quote=True)


def _section(panel: PagePanel) -> str:
    """Return a panel as HTML."""
    kind = "volume" if panel.data is not None else "frames"
    data = "" if panel.data is None else f'<script type="application/json">{_json(panel.data)}</script>\n'
    return (
        f'<section class="{kind}" data-group="{_text(panel.group)}">\n<h2>{_text(panel.title)}</h2>\n'
        f"{_list('history', panel.history)}{_list('notes', panel.notes)}"
        f"{_controls(panel) if panel.data is not None else ''}"
        f'<div class="planes">\n{panel.body}</div>\n{_legend(panel)}{_facts(panel)}{data}</section>\n'
    )


def _json(values: object) -> str:
    """Encode JSON for a script element."""
    return json.dumps(values, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _list(name: str, lines: Iterable[str]) -> str:
    """Return lines as a list in HTML."""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'<ul class="{name}">{items}</ul>\n' if items else ""


def _controls(panel: PagePanel) -> str:
    """Return the controls of a panel as HTML."""
    window = panel.data is not None and panel.data["channels"] == 1
    return (
        '<div class="controls">'
        + (
            '<label>center <input type="number" class="center" step="any"></label>'
            '<label>width <input type="number" class="width" step="any" min="0"></label>'
            '<button type="button" class="reset">reset</button>'
            if window
            else ""
        )
        + '<output class="place" aria-live="polite"></output></div>\n'
    )


def _legend(panel: PagePanel) -> str:
    """Return the classes of a panel as HTML."""
    if not panel.classes:
        return ""
    items = "".join(
        f'<li><label><input type="checkbox" data-class="{number}" checked>'
        f'<span class="swatch" style="background:{label_class.color}"></span>{_text(str(label_class))}</label></li>'
        for number, label_class in enumerate(panel.classes, 1)
    )
    return (
        '<div class="labels"><label>labels <input type="range" class="opacity" min="0" max="100" value="45"></label>'
        f'<ul class="legend">{items}</ul></div>\n'
    )


def _facts(panel: PagePanel) -> str:
    """Return the facts of a panel as HTML."""
    rows = "".join(
        f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in panel.facts.items()
    )
    return f"<details><summary>facts</summary><table>{rows}</table></details>\n" if rows else ""
