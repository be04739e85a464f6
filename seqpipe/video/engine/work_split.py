"""Work split between GPU and CPU by measured decode rates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq

from ..plan.jobs import Job
from ..probe.info import StreamInfo

__all__ = ["CpuShare", "WorkSplit"]

_SMOOTHING = 0.2
# Pixels per second until measured: 700 frames of 1080p of a GPU worker, 200 of a CPU thread.
_INITIAL_GPU_RATE, _INITIAL_CPU_RATE = 1.4e9, 4e8


class WorkSplit:
    """Jobs that the GPU can decode, and an estimate of when it would finish them.

    Args:
        refusal: returns why the GPU cannot decode a stream, or "".
        gpu_workers: returns the number of GPU workers for jobs like the given one.
    """

    def __init__(self, refusal: Callable[[StreamInfo], str], gpu_workers: Callable[[Job], int]) -> None:
        self._refusal, self._gpu_workers = refusal, gpu_workers
        self._rate = _Rate(_INITIAL_GPU_RATE)

    def takes(self, job: Job) -> bool:
        """Return whether the GPU can decode a job."""
        return not self._refusal(job.video.index.info)

    def refuses(self, job: Job) -> bool:
        """Return whether the GPU cannot decode a job."""
        return not self.takes(job)

    def gpu_done(self, jobs: Seq[Job], seconds: float) -> None:
        """Update the GPU's rate with the duration of jobs that one worker decoded."""
        self._rate.update(jobs, seconds)

    def seconds(self, job: Job, waiting: Seq[Job]) -> float:
        """Estimate when the GPU would finish a job if it decoded all queued jobs first."""
        ahead = sum([job.pixels for job in waiting]) / self._gpu_workers(job)
        return (ahead + job.pixels) / self._rate.value


class CpuShare:
    """Rule for CPU workers: take a job only where the CPU finishes it sooner than the GPU would.

    Args:
        split: estimates of the GPU.
        threads: frame threads of a CPU worker.
    """

    def __init__(self, split: WorkSplit, threads: int = 1) -> None:
        self._split = split
        self._rate = _Rate(threads * _INITIAL_CPU_RATE)

    def choose(self, jobs: Iterable[Job], waiting: Seq[Job]) -> Job | None:
        """Return a job that the GPU cannot decode; else the last one, if the CPU finishes it before the GPU would.

        Args:
            jobs: the jobs to choose from.
            waiting: all queued jobs.
        """
        last = None
        for job in jobs:
            if self._split.refuses(job):
                return job
            last = job
        if last is None:
            return None
        on_cpu = last.pixels / self._rate.value
        return last if on_cpu <= self._split.seconds(last, waiting) else None

    def done(self, jobs: Seq[Job], seconds: float) -> None:
        """Update the CPU's rate with the duration of jobs that one worker decoded."""
        self._rate.update(jobs, seconds)


class _Rate:
    """Smoothed decode rate of a worker in pixels per second; thread-safe."""

    def __init__(self, initial: float) -> None:
        self.value = initial
        self._lock = threading.Lock()

    def update(self, jobs: Seq[Job], seconds: float) -> None:
        rate = sum([job.pixels for job in jobs]) / max(seconds, 1e-6)
        with self._lock:
            self.value += _SMOOTHING * (rate - self.value)
