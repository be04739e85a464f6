"""Contact sheet: one self-contained HTML page with thumbnails of the exported frames."""

from __future__ import annotations

import base64
import string
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..array import IntArray
from ..errors import printable
from ..sampling.clock import clock_text

__all__ = ["THUMBNAIL_WIDTH", "Gallery", "Panel", "Thumbnail"]

THUMBNAIL_WIDTH: Final = 240
"""Width of the thumbnails in pixels."""

_GRID: Final = (6, 4)
_MOST_PICTURES = 600  # about 10 MB a page


@dataclass(frozen=True)
class Thumbnail:
    """One thumbnail: frame number, time in seconds from the first frame, JPEG bytes."""

    frame: int
    time_s: float
    jpeg: bytes


@dataclass
class Panel:
    """The section of one source.

    Attributes:
        source: its path or URL.
        facts: one line with codec, size and length.
        thumbnails: thumbnails by frame number.
        errors: messages about frames that could not be exported.
    """

    source: str
    facts: str
    thumbnails: list[Thumbnail] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Gallery:
    """Collects panels, up to the limit of a page.

    Args:
        grid: columns and rows of thumbnails for each source; None for 6 and 4.
        sources: number of sources; with many, each gets fewer thumbnails.
    """

    def __init__(self, grid: tuple[int, int] | None, sources: int) -> None:
        grid = grid or _GRID
        self._columns = grid[0]
        self._each = min(grid[0] * grid[1], max(1, _MOST_PICTURES // max(1, sources)))
        self._panels: list[Panel] = []
        self._left_out = 0

    def choose(self, frames: IntArray, number: int) -> IntArray:
        """The frames of a source to show, spread evenly over the exported ones."""
        different = np.unique(frames[frames >= 0])
        if number >= _MOST_PICTURES:
            return different[:0]
        positions = np.linspace(0, len(different) - 1, min(self._each, len(different)))
        chosen: IntArray = different[np.round(positions).astype(np.int64)]
        return chosen

    def add(self, panel: Panel) -> None:
        """Add a source, or only count it if the page is full."""
        if len(self._panels) < _MOST_PICTURES:
            self._panels.append(panel)
        else:
            self._left_out += 1

    def page(self) -> str:
        """The page as HTML."""
        more = f"<p>{self._left_out:,} more sources are not shown here.</p>" if self._left_out else ""
        shown = sum(len(panel.thumbnails) for panel in self._panels)
        return _PAGE.substitute(
            columns=self._columns,
            width=THUMBNAIL_WIDTH,
            summary=f"{_count(shown, 'frame')} of {_count(len(self._panels), 'video')}",
            panels="".join(map(_panel, self._panels)) + more,
        )


def _panel(panel: Panel) -> str:
    """Return the section of a source as HTML."""
    return _PANEL.substitute(
        source=_escaped(panel.source),
        facts=_escaped(panel.facts),
        errors="".join(map(_error, panel.errors)),
        figures="".join(map(_figure, panel.thumbnails)),
    )


def _error(text: str) -> str:
    """Return an error as HTML."""
    return f'<p class="error">{_escaped(text)}</p>\n'


def _escaped(text: str) -> str:
    """Return a text as HTML."""
    from html import escape  # with its table of names it costs as much as many of our modules

    return escape(printable(text))


def _figure(picture: Thumbnail) -> str:
    """Return a thumbnail as HTML."""
    return _FIGURE.substitute(
        frame=picture.frame,
        time=clock_text(picture.time_s),
        data=base64.b64encode(picture.jpeg).decode("ascii"),
    )


def _count(number: int, what: str) -> str:
    """Return a number with what it counts."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


_FIGURE: Final = string.Template(
    '<figure><img src="data:image/jpeg;base64,$data" alt="frame $frame at $time" loading="lazy">'
    "<figcaption><b>$frame</b><span>$time</span></figcaption></figure>\n"
)

_PANEL: Final = string.Template(
    '<section>\n<h2>$source</h2>\n<p class="facts">$facts</p>\n$errors'
    '<div class="grid">\n$figures</div>\n</section>\n'
)

_PAGE: Final = string.Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Contact sheet: $summary</title>
<style>
body { margin: 2rem auto; max-width: calc($columns * ${width}px); padding: 0 1rem;
       background: #fafaf8; color: #23262b; font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; font-weight: 600; }
h2 { font-size: 1rem; font-weight: 600; margin: 2.5rem 0 0; overflow-wrap: anywhere; }
.facts { margin: 0 0 .8rem; color: #6a707a; }
.error { margin: 0 0 .8rem; padding: .4rem .7rem; border-left: 3px solid #c2410c; background: #fff3ec;
         overflow-wrap: anywhere; }
.grid { display: grid; grid-template-columns: repeat($columns, minmax(0, 1fr)); gap: .7rem; }
@media (max-width: 700px) { .grid { grid-template-columns: repeat(2, minmax(0, 1fr)); } }
figure { margin: 0; background: #fff; border: 1px solid #e5e5e0; border-radius: 6px; overflow: hidden; }
img { display: block; width: 100%; height: auto; }
figcaption { display: flex; justify-content: space-between; padding: .2rem .5rem; font-size: .8rem;
             color: #6a707a; font-variant-numeric: tabular-nums; }
figcaption b { color: #23262b; }
</style>
</head>
<body>
<h1>Contact sheet: $summary</h1>
$panels</body>
</html>
"""
)
