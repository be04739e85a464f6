"""What NRRD and MetaImage share: text headers, numbers in them, and voxels in the same file or in one beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...array import FloatArray
from ...errors import UnreadableSourceError
from ..source import Source, open_source
from .start import Start

__all__ = ["HEADER_MOST", "bad_field", "beside", "numbers", "refuse_gzip", "required", "whole_numbers"]

HEADER_MOST: Final = 1 << 20
"""The most bytes that a text header may have."""


def refuse_gzip(source: Source, start: Start) -> None:
    """Refuse a file that was compressed as a whole, which these formats do not allow.

    Raises:
        UnreadableSourceError: it is a gzip stream.
    """
    if start.compression is not None:
        raise UnreadableSourceError(
            "the whole file is a gzip stream",
            source=source.name,
            advice="Unpack it: the format compresses its voxels by itself",
        )


def required(fields: Mapping[str, str], name: str, source: str) -> str:
    """The text of a field.

    Raises:
        UnreadableSourceError: the header does not have it.
    """
    if name not in fields:
        raise UnreadableSourceError(
            f"the header has no field {name!r}",
            source=source,
            advice="The file is damaged, or was cut short: fetch it again",
        )
    return fields[name]


def bad_field(name: str, value: str, allowed: str, source: str) -> UnreadableSourceError:
    """The error for a field with a value that it must not have."""
    return UnreadableSourceError(f"the header's field {name!r} is {value!r}", source=source, allowed=allowed)


def numbers(name: str, value: str, count: int | None, source: str) -> FloatArray:
    """The numbers of a field.

    Raises:
        UnreadableSourceError: there are more or fewer, or one is none.
    """
    found = _parsed(float, name, value, count, source)
    return np.array(found, dtype=np.float64)


def whole_numbers(name: str, value: str, count: int | None, source: str) -> tuple[int, ...]:
    """The whole numbers of a field.

    Raises:
        UnreadableSourceError: there are more or fewer, or one is none.
    """
    return tuple(_parsed(int, name, value, count, source))


def _parsed(kind: Callable[[str], Any], name: str, value: str, count: int | None, source: str) -> list[Any]:
    try:
        found = [kind(part) for part in value.split()]
    except ValueError:
        found = []
    if not found or (count is not None and len(found) != count):
        raise bad_field(name, value, "numbers" if count is None else f"{count} numbers", source)
    return found


def beside(source: Source, name: str) -> Source:
    """The file of voxels that a header names, relative to the header's own folder.

    Raises:
        UnreadableSourceError: the header is in no folder.
        SourceNotFoundError: there is no such file.
    """
    if source.path is None:
        raise UnreadableSourceError(
            f"the voxels are in the file {name!r} beside the header",
            source=source.name,
            advice="Open the header by its path",
        )
    return open_source(os.fspath(Path(source.path).parent / name))
