"""Sessions of the engine, their buffers, and a pool of idle ones."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from ...array import Array
from ...core.kernel import load_cupy
from ...errors import BackendError
from .library import (
    ADVICE,
    BOTH,
    CAPS,
    COST,
    DEVICE_POINTER,
    FORWARD,
    GRAY8,
    HINT,
    INPUT,
    OPTICAL_FLOW,
    OUTPUT,
    PERFORMANCE,
    SHORT2,
    UINT8,
    Api,
    BufferDescriptor,
    ExecuteInput,
    ExecuteOutput,
    InitParams,
    StrideInfo,
    api,
    status_name,
)

__all__ = ["MOST_IDLE", "POOL", "Buffer", "EngineKind", "FlowSession", "Pool", "caps_of"]

_log = logging.getLogger(__name__)
_ELEMENTS: Final = {GRAY8: ("uint8", 1), SHORT2: ("int16", 2), UINT8: ("uint8", 1)}


class EngineKind(NamedTuple):
    """The parameters of a session.

    Attributes:
        device: index of the GPU.
        width: width of frames.
        height: height of frames.
        grid: side of an output cell in pixels.
        preset: slow, medium or fast.
        both: whether one execution computes both directions.
        cost: whether costs are computed.
        hint_grid: side of a cell of hints in pixels; 0 without hints.
        format: buffer format of frames.
    """

    device: int
    width: int
    height: int
    grid: int
    preset: str
    both: bool = False
    cost: bool = False
    hint_grid: int = 0
    format: int = GRAY8

    def __str__(self) -> str:
        return f"{self.width}×{self.height}, grid {self.grid}, preset {self.preset}"


class Buffer:
    """A buffer of a session.

    Attributes:
        handle: the engine's handle.
        pixels: the memory as a CuPy array ``(rows, columns)``, or ``(rows, columns, 2)`` for vectors.
    """

    def __init__(self, session: FlowSession, usage: int, form: int, width: int, height: int) -> None:
        self._session = session
        descriptor, handle = BufferDescriptor(width, height, usage, form), ctypes.c_void_p()
        functions = session.functions
        session.check(
            functions.nvOFCreateGPUBufferCuda(
                session.handle, ctypes.byref(descriptor), DEVICE_POINTER, ctypes.byref(handle)
            ),
            f"nvOFCreateGPUBufferCuda({width}×{height})",
        )
        self.handle = handle.value
        try:
            strides = StrideInfo()
            code = functions.nvOFGPUBufferGetStrideInfo(self.handle, ctypes.byref(strides))
            session.check(code, "nvOFGPUBufferGetStrideInfo")
            address = functions.nvOFGPUBufferGetCUdeviceptr(self.handle)
            pitch = strides.strideInfo[0].strideXInBytes
            dtype, lanes = _ELEMENTS[form]
            self.pixels = _view(address, (height, width, lanes), dtype, pitch, self)
        except BaseException:
            self.destroy()
            raise

    def destroy(self) -> None:
        """Free the buffer; a failure is only logged."""
        code = self._session.functions.nvOFDestroyGPUBufferCuda(self.handle)
        if code:
            _log.warning("nvOFDestroyGPUBufferCuda returned %s", status_name(code))


def _view(address: int, shape: tuple[int, int, int], dtype: str, pitch: int, owner: Buffer) -> Array:
    """Wrap driver memory as an array with rows ``pitch`` bytes apart; a single lane has no axis."""
    cupy = load_cupy()
    height, width, lanes = shape
    size = cupy.dtype(dtype).itemsize
    row = width * lanes * size
    memory = cupy.cuda.UnownedMemory(address, pitch * (height - 1) + row, owner)
    strides = (pitch, lanes * size, size)
    array = cupy.ndarray(shape, dtype, cupy.cuda.MemoryPointer(memory, 0), strides=strides)
    return array if lanes > 1 else array[..., 0]


class FlowSession:
    """An open session with its streams; the device's context must be current.

    Args:
        kind: parameters of the session.

    Attributes:
        inputs: the stream that writes frames.
        outputs: the stream that reads results.
        last: an event recorded after the last call's work; None before the first call.

    Raises:
        BackendError: the engine returned an error, whose code is in the message.
    """

    def __init__(self, kind: EngineKind) -> None:
        self.kind, self.functions = kind, api()
        self.handle: int | None = None
        self.last: Any = None
        self._initialized = False
        self._buffers: list[Buffer] = []
        self._rings: dict[int, list[Buffer]] = {}
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Create the driver's handle, its streams and its buffers."""
        cuda = load_cupy().cuda
        self.handle = _create(self.functions)
        self.inputs, self.outputs = cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
        self.check(
            self.functions.nvOFSetIOCudaStreams(self.handle, self.inputs.ptr, self.outputs.ptr),
            "nvOFSetIOCudaStreams",
        )
        kind = self.kind
        params = InitParams(
            width=kind.width,
            height=kind.height,
            outGridSize=kind.grid,
            hintGridSize=kind.hint_grid,
            mode=OPTICAL_FLOW,
            perfLevel=PERFORMANCE[kind.preset],
            enableExternalHints=int(bool(kind.hint_grid)),
            enableOutputCost=int(kind.cost),
            predDirection=BOTH if kind.both else FORWARD,
            inputBufferFormat=kind.format,
        )
        self.check(self.functions.nvOFInit(self.handle, ctypes.byref(params)), f"nvOFInit({kind})")
        self._initialized = True

    def buffers(self, usage: int, count: int) -> list[Buffer]:
        """Return at least ``count`` buffers of a usage."""
        ring = self._rings.setdefault(usage, [])
        while len(ring) < count:
            ring.append(Buffer(self, usage, *self._shape_of(usage)))
            self._buffers.append(ring[-1])
        return ring

    def _shape_of(self, usage: int) -> tuple[int, int, int]:
        """Return format, columns and rows of a buffer of a usage."""
        kind = self.kind
        side = {INPUT: 1, HINT: kind.hint_grid}.get(usage, kind.grid)
        form = {INPUT: kind.format, OUTPUT: SHORT2, HINT: SHORT2, COST: UINT8}[usage]
        return form, -(-kind.width // side), -(-kind.height // side)

    def execute(
        self,
        first: Buffer,
        second: Buffer,
        results: tuple[Buffer, Buffer | None, Buffer | None, Buffer | None],
        *,
        hint: Buffer | None = None,
        temporal: bool = False,
    ) -> None:
        """Enqueue the computation of a pair; later work on :attr:`outputs` sees its results."""
        flow, backward, cost, backward_cost = (None if b is None else b.handle for b in results)
        inputs = ExecuteInput(
            inputFrame=first.handle,
            referenceFrame=second.handle,
            externalHints=None if hint is None else hint.handle,
            disableTemporalHints=int(not temporal),
        )
        outputs = ExecuteOutput(
            outputBuffer=flow,
            outputCostBuffer=cost,
            bwdOutputBuffer=backward,
            bwdOutputCostBuffer=backward_cost,
        )
        code = self.functions.nvOFExecute(self.handle, ctypes.byref(inputs), ctypes.byref(outputs))
        self.check(code, f"nvOFExecute({self.kind})")

    def check(self, code: int, call: str) -> None:
        """Check the status code of a call."""
        if code:
            raise _refused(code, call, _last_error(self.functions, self.handle))

    def close(self) -> None:
        """Destroy the session with its buffers; a second call does nothing."""
        if self.handle is None:
            return
        handle, self.handle = self.handle, None
        if self._initialized:
            self.inputs.synchronize()
            self.outputs.synchronize()
        for buffer in reversed(self._buffers):
            buffer.destroy()
        self._buffers.clear()
        self._rings.clear()
        _destroy(self.functions, handle, initialized=self._initialized)


def _create(functions: Api) -> int:
    """Create a handle in the current context."""
    context = load_cupy().cuda.driver.ctxGetCurrent()
    handle = ctypes.c_void_p()
    code = functions.nvCreateOpticalFlowCuda(context, ctypes.byref(handle))
    if code or handle.value is None:
        raise _refused(code, "nvCreateOpticalFlowCuda", "")
    return handle.value


def _destroy(functions: Api, handle: int, *, initialized: bool) -> None:
    """Destroy a handle."""
    if not initialized:  # destroying a handle that was never initialized leaks it
        params = InitParams(640, 360, 4, 0, OPTICAL_FLOW, PERFORMANCE["fast"], inputBufferFormat=GRAY8)
        functions.nvOFInit(handle, ctypes.byref(params))
    code = functions.nvOFDestroy(handle)
    if code:
        _log.warning("nvOFDestroy returned %s", status_name(code))


def _last_error(functions: Api, handle: int | None) -> str:
    """Return the driver's text on the last error, or ""."""
    if handle is None:
        return ""
    text, size = ctypes.create_string_buffer(512), ctypes.c_uint32(512)
    if functions.nvOFGetLastError(handle, text, ctypes.byref(size)):
        return ""
    return text.value.decode(errors="replace").strip()


def _refused(code: int, call: str, text: str) -> BackendError:
    """Return the error for a call that the driver refuses."""
    said = f": {text}" if text else ""
    return BackendError(
        f"the GPU's optical-flow engine refuses {call} with {status_name(code)} ({code}){said}", advice=ADVICE
    )


def caps_of(device: int) -> dict[str, list[int]]:
    """Return the engine's capabilities, by the names of :data:`~seqpipe.flow.nvofa.library.CAPS`."""
    functions = api()
    with load_cupy().cuda.Device(device):
        load_cupy().cuda.runtime.free(0)  # creates the context
        handle = _create(functions)
        try:
            return {name: _cap(functions, handle, number) for number, name in enumerate(CAPS)}
        finally:
            _destroy(functions, handle, initialized=False)


def _cap(functions: Api, handle: int, number: int) -> list[int]:
    """Return the values of a capability; none if the driver does not support it."""
    size = ctypes.c_uint32(0)
    if functions.nvOFGetCaps(handle, number, None, ctypes.byref(size)) or not 0 < size.value <= 256:
        return []
    values = (ctypes.c_uint32 * size.value)()
    if functions.nvOFGetCaps(handle, number, values, ctypes.byref(size)):
        return []
    return list(values)[: size.value]


MOST_IDLE: Final = 8
"""Largest number of idle sessions; each holds buffers for some frames."""


class Pool:
    """Reusable sessions by kind; each is used by one thread at a time, and destroyed after a failure.

    Args:
        make: creates a session.
        most_idle: largest number of idle sessions; the least recently used ones are destroyed first.
    """

    def __init__(
        self, make: Callable[[EngineKind], FlowSession] = FlowSession, most_idle: int = MOST_IDLE
    ) -> None:
        self._make, self._most_idle = make, most_idle
        self._idle: OrderedDict[FlowSession, EngineKind] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def session(self, kind: EngineKind) -> Iterator[FlowSession]:
        """Lease a session of a kind to a ``with`` block; the context of its device must be current."""
        with self._lock:
            session = next((unused for unused, known in reversed(self._idle.items()) if known == kind), None)
            if session is not None:
                del self._idle[session]
        session = session or self._make(kind)
        try:
            yield session
        except BaseException:
            session.close()
            raise
        with self._lock:
            self._idle[session] = kind
            spare = [self._idle.popitem(last=False)[0] for _ in range(len(self._idle) - self._most_idle)]
        for unused in spare:
            _close(unused)

    def clear(self) -> None:
        """Destroy all idle sessions."""
        with self._lock:
            spare = list(self._idle)
            self._idle.clear()
        for unused in spare:
            _close(unused)

    def reset_after_fork(self) -> None:
        """Drop all sessions without destroying them: after a fork they belong to the parent process."""
        self._lock = threading.Lock()
        self._idle.clear()


def _close(session: FlowSession) -> None:
    """Destroy a session in the context of its device."""
    with load_cupy().cuda.Device(session.kind.device):
        session.close()


POOL: Final = Pool()
atexit.register(POOL.clear)
os.register_at_fork(after_in_child=POOL.reset_after_fork)
