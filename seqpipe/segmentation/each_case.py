"""each_case: one call a case on several threads, with few cases in memory, in the order of the cases."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Final, Literal, TypeAlias, TypeVar

from ..core.param import Param, choice
from ..core.workers import Workers
from ..errors import ParameterError, SeqpipeError
from ..readers.volumes.listing import Case, Cases

__all__ = ["CaseErrors", "Progress", "each_case"]

CaseErrors: TypeAlias = Literal["raise", "skip"]
Progress: TypeAlias = Callable[[int, int], object]
ResultT = TypeVar("ResultT")

_WORKERS: Final = Param(name="workers", doc="Threads, each with a case in memory", lo=1, hi=1024)
_ON_ERROR: Final = choice("on_error", "Policy for cases that cannot be read", ("raise", "skip"))


def each_case(
    cases: Cases,
    call: Callable[[Case], ResultT],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    on_error: CaseErrors = "raise",
) -> Iterator[tuple[Case, ResultT | SeqpipeError]]:
    """Yield each case with the result of a call on it, or with its error."""
    policy = _ON_ERROR.check(on_error)
    count = len(os.sched_getaffinity(0)) if workers is None else _WORKERS.check(workers)
    if not len(cases):
        raise ParameterError("there is no case", source="cases", allowed="one or more")
    pool, pending, entries = (
        Workers(count, "seqpipe-cases"),
        deque[tuple[Case, Future[ResultT]]](),
        iter(cases),
    )
    done = failed = 0
    try:
        while True:
            while len(pending) < count and (waiting := next(entries, None)) is not None:
                pending.append((waiting, pool.submit(partial(call, waiting))))
            if not pending:
                return
            case, future = pending.popleft()
            result: ResultT | SeqpipeError
            try:
                result = future.result()
            except SeqpipeError as error:
                failed += 1
                if policy == "raise" or failed == len(cases):
                    raise
                result = error
            done += 1
            if progress is not None:
                progress(done, len(cases))
            yield case, result
    finally:
        pool.close()
