"""Where and when operators compute: devices, modes of evaluation, threads and streams.

Every operator computes when it is called, in each mode of evaluation; errors are raised there.
"""

from __future__ import annotations

import os
import threading
from enum import Enum
from typing import Any, ClassVar

from ....array import on_gpu
from ....errors import ParameterError
from ...device import gpu_number, has_driver
from ...raised import dali_error
from . import checkpoint

__all__ = [
    "Device",
    "EvalContext",
    "EvalMode",
    "Stream",
    "ThreadPool",
    "device",
    "get_current_stream",
    "get_default_stream",
    "get_num_threads",
    "set_current_stream",
    "set_default_stream",
    "set_num_threads",
    "stream",
]


class _Entered:
    """An object that is the current one of its kind in the thread within a ``with`` block."""

    _threads: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        cls._threads = threading.local()

    def __enter__(self) -> Any:
        self._threads.stack = [*getattr(self._threads, "stack", []), self]
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.stack = self._threads.stack[:-1]

    @classmethod
    def _entered(cls) -> Any:
        stack = getattr(cls._threads, "stack", [])
        return stack[-1] if stack else None


class Device(_Entered):
    """A device: the CPU, or one of the GPUs.

    Args:
        name: "cpu", "gpu" or "cuda", or with a number ``"gpu:1"``.
        device_id: number of the GPU.

    Raises:
        ParameterError: there is no such device.
    """

    def __init__(self, name: str, device_id: int | None = None) -> None:
        kind, colon, number = name.partition(":")
        kind = "gpu" if kind == "cuda" else kind
        if kind not in ("cpu", "gpu") or (colon and (device_id is not None or not number.isdigit())):
            raise dali_error(
                f"Invalid device name {name!r}", source="ndd.Device", allowed="'cpu', 'gpu', 'gpu:0', …"
            )
        if colon:
            device_id = int(number)
        if device_id is not None and not 0 <= device_id < (1 if kind == "cpu" else 2**31):
            raise dali_error(f"Invalid device id {device_id} of {kind!r}", source="ndd.Device")
        self.device_type = kind
        self.device_id = None if kind == "cpu" else (device_id or 0)

    @staticmethod
    def current() -> Device:
        """Return the device of the innermost ``with`` block; without one, the first GPU if there is a driver."""
        return Device._entered() or Device("gpu" if has_driver() else "cpu")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[str, int | None]:
        return self.device_type, self.device_id

    def __str__(self) -> str:
        return self.device_type if self.device_id is None else f"{self.device_type}:{self.device_id}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


def device(obj: Any, id: int | None = None) -> Device:  # noqa: A002  DALI's name
    """Return a device by its name or that of a framework's object; a device as it is."""
    return obj if isinstance(obj, Device) else Device(str(getattr(obj, "type", obj)), id)


class EvalMode(Enum):
    """Modes of evaluation; operators compute at their call in each of them."""

    deferred = 1
    eager = 2
    default = eager
    sync_cpu = 3
    sync_full = 4

    def __enter__(self) -> EvalMode:
        _modes.stack = [*getattr(_modes, "stack", []), self]
        return self

    def __exit__(self, *_: object) -> None:
        _modes.stack = _modes.stack[:-1]

    @staticmethod
    def current() -> EvalMode:
        """Return the mode of the innermost ``with`` block."""
        stack: list[EvalMode] = getattr(_modes, "stack", [])
        return stack[-1] if stack else EvalMode.default


_modes = threading.local()
_threads_of_calls: list[int] = []


def get_num_threads() -> int:
    """Return the number of threads of operators outside of an :class:`EvalContext`: by default one for each core."""
    return _threads_of_calls[-1] if _threads_of_calls else len(os.sched_getaffinity(0))


def set_num_threads(n: int) -> None:
    """Set the number of threads that :func:`get_num_threads` returns.

    Raises:
        ParameterError: the number is not positive.
    """
    if n < 1:
        raise ParameterError(f"{n} threads", source="ndd.set_num_threads", allowed="1 or more")
    _threads_of_calls[:] = [int(n)]


class ThreadPool:
    """The number of threads of an :class:`EvalContext`.

    Args:
        num_threads: number of threads; None for :func:`get_num_threads`.
        device_id: accepted and ignored.
    """

    def __init__(self, num_threads: int | None = None, *, device_id: int | None = None) -> None:
        self.num_threads = get_num_threads() if num_threads is None else int(num_threads)
        self.device_id = device_id
        if self.num_threads < 1:
            raise ParameterError(f"{num_threads} threads", source="ndd.ThreadPool", allowed="1 or more")


class Stream:
    """A CUDA stream; operators are ordered by the default stream of their GPU.

    Args:
        stream: a stream of a framework; None for the default stream.
        device_id: number of the GPU.
    """

    def __init__(self, *, stream: Any = None, device_id: int | None = None) -> None:
        self.handle = int(getattr(stream, "cuda_stream", getattr(stream, "ptr", 0)) or 0)
        self.device_id = device_id or 0

    def synchronize(self) -> None:
        """Wait until the work of the GPU is done."""
        number = gpu_number(self.device_id)
        if number is not None:
            with on_gpu(number) as current:
                current.synchronize()

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def __repr__(self) -> str:
        return f"Stream(handle={self.handle}, device_id={self.device_id})"


def stream(*, stream: Any = None, device_id: int | None = None) -> Stream:
    """Return a stream; see :class:`Stream`."""
    return stream if isinstance(stream, Stream) else Stream(stream=stream, device_id=device_id)


def get_default_stream(device_id: int | None = None) -> Stream:
    """Return the default stream of a GPU."""
    return Stream(device_id=device_id)


def get_current_stream() -> Stream:
    """Return the stream of the current :class:`EvalContext`."""
    return EvalContext.current().cuda_stream


def set_default_stream(cuda_stream: Any, /, device_id: int | None = None) -> None:
    """Accept a stream without effect: operators are ordered by the default stream of their GPU."""


def set_current_stream(cuda_stream: Any, /) -> None:
    """Accept a stream without effect; see :func:`set_default_stream`."""


class EvalContext(_Entered):
    """Threads, GPU and checkpoint of the operators within a ``with`` block.

    Args:
        num_threads: number of threads; None for :func:`get_num_threads`.
        device_id: number of the GPU.
        cuda_stream: accepted and ignored; see :class:`Stream`.
        thread_pool: a pool in place of ``num_threads``.
    """

    def __init__(
        self,
        *,
        num_threads: int | None = None,
        device_id: int | None = None,
        cuda_stream: Any = None,
        thread_pool: ThreadPool | None = None,
    ) -> None:
        if num_threads is not None and thread_pool is not None:
            raise ParameterError(
                "num_threads and thread_pool are given", source="ndd.EvalContext", allowed="one of both"
            )
        self.thread_pool = thread_pool or ThreadPool(num_threads)
        self.device_id = device_id if device_id is not None else (0 if has_driver() else None)
        self.cuda_stream = stream(stream=cuda_stream, device_id=device_id)
        self.checkpoint = checkpoint.Checkpoint()

    def __enter__(self) -> Any:
        checkpoint.push(self.checkpoint)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        checkpoint.pop()

    @property
    def num_threads(self) -> int:
        """Number of threads."""
        return self.thread_pool.num_threads

    @staticmethod
    def current() -> EvalContext:
        """Return the context of the innermost ``with`` block, or that of the thread."""
        return EvalContext._entered() or EvalContext.default()

    @staticmethod
    def default() -> EvalContext:
        """Return the context of the thread."""
        found: EvalContext | None = getattr(_modes, "context", None)
        if found is None:
            found = _modes.context = EvalContext()
            found.checkpoint = checkpoint.current()
        return found

    def evaluate_all(self) -> None:
        """Do nothing: operators compute when they are called."""
