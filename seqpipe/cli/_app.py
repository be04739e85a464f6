"""Command group, and the exit codes and messages of errors."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import click

from .. import __version__
from ..errors import ParameterError, SeqpipeError
from ..interrupts import INTERRUPTED
from ._wording import option_names, worded
from .doctor import doctor
from .export import export
from .flow import flow
from .index import index
from .probe import probe
from .view import view

__all__ = ["main"]

_DEBUG = "SEQPIPE_DEBUG"
_FAILED, _USAGE = 1, 2
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class _Commands(click.Group):
    """A group whose commands end with a message and an exit code, never with a traceback."""

    def main(self, *args: Any, **settings: Any) -> Any:
        _complete_streams()
        try:
            return super().main(*args, **settings)
        except OSError as error:
            # Files are written by those who name them; what has no name is a stream, and Click takes closed pipes.
            if error.errno not in _NO_ROOM or error.filename is not None or os.environ.get(_DEBUG):
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
            click.echo(" ".join(["Interrupted.", *map(str, interrupt.args)]), err=True)
            ctx.exit(INTERRUPTED)


def _complete_streams() -> None:
    """Open what a service has left closed, and let nothing fail for a letter that the user's encoding does not have.

    What is opened next would take a closed stream's number, and libraries would write their messages into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            taken = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: the stream's own
            os.set_inheritable(taken, True)
            setattr(sys, name, open(taken, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115, PTH123  kept open
        elif number and stream.errors == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """Let SIGTERM, which job schedulers send, do as Ctrl-C does, where no one else has a use for it."""
    in_main = threading.current_thread() is threading.main_thread()  # nobody else may set handlers
    if not in_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="seqpipe")
def main() -> None:
    """Video files in, exact frames and sequences out.

    Exit codes: 0 all done, 1 some inputs failed, 2 wrong usage, 130 interrupted or terminated. SEQPIPE_DEBUG=1 shows
    tracebacks.
    """


for _command in (probe, index, export, flow, view, doctor):
    main.add_command(_command)
