"""Worker process for decoding: the child's side, and the messages of both sides.

Each packet makes a Python thread acquire the GIL a few times, which limits many threads with small frames; a process
has a GIL of its own. The child decodes whole requests, reads the file itself, and sends short messages about frames
that it writes to shared memory.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections import OrderedDict
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from ...array import IntArray
from ...core.passed_errors import as_passed
from ..convert.surface import Surface
from ..decode.cpu import DecoderPool
from ..decode.packets import open_packets
from ..decode.run import Decoding, Lost
from ..packet_index import PacketIndex
from ..plan import PlannedVideo
from ..source.source import open_source
from .child_memory import BufferAllocator, FrameBuffer, SharedFrame

__all__ = [
    "ChildFrame",
    "ChildResult",
    "DecodeRequest",
    "Failed",
    "IndexedFile",
    "LruCache",
    "ReleasedBuffers",
    "main",
    "serve",
]

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
        if request.file is not None:
            video = PlannedVideo(open_source(request.file.path), request.file.packet_index)
            self._videos.add(request.number, video)
        return self._videos.use(request.number)

    def _results(self, video: PlannedVideo, frames: IntArray) -> Iterator[ChildResult]:
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
        return ChildFrame(surface.number, self.buffers.put(surface) or surface)


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
