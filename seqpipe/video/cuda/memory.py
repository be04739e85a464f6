"""GPU memory limits: idle memory is released and an allocation retried before an error is raised."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar

from ...core.kernel import load_cupy
from ...core.param import Param
from ...errors import DeviceMemoryError

__all__ = [
    "IDLE_GIB",
    "idle_bytes",
    "out_of_memory",
    "release_idle",
    "retry_when_full",
    "total_bytes",
    "when_full",
]

AllocatedT = TypeVar("AllocatedT")

IDLE_GIB: Final = Param(
    name="SEQPIPE_NVDEC_IDLE_GIB",
    doc="Memory of each GPU that idle decoders may hold; the most recently used one is always kept",
    kind=float,
    unit="GiB",
    lo=0,
)
_DEFAULT_IDLE_GIB: Final = 4.0

_release_hooks: dict[int, Callable[[], None]] = {}


def idle_bytes() -> int:
    """Return the memory that idle decoders of a GPU may hold: ``SEQPIPE_NVDEC_IDLE_GIB``, else 4 GiB.

    All readers of a process share these decoders, so the limit is not a parameter of a reader.
    """
    text = os.environ.get(IDLE_GIB.name)
    return int(_DEFAULT_IDLE_GIB * 2**30) if text is None else int(IDLE_GIB.check(_number(text)) * 2**30)


def when_full(device: int, release: Callable[[], None]) -> None:
    """Register a function that frees idle memory of a GPU; any thread may call it with the GPU current."""
    _release_hooks[device] = release


def release_idle() -> None:
    """Free the idle memory of the current GPU."""
    cupy = load_cupy()
    if (release := _release_hooks.get(int(cupy.cuda.runtime.getDevice()))) is not None:
        release()
    cupy.get_default_memory_pool().free_all_blocks()


def retry_when_full(allocate: Callable[[], AllocatedT], what: str, size: int) -> AllocatedT:
    """Allocate on the current GPU; if it is full, free idle memory and try again."""
    try:
        return allocate()
    except MemoryError:  # CuPy's own error derives from it
        release_idle()
    try:
        return allocate()
    except MemoryError as error:
        raise out_of_memory(what, size) from error


def out_of_memory(what: str, size: int) -> DeviceMemoryError:
    """Return the error for an allocation that the current GPU has no memory for.

    Its ``fact`` holds no current figures: readers count the reasons of fallbacks by it.
    """
    runtime = load_cupy().cuda.runtime
    free, total = runtime.memGetInfo()
    return DeviceMemoryError(
        f"cuda:{runtime.getDevice()} has no memory for {what} of {_gib(size)}",
        allowed=f"{_gib(free)}, which are free of {_gib(total)}",
        advice=f"Idle decoders, which may hold {_gib(idle_bytes())} ({IDLE_GIB.name}), were released already: "
        "ask for less at once, use fewer readers, or end other programs on the GPU",
    )


def total_bytes(device: int) -> int:
    """Return the total memory of a GPU, free or not."""
    cupy = load_cupy()
    with cupy.cuda.Device(device):
        return int(cupy.cuda.runtime.memGetInfo()[1])


def _number(text: str) -> float | str:
    """Return text as a number if it is one."""
    try:
        return float(text)
    except ValueError:
        return text


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
