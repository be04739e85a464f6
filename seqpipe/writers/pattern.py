"""Output file names: the ``--pattern`` option and its fields."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from ..errors import OutputError, ParameterError

__all__ = ["FIELDS", "Pattern", "default_pattern"]

FIELDS: Final[Mapping[str, str]] = {
    "name": "the source's name",
    "stem": "the source's name without its ending",
    "parent": "the source's folder: below the input folder it was found in, else its own name",
    "index": "number of the file among those of its source",
    "frame": "frame number in the source (of a sequence: the first)",
    "volume": "number of the volume in a 4-D file",
    "pts_ms": "presentation time in milliseconds on the source's clock",
    "sequence": "number of the sequence",
    "position": "number of the frame within its sequence",
    "ext": "the format's ending",
}
"""The fields of a pattern and what they stand for."""

_MAX_WIDTH_DIGITS: Final = 3  # digits of a field's width, limited to bound time and memory
_TO_NORMALIZE: Final = frozenset({"", ".", ".."})
_SEQUENCE_FIELDS = {"sequence", "position"}
_TEXTS: Final = ("name", "stem", "parent", "ext", "part")


class Pattern:
    """A checked ``--pattern``.

    Args:
        text: a format string over the fields, relative to the output folder.
        sequences: whether sequences are exported, which have the fields ``sequence`` and ``position``.
        known: the fields and what they stand for.

    Attributes:
        text: the format string.
        fields: those that it names.

    Raises:
        ParameterError: the format string is invalid, names an unknown field, or leads out of the output folder.
    """

    def __init__(self, text: str, *, sequences: bool, known: Mapping[str, str] = FIELDS) -> None:
        self.text = text
        self.fields = frozenset(_fields(text))
        for field in _fields(text):
            if field not in known:
                raise _invalid(text, f"has the unknown field {{{field}}}", known)
            if field in _SEQUENCE_FIELDS and not sequences:
                raise ParameterError(
                    f"pattern={text!r} uses {{{field}}}, but frames are exported, not sequences",
                    advice="Remove the field, or export sequences with --sequence-length",
                )
        try:
            sample = text.format_map({name: "x" if name in _TEXTS else 0 for name in known})
        except (ValueError, TypeError) as error:
            raise _invalid(text, f"cannot be formatted ({error})") from error
        if _escapes(sample) or sample.endswith("/"):
            raise ParameterError(
                f"pattern={text!r} does not name a file below the output folder",
                advice="Write a relative path without '..', such as '{stem}/{index:06d}.{ext}'",
            )

    def name(self, values: Mapping[str, str | int], source: str) -> str:
        """The name of one file, relative to the output folder."""
        text = self.text.format_map(values)
        if "\0" not in text and _TO_NORMALIZE.isdisjoint(text.split("/")):
            return text  # without a path object: exports name up to millions of files
        if _escapes(text):
            raise OutputError(
                f"the pattern {self.text!r} gives the name {text!r}, which is not below the output folder",
                source=source,
                advice="Rename the source, or give a --pattern without {name}, {stem} and {parent}",
            )
        return str(PurePosixPath(text))


def default_pattern(*, sequences: bool, packed: bool, whole: bool = False) -> str:
    """The default pattern."""
    if not sequences:
        return "{stem}.{ext}" if whole else "{stem}/{index:06d}.{ext}"
    return "{stem}/{sequence:06d}.{ext}" if packed else "{stem}/{sequence:06d}/{position:06d}.{ext}"


def _fields(text: str) -> list[str]:
    """Return the names of the fields of a pattern."""
    try:
        parsed = list(string.Formatter().parse(text))
    except ValueError as error:
        raise _invalid(text, f"is not a format string ({error})") from error
    widths = [width for _, _, spec, _ in parsed for width in re.findall(r"\d+", spec or "")]
    if any(len(width.lstrip("0")) > _MAX_WIDTH_DIGITS for width in widths):
        raise _invalid(text, "has a width above the length of file names")
    nested = [inner for _, _, spec, _ in parsed if spec for inner in _fields(spec)]
    return [field for _, field, _, _ in parsed if field is not None] + nested


def _invalid(text: str, fact: str, known: Mapping[str, str] = FIELDS) -> ParameterError:
    """Return the error of a pattern."""
    allowed = ", ".join(f"{{{name}}}" for name in known)
    return ParameterError(f"pattern={text!r} {fact}", allowed=f"the fields {allowed}, such as {{index:06d}}")


def _escapes(name: str) -> bool:
    """Return whether a name leads out of the folder."""
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name
