"""Record of the export options in an output folder, for ``--resume``.

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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...core.json_text import parse_json
from ...writers.files import output_errors, write_whole
from ...writers.lock import WAIT_S, locked
from ..plan.request import ExportRequest

__all__ = [
    "RECORD",
    "SHEET",
    "OptionDigests",
    "RecordEntry",
    "digest",
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
        others += [] if request.options.stream is None else [request.options.stream]
        selection = request.selection
        more = [value for value in (selection.min_motion, selection.at) if value is not None]
        return cls.by(
            (request.output, encoder.name, encoder.quality if encoder.lossy else None, *others),
            (selection, request.pattern.text, *more),
            request.options.typed(),
        )

    @classmethod
    def by(cls, pixels: tuple[Any, ...], frames: tuple[Any, ...], typed: Mapping[str, str]) -> OptionDigests:
        """The digests of options that determine pixels, and of options that select frames and name files."""
        return cls(digest(*pixels), digest(*frames), typed)


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
