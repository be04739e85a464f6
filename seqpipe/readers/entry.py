"""Entry: a listed video before it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .labels import NO_LABEL
from .ranges import Range

__all__ = ["Entry", "Listing"]


class Entry(NamedTuple):
    """A video, or a part of it, to take samples from.

    Attributes:
        name: path or URL.
        key: name in the fingerprint, which stays the same if the whole dataset is moved.
        label: an integer, -1 for none.
        part: the range to use; None for the whole video.
        place: where the video is listed, as a sentence for messages, or "".
    """

    name: str
    key: str
    label: int = NO_LABEL
    part: Range | None = None
    place: str = ""


@dataclass(frozen=True)
class Listing:
    """The listed videos.

    Attributes:
        entries: the videos, in the order of the dataset.
        classes: class names; a name's position is its label. Empty if labels are plain integers.
        passed_over: number of files of a folder that are not videos, by file extension.
    """

    entries: tuple[Entry, ...]
    classes: tuple[str, ...] = ()
    passed_over: dict[str, int] = field(default_factory=dict)
