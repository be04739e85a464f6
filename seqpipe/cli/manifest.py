"""The manifest: one row for every output, loss and failed source, in jsonl, csv or parquet.

While the export runs, rows are appended to a jsonl file line by line: the manifest itself, or a journal
beside a csv or parquet manifest. So a killed export leaves every row of a whole file, and at most half a line
more, which reading drops.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from ..core.json_text import parse_json
from ..errors import ManifestError, ParameterError
from ..writers.files import output_errors, write_whole

__all__ = [
    "Manifest",
    "ManifestRow",
    "in_utf8",
    "manifest_exists",
    "manifest_format",
    "read_rows",
    "text_in_utf8",
    "written_by_manifest",
]


@dataclass(frozen=True, kw_only=True)
class ManifestRow:
    """Result of one output file, or of one source.

    Attributes:
        source: the path or URL, as on the command line.
        status: ``done``; ``lost`` where a frame cannot be decoded; ``failed`` where a source, or the rest of it, cannot
            be read.
        output: the file, relative to the output folder; None for a failed source.
        sequence: number of the sequence, or of the volume in a 4-D file; None where frames are exported.
        frame: source frame number; of a sequence, the first.
        length: frames in the output.
        pts: presentation time of ``frame`` in ticks of the stream's time base.
        pts_s: the same in seconds.
        width: columns in pixels.
        height: rows in pixels.
        bytes: the file's size.
        error: what went wrong.
    """

    source: str
    status: Literal["done", "lost", "failed"]
    output: str | None = None
    sequence: int | None = None
    frame: int | None = None
    length: int | None = None
    pts: int | None = None
    pts_s: float | None = None
    width: int | None = None
    height: int | None = None
    bytes: int | None = None
    error: str | None = None

    def to_json(self) -> str:
        """One line of JSON in ASCII; escapes keep any file name intact."""
        return json.dumps(asdict(self))


_COLUMNS: Final = tuple(field.name for field in fields(ManifestRow))
_TEXTS: Final = {"source", "status", "output", "error"}
_STATUSES: Final = {"done", "lost", "failed"}


class Manifest:
    """Writer of the manifest. Safe to use from several threads.

    Args:
        path: the manifest's file; None for no manifest.
        kept: rows of an earlier run that stay.
        listener: called with every added row.

    Raises:
        OutputError: it cannot be written.
    """

    def __init__(
        self,
        path: Path | None,
        kept: Iterable[ManifestRow] = (),
        *,
        listener: Callable[[ManifestRow], object],
    ) -> None:
        self._path, self._listener = path, listener
        self._lock = threading.Lock()
        self._journal: BinaryIO | None = None
        if path is not None:
            lines = [f"{row.to_json()}\n".encode("ascii") for row in kept]
            write_whole(_journal(path), lambda file: file.writelines(lines))
            with output_errors(path):
                self._journal = _journal(path).open("ab")

    def add(self, row: ManifestRow) -> None:
        """Append a row; once this returns, the row survives a kill of the process."""
        with self._lock:
            if self._journal is not None and self._path is not None:
                with output_errors(self._path):
                    self._journal.write(f"{row.to_json()}\n".encode("ascii"))
                    self._journal.flush()
            self._listener(row)

    def close(self) -> None:
        """Write the manifest in its final format; also called after an interruption."""
        if self._journal is None or self._path is None:
            return
        opened, self._journal = self._journal, None
        journal = _journal(self._path)
        with output_errors(self._path):
            opened.close()  # close() writes buffered data again if the disk was full
            if journal != self._path:
                rows = _read_jsonl(journal)
                write_whole(self._path, lambda file: _WRITERS[manifest_format(self._path)](rows, file))
                journal.unlink()


def manifest_format(path: Path | None) -> str:
    """The format that a manifest's ending names: ``jsonl``, ``csv`` or ``parquet``."""
    name = "" if path is None else path.suffix.lower().removeprefix(".")
    if name not in _READERS:
        raise ParameterError(
            f"manifest={str(path)!r} has the unknown ending {name!r}", allowed=".jsonl, .csv or .parquet"
        )
    if name == "parquet":
        _pyarrow()
    return name


def manifest_exists(path: Path) -> bool:
    """Whether there is a manifest, or the journal that a killed export left beside it."""
    # before Python 3.14, Path.exists raises without permission; writing reports that error
    return any(os.path.exists(file) for file in written_by_manifest(path))  # noqa: PTH110


def written_by_manifest(path: Path) -> tuple[Path, Path]:
    """The manifest and its journal; for jsonl the two are one file."""
    return path, _journal(path)


def read_rows(path: Path) -> list[ManifestRow]:
    """The rows of a manifest, or of the journal that a killed export left beside it; none if there is neither."""
    journal = _journal(path)
    try:
        return _read_jsonl(journal)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unopened(journal, error) from error
    try:
        return _READERS[manifest_format(path)](path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unopened(path, error) from error


def _journal(path: Path) -> Path:
    """Return the journal that a manifest is written to first."""
    return path if path.suffix.lower() == ".jsonl" else path.with_name(f"{path.name}.journal.jsonl")


def _read_jsonl(path: Path) -> list[ManifestRow]:
    """Read the rows of a manifest of JSON lines."""
    lines = path.read_bytes().split(b"\n")
    # Text after the last newline is empty, or an incomplete line of a killed export.
    return [_row(_json(line, path, number), path, number) for number, line in enumerate(lines[:-1], 1)]


def _json(line: bytes, path: Path, number: int) -> Mapping[str, Any]:
    """Return a line of JSON as a mapping."""
    try:
        values = parse_json(line)
    except ValueError as error:
        raise _unreadable(path, number, f"is not JSON ({error})") from error
    if not isinstance(values, dict):
        raise _unreadable(path, number, "is not a JSON object")
    return values


def _read_csv(path: Path) -> list[ManifestRow]:
    """Read the rows of a manifest of comma-separated values."""
    import csv

    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != _COLUMNS:
            raise _unreadable(path, 1, f"lacks columns; it needs {', '.join(_COLUMNS)}")
        return [
            _row({name: _value(name, values[name]) for name in _COLUMNS}, path, reader.line_num)
            for values in reader
        ]


def _value(name: str, text: str | None) -> Any:
    """Return the value of a field from its text."""
    if not text:
        return None
    if name in _TEXTS:
        return text
    try:
        return float(text) if name == "pts_s" else int(text)
    except ValueError:
        return text


def _read_parquet(path: Path) -> list[ManifestRow]:
    """Read the rows of a Parquet manifest."""
    parquet = _pyarrow()
    try:
        rows = parquet.read_table(path).to_pylist()
    except ValueError as error:  # base classes of pyarrow's errors
        raise _unreadable(path, 1, f"is not parquet ({error})") from error
    return [_row(values, path, number) for number, values in enumerate(rows, 1)]


def _row(values: Mapping[str, Any], path: Path, number: int) -> ManifestRow:
    """Return a row from its values."""
    if set(values) != set(_COLUMNS):
        raise _unreadable(path, number, f"lacks columns; it needs {', '.join(_COLUMNS)}")
    for name, value in values.items():
        kind = str if name in _TEXTS else float if name == "pts_s" else int
        if value is not None and not isinstance(value, (kind, int) if kind is float else kind):
            raise _unreadable(path, number, f"has {name}={value!r}, which is not of the type {kind.__name__}")
    if values["status"] not in _STATUSES or values["source"] is None:
        raise _unreadable(path, number, f"has status={values['status']!r} and source={values['source']!r}")
    return ManifestRow(**values)


def _unreadable(path: Path, number: int, fact: str) -> ManifestError:
    """Return the error of a row that cannot be read."""
    return ManifestError(
        f"line {number} {fact}",
        source=str(path),
        advice="Give the manifest of an earlier export, or start again with --overwrite",
    )


def _unopened(path: Path, error: OSError) -> ManifestError:
    """Return the error of a manifest that cannot be opened."""
    return ManifestError(
        f"the manifest cannot be read ({error.strerror or error})",
        source=str(path),
        advice="Give a manifest that you may read, or start again with --overwrite",
    )


def _write_csv(rows: Iterable[ManifestRow], file: BinaryIO) -> None:
    """Write rows as comma-separated values."""
    import csv

    text = io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="", write_through=True)
    writer = csv.DictWriter(text, _COLUMNS)
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    text.detach()


def _write_parquet(rows: Iterable[ManifestRow], file: BinaryIO) -> None:
    """Write rows as Parquet."""
    parquet = _pyarrow()
    import pyarrow

    kinds = {name: pyarrow.string() if name in _TEXTS else pyarrow.int64() for name in _COLUMNS}
    schema = pyarrow.schema({**kinds, "pts_s": pyarrow.float64()})
    table = pyarrow.Table.from_pylist([asdict(in_utf8(row)) for row in rows], schema=schema)
    parquet.write_table(table, file)


def in_utf8(row: ManifestRow) -> ManifestRow:
    """The row with names that are not UTF-8 escaped, because parquet holds UTF-8 only."""
    texts: dict[str, str | None] = {name: getattr(row, name) for name in _TEXTS}
    escaped: dict[str, Any] = {
        name: text_in_utf8(text) for name, text in texts.items() if text is not None and not text.isascii()
    }
    return replace(row, **escaped) if escaped else row  # quick test, as almost no row needs escapes


def text_in_utf8(text: str) -> str:
    """The text with bytes that are not UTF-8 escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _pyarrow() -> Any:
    """Import PyArrow, or say how to install it."""
    from ..writers.shards import load_pyarrow  # most manifests do without

    return load_pyarrow()


_READERS: Final[Mapping[str, Callable[[Path], list[ManifestRow]]]] = {
    "jsonl": _read_jsonl,
    "csv": _read_csv,
    "parquet": _read_parquet,
}
_WRITERS: Final[Mapping[str, Callable[[Iterable[ManifestRow], BinaryIO], None]]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
}
