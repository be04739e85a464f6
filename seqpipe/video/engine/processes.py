"""How many worker processes decode small frames for an engine."""

from __future__ import annotations

import os
from typing import Final

from ...errors import BackendError
from ...param import Param

__all__ = ["PROCESSES", "processes"]

PROCESSES: Final = Param(
    name="SEQPIPE_PROCESSES",
    doc="Processes that decode small pictures on the CPU for each reader of many files; 0 for none; "
    "by default one for each of 8 threads or more, 16 at most",
    kind=int,
    lo=0,
)
# threads that wait for Python's lock: on 16 cores as many children read 340×256 in half the time, on 2 they only cost
_WORTH_THREADS: Final = 8
_MOST_BY_DEFAULT: Final = 16


def processes(threads: int) -> int:
    """How many processes decode for an engine: ``SEQPIPE_PROCESSES``, else as many as its threads are worth.

    Args:
        threads: how many would decode without them.

    Raises:
        ParameterError: the variable is no whole number of at least 0.
        BackendError: the variable asks for some, but the system has no memory that processes can share in this backend.
    """
    text = os.environ.get(PROCESSES.name)
    if text is None:
        # who has many processes already, such as the workers of a loader, is not given as many for each of them
        if threads < _WORTH_THREADS or not hasattr(os, "memfd_create"):
            return 0
        from multiprocessing import parent_process

        return min(threads, _MOST_BY_DEFAULT) if parent_process() is None else 0
    count = int(PROCESSES.check(int(text) if text.strip().isdecimal() else text))
    if count and not hasattr(os, "memfd_create"):
        raise BackendError(
            f"{PROCESSES.name}={count}, but this system has no memfd_create",
            advice=f"Leave {PROCESSES.name} out: threads decode, in the same way",
        )
    return count
