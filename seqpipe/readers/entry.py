"""Entry: a video as the user listed it, before it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .labels import NO_LABEL
from .ranges import Range

__all__ = ["Entry", "Listing"]


class Entry(NamedTuple):
    """One video, or a part of it, that samples are to be taken from.

    Attributes:
        name: the path or URL that opens it.
        key: its name for the fingerprint: the same wherever the dataset as a whole is moved to.
        label: a whole number, -1 for none.
        part: the part to use; None for all of it.
        place: where it was named, as a sentence for messages, or "".
    """

    name: str
    key: str
    label: int = NO_LABEL
    part: Range | None = None
    place: str = ""


@dataclass(frozen=True)
class Listing:
    """What the user listed.

    Attributes:
        entries: in the order of the dataset.
        classes: the names of the classes by their numbers, or none.
        passed_over: how many files of a folder are not taken for videos, by the endings of their names.
    """

    entries: tuple[Entry, ...]
    classes: tuple[str, ...] = ()
    passed_over: dict[str, int] = field(default_factory=dict)
