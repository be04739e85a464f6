"""GPU memory limits: idle memory is released and the allocation retried before an error is raised."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar

from ...errors import DeviceMemoryError
from ...kernel import load_cupy
from ...param import Param

__all__ = [
    "IDLE_GIB",
    "idle_bytes",
    "out_of_memory",
    "release_idle",
    "retry_when_full",
    "total_bytes",
    "when_full",
]

MadeT = TypeVar("MadeT")

IDLE_GIB: Final = Param(
    name="SEQPIPE_NVDEC_IDLE_GIB",
    doc="Memory of each GPU that decoders may hold while they wait for the next file; the last one always waits",
    kind=float,
    unit="GiB",
    lo=0,
)
_IDLE_GIB: Final = 4.0

_give_back: dict[int, Callable[[], None]] = {}


def idle_bytes() -> int:
    """What idle decoders of a GPU may hold: ``SEQPIPE_NVDEC_IDLE_GIB``, else 4 GiB.

    All readers of a process share these decoders, so this is no parameter of any of them.

    Raises:
        ParameterError: the variable is no number of at least 0.
    """
    text = os.environ.get(IDLE_GIB.name)
    return int(_IDLE_GIB * 2**30) if text is None else int(IDLE_GIB.check(_number(text)) * 2**30)


def when_full(device: int, give_back: Callable[[], None]) -> None:
    """Say how to give back what is idle on a GPU; any thread may do so, with the GPU as its current one."""
    _give_back[device] = give_back


def release_idle() -> None:
    """Give back what is idle on the current GPU."""
    cupy = load_cupy()
    if (give_back := _give_back.get(int(cupy.cuda.runtime.getDevice()))) is not None:
        give_back()
    cupy.get_default_memory_pool().free_all_blocks()


def retry_when_full(make: Callable[[], MadeT], what: str, size: int) -> MadeT:
    """Allocate on the current GPU; if it is full, once more after what is idle was given back.

    Args:
        make: allocates.
        what: the thing, for the message.
        size: its bytes.

    Raises:
        DeviceMemoryError: the GPU is full all the same.
    """
    try:
        return make()
    except MemoryError:  # CuPy's own error derives from it
        release_idle()
    try:
        return make()
    except MemoryError as error:
        raise out_of_memory(what, size) from error


def out_of_memory(what: str, size: int) -> DeviceMemoryError:
    """The error for something that the current GPU has no memory for.

    The fact says nothing that changes from one moment to the next: readers count the reasons of fallbacks by it.
    """
    runtime = load_cupy().cuda.runtime
    free, total = runtime.memGetInfo()
    return DeviceMemoryError(
        f"cuda:{runtime.getDevice()} has no room for {what} of {_gib(size)}",
        allowed=f"{_gib(free)}, which are free of {_gib(total)}",
        advice=f"Idle decoders, which may hold {_gib(idle_bytes())} ({IDLE_GIB.name}), were given back already: "
        "ask for less at once, use fewer readers, or end other programs on the GPU",
    )


def total_bytes(device: int) -> int:
    """All memory of a GPU, free or not."""
    cupy = load_cupy()
    with cupy.cuda.Device(device):
        return int(cupy.cuda.runtime.memGetInfo()[1])


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"
