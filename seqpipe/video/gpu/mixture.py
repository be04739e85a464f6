"""Who takes which job where the card and the CPU work side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Sequence as Seq

from ..info import StreamInfo
from ..jobs import Job

__all__ = ["Mixture"]

_SMOOTHING = 0.2
# pixels per second until it is measured: of a worker of the card 700 frames of 1080p, of a thread on the cores 200
_FIRST_CARD, _FIRST_CORE = 1.4e9, 4e8


class Mixture:
    """Lets a core take a job only where that ends sooner than leaving it to the card.

    Args:
        refusal: says why the card cannot decode a stream, or "".
        card_workers: how many decode on the card.
        core_threads: with how many threads a worker on the cores decodes.
    """

    def __init__(
        self, refusal: Callable[[StreamInfo], str], card_workers: int, core_threads: int = 1
    ) -> None:
        self._refusal, self._card_workers = refusal, card_workers
        self._card, self._core = _FIRST_CARD, core_threads * _FIRST_CORE
        self._lock = threading.Lock()

    def for_card(self, jobs: Seq[Job]) -> Job | None:
        """The foremost job that the card can decode."""
        return next((job for job in jobs if not self._refusal(job.video.index.info)), None)

    def for_refused(self, jobs: Seq[Job]) -> Job | None:
        """The foremost job that the card cannot decode."""
        return next((job for job in jobs if self._refusal(job.video.index.info)), None)

    def for_core(self, jobs: Seq[Job]) -> Job | None:
        """A job that the card cannot decode; else the last one, if a core is done with it before the card would be."""
        if (refused := self.for_refused(jobs)) is not None:
            return refused
        last = jobs[-1]
        ahead = sum(map(_pixels, jobs))
        with self._lock:
            by_card = ahead / (self._card * self._card_workers) + _pixels(last) / self._card
            by_core = _pixels(last) / self._core
        return last if by_core <= by_card else None

    def card_done(self, jobs: Seq[Job], seconds: float) -> None:
        """Learn from what a worker has done on the card."""
        with self._lock:
            self._card = _learnt(self._card, jobs, seconds)

    def core_done(self, jobs: Seq[Job], seconds: float) -> None:
        """Learn from what a core has done."""
        with self._lock:
            self._core = _learnt(self._core, jobs, seconds)


def _learnt(rate: float, jobs: Seq[Job], seconds: float) -> float:
    return rate + _SMOOTHING * (sum(map(_pixels, jobs)) / max(seconds, 1e-6) - rate)


def _pixels(job: Job) -> float:
    info = job.video.index.info
    return float(job.cost * info.width * info.height)
