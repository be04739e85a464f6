"""Error messages in the command line's terms: names of Python parameters become options."""

from __future__ import annotations

import re
from collections.abc import Collection

import click

from ...errors import SeqpipeError

__all__ = ["option_names", "worded"]

# name='value', name=3, name=[…], name=…; or a bare name with an underscore in it
_ARGUMENT = re.compile(
    r"\b(?P<name>[a-z][a-z0-9_]*)=(?P<value>'[^']*'|\[[^\]]*\]|[\w.…-]*[\w…])|\b(?P<bare>[a-z]+(?:_[a-z0-9]+)+)\b"
)
_BETWEEN = re.compile(r"(,? or )(?=[a-z])")


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
    flag = f"--{(match['name'] or match['bare']).replace('_', '-')}"
    return (
        flag
        if match["bare"] or match["value"] in ("…", "True")
        else f"{flag} {match['value'].strip(chr(39))}"
    )
