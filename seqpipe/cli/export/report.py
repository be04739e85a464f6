"""Export report: messages on stderr, and JSON lines on stdout on request."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict
from typing import Any

import click

from ...errors import SeqpipeError
from ..output.manifest import ManifestRow
from ..terminal.progress import say
from ..terminal.wording import option_names, worded

__all__ = ["ExportReport"]


class ExportReport:
    """Counts manifest rows and reports losses.

    Args:
        as_json: whether rows and the summary go to stdout.
        what: what the rows are.
    """

    def __init__(self, *, as_json: bool, what: str = "file") -> None:
        self._as_json, self._what = as_json, what
        self._options = (
            option_names()
        )  # computed here, because errors come from threads without a Click context
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()

    @property
    def all_done(self) -> bool:
        """Whether every output was written."""
        return not (self._counts["failed"] or self._counts["lost"])

    @property
    def has_written(self) -> bool:
        """Whether a file was written."""
        return bool(self._counts["done"])

    def row(self, row: ManifestRow) -> None:
        """Count a row of the manifest; the manifest calls this from one thread at a time."""
        self._counts[row.status] += 1
        self.json("output", asdict(row))

    def error(self, error: SeqpipeError | str) -> None:
        """Report a failed source or a loss."""
        say(f"Error: {worded(error, self._options)}")

    def json(self, kind: str, values: dict[str, Any]) -> None:
        """Print a JSON line, if JSON is on."""
        if self._as_json:
            click.echo(json.dumps({"type": kind, **values}))

    def summary(self, *, sources: int, kept: int, out: str) -> None:
        """Report the totals."""
        seconds = time.monotonic() - self._began
        done, lost, failed = (self._counts[status] for status in ("done", "lost", "failed"))
        counts = {"sources": sources, "done": done, "kept": kept, "lost": lost, "failed": failed}
        self.json("summary", {**counts, "seconds": round(seconds, 3), "out": out})
        parts = [
            f"{done:,} {self._what}{'s' * (done != 1)} written to {out} "
            f"in {seconds:.1f} s ({done / max(seconds, 1e-9):.0f}/s)"
        ]
        parts += [f"{kept:,} kept"] * bool(kept) + [f"{lost:,} lost"] * bool(lost)
        parts += [f"{failed:,} of {sources:,} sources failed or are cut"] * bool(failed)
        say(", ".join(parts) + ".")
