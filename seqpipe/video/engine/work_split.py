"""Work split between GPU and CPU: which of them takes which job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq

from ..plan.jobs import Job
from ..probe.info import StreamInfo

__all__ = ["Cores", "WorkSplit"]

_SMOOTHING = 0.2
# pixels per second until it is measured: of a worker of the GPU 700 frames of 1080p, of a thread on the cores 200
_FIRST_GPU, _FIRST_CORE = 1.4e9, 4e8


class WorkSplit:
    """What the GPU does, and how soon.

    Args:
        refusal: says why the GPU cannot decode a stream, or "".
        gpu_workers: how many decode on the GPU what is like a job.
    """

    def __init__(self, refusal: Callable[[StreamInfo], str], gpu_workers: Callable[[Job], int]) -> None:
        self._refusal, self._gpu_workers = refusal, gpu_workers
        self._rate = _Rate(_FIRST_GPU)

    def takes(self, job: Job) -> bool:
        """Whether the GPU can decode it."""
        return not self._refusal(job.video.index.info)

    def refuses(self, job: Job) -> bool:
        """Whether it cannot."""
        return bool(self._refusal(job.video.index.info))

    def gpu_done(self, jobs: Seq[Job], seconds: float) -> None:
        """Learn from what a worker has done on the GPU."""
        self._rate.learn(jobs, seconds)

    def seconds(self, job: Job, waiting: Seq[Job]) -> float:
        """How soon the GPU is done with a job, if all that waits is left to it."""
        ahead = sum([job.pixels for job in waiting]) / self._gpu_workers(job)
        return (ahead + job.pixels) / self._rate.value


class Cores:
    """Lets a worker on the cores take a job only where that ends sooner than leaving it to the GPU.

    Args:
        split: of the GPU.
        threads: with how many threads such a worker decodes.
    """

    def __init__(self, split: WorkSplit, threads: int = 1) -> None:
        self._split = split
        self._rate = _Rate(threads * _FIRST_CORE)

    def choose(self, jobs: Iterable[Job], waiting: Seq[Job]) -> Job | None:
        """A job that the GPU cannot decode; else the last one, if a core is done with it before the GPU would be.

        Args:
            jobs: those to choose from.
            waiting: all that wait.
        """
        last = None
        for job in jobs:
            if self._split.refuses(job):
                return job
            last = job
        if last is None:
            return None
        by_core = last.pixels / self._rate.value
        return last if by_core <= self._split.seconds(last, waiting) else None

    def done(self, jobs: Seq[Job], seconds: float) -> None:
        """Learn from what a core has done."""
        self._rate.learn(jobs, seconds)


class _Rate:
    """Pixels that a worker decodes in a second, as far as it is known; any thread may learn."""

    def __init__(self, first: float) -> None:
        self.value = first
        self._lock = threading.Lock()

    def learn(self, jobs: Seq[Job], seconds: float) -> None:
        rate = sum([job.pixels for job in jobs]) / max(seconds, 1e-6)
        with self._lock:
            self.value += _SMOOTHING * (rate - self.value)
