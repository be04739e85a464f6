"""Way: how pictures come to be on a device, by which decoders and which painter."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from .jobs import Job
from .packet_decoder import Decoders
from .paint import Painter

__all__ = ["Way"]


def _foremost(jobs: Seq[Job]) -> Job | None:
    return jobs[0]


def _unmeasured(_jobs: Seq[Job], _seconds: float) -> None:
    """Nobody asks how long it takes."""


def _nothing() -> None:
    """Nothing is held."""


@dataclass(frozen=True, eq=False)
class Way:
    """One kind of worker.

    Attributes:
        name: of the decoder, for statistics.
        decoders: where its decoders come from.
        painter: makes a painter for a thread.
        threads: of its own; 0 to work on the CPU threads of the engine.
        frame_threads: of each decoder on the CPU.
        choose: picks one of the waiting jobs, or none where they are better left to another way.
        fallback: decoders that are asked about what these have not decoded, or None.
        done: is told which jobs were done together, and how many seconds that took.
        close: gives back what it holds, once its threads have ended.
    """

    name: str
    decoders: Decoders
    painter: Callable[[], Painter]
    threads: int = 0
    frame_threads: int = 1
    choose: Callable[[Seq[Job]], Job | None] = _foremost
    fallback: Decoders | None = None
    done: Callable[[Seq[Job], float], None] = _unmeasured
    close: Callable[[], None] = _nothing
