"""Entry point of the command line: the installed script ``seqpipe``, and ``python -m seqpipe``."""

from __future__ import annotations

from .core.interrupts import install_handlers

__all__ = ["main"]


def main(prog_name: str | None = None) -> None:
    """Run the command in ``sys.argv``, and end the process with its exit code."""
    install_handlers()
    from .cli import main as commands

    commands(prog_name=prog_name)


if __name__ == "__main__":
    main(prog_name="python -m seqpipe")
