"""CUDA streams on which threads decode and convert, and allocation on them."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...array import Array
from ...core.finalizers import Finalizer
from ...core.kernel import load_cupy
from ...errors import BackendError, DeviceMemoryError
from .memory import retry_when_full

__all__ = ["Streams"]

_OUT_OF_MEMORY = 2


class Streams:
    """CUDA streams of one GPU: one per thread, or a single one for threads that take turns.

    Memory is allocated on the GPU's default stream, on which users work by default, so that memory they free is reused
    only after their kernels; :meth:`admit` makes this thread's stream wait for that.

    Args:
        device: the GPU's number.
        shared: whether there is a single stream, used by one thread at a time.

    Raises:
        BackendError: CuPy is missing or does not fit the driver, or this is a forked process.
        DeviceMemoryError: the GPU has no memory for a context.
    """

    def __init__(self, device: int, *, shared: bool = False) -> None:
        _refuse_fork()
        self._cupy = load_cupy()
        self.device = device
        self._shared = shared
        self._created: list[Any] = []
        self._create_context()
        _living[id(self)] = weakref.ref(self)
        self._finalizer = Finalizer(_living.pop, id(self), None)
        self._local: Any = SimpleNamespace() if shared else threading.local()

    def current(self) -> Any:
        """Return the thread's stream; with one stream per thread, the GPU becomes the thread's current one."""
        _refuse_fork()
        stream = getattr(self._local, "stream", None)
        if stream is None:
            if not self._shared:
                self._cupy.cuda.Device(self.device).use()
            stream = self._local.stream = self._cupy.cuda.Stream(non_blocking=True)
            self._created.append(stream)
        return stream

    @contextlib.contextmanager
    def bound(self) -> Iterator[None]:
        """Make the GPU's context the thread's current one, which queries of decoder capabilities require."""
        with self.ready():
            self._cupy.cuda.runtime.free(0)
            yield

    def ready(self) -> Any:
        """Return a context manager that makes the GPU the thread's current one."""
        _refuse_fork()
        return self._cupy.cuda.Device(self.device)

    def address(self) -> int:
        """Return the address of this thread's stream."""
        return int(self.current().ptr)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Allocate an array on the GPU from CuPy's pool."""
        cuda = self._cupy.cuda
        with cuda.Device(self.device), cuda.Stream.null:
            what = f"an array {shape} {dtype}"
            return retry_when_full(
                partial(self._cupy.empty, shape, dtype), what, math.prod(shape) * dtype.itemsize
            )

    def admit(self) -> None:
        """Make this thread's stream wait for the work queued on the default stream so far."""
        stream = self.current()
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self._cupy.cuda.Stream.null)
        stream.wait_event(event)

    def event(self) -> Any:
        """Record and return an event in this thread's stream."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self.current())
        return event

    def lasting_event(self) -> Any:
        """Return an event that lives as long as this object, like streams: a forked process must not destroy it."""
        event = self._cupy.cuda.Event(disable_timing=True)
        self._created.append(event)
        return event

    def _create_context(self) -> None:
        """Create the GPU's context."""
        runtime = self._cupy.cuda.runtime
        try:
            with self.bound():
                pass
        except runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise
            raise DeviceMemoryError(
                f"cuda:{self.device} has no memory for a context", advice="End other programs on the GPU"
            ) from error


def _refuse_fork() -> None:
    """Check that the process was not forked after it had used a GPU."""
    if _process.setdefault("id", os.getpid()) != os.getpid():
        raise BackendError(
            "a forked process cannot use the GPU that its parent has used",
            advice="Start workers with the method 'spawn', or read in the main process, which decodes with threads",
        )


_process: dict[str, int] = {}
_living: dict[int, weakref.ref[Streams]] = {}
_inherited: list[Streams | None] = []

# References that are never dropped: a forked process cannot destroy its parent's streams, and CuPy would try.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _inherited.extend([streams() for streams in _living.values()]))
