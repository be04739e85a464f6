"""What an earlier run has finished, so that ``--resume`` does the rest and nothing twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..array import BoolArray
from ._manifest import Row, in_utf8
from ._plan import Plan

__all__ = ["Finished", "finished"]


@dataclass
class Finished:
    """What need not be done again.

    Attributes:
        files: for each plan, which of its files are whole.
        kept: the rows of the manifest that stay as they are.
    """

    files: list[BoolArray] = field(default_factory=list)
    kept: list[Row] = field(default_factory=list)


def finished(plans: Seq[Plan], folder: Path, rows: Iterable[Row]) -> Finished:
    """Compare the plans with the folder and the manifest of the earlier run.

    A file counts as finished if it is there, as large as the manifest says, and holds what this run would
    write; one that the manifest does not name counts as well, as files are only ever moved to their place
    whole. Rows of sources that this run does not concern are kept.

    Args:
        plans: what this run wants.
        folder: the output folder.
        rows: the earlier run's manifest; empty if it kept none.
    """
    sources = {in_utf8(Row(source=plan.source, status="done")).source for plan in plans}
    by_output: dict[str, Row] = {}
    result = Finished()
    for row in rows:
        known = in_utf8(row)  # as every manifest can hold it
        if known.source not in sources and known.status == "done":
            result.kept.append(row)
        elif known.output is not None:
            by_output[known.output] = known
    for plan in plans:
        result.files.append(_finished(plan, folder, by_output, result))
    return result


def _finished(plan: Plan, folder: Path, by_output: Mapping[str, Row], result: Finished) -> BoolArray:
    done = np.zeros(len(plan), dtype=bool)
    for file, name in enumerate(plan.names()):
        size = _size(folder / name)
        if size is None:
            continue
        wanted = plan.row(file, status="done", bytes=size)
        held = in_utf8(wanted)
        # A file without a row was moved to its place just before the run was killed.
        if by_output.get(held.output or "", held) == held:
            result.kept.append(wanted)
            done[file] = True
    return done


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
