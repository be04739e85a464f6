"""Shared memory of a process and its child: frame buffers that the child fills and the parent releases."""

from __future__ import annotations

import mmap
import os
from collections import defaultdict, deque
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..convert.surface import Plane, Surface, SurfaceFormat
from ..finalizers import Afterwards

__all__ = ["FrameBuffer", "FrameLayout", "LentFrame", "SharedFrames", "Slots"]

_BYTES: Final = 512 << 20
"""Of addresses; memory is taken as it is used, so what is never needed costs nothing."""
_ALIGNED: Final = 64


class FrameBuffer(NamedTuple):
    """A part of the shared memory.

    Attributes:
        offset: where it begins.
        size: bytes; a power of two, so that few kinds of rooms fit all frames.
    """

    offset: int
    size: int


class _PlaneAt(NamedTuple):
    """Where in its room a plane lies."""

    offset: int
    shape: tuple[int, ...]
    dtype: str

    def view(self, memory: npt.NDArray[np.uint8], start: int = 0) -> Plane:
        """The plane in memory where its room begins at ``start``."""
        return np.ndarray(self.shape, self.dtype, memory, start + self.offset)


class FrameLayout(NamedTuple):
    """How a frame lies in its room: the same for all frames of a stream, which a message then tells once.

    Attributes:
        planes: where they are.
        format: how to read them.
        size: bytes of the room.
    """

    planes: tuple[_PlaneAt, ...]
    format: SurfaceFormat
    size: int

    @classmethod
    def of(cls, surface: Surface) -> FrameLayout:
        """How such a frame is laid down."""
        places, size = [], 0
        for plane in surface.planes:
            places.append(_PlaneAt(size, plane.shape, plane.dtype.str))
            size += -(-plane.nbytes // _ALIGNED) * _ALIGNED
        return cls(tuple(places), surface.format, 1 << max(size - 1, _ALIGNED).bit_length())


class LentFrame(NamedTuple):
    """A frame in the shared memory, as a message tells of it.

    Attributes:
        buffer: where it is.
        layout: how it lies there.
    """

    buffer: FrameBuffer
    layout: FrameLayout


class Slots:
    """The child's side: finds room for frames; what was used last is used first, so that few pages are touched.

    Args:
        memory: the shared memory.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._free: defaultdict[int, list[FrameBuffer]] = defaultdict(list)
        self._end = self._lent = 0
        self._layout = FrameLayout((), SurfaceFormat("", 0, "", 0, 0), 0)

    def put(self, surface: Surface) -> LentFrame | None:
        """Copy a frame into the shared memory; None if there is no room."""
        layout = FrameLayout.of(surface)
        if layout == self._layout:
            layout = self._layout  # the very same, so that pickling finds it again
        self._layout = layout
        buffer = self._buffer(layout.size)
        if buffer is None:
            return None
        for place, plane in zip(layout.planes, surface.planes, strict=True):
            np.copyto(place.view(self._bytes, buffer.offset), plane)
        return LentFrame(buffer, layout)

    def take_back(self, buffers: list[FrameBuffer]) -> None:
        """Use rooms again."""
        for buffer in buffers:
            self._free[buffer.size].append(buffer)
        self._lent -= len(buffers)

    def _buffer(self, size: int) -> FrameBuffer | None:
        if not self._lent:  # frames of another size shall not need memory of their own for good
            self._free.clear()
            self._end = 0
        if free := self._free[size]:
            self._lent += 1
            return free.pop()
        if self._end + size > len(self._bytes):
            return None
        self._end += size
        self._lent += 1
        return FrameBuffer(self._end - size, size)


class SharedFrames:
    """The parent's side: frames as views of the shared memory, which is given back when they are forgotten.

    Raises:
        OSError: the system has no such memory to give.
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
        self._used: deque[FrameBuffer] = deque()

    def borrow(self, lent: LentFrame) -> tuple[Plane, ...]:
        """The planes of a frame; any thread may forget them."""
        buffer = np.asarray(_Lease(self._bytes, self._address, lent.buffer, self._used))
        return tuple(place.view(buffer) for place in lent.layout.planes)

    def used(self) -> list[FrameBuffer]:
        """The rooms of frames that were forgotten since it was asked last."""
        buffers = []
        while self._used:
            buffers.append(self._used.popleft())
        return buffers

    def close(self) -> None:
        """Close the descriptor; the memory lives as long as frames in it do."""
        os.close(self.descriptor)


class _Lease(Afterwards):
    """The memory of a room, for NumPy: its arrays hold it for as long as one of them lives."""

    __slots__ = ("__array_interface__", "_bytes")
    __array_interface__: dict[str, Any]
    _bytes: npt.NDArray[np.uint8]

    def __new__(
        cls, whole: npt.NDArray[np.uint8], address: int, buffer: FrameBuffer, used: deque[FrameBuffer]
    ) -> _Lease:
        """A room of all the memory, which begins at an address; it is noted where it is used no longer."""
        self = super().__new__(cls, used.append, buffer)
        self._bytes = whole
        self.__array_interface__ = {
            "version": 3,
            "shape": (buffer.size,),
            "typestr": "|u1",
            "data": (address + buffer.offset, True),
        }
        return self
