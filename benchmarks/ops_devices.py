"""Timing of calls: by the clock on a CPU; on a GPU, the time of the device and that of the host separately."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["Cost", "Cpu", "Cuda", "NoDevice", "clocked"]

_WARM_UP, _ROUNDS = 2, 7
_BUSY_S: Final = 0.02  # for which the GPU has something else to do, while calls are queued
_SPIN: Final = """
__device__ unsigned long long now() {
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
}
extern "C" __global__ void spin(const long long nanoseconds) {
    const unsigned long long begin = now();
    while (now() - begin < nanoseconds) {}
}
"""


class Cost(NamedTuple):
    """Time of a call.

    Attributes:
        ms: time on the device.
        host_ms: time of the host until the work is queued; on a CPU the same.
    """

    ms: float
    host_ms: float


class Cpu:
    """Calls on arrays in main memory, timed by the clock."""

    name, samples = "cpu", 1

    def images(self, *shape: int) -> Any:
        """Return images of noise, equal in every run."""
        return np.random.Generator(np.random.Philox(1)).integers(0, 256, shape, dtype=np.uint8)

    def measure(self, work: Callable[[], Any]) -> Cost:
        """Return the median time of several calls, after two warm-up calls."""
        times = []
        for _ in range(_WARM_UP + _ROUNDS):
            begin = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - begin))
        median = statistics.median(times[_WARM_UP:])
        return Cost(median, median)

    def copy(self, x: Any) -> Callable[[], Any]:
        """Return a function that copies an array into allocated memory."""
        out = np.empty_like(x)
        return lambda: np.copyto(out, x)


class Cuda(Cpu):
    """Calls on a GPU, timed by its events."""

    name, samples = "cuda", 8

    def __init__(self) -> None:
        self._cupy = importlib.import_module("cupy")
        self._spin = self._cupy.RawKernel(_SPIN, "spin")

    def images(self, *shape: int) -> Any:
        """Return images of noise, equal in every run."""
        return self._cupy.asarray(super().images(*shape))

    def measure(self, work: Callable[[], Any]) -> Cost:
        """Return the median time of several rounds.

        Calls are queued behind a kernel that keeps the GPU busy, so that it runs them without waiting for the host: as
        many as the host can queue in that time, at most 50. If one call takes the host longer, or waits for the GPU,
        both figures include the host's time.
        """
        for _ in range(_WARM_UP):
            work()
        self._cupy.cuda.Device().synchronize()
        begin = time.perf_counter()
        work()
        calls = max(1, min(50, int(0.6 * _BUSY_S / (time.perf_counter() - begin))))
        rounds = [self._round(work, calls) for _ in range(_ROUNDS)]
        return Cost(*(statistics.median(figures) for figures in zip(*rounds, strict=True)))

    def _round(self, work: Callable[[], Any], calls: int) -> Cost:
        cuda = self._cupy.cuda
        first, last = cuda.Event(), cuda.Event()
        cuda.Device().synchronize()
        self._spin((1,), (1,), (np.int64(1e9 * _BUSY_S),))
        first.record()
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        host = 1e3 * (time.perf_counter() - begin)
        last.record()
        last.synchronize()
        return Cost(cuda.get_elapsed_time(first, last) / calls, host / calls)

    def copy(self, x: Any) -> Callable[[], Any]:
        """Return a function that copies an array into allocated memory."""
        out = self._cupy.empty_like(x)
        return lambda: self._cupy.copyto(out, x)


class NoDevice:
    """A device that does nothing, so that only the host's time of a call is left."""

    argument_bytes = 32764

    def launch(self, *arguments: Any) -> None:
        """Nothing."""


def clocked(work: Callable[[], Any], finish: Callable[[], Any], calls: int = 20) -> float:
    """Return wall-clock milliseconds per call of a row of calls, including the wait for the last."""
    for _ in range(_WARM_UP):
        work()
    finish()
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    finish()
    return 1e3 * (time.perf_counter() - begin) / calls
