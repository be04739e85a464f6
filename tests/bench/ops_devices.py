"""How long work takes: on a CPU by the clock, on a GPU apart from the host that queues it."""

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
    """What a call costs.

    Attributes:
        ms: on the device that does the work.
        host_ms: of the program that calls, until the work is queued; on a CPU the same.
    """

    ms: float
    host_ms: float


class Cpu:
    """Work in main memory, by the clock."""

    name, samples = "cpu", 1

    def images(self, *shape: int) -> Any:
        """Images of noise, always the same."""
        return np.random.Generator(np.random.Philox(1)).integers(0, 256, shape, dtype=np.uint8)

    def measure(self, work: Callable[[], Any]) -> Cost:
        """What a call costs: the median of some, after two that do not count."""
        times = []
        for _ in range(_WARM_UP + _ROUNDS):
            begin = time.perf_counter()
            work()
            times.append(1e3 * (time.perf_counter() - begin))
        median = statistics.median(times[_WARM_UP:])
        return Cost(median, median)

    def copy(self, x: Any) -> Callable[[], Any]:
        """Work that moves an array's bytes once, into memory that is there."""
        out = np.empty_like(x)
        return lambda: np.copyto(out, x)


class Cuda(Cpu):
    """Work on a GPU, by its own events."""

    name, samples = "cuda", 8

    def __init__(self) -> None:
        self._cupy = importlib.import_module("cupy")
        self._spin = self._cupy.RawKernel(_SPIN, "spin")

    def images(self, *shape: int) -> Any:
        """Images of noise, always the same."""
        return self._cupy.asarray(super().images(*shape))

    def measure(self, work: Callable[[], Any]) -> Cost:
        """What a call costs: the median of some rounds.

        Calls are queued while the GPU is busy with something else, so that it goes through them without waiting for the
        host; as many as the host can queue in that time, 50 at most. Where one takes the host longer than that, or
        waits for the GPU, the host's part is in both figures.
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
        """Work that moves an array's bytes once, into memory that is there."""
        out = self._cupy.empty_like(x)
        return lambda: self._cupy.copyto(out, x)


class NoDevice:
    """Takes a GPU's place, and does nothing: what is left of a call is what it costs the host."""

    argument_bytes = 32764

    def launch(self, *arguments: Any) -> None:
        """Nothing."""


def clocked(work: Callable[[], Any], finish: Callable[[], Any], calls: int = 20) -> float:
    """Milliseconds for a call by the clock, of some that follow each other, until all of them are done."""
    for _ in range(_WARM_UP):
        work()
    finish()
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    finish()
    return 1e3 * (time.perf_counter() - begin) / calls
