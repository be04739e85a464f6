"""Messages on the terminal: lines, a progress bar, and errors in the command line's terms.

The bar is on stderr, and only where that is a terminal. In errors, names of Python parameters become options.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any

import click

from ..errors import SeqpipeError

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["Bar", "Tally", "option_names", "progress_bar", "say", "worded"]

# name='value', name=3, name=[…], name=…; or a bare name with an underscore in it
_ARGUMENT = re.compile(
    r"\b(?P<name>[a-z][a-z0-9_]*)=(?P<value>'[^']*'|\[[^\]]*\]|[\w.…-]*[\w…])|\b(?P<bare>[a-z]+(?:_[a-z0-9]+)+)\b"
)
_BETWEEN = re.compile(r"(,? or )(?=[a-z])")


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
        """Return what the bar says: the work, and how many inputs are finished."""
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


class Tally:
    """Says what becomes of inputs: errors on stderr, and each input as a line of JSON on stdout on request.

    Args:
        kind: type of the lines, such as ``index``.
        statuses: what may become of an input; ``failed`` is one of them.
        as_json: whether there are lines.
    """

    def __init__(self, kind: str, statuses: Seq[str], *, as_json: bool) -> None:
        self._kind, self._statuses, self._as_json = kind, statuses, as_json
        self._counts: Counter[str] = Counter()

    def tell(self, status: str, values: dict[str, Any], error: SeqpipeError | None = None) -> None:
        """Say what became of one input."""
        self._counts[status] += 1
        values = {**values, "status": status}
        if error is not None:
            values["error"] = worded(error)
            say(f"Error: {values['error']}")
        self._line(self._kind, values)

    def finish(self) -> None:
        """Say how many inputs became what, and end the command."""
        summary = {status: self._counts[status] for status in self._statuses}
        self._line("summary", summary)
        say(", ".join(f"{count:,} {status}" for status, count in summary.items()) + ".")
        click.get_current_context().exit(int(bool(summary["failed"])))

    def _line(self, kind: str, values: dict[str, Any]) -> None:
        """Print a line of JSON, if there are such lines."""
        if self._as_json:
            click.echo(json.dumps({"type": kind, **values}))


def option_names(command: click.Command | None = None) -> frozenset[str]:
    """Return the Python names of a command's options; by default of the running command, none if no command runs."""
    context = click.get_current_context(silent=True)
    command = command or (None if context is None else context.command)
    parameters = [] if command is None else command.params
    return frozenset(p.name for p in parameters if isinstance(p, click.Option) and p.name is not None)


def worded(error: SeqpipeError | str, options: Collection[str] | None = None) -> str:
    """Return an error's message for the terminal, without advice about options that the command lacks."""
    if not isinstance(error, SeqpipeError) or not error.advice:
        return str(error)
    known = option_names() if options is None else options
    parts, advice = _BETWEEN.split(error.advice.rstrip(".")), ""
    for between, clause in zip(["", *parts[1::2]], parts[::2], strict=True):
        if clause := _as_options(clause, known):
            advice += (between if advice else "") + clause
    message = str(error).removesuffix(f". {error.advice}.")
    return f"{message}. {advice[:1].upper()}{advice[1:]}".rstrip(". ") + "."


def _as_options(clause: str, known: Collection[str]) -> str:
    """Return a clause with arguments written as options; "" if the command lacks one of them."""
    if any((match["name"] or match["bare"]) not in known for match in _ARGUMENT.finditer(clause)):
        return ""
    return _ARGUMENT.sub(_option, clause)


def _option(match: re.Match[str]) -> str:
    """Return an argument as an option."""
    flag = f"--{(match['name'] or match['bare']).replace('_', '-')}"
    return (
        flag
        if match["bare"] or match["value"] in ("…", "True")
        else f"{flag} {match['value'].strip(chr(39))}"
    )
