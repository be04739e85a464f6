"""Worker process for decoding: the child's side, and the messages and the memory of both sides.

Each packet makes a Python thread acquire the GIL a few times, which limits many threads with small frames; a process
has a GIL of its own. The child decodes whole requests, reads the file itself, and sends short messages about frames
that it writes to shared memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ...array import IntArray
from ...core.finalizers import Finalizer
from ...core.passed_errors import as_passed
from ..convert.surface import Plane, Surface, SurfaceFormat
from ..decode.cpu import DecoderPool
from ..decode.packets import open_packets
from ..decode.run import Decoding, Lost
from ..packet_index import PacketIndex
from ..plan import PlannedVideo
from ..source.source import open_source

__all__ = [
    "BufferAllocator",
    "BufferLayout",
    "ChildFrame",
    "ChildResult",
    "DecodeRequest",
    "Failed",
    "FrameBuffer",
    "FrameMemory",
    "IndexedFile",
    "LruCache",
    "ReleasedBuffers",
    "SharedFrame",
    "main",
    "serve",
]

_MEMORY_BYTES: Final = 512 << 20
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
            os.ftruncate(self.descriptor, _MEMORY_BYTES)
            memory = mmap.mmap(self.descriptor, _MEMORY_BYTES)
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


_ITEMS_PER_MESSAGE: Final = 8
# one message is painted while the next is decoded; more would only take memory
_MOST_UNACKNOWLEDGED: Final = 2
_IDLE_DECODERS: Final = 4
_FILES: Final = 16

ValueT = TypeVar("ValueT")


class LruCache(Generic[ValueT]):
    """Cache of the most recently used values by number; parent and child evict the same, as both see the same uses."""

    def __init__(self) -> None:
        self._values: OrderedDict[int, ValueT] = OrderedDict()

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def add(self, number: int, value: ValueT) -> None:
        """Add a value, and evict the least recently used one if the cache is full."""
        self._values[number] = value
        if len(self._values) > _FILES:
            self._values.popitem(last=False)

    def use(self, number: int) -> ValueT:
        """Return a value that is in the cache."""
        self._values.move_to_end(number)
        return self._values[number]


class IndexedFile(NamedTuple):
    """Local file and its index, sent with the first request for it."""

    path: str
    packet_index: PacketIndex


class DecodeRequest(NamedTuple):
    """Request to decode frames, answered by one or more :class:`ChildResult`.

    Attributes:
        number: number that identifies the file.
        file: the file, if the child's cache does not hold it.
        frames: frame numbers.
        released: frame buffers released since the last message.
    """

    number: int
    file: IndexedFile | None
    frames: IntArray
    released: list[FrameBuffer]


class ReleasedBuffers(NamedTuple):
    """Acknowledgment of a :class:`ChildResult` other than the last, with the frame buffers released since."""

    buffers: list[FrameBuffer]


class ChildFrame(NamedTuple):
    """Decoded frame.

    Attributes:
        number: frame number.
        frame: reference to the shared memory; the surface itself if that was full.
    """

    number: int
    frame: SharedFrame | Surface


class ChildResult(NamedTuple):
    """Decode results; ``last`` marks the last message of a request."""

    items: list[ChildFrame | Lost]
    last: bool


class Failed(NamedTuple):
    """Error that ended a request."""

    error: BaseException


Answer: TypeAlias = ChildResult | Failed


class _Server:
    """Decoders, files and shared memory of a child."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.buffers = BufferAllocator(memory)
        self._pool, self._videos = DecoderPool(idle=_IDLE_DECODERS), LruCache[PlannedVideo]()

    def answers(self, request: DecodeRequest) -> Iterator[Answer]:
        """Yield the messages that answer a request."""
        self.buffers.release(request.released)
        try:
            yield from self._results(self._video(request), request.frames)
        except Exception as error:  # the parent process raises it, whatever it is
            yield Failed(as_passed(error))

    def _video(self, request: DecodeRequest) -> PlannedVideo:
        """Return the video of a request, which the parent describes once."""
        if request.file is not None:
            video = PlannedVideo(open_source(request.file.path), request.file.packet_index)
            self._videos.add(request.number, video)
        return self._videos.use(request.number)

    def _results(self, video: PlannedVideo, frames: IntArray) -> Iterator[ChildResult]:
        """Yield messages with the frames of a request."""
        items: list[ChildFrame | Lost] = []
        with contextlib.closing(open_packets(video.source, video.index)) as packets:
            for frame in Decoding(video.index, packets, self._pool, frames):
                if len(items) == _ITEMS_PER_MESSAGE:
                    yield ChildResult(items, last=False)
                    items = []
                items.append(frame if isinstance(frame, Lost) else self._frame(frame))
                del frame  # as in fill.py: a referenced frame buffer is not reused
        yield ChildResult(items, last=True)

    def _frame(self, surface: Surface) -> ChildFrame:
        return ChildFrame(surface.number, self.buffers.put(surface) or replace(surface, frame=None))


def serve(connection: Connection, memory: mmap.mmap) -> None:
    """Answer requests until the parent closes the connection."""
    server, unacknowledged = _Server(memory), 0
    try:
        connection.send(None)  # ready
        while True:
            request: DecodeRequest | ReleasedBuffers = connection.recv()
            if isinstance(request, ReleasedBuffers):
                server.buffers.release(request.buffers)
                unacknowledged -= 1
                continue
            for answer in server.answers(request):
                connection.send(answer)
                unacknowledged += isinstance(answer, ChildResult) and not answer.last
                while unacknowledged >= _MOST_UNACKNOWLEDGED:
                    server.buffers.release(connection.recv().buffers)
                    unacknowledged -= 1
    except (EOFError, ConnectionError):
        return


def main() -> None:
    """Run a child; its arguments are its niceness and the descriptors of the connection and the shared memory."""
    nice, connection, memory = map(int, sys.argv[-3:])
    os.nice(nice)
    serve(Connection(connection), mmap.mmap(memory, 0))
