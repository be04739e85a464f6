"""Memory shared with a worker process: frame buffers that the child fills and the parent releases."""

from __future__ import annotations

import mmap
import os
from collections import defaultdict, deque
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.finalizers import Finalizer
from ..convert.surface import Plane, Surface, SurfaceFormat

__all__ = ["BufferAllocator", "BufferLayout", "FrameBuffer", "FrameMemory", "SharedFrame"]

_BYTES: Final = 512 << 20
"""Size of the address range; the system allocates its pages on first use."""
_ALIGNMENT: Final = 64


class FrameBuffer(NamedTuple):
    """Range of the shared memory that holds one frame.

    Attributes:
        offset: first byte.
        size: size in bytes, a power of two, so that frames of similar sizes reuse each other's buffers.
    """

    offset: int
    size: int


class _PlaneAt(NamedTuple):
    """Position of a plane in its frame buffer."""

    offset: int
    shape: tuple[int, ...]
    dtype: str

    def view(self, memory: npt.NDArray[np.uint8], start: int = 0) -> Plane:
        """Return the plane as a view, for a frame buffer that begins at ``start``."""
        return np.ndarray(self.shape, self.dtype, memory, start + self.offset)


class BufferLayout(NamedTuple):
    """Layout of a frame in its buffer; equal for all frames of a stream, so a message pickles it once.

    Attributes:
        planes: positions of the planes.
        format: format of the surface.
        size: size of the buffer in bytes.
    """

    planes: tuple[_PlaneAt, ...]
    format: SurfaceFormat
    size: int

    @classmethod
    def of(cls, surface: Surface) -> BufferLayout:
        """Return the layout of a surface's planes, one after the other."""
        planes, size = [], 0
        for plane in surface.planes:
            planes.append(_PlaneAt(size, plane.shape, plane.dtype.str))
            size += -(-plane.nbytes // _ALIGNMENT) * _ALIGNMENT
        return cls(tuple(planes), surface.format, 1 << max(size - 1, _ALIGNMENT).bit_length())


class SharedFrame(NamedTuple):
    """Reference to a frame in the shared memory, sent in a message.

    Attributes:
        buffer: frame buffer.
        layout: layout of the frame in it.
    """

    buffer: FrameBuffer
    layout: BufferLayout


class BufferAllocator:
    """Child's side: allocates frame buffers, most recently released first, so that few pages are touched.

    Args:
        memory: the shared memory.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._free: defaultdict[int, list[FrameBuffer]] = defaultdict(list)
        self._end = self._in_use = 0
        self._layout = BufferLayout((), SurfaceFormat("", 0, "", 0, 0), 0)

    def put(self, surface: Surface) -> SharedFrame | None:
        """Copy a frame into the shared memory; None if the memory is full."""
        layout = BufferLayout.of(surface)
        if layout == self._layout:
            layout = self._layout  # the same object, which pickle writes only once per message
        self._layout = layout
        buffer = self._buffer(layout.size)
        if buffer is None:
            return None
        for position, plane in zip(layout.planes, surface.planes, strict=True):
            np.copyto(position.view(self._bytes, buffer.offset), plane)
        return SharedFrame(buffer, layout)

    def release(self, buffers: list[FrameBuffer]) -> None:
        """Make frame buffers available again."""
        for buffer in buffers:
            self._free[buffer.size].append(buffer)
        self._in_use -= len(buffers)

    def _buffer(self, size: int) -> FrameBuffer | None:
        if not self._in_use:  # start over, so that buffers of other sizes do not keep their memory
            self._free.clear()
            self._end = 0
        if free := self._free[size]:
            self._in_use += 1
            return free.pop()
        if self._end + size > len(self._bytes):
            return None
        self._end += size
        self._in_use += 1
        return FrameBuffer(self._end - size, size)


class FrameMemory:
    """Parent's side: frames as views of the shared memory, whose buffers are released when the views are dropped.

    Raises:
        OSError: the system cannot provide the memory.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("seqpipe")
        try:
            os.ftruncate(self.descriptor, _BYTES)
            memory = mmap.mmap(self.descriptor, _BYTES)
        except OSError:
            self.close()
            raise
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._address = self._bytes.ctypes.data
        self._released: deque[FrameBuffer] = deque()

    def borrow(self, frame: SharedFrame) -> tuple[Plane, ...]:
        """Return the planes of a frame as views; any thread may drop them."""
        buffer = np.asarray(_Lease(self._bytes, self._address, frame.buffer, self._released))
        return tuple(position.view(buffer) for position in frame.layout.planes)

    def released(self) -> list[FrameBuffer]:
        """Return the buffers whose views were dropped since the last call."""
        buffers = []
        while self._released:
            buffers.append(self._released.popleft())
        return buffers

    def close(self) -> None:
        """Close the descriptor; the memory stays mapped as long as views of it exist."""
        os.close(self.descriptor)


class _Lease(Finalizer):
    """Memory of one frame buffer, as the base object of NumPy views; notes its release when the last view is gone."""

    __slots__ = ("__array_interface__", "_bytes")
    __array_interface__: dict[str, Any]
    _bytes: npt.NDArray[np.uint8]

    def __new__(
        cls, memory: npt.NDArray[np.uint8], address: int, buffer: FrameBuffer, released: deque[FrameBuffer]
    ) -> _Lease:
        """Create the lease of a buffer in memory that begins at an address."""
        self = super().__new__(cls, released.append, buffer)
        self._bytes = memory
        self.__array_interface__ = {
            "version": 3,
            "shape": (buffer.size,),
            "typestr": "|u1",
            "data": (address + buffer.offset, True),
        }
        return self
