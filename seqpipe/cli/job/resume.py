"""Finished files of an earlier run, which ``--resume`` skips."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...array import BoolArray
from ..output.manifest import ManifestRow, in_utf8, text_in_utf8
from ..plan.source_plan import SourcePlan
from .claims import made_otherwise
from .record import OptionDigests, RecordEntry, read_entries, source_key

__all__ = ["Finished", "finished"]


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
                raise made_otherwise(self.folder / name, plan.source, self.entry, self.settings)
        return done

    def _is_finished(self, wanted: ManifestRow, changed_ns: int) -> bool:
        entry, row = self.entry, self.by_output.get(wanted.output or "")
        if row is not None:
            return row == wanted and (entry is None or entry.pixels == self.settings.pixels)
        return entry is not None and entry.is_of(self.settings) and changed_ns >= entry.since_ns


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
