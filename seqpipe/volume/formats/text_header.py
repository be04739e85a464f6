"""Text headers of NRRD and MetaImage: required fields, numbers, and the separate file of the voxels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import UnreadableSourceError
from ..source import Source, open_source
from .start import path_of

__all__ = [
    "HEADER_MOST",
    "bad_field",
    "companion_file",
    "numbers",
    "required",
    "whole_numbers",
]

HEADER_MOST: Final = 1 << 20
"""Maximum size of a text header in bytes."""


def required(fields: Mapping[str, str], name: str, source: str) -> str:
    """Return the text of a field.

    Raises:
        UnreadableSourceError: the header does not have the field.
    """
    if name not in fields:
        raise UnreadableSourceError(
            f"the header has no field {name!r}",
            source=source,
            advice="The file is damaged or truncated: fetch it again",
        )
    return fields[name]


def bad_field(name: str, value: str, allowed: str, source: str) -> UnreadableSourceError:
    """Return the error for an invalid value of a field."""
    return UnreadableSourceError(f"the header's field {name!r} is {value!r}", source=source, allowed=allowed)


def numbers(name: str, value: str, count: int | None, source: str) -> FloatArray:
    """Parse the numbers of a field.

    Raises:
        UnreadableSourceError: their count differs from ``count``, or one is not a number.
    """
    values = _parsed(float, name, value, count, source)
    return np.array(values, dtype=np.float64)


def whole_numbers(name: str, value: str, count: int | None, source: str) -> tuple[int, ...]:
    """Parse the integers of a field.

    Raises:
        UnreadableSourceError: their count differs from ``count``, or one is not a number.
    """
    return tuple(_parsed(int, name, value, count, source))


def _parsed(kind: Callable[[str], Any], name: str, value: str, count: int | None, source: str) -> list[Any]:
    try:
        parts = [kind(part) for part in value.split()]
    except ValueError:
        parts = []
    if not parts or (count is not None and len(parts) != count):
        raise bad_field(name, value, "numbers" if count is None else f"{count} numbers", source)
    return parts


def companion_file(source: Source, name: str) -> Source:
    """Open the voxel file that a header names, relative to the header's folder.

    Raises:
        UnreadableSourceError: the header was not opened by a path, or names a folder.
        SourceNotFoundError: the file does not exist.
    """
    path = path_of(source)
    if path is None:
        raise UnreadableSourceError(
            f"the voxels are in the separate file {name!r}",
            source=source.name,
            advice="Open the header by its path",
        )
    file = Path(path).parent / name
    if file.is_dir():  # a name that damage left empty, for example
        raise UnreadableSourceError(
            f"the header names {name!r} as the file of its voxels, which is a folder",
            source=source.name,
            advice="Write the name of the voxel file into the header",
        )
    return open_source(os.fspath(file))
