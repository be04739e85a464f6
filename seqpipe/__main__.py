"""Entry point of the command line: the installed script ``seqpipe``, and ``python -m seqpipe``."""

from __future__ import annotations

import atexit
import gc
import os
from typing import Final

from .core.interrupts import install_handlers

__all__ = ["main"]

_OBJECTS_OF_A_START: Final = 100_000
"""More objects than imports leave behind, none of which becomes garbage."""
_OBJECTS_BETWEEN_COLLECTIONS: Final = 10_000


def main(prog_name: str | None = None) -> None:
    """Run the command in ``sys.argv``, and end the process with its exit code."""
    install_handlers()
    # Threads of OpenBLAS, collections of imported objects and a visit of all of them at the end took a third of a
    # short command's time; no command multiplies large matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_OBJECTS_OF_A_START)
    gc.callbacks.append(_collect_as_usual)
    atexit.register(gc.freeze)
    from .cli import main as commands

    commands(prog_name=prog_name)


def _collect_as_usual(phase: str, facts: dict[str, int]) -> None:  # noqa: ARG001  the collector's
    """Collect more often from the first collection on."""
    gc.callbacks.remove(_collect_as_usual)
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


if __name__ == "__main__":
    main(prog_name="python -m seqpipe")
