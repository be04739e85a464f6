"""Default number of worker processes that decode small frames for an engine."""

from __future__ import annotations

import os
from typing import Final

from ...core.param import Param
from ...errors import BackendError

__all__ = ["PROCESSES", "processes"]

PROCESSES: Final = Param(
    name="SEQPIPE_PROCESSES",
    doc="Worker processes that decode small frames on the CPU for each reader of many files; 0 for none; "
    "by default one per thread (at most 16) from 8 threads on, none below",
    kind=int,
    lo=0,
)
# Processes pay where threads wait for the GIL: on 16 cores, 16 of them halve the time for 340×256; on 2 they only cost.
_FROM_THREADS: Final = 8
_MOST_BY_DEFAULT: Final = 16


def processes(threads: int) -> int:
    """Return the number of worker processes of an engine: ``SEQPIPE_PROCESSES``, else a default by its threads.

    Args:
        threads: number of the engine's CPU threads.

    Raises:
        ParameterError: the variable is not a whole number of at least 0.
        BackendError: the variable asks for processes, but the system has no ``memfd_create``.
    """
    text = os.environ.get(PROCESSES.name)
    if text is None:
        # None in a process of multiprocessing: its siblings, such as a DataLoader's workers, use the other cores.
        if threads < _FROM_THREADS or not hasattr(os, "memfd_create"):
            return 0
        from multiprocessing import parent_process

        return min(threads, _MOST_BY_DEFAULT) if parent_process() is None else 0
    count = int(PROCESSES.check(int(text) if text.strip().isdecimal() else text))
    if count and not hasattr(os, "memfd_create"):
        raise BackendError(
            f"{PROCESSES.name}={count}, but this system has no memfd_create",
            advice=f"Unset {PROCESSES.name}: threads decode instead, with the same result",
        )
    return count
