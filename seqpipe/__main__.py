"""Entry point of the command line: the installed script ``seqpipe``, and ``python -m seqpipe``."""

from __future__ import annotations

import atexit
import gc
import os

from .core.interrupts import install_handlers

__all__ = ["main"]


def main(prog_name: str | None = None) -> None:
    """Run the command in ``sys.argv``, and end the process with its exit code."""
    install_handlers()
    # Threads of OpenBLAS, collections of imported objects and a visit of all of them at the end took a third of a
    # short command's time; no command multiplies large matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)
    from .cli import main as commands

    commands(prog_name=prog_name)


if __name__ == "__main__":
    main(prog_name="python -m seqpipe")
