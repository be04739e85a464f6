"""Manifests: a CSV, TSV or JSONL file that lists videos with their labels and ranges.

The first line of a CSV or TSV file names its columns; in JSONL each line is an object with the same names:

=========================== ============================================================================
column                      meaning
=========================== ============================================================================
``path``                    path or URL; a relative path starts at the manifest's own folder
``label``                   a whole number, -1 for none, or a class name where ``classes`` is given
``start_frame, end_frame``  the part to use, in frames, half-open; empty where it is open
``start_s, end_s``          the same in seconds on the video's own clock
=========================== ============================================================================

Only ``path`` is required. Other columns are left alone, unless they look like one of these misspelt. Text is
UTF-8; fields with commas, quotes or line breaks are quoted as in RFC 4180.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..errors import ManifestError, ParameterError, SourceNotFoundError
from .entry import Entry, Listing
from .labels import NO_LABEL, LabelParser, nearest
from .ranges import COLUMNS, Range

__all__ = ["read_manifest"]

_KNOWN: Final = ("path", "label", *COLUMNS)
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JSON: Final = (".jsonl", ".ndjson")
_Row = tuple[int, Mapping[str, Any]]


def read_manifest(manifest: str, labels: LabelParser) -> Listing:
    """The videos that a manifest lists.

    Args:
        manifest: path of a ``.csv``, ``.tsv`` or ``.jsonl`` file; in UTF-8.
        labels: turns its labels into numbers.

    Raises:
        SourceNotFoundError: there is no such file.
        ManifestError: a line cannot be used; the message names it.
    """
    path = Path(manifest)
    entries = [_entry(manifest, path.parent, line, row, labels) for line, row in _rows(manifest, path)]
    if not entries:
        raise ManifestError("the manifest lists no video", source=manifest, allowed="one line for each video")
    return Listing(tuple(entries), labels.classes)


def _rows(manifest: str, path: Path) -> Iterator[_Row]:
    ending = path.suffix.lower()
    if ending in _DELIMITERS:
        return _table(manifest, _text(manifest, path), _DELIMITERS[ending])
    if ending in _JSON:
        return _objects(manifest, _text(manifest, path))
    raise ManifestError(
        f"{ending or 'no ending'!r} is not the ending of a manifest",
        source=manifest,
        allowed=", ".join((*_DELIMITERS, *_JSON)),
        advice="Rename the file after its format",
    )


def _text(manifest: str, path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise SourceNotFoundError("no such manifest", source=manifest, advice="Check the path") from error
    except OSError as error:
        raise ManifestError(f"the manifest cannot be read ({error.strerror})", source=manifest) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _bad(manifest, line, "the text is not UTF-8", advice="Save the manifest as UTF-8") from error


def _table(manifest: str, text: str, delimiter: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns: list[str] = []
    begin = 1
    try:
        for fields in reader:
            line, begin = begin, reader.line_num + 1
            if not fields:
                continue
            if not columns:
                columns = [name.strip() for name in fields]
                _check_columns(manifest, line, columns, delimiter)
                continue
            if len(fields) != len(columns):
                fact = f"the line has {len(fields)} fields, but the header names {len(columns)}"
                raise _bad(manifest, line, fact, advice="Put fields that contain the separator into quotes")
            yield line, dict(zip(columns, fields, strict=True))
    except csv.Error as error:
        raise _bad(manifest, begin, f"the line cannot be read ({error})") from error


def _objects(manifest: str, text: str) -> Iterator[_Row]:
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        names: list[str] = []  # of the outermost object, which is read last
        try:
            value = json.loads(row, object_pairs_hook=partial(_object, names))
        except json.JSONDecodeError as error:
            raise _bad(manifest, line, f"the line is not JSON ({error.msg}, column {error.colno})") from error
        except (ValueError, RecursionError) as error:
            # of a number with thousands of digits, or of thousands of brackets
            raise _bad(manifest, line, f"the line cannot be read ({error})") from error
        if not isinstance(value, dict):
            raise _bad(
                manifest, line, f"the line holds a {type(value).__name__}", allowed='an object, {"path": …}'
            )
        _check_columns(manifest, line, names)
        yield line, {name: field for name, field in value.items() if field is not None}


def _object(names: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a name that is there twice would be gone in it."""
    names[:] = [name for name, _ in pairs]
    return dict(pairs)


def _check_columns(manifest: str, line: int, columns: list[str], delimiter: str = "") -> None:
    if twice := [name for place, name in enumerate(columns) if name in columns[:place]]:
        raise _bad(manifest, line, f"the column {twice[0]!r} is there twice")
    for name in columns:
        meant = nearest(name, _KNOWN)
        if name not in _KNOWN and meant and meant not in columns:
            raise _bad(
                manifest,
                line,
                f"the column {name!r} is unknown",
                allowed=", ".join(_KNOWN),
                advice=f"Perhaps {meant!r} was meant; other names are left alone",
            )
    if "path" not in columns:
        found = ", ".join(repr(name) for name in columns)
        separated = {",": ", separated by commas", "\t": ", separated by tabs"}.get(delimiter, "")
        raise _bad(
            manifest,
            line,
            f"there is no column 'path', only {found}",
            allowed=", ".join(_KNOWN) + separated,
            advice="The first line names the columns" if delimiter else "Name the video's path",
        )


def _entry(manifest: str, folder: Path, line: int, row: Mapping[str, Any], labels: LabelParser) -> Entry:
    key = row.get("path", "")
    if not isinstance(key, str) or not key or "\0" in key:
        raise _bad(manifest, line, f"the path {key!r} is not valid" if key else "the path is empty")
    name = key if "://" in key else str(folder / key)
    try:
        label = labels(row["label"]) if "label" in row else NO_LABEL
        bounds = {column: _number(row[column]) for column in COLUMNS if row.get(column, "") != ""}
        part = Range(**bounds) if bounds else None
    except ParameterError as error:
        raise _bad(manifest, line, error.fact, allowed=error.allowed, advice=error.advice) from error
    place = f"It is named in line {line} of {manifest}"
    if name != key:
        place += "; relative paths start at its folder"
    return Entry(name, key, label, part, place)


def _number(field: Any) -> Any:
    """A field as a number; what is none stays as it is, for the message."""
    # float() takes the digits of all scripts, and 1_000: labels do not, and whoever sees these may mean something else
    if not isinstance(field, str) or not field.isascii() or "_" in field:
        return field
    try:
        return float(field)
    except ValueError:
        return field


def _bad(
    manifest: str, line: int, fact: str, *, allowed: str | None = None, advice: str | None = None
) -> ManifestError:
    return ManifestError(f"line {line}: {fact}", source=manifest, allowed=allowed, advice=advice)
