"""Streams: the CUDA streams on which threads decode and convert."""

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
from ...errors import BackendError, DeviceMemoryError
from ...kernel import load_cupy
from ..finalizers import Finalizer
from .memory import retry_when_full

__all__ = ["Streams"]

_OUT_OF_MEMORY = 2


class Streams:
    """The streams of one GPU: one for each thread, or one for all who take turns.

    Memory is allocated on the GPU's default stream, where the user's work is by default, so that what they free is
    used again only after their kernels; :meth:`admit` lets this thread's stream wait for that.

    Args:
        device: the GPU's number.
        shared: whether there is one stream only, used by one thread at a time.

    Raises:
        BackendError: CuPy is missing or does not fit the driver, or this is a forked process.
        DeviceMemoryError: the GPU has no room for a context.
    """

    def __init__(self, device: int, *, shared: bool = False) -> None:
        _refuse_fork()
        self._cupy = load_cupy()
        self.device = device
        self._shared = shared
        self._made: list[Any] = []
        self._begin()
        _living[id(self)] = weakref.ref(self)
        self._finalizer = Finalizer(_living.pop, id(self), None)
        self._local: Any = SimpleNamespace() if shared else threading.local()

    def current(self) -> Any:
        """The stream to use; a thread that has one of its own gets the GPU as its current one for good.

        Raises:
            BackendError: this is a forked process.
        """
        _refuse_fork()
        stream = getattr(self._local, "stream", None)
        if stream is None:
            if not self._shared:
                self._cupy.cuda.Device(self.device).use()
            stream = self._local.stream = self._cupy.cuda.Stream(non_blocking=True)
            self._made.append(stream)
        return stream

    @contextlib.contextmanager
    def bound(self) -> Iterator[None]:
        """Give the thread the GPU's context: without one the driver does not tell what the GPU decodes."""
        with self.ready():
            self._cupy.cuda.runtime.free(0)
            yield

    def ready(self) -> Any:
        """A context in which the GPU is the thread's current one.

        Raises:
            BackendError: this is a forked process.
        """
        _refuse_fork()
        return self._cupy.cuda.Device(self.device)

    def address(self) -> int:
        """This thread's stream as CUDA knows it."""
        return int(self.current().ptr)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Memory of the GPU, from CuPy's pool.

        Raises:
            DeviceMemoryError: the GPU is full, also after idle decoders and free blocks were given back.
        """
        cuda = self._cupy.cuda
        with cuda.Device(self.device), cuda.Stream.null:
            what = f"an array {shape} {dtype}"
            return retry_when_full(
                partial(self._cupy.empty, shape, dtype), what, math.prod(shape) * dtype.itemsize
            )

    def admit(self) -> None:
        """Let this thread's stream wait for what the default stream was given so far."""
        stream = self.current()
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self._cupy.cuda.Stream.null)
        stream.wait_event(event)

    def event(self) -> Any:
        """An event that is now in this thread's stream."""
        event = self._cupy.cuda.Event(disable_timing=True)
        event.record(self.current())
        return event

    def lasting_event(self) -> Any:
        """An event that lives as long as this, as streams do: a forked process could not destroy it."""
        event = self._cupy.cuda.Event(disable_timing=True)
        self._made.append(event)
        return event

    def _begin(self) -> None:
        """Give the GPU a context."""
        runtime = self._cupy.cuda.runtime
        try:
            with self.bound():
                pass
        except runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise
            raise DeviceMemoryError(
                f"cuda:{self.device} has not even room to begin with", advice="End other programs on the GPU"
            ) from error


def _refuse_fork() -> None:
    """CUDA does not survive a fork.

    Raises:
        BackendError: the process was forked after it had used a GPU.
    """
    if _process.setdefault("id", os.getpid()) != os.getpid():
        raise BackendError(
            "a forked process cannot use the GPU that its parent has used",
            advice="Start workers with the method 'spawn', or read in the main process: decoding has threads anyway",
        )


_process: dict[str, int] = {}
_living: dict[int, weakref.ref[Streams]] = {}
_inherited: list[Streams | None] = []

# A forked process cannot destroy its parent's streams either: CuPy would try, and say so on stderr.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _inherited.extend([streams() for streams in _living.values()]))
