"""What a process holds, measured when it is at rest: memory of host and device, threads, open files."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Sequence as Seq
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median
from typing import Final

__all__ = ["LIMITS", "Usage", "growth", "peak_kib", "usage", "use_few_arenas"]

_MIB = 1 << 20


@dataclass(frozen=True)
class Usage:
    """What is held at a moment.

    Attributes:
        host_mib: memory of the process.
        device_mib: memory of the device that is in use by anyone.
        pool_mib: memory of the device that arrays of this process use.
        sessions: decoders of the device that wait for the next stream.
        threads: of Python.
        files: open descriptors.
    """

    host_mib: float
    device_mib: float
    pool_mib: float
    sessions: int
    threads: int
    files: int

    def __str__(self) -> str:
        return ", ".join(f"{field.name} {getattr(self, field.name):.0f}" for field in fields(self))


LIMITS: Final = Usage(host_mib=32, device_mib=64, pool_mib=8, sessions=64, threads=4, files=32)
"""How much each may grow: less than one picture of 128×96 for each of some hundred requests."""
_SESSION_MIB: Final = {"device_mib": 48, "host_mib": 8}
_M_ARENA_MAX: Final = -8  # of malloc.h


def usage(device: str) -> Usage:
    """What is held now, after garbage is collected and the allocator has returned what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    used, pool, sessions = _device(device)
    return Usage(
        host_mib=pages * os.sysconf("SC_PAGE_SIZE") / _MIB,
        device_mib=used / _MIB,
        pool_mib=pool / _MIB,
        sessions=sessions,
        threads=threading.active_count(),
        files=len(list(Path("/proc/self/fd").iterdir())),
    )


def peak_kib() -> int:
    """The most memory that this process has held, in KiB.

    Not ``ru_maxrss``, which begins with that of the process that started this one.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


def use_few_arenas() -> None:
    """Let threads share what each of them leaves free in its own part of the heap.

    Else a process with many threads grows for long although it keeps nothing: three that ran a stress side by side on
    an H200 had 595, 606 and 126 MiB of free memory between what they used, the last one with two arenas.
    """
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def growth(samples: Seq[Usage], limits: Usage = LIMITS) -> list[str]:
    """What has grown between the first and the last third of the samples, by their medians.

    Sessions are made when more of a kind are needed at once than ever before, which may happen late: what they hold is
    allowed for, and their number is bounded.
    """
    third = max(1, len(samples) // 3)
    early, late = (
        {field.name: median(getattr(sample, field.name) for sample in part) for field in fields(Usage)}
        for part in (samples[:third], samples[-third:])
    )
    allowed = {field.name: getattr(limits, field.name) for field in fields(Usage)}
    for name, of_a_session in _SESSION_MIB.items():
        allowed[name] += of_a_session * max(0, late["sessions"] - early["sessions"])
    return [
        f"{name} has grown from {early[name]:.0f} to {late[name]:.0f}"
        for name, limit in allowed.items()
        if late[name] - early[name] > limit
    ]


def _device(device: str) -> tuple[int, int, int]:
    if device == "cpu":
        return 0, 0, 0
    from seqpipe.core.kernel import load_cupy
    from seqpipe.video.device import parse_device
    from seqpipe.video.engine.gpu_backends import _pool

    cupy, number = load_cupy(), parse_device(device).number
    with cupy.cuda.Device(number):
        free, total = cupy.cuda.runtime.memGetInfo()
        return total - free, cupy.get_default_memory_pool().used_bytes(), len(_pool(number)._idle)
