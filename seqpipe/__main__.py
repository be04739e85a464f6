"""The command line as a program of its own: the installed ``seqpipe``, and ``python -m seqpipe``."""

from __future__ import annotations

from .interrupts import install_handlers

__all__ = ["main"]


def main(prog_name: str | None = None) -> None:
    """Run the command that ``sys.argv`` names, and end the process with its exit code."""
    install_handlers()
    from .cli import main as commands

    commands(prog_name=prog_name)


if __name__ == "__main__":
    main(prog_name="python -m seqpipe")
