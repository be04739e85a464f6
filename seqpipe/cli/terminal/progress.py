"""Progress bar on the terminal's stderr; nothing if stderr is not a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Bar", "progress_bar", "say"]


class Bar:
    """Progress of the work. Safe to use from several threads.

    Args:
        what: description of the work, such as ``Exporting``.
        steps: total number of steps; None if it is not known.
        inputs: number of inputs that they belong to.
        shown: Rich's progress display, None for no display.
    """

    def __init__(self, what: str, steps: int | None, inputs: int, shown: Progress | None) -> None:
        self._what, self._inputs, self._finished = what, inputs, 0
        self._shown = shown
        self._task = None if shown is None else shown.add_task(self._text(), total=steps)

    def advance(self, steps: int) -> None:
        """Count finished steps."""
        if self._shown is not None and self._task is not None:
            self._shown.advance(self._task, steps)

    def finish_input(self) -> None:
        """Count a finished input."""
        self._finished += 1
        if self._shown is not None and self._task is not None:
            self._shown.update(self._task, description=self._text())

    def _text(self) -> str:
        return f"{self._what} {self._finished:,}/{self._inputs:,}"


def say(text: str) -> None:
    """Print a line on stderr: above the bar, if there is one.

    While a bar is shown, Rich stands in for ``sys.stderr``; ``click.echo`` would write past it, into the bar.
    """
    sys.stderr.write(f"{text}\n")


@contextlib.contextmanager
def progress_bar(what: str, steps: int | None, unit: str, inputs: int) -> Iterator[Bar]:
    """Show a bar with the rate while the block runs, and remove it at the end."""
    if not sys.stderr.isatty():
        yield Bar(what, steps, inputs, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps done, and steps per second."""

        def render(self, task: Task) -> Text:
            rate = task.finished_speed or task.speed or 0.0
            of_all = "" if task.total is None else f"/{task.total:,.0f}"
            return Text(f"{task.completed:,.0f}{of_all} {unit}, {rate:,.0f} {unit}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), Rate(), TimeRemainingColumn())
    # Without redirect_stdout=False, Rich would print stdout's lines on stderr, the bar's console.
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as shown:
        yield Bar(what, steps, inputs, shown)
