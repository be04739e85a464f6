"""Manifests: a CSV, TSV or JSONL file that lists videos with their labels and ranges.

The first line of a CSV or TSV file names its columns; in JSONL each line is an object with the same names:

=========================== ============================================================================
column                      meaning
=========================== ============================================================================
``path``                    path or URL; a relative path starts at the manifest's own folder
``label``                   an integer, -1 for none, or a class name if ``classes`` is given; for another
                            ``label_type`` see :mod:`seqpipe.readers.labels`
``start_frame, end_frame``  half-open range in frames, whole numbers; an empty field leaves that end open
``start_s, end_s``          the same in seconds, numbers, on the video's own clock
=========================== ============================================================================

Only ``path`` is required. Other columns become :attr:`seqpipe.Batch.columns` (see :func:`fields_of`), but
misspellings of these names are refused. :mod:`seqpipe.readers.published` reads lists without a header and other
published formats. Text is UTF-8; fields with commas, quotes or line breaks are quoted as in RFC 4180.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core.keywords import nearest
from ..errors import ManifestError, ParameterError, SourceNotFoundError, described_type
from .entry import COLUMNS, Entry, Listing, Range
from .labels import NO_LABEL, LabelParser

__all__ = ["bad_line", "fields_of", "read_manifest", "text_of"]

_KNOWN: Final = ("path", "label", *COLUMNS)
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_JSON: Final = (".jsonl", ".ndjson")
_Row = tuple[int, Mapping[str, Any]]


def read_manifest(manifest: str, labels: LabelParser) -> Listing:
    """Read the videos of a manifest."""
    path = Path(manifest)
    rows = list(_rows(manifest, path))
    if not rows:
        raise ManifestError("the manifest lists no video", source=manifest, allowed="one line for each video")
    others = fields_of([{name: row[name] for name in row if name not in _KNOWN} for _, row in rows])
    pairs = zip(rows, others, strict=True)
    return Listing.of(
        (_entry(manifest, path.parent, line, row, labels, fields) for (line, row), fields in pairs), labels
    )


def _rows(manifest: str, path: Path) -> Iterator[_Row]:
    """Return the rows of a manifest, by the ending of its name."""
    ending = path.suffix.lower()
    if ending in _DELIMITERS:
        return _table(manifest, text_of(manifest, path), _DELIMITERS[ending])
    if ending in _JSON:
        return _objects(manifest, text_of(manifest, path))
    raise ManifestError(
        f"{ending or 'no ending'!r} is not the ending of a manifest",
        source=manifest,
        allowed=", ".join((*_DELIMITERS, *_JSON)),
        advice="Rename the file after its format",
    )


def text_of(manifest: str, path: Path) -> str:
    """Return the text of a manifest."""
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
        raise bad_line(
            manifest, line, "the text is not UTF-8", advice="Save the manifest as UTF-8"
        ) from error


def _table(manifest: str, text: str, delimiter: str) -> Iterator[_Row]:
    """Yield line number and fields of each row of a CSV or TSV manifest."""
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
                raise bad_line(
                    manifest, line, fact, advice="Put fields that contain the separator into quotes"
                )
            yield line, dict(zip(columns, fields, strict=True))
    except csv.Error as error:
        raise bad_line(manifest, begin, f"the line cannot be read ({error})") from error


def _objects(manifest: str, text: str) -> Iterator[_Row]:
    """Yield line number and fields of each line of a JSONL manifest."""
    for line, row in enumerate(text.split("\n"), 1):
        if not row.strip():
            continue
        names: list[str] = []  # keys of the outermost object, which the parser completes last
        try:
            value = json.loads(row, object_pairs_hook=partial(_object, names))
        except json.JSONDecodeError as error:
            raise bad_line(
                manifest, line, f"the line is not JSON ({error.msg}, column {error.colno})"
            ) from error
        except (ValueError, RecursionError) as error:
            # a number with thousands of digits, or thousands of nested brackets
            raise bad_line(manifest, line, f"the line cannot be read ({error})") from error
        if not isinstance(value, dict):
            raise bad_line(
                manifest, line, f"the line holds {described_type(value)}", allowed='an object, {"path": …}'
            )
        _check_columns(manifest, line, names)
        yield line, {name: field for name, field in value.items() if field is not None}


def _object(names: list[str], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dictionary, and store the keys in ``names``, since a dictionary hides duplicates."""
    names[:] = [name for name, _ in pairs]
    return dict(pairs)


def _check_columns(manifest: str, line: int, columns: list[str], delimiter: str = "") -> None:
    """Check that columns occur once, and that none resembles a known one that is missing."""
    if twice := [name for position, name in enumerate(columns) if name in columns[:position]]:
        raise bad_line(manifest, line, f"the column {twice[0]!r} occurs twice")
    for name in columns:
        meant = nearest(name, _KNOWN)
        if name not in _KNOWN and meant and meant not in columns:
            raise bad_line(
                manifest,
                line,
                f"the column {name!r} is unknown",
                allowed=", ".join(_KNOWN),
                advice=f"Did you mean {meant!r}? Other names become columns of the batch",
            )
    if "path" not in columns:
        present = ", ".join(repr(name) for name in columns)
        separated = {",": ", separated by commas", "\t": ", separated by tabs"}.get(delimiter, "")
        raise bad_line(
            manifest,
            line,
            f"there is no column 'path', only {present}",
            allowed=", ".join(_KNOWN) + separated,
            advice="The first line names the columns; published.video_list() reads lists without such a line"
            if delimiter
            else "Name the video's path",
        )


def _entry(
    manifest: str,
    folder: Path,
    line: int,
    row: Mapping[str, Any],
    labels: LabelParser,
    fields: Mapping[str, Any],
) -> Entry:
    key = row.get("path", "")
    if not isinstance(key, str) or not key or "\0" in key:
        raise bad_line(manifest, line, f"the path {key!r} is not valid" if key else "the path is empty")
    name = key if "://" in key else str(folder / key)
    try:
        label = labels(row["label"]) if "label" in row else NO_LABEL
        bounds = {column: _number(row[column]) for column in COLUMNS if row.get(column, "") != ""}
        part = Range(**bounds) if bounds else None
    except ParameterError as error:
        raise bad_line(manifest, line, error.fact, allowed=error.allowed, advice=error.advice) from error
    listed_at = f"It is named in line {line} of {manifest}"
    if name != key:
        listed_at += "; relative paths start at its folder"
    return Entry(name, key, label, part, listed_at, fields)


def _number(field: Any) -> Any:
    """Convert a field to a number; other text is returned unchanged, for the message."""
    # float() accepts 1_000 and digits of all scripts, which labels do not
    if not isinstance(field, str) or not field.isascii() or "_" in field:
        return field
    try:
        return float(field)
    except ValueError:
        return field


def bad_line(
    manifest: str, line: int, fact: str, *, allowed: str | None = None, advice: str | None = None
) -> ManifestError:
    """Return the error for a line of a manifest."""
    return ManifestError(f"line {line}: {fact}", source=manifest, allowed=allowed, advice=advice)


def fields_of(rows: Seq[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the fields of each row, with one type for each column.

    A column of strings becomes integers, or else floats, if all are written without leading zeros (``007`` stays a
    string). A list of numbers becomes an array. Other values are unchanged.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    converters = {name: _converter([row[name] for row in rows if name in row]) for name in names}
    return [{name: converters[name](value) for name, value in row.items()} for row in rows]


def _converter(values: Seq[Any]) -> Any:
    if all(isinstance(value, str) for value in values):
        return next((kind for kind in (int, float) if all(_is_number(value, kind) for value in values)), str)
    return _array_or_same


def _is_number(text: str, kind: type[int] | type[float]) -> bool:
    """Return whether text is a number whose text can be restored from it."""
    try:
        number = kind(text)
    except ValueError:
        return False
    if kind is int:
        return str(number) == text and abs(number) < 1 << 63
    whole = text.lstrip("-").partition(".")[0]
    return math.isfinite(number) and text.isascii() and "_" not in text and (whole == "0" or whole[:1] != "0")


def _array_or_same(value: Any) -> Any:
    """Return a list of numbers as an array; other values as they are."""
    if not isinstance(value, list) or not value:
        return value
    try:
        array = np.array(value)
    except ValueError:  # nested lists of different lengths
        return value
    return array if array.dtype.kind in "biuf" else value
