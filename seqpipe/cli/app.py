"""Command group, and the exit codes and messages of errors."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

import click

from .. import __version__
from ..core.interrupts import INTERRUPTED, TERMINATIONS
from ..errors import ParameterError, SeqpipeError
from .messages import option_names, worded

__all__ = ["main"]

_NAMES = ("cut", "doctor", "export", "flow", "index", "probe", "resample", "transcode", "view")
_OTHER_WORDS: Final = {
    "trim": "cut",
    "info": "probe",
    "extract": "export",
    "convert": "export",
    "show": "view",
}
"""What other programs call these commands."""
_DEBUG = "SEQPIPE_DEBUG"
_FAILED, _USAGE = 1, 2
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class _Commands(click.Group):
    """A group whose commands end with a message and an exit code, never with a traceback.

    A command's module is imported when the command runs, or when the help lists all commands.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  Click's
        return list(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  Click's
        if cmd_name not in _NAMES:
            return None
        module = importlib.import_module(f".commands.{cmd_name}", __package__)
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _NAMES and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"There is no command {name!r}. {_meant(name)}")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **settings: Any) -> Any:
        _complete_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:
            # An error with a file name belongs to a file that the command writes; one without is stdout's. Click
            # handles closed pipes.
            if error.errno not in _WRITE_ERRORS or error.filename is not None or os.environ.get(_DEBUG):
                raise
            click.echo(f"Error: cannot write to stdout ({error.strerror}).", err=True)
            sys.exit(_FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _terminate_as_interrupt():
                return super().invoke(ctx)
        except SeqpipeError as error:
            if os.environ.get(_DEBUG):
                raise
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            click.echo(f"Error: {worded(error, option_names(command))}", err=True)
            ctx.exit(_USAGE if isinstance(error, ParameterError) else _FAILED)
        except KeyboardInterrupt as interrupt:
            with contextlib.suppress(OSError):  # after SIGHUP the terminal is gone
                click.echo(" ".join(["Interrupted.", *map(str, interrupt.args)]), err=True)
            ctx.exit(INTERRUPTED)


def _meant(name: str) -> str:
    """The command that was meant, as a sentence; all commands if it is not known."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), [*_NAMES, *_OTHER_WORDS], n=1, cutoff=0.6)
    if near:
        return f"Perhaps 'seqpipe {_OTHER_WORDS.get(near[0], near[0])}' is meant."
    if os.path.exists(name):  # noqa: PTH110  Path.exists raises without permission, before Python 3.14
        return "The command comes before the paths, such as 'seqpipe probe PATH'."
    return f"Commands: {', '.join(_NAMES)}."


def _complete_streams() -> None:
    """Open standard streams that are closed, and escape characters that their encoding lacks.

    Services may start programs with closed streams. The next opened file would take a closed stream's descriptor, and
    libraries would write their messages into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            taken = os.open(os.devnull, os.O_RDWR)  # the lowest free descriptor, which is the stream's
            os.set_inheritable(taken, True)
            setattr(sys, name, open(taken, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115, PTH123  kept open
        elif number and stream.errors == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C, unless a handler is installed already."""
    # only the main thread may set signal handlers
    in_main = threading.current_thread() is threading.main_thread()
    replaced = [number for number in TERMINATIONS if in_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="seqpipe")
def main() -> None:
    """Export, inspect, index and view video files and medical volumes.

    Exit codes: 0 all done, 1 some inputs failed, 2 wrong usage, 130 interrupted or terminated. SEQPIPE_DEBUG=1 shows
    tracebacks.
    """
