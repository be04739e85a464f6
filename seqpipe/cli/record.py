"""Record of the export options in an output folder, and the finished files of an earlier run, which --resume keeps.

``DIR/.seqpipe-export.json`` has an entry for each source. The manifest is no substitute: it is optional, and lists
which frame a file holds, but not the options of its pixels. The record is a file, because image-folder datasets treat
subfolders as classes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..array import BoolArray
from ..core.json_text import parse_json
from ..errors import printable
from ..writers.files import output_errors, write_whole
from ..writers.lock import WAIT_S, locked
from .manifest import ManifestRow, in_utf8, text_in_utf8
from .request import ExportRequest
from .source_plan import SourcePlan

__all__ = [
    "RECORD",
    "SHEET",
    "Finished",
    "OptionDigests",
    "RecordEntry",
    "digest",
    "exists_already",
    "finished",
    "internal_path",
    "is_current",
    "read_entries",
    "record_options",
    "source_key",
]

_PREFIX = ".seqpipe-"
RECORD = "export.json"
SHEET = "contact_sheet.html"
"""Name of the contact sheet; also its key in the record, which no source has, as those are absolute."""


@dataclass(frozen=True)
class OptionDigests:
    """Digests of the options that determine a file's content.

    Attributes:
        pixels: digest of the options that determine pixels and encoding.
        frames: digest of the options that select frames and name files.
        typed: those options as they were typed, by flag, for messages.
    """

    pixels: str
    frames: str
    typed: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, request: ExportRequest) -> OptionDigests:
        """The digests of an export's options."""
        encoder = request.encoder
        others: list[Any] = [encoder.settings] if encoder.settings else []
        # added only where they are in use, so that the digests of other exports stay as they were before these existed
        options = request.options
        others += [] if options.stream is None else [options.stream]
        of_volumes = (
            options.axis,
            options.window,
            options.mip,
            options.montage,
            options.time,
            options.series,
        )
        others += [of_volumes] if request.volumes else []
        selection = request.selection
        measures = selection.measures
        more: list[Any] = [
            value for value in (measures.pop("--min-motion", None), selection.at) if value is not None
        ]
        more += [measures] if measures else []
        return cls(
            digest(request.output, encoder.name, encoder.quality if encoder.lossy else None, *others),
            digest(selection, request.pattern.text, *more),
            options.typed(),
        )


@dataclass(frozen=True)
class RecordEntry:
    """The options that the files of one source were made with.

    Attributes:
        pixels: as in :class:`OptionDigests`.
        frames: as in :class:`OptionDigests`.
        since_ns: start of the first export with these options, by the file system's clock; older files belong to
            another export.
        typed: as in :class:`OptionDigests`; empty in records of earlier versions.
    """

    pixels: str
    frames: str
    since_ns: int
    typed: Mapping[str, str] = field(default_factory=dict, compare=False)

    def is_of(self, settings: OptionDigests) -> bool:
        """Whether the files were made with these options."""
        return (self.pixels, self.frames) == (settings.pixels, settings.frames)

    def differences(self, settings: OptionDigests) -> str:
        """The options that differ, with both values, as a clause; empty if they are not known."""
        before, now = self.typed, settings.typed
        flags = [flag for flag in {**before, **now} if before.get(flag) != now.get(flag)] if before else []
        return ", ".join(f"{flag} was {_value(flag, before)} and is {_value(flag, now)}" for flag in flags)


def internal_path(folder: Path, name: str) -> Path:
    """The path of a file that seqpipe keeps for itself in an output folder."""
    return folder / f"{_PREFIX}{name}"


def source_key(source: str) -> str:
    """The key of a source in the record: its absolute path, its URL, or "-" for standard input."""
    return source if source == "-" or "://" in source else os.path.abspath(source)  # noqa: PTH100  text, no lookup


def read_entries(folder: Path) -> dict[str, RecordEntry]:
    """The entries by source; none if the record is missing or unreadable."""
    try:
        entries = parse_json(internal_path(folder, RECORD).read_bytes())
        return {source: RecordEntry(**values) for source, values in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def is_current(sheet: Path, shown: str) -> bool:
    """Whether a contact sheet exists and, by the record, shows what has this digest."""
    entry = read_entries(sheet.parent).get(SHEET)
    try:
        return entry is not None and entry.pixels == shown and sheet.stat().st_mtime_ns >= entry.since_ns
    except OSError:
        return False


def record_options(
    folder: Path, sources: Iterable[str], settings: OptionDigests, *, replace: bool, sheet: str | None = None
) -> None:
    """Record the options of an export before its first file is written."""
    path = internal_path(folder, RECORD)
    with locked(path, "the record of the options of this folder", wait_s=WAIT_S):
        entries = read_entries(folder)
        since_ns = _now_ns(path)
        made = dict.fromkeys(map(source_key, sources), settings)
        if sheet is not None:
            made[SHEET] = OptionDigests(sheet, "")
        for key, value in made.items():
            if replace or key not in entries or not entries[key].is_of(value):
                entries[key] = RecordEntry(value.pixels, value.frames, since_ns, value.typed)
        _write(path, entries)


def _write(path: Path, entries: Mapping[str, RecordEntry]) -> None:
    """Write the record of a folder."""
    text = json.dumps({source: asdict(entry) for source, entry in entries.items()}, indent=0)
    write_whole(path, lambda file: file.write(text.encode("ascii")))


def _now_ns(path: Path) -> int:
    """The time by the file system's clock, which may differ from this machine's."""
    with output_errors(path), tempfile.TemporaryFile(dir=path.parent) as file:
        return os.fstat(file.fileno()).st_mtime_ns


def digest(*values: Any) -> str:
    """A digest of values, by their reprs."""
    text = repr(values).encode("utf-8", "surrogateescape")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()[:16]


def _value(flag: str, typed: Mapping[str, str]) -> str:
    """The value of an option, or what its absence means."""
    return (typed[flag] or "given") if flag in typed else "not given"


def exists_already(path: Path, *, resumable: bool = True) -> click.UsageError:
    """The error for a file that would be replaced unasked."""
    resume = "--resume to continue, or " if resumable else ""
    return click.UsageError(
        f"{printable(str(path))} exists already. Use {resume}--overwrite to replace files.",
        click.get_current_context(silent=True),
    )


def _made_otherwise(
    path: Path, source: str, entry: RecordEntry | None, settings: OptionDigests
) -> click.UsageError:
    """The error of ``--resume`` for a file that it would replace although an earlier export finished it."""
    if entry is None:
        how = f"is not known to come from {printable(source)}: the folder's record does not have that source"
    else:
        how = f"was made with other options: {entry.differences(settings) or 'those of an earlier version'}"
    return click.UsageError(
        f"{printable(str(path))} {how}. --resume replaces no finished file. Repeat the options of the earlier export, "
        "give another --out, or replace the files with --overwrite in place of --resume.",
        click.get_current_context(silent=True),
    )


@dataclass
class Finished:
    """The files and rows of an earlier run that stay.

    Attributes:
        files: for each plan, which of its files are finished.
        kept: the manifest rows that stay.
    """

    files: list[BoolArray] = field(default_factory=list)
    kept: list[ManifestRow] = field(default_factory=list)


def finished(
    plans: Seq[SourcePlan], folder: Path, rows: Iterable[ManifestRow], settings: OptionDigests
) -> Finished:
    """Compare the plans with the folder, its record and the manifest of the earlier run.

    A file counts as finished if it holds what this run would write: the manifest has an identical row for it, including
    its size, and the record has the same pixel options. A file without a row (there is no manifest, or the run was
    killed before it wrote the row) counts as finished if the record has the same options: files become visible only
    when complete. Rows of other sources are kept.

    A file that is there and was made with other options, or from another source, is no rest of this export: it is
    neither kept nor replaced.
    """
    entries = read_entries(folder)
    sources = {in_utf8(ManifestRow(source=plan.source, status="done")).source for plan in plans}
    by_output: dict[str, ManifestRow] = {}
    others: dict[str, ManifestRow] = {}
    for row in rows:
        known = in_utf8(row)  # escaped as in every manifest format
        if known.output is not None:
            by_output[known.output] = known
            if known.source not in sources and known.status == "done":
                others[known.output] = row
    result, wanted = Finished(), list[ManifestRow]()
    for plan in plans:
        entry = entries.get(source_key(plan.source))
        before = _EarlierRun(folder, by_output, entry, settings)
        result.files.append(before.finished(plan, wanted))
        for name in plan.names() if others else ():
            others.pop(text_in_utf8(name), None)
    result.kept = [*others.values(), *wanted]
    return result


@dataclass(frozen=True)
class _EarlierRun:
    """The records of one source's files by an earlier run.

    Attributes:
        folder: the output folder.
        by_output: the rows of the manifest.
        entry: the source's entry in the record.
        settings: this run's options.
    """

    folder: Path
    by_output: Mapping[str, ManifestRow]
    entry: RecordEntry | None
    settings: OptionDigests

    def finished(self, plan: SourcePlan, rows: list[ManifestRow]) -> BoolArray:
        """Which files of a plan are finished; their rows are appended to ``rows``."""
        replaceable = self.entry is not None and self.entry.is_of(self.settings)
        done = np.zeros(len(plan), dtype=bool)
        for file, name in enumerate(plan.names()):
            status = _stat(self.folder / name)
            if status is None:
                continue
            wanted = plan.row(file, status="done", bytes=status.st_size)
            if self._is_finished(in_utf8(wanted), status.st_mtime_ns):
                rows.append(wanted)
                done[file] = True
            elif not replaceable:
                raise _made_otherwise(self.folder / name, plan.source, self.entry, self.settings)
        return done

    def _is_finished(self, wanted: ManifestRow, changed_ns: int) -> bool:
        """Return whether a file is what the manifest, or the record of its source, says."""
        entry, row = self.entry, self.by_output.get(wanted.output or "")
        if row is not None:
            return row == wanted and (entry is None or entry.pixels == self.settings.pixels)
        return entry is not None and entry.is_of(self.settings) and changed_ns >= entry.since_ns


def _stat(path: Path) -> os.stat_result | None:
    """Return the status of a file; None if there is none."""
    try:
        return path.stat()
    except OSError:
        return None
