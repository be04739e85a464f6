"""Worker process for decoding: a child that decodes for its parent as the parent's own threads would.

Every packet takes a thread of Python through the interpreter's lock a few times. With many threads and small frames
that is what they wait for; a process has a lock of its own. So it is given whole runs to do, reads the file itself, and
says but a few words about every frame.
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
from ...errors import SeqpipeError
from ..convert.surface import Surface
from ..decode.packets import open_packets
from ..decode.pool import DecoderPool
from ..decode.run import Decoding, Lost
from ..packet_index import PacketIndex
from ..plan.jobs import PlannedVideo
from ..source.source import open_source
from .child_memory import FrameBuffer, LentFrame, Slots

__all__ = [
    "ChildFrame",
    "ChildResult",
    "DecodeRequest",
    "Failed",
    "File",
    "Recent",
    "ReleasedBuffers",
    "main",
    "serve",
]

_ITEMS_OF_A_MESSAGE: Final = 8
_MESSAGES_AHEAD: Final = 2  # while one is painted the next is under way; more would only take memory
_DECODERS: Final = 4  # that wait for another stream of their kind
_FILES: Final = 16

ValueT = TypeVar("ValueT")


class Recent(Generic[ValueT]):
    """What was used last of many things that have numbers: both sides forget the same, for they use the same."""

    def __init__(self) -> None:
        self._values: OrderedDict[int, ValueT] = OrderedDict()

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def add(self, number: int, value: ValueT) -> None:
        """Keep a thing, and forget the one that was not used for longest."""
        self._values[number] = value
        if len(self._values) > _FILES:
            self._values.popitem(last=False)

    def use(self, number: int) -> ValueT:
        """A thing that is known."""
        self._values.move_to_end(number)
        return self._values[number]


class File(NamedTuple):
    """A local file and its index, told once; then its number stands for it."""

    path: str
    stream: PacketIndex


class DecodeRequest(NamedTuple):
    """Decode frames; answered by messages of news, of which the last one says that it is.

    Attributes:
        number: of the file.
        file: the file itself if it is not known yet.
        frames: the numbers of the frames.
        used: rooms that were not given back yet.
    """

    number: int
    file: File | None
    frames: IntArray
    used: list[FrameBuffer]


class ReleasedBuffers(NamedTuple):
    """A message of news was heard, and these rooms are free: the answer to all but the last one."""

    buffers: list[FrameBuffer]


class ChildFrame(NamedTuple):
    """A frame that was decoded.

    Attributes:
        number: of the frame.
        frame: where it is; the frame itself if there was no room.
    """

    number: int
    picture: LentFrame | Surface


class ChildResult(NamedTuple):
    """What became known; more follows unless this is the last message about what was asked for."""

    items: list[ChildFrame | Lost]
    last: bool


class Failed(NamedTuple):
    """Why it went no further."""

    error: SeqpipeError


Answer: TypeAlias = ChildResult | Failed


class _Decoding:
    """The state of a child."""

    def __init__(self, memory: mmap.mmap) -> None:
        self.slots = Slots(memory)
        self._pool, self._videos = DecoderPool(idle=_DECODERS), Recent[PlannedVideo]()

    def answers(self, request: DecodeRequest) -> Iterator[Answer]:
        """What to say to a request."""
        self.slots.take_back(request.used)
        try:
            yield from self._results(self._video(request), request.frames)
        except SeqpipeError as error:
            yield Failed(error)

    def _video(self, request: DecodeRequest) -> PlannedVideo:
        if request.file is not None:
            self._videos.add(
                request.number, PlannedVideo(open_source(request.file.path), request.file.stream)
            )
        return self._videos.use(request.number)

    def _results(self, video: PlannedVideo, frames: IntArray) -> Iterator[ChildResult]:
        items: list[ChildFrame | Lost] = []
        with contextlib.closing(open_packets(video.source, video.index)) as packets:
            for found in Decoding(video.index, packets, self._pool, frames):
                if len(items) == _ITEMS_OF_A_MESSAGE:
                    yield ChildResult(items, last=False)
                    items = []
                items.append(found if isinstance(found, Lost) else self._frame(found))
                del found  # as in fill: no frame is held on to
        yield ChildResult(items, last=True)

    def _frame(self, surface: Surface) -> ChildFrame:
        return ChildFrame(surface.number, self.slots.put(surface) or surface)


def serve(connection: Connection, memory: mmap.mmap) -> None:
    """Answer until the other side is gone."""
    decoding, unheard = _Decoding(memory), 0
    try:
        connection.send(None)  # ready
        while True:
            request: DecodeRequest | ReleasedBuffers = connection.recv()
            if isinstance(request, ReleasedBuffers):
                decoding.slots.take_back(request.buffers)
                unheard -= 1
                continue
            for answer in decoding.answers(request):
                connection.send(answer)
                unheard += isinstance(answer, ChildResult) and not answer.last
                while unheard >= _MESSAGES_AHEAD:
                    decoding.slots.take_back(connection.recv().buffers)
                    unheard -= 1
    except (EOFError, ConnectionError):
        return


def main() -> None:
    """What a child runs; its arguments are how nice it is, and the descriptors of the connection and the memory."""
    nice, connection, memory = map(int, sys.argv[-3:])
    os.nice(nice)
    serve(Connection(connection), mmap.mmap(memory, 0))
