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
from .record import NoteEntry, OptionDigests, read_entries, source_key

__all__ = ["Finished", "finished"]


@dataclass
class Finished:
    """What need not be done again.

    Attributes:
        files: for each plan, which of its files are whole.
        kept: the rows of the manifest that stay as they are.
    """

    files: list[BoolArray] = field(default_factory=list)
    kept: list[ManifestRow] = field(default_factory=list)


def finished(
    plans: Seq[SourcePlan], folder: Path, rows: Iterable[ManifestRow], settings: OptionDigests
) -> Finished:
    """Compare the plans with the folder, its note and the manifest of the earlier run.

    A file counts as finished if it holds what this run would write: if the manifest has that very row for it, its size
    included, and its pixels were not made with other options. A file that no row names, as there is no manifest or the
    run was killed before the row was written, counts if all options were the same: files are only ever moved to their
    place whole. Rows of sources that this run does not concern are kept, but for files that it will write.

    Args:
        plans: what this run wants.
        folder: the output folder.
        rows: the earlier run's manifest; empty if it kept none.
        settings: this run's options.
    """
    entries = read_entries(folder)
    sources = {in_utf8(ManifestRow(source=plan.source, status="done")).source for plan in plans}
    by_output: dict[str, ManifestRow] = {}
    others: dict[str, ManifestRow] = {}
    for row in rows:
        known = in_utf8(row)  # as every manifest can hold it
        if known.output is not None:
            by_output[known.output] = known
            if known.source not in sources and known.status == "done":
                others[known.output] = row
    result, wanted = Finished(), list[ManifestRow]()
    for plan in plans:
        entry = entries.get(source_key(plan.source))
        before = _Before(folder, by_output, entry, settings)
        result.files.append(before.finished(plan, wanted))
        for name in plan.names() if others else ():
            others.pop(text_in_utf8(name), None)
    result.kept = [*others.values(), *wanted]
    return result


@dataclass(frozen=True)
class _Before:
    """What is known of the files of one source.

    Attributes:
        folder: the output folder.
        by_output: the rows of the manifest.
        entry: what the note says of the source.
        settings: this run's options.
    """

    folder: Path
    by_output: Mapping[str, ManifestRow]
    entry: NoteEntry | None
    settings: OptionDigests

    def finished(self, plan: SourcePlan, rows: list[ManifestRow]) -> BoolArray:
        """Which files of a plan are; their rows are added to those given."""
        done = np.zeros(len(plan), dtype=bool)
        for file, name in enumerate(plan.names()):
            found = _look(self.folder / name)
            if found is None:
                continue
            wanted = plan.row(file, status="done", bytes=found.st_size)
            if self._is_finished(in_utf8(wanted), found.st_mtime_ns):
                rows.append(wanted)
                done[file] = True
        return done

    def _is_finished(self, wanted: ManifestRow, changed_ns: int) -> bool:
        entry, row = self.entry, self.by_output.get(wanted.output or "")
        if row is not None:
            return row == wanted and (entry is None or entry.pixels == self.settings.pixels)
        return entry is not None and entry.is_of(self.settings) and changed_ns >= entry.since_ns


def _look(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
