"""A progress bar on the terminal's stderr, and nothing where stderr is none."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TypeAlias

__all__ = ["Advance", "progress_bar"]

Advance: TypeAlias = Callable[[int], None]
"""Counts finished steps; may be called from several threads."""


@contextlib.contextmanager
def progress_bar(what: str, total: int, unit: str) -> Iterator[Advance]:
    """Show a bar with the rate while the block runs; it disappears at the end.

    Args:
        what: what is being done, such as ``Exporting``.
        total: how many steps there are.
        unit: of the steps, such as ``frames``.

    Yields:
        A function that counts finished steps.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps per second."""

        def render(self, task: Task) -> Text:
            return Text(f"{unit}, {task.finished_speed or task.speed or 0:.0f}/s", style="cyan")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)
