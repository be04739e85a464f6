"""Child: a process that decodes for another one, by libavcodec as its own threads would.

Every packet takes a thread of Python through the interpreter's lock a few times. With many threads and small pictures
that is what they wait for; a process has a lock of its own.
"""

from __future__ import annotations

import mmap
import signal
import sys
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple

from ..errors import SeqpipeError
from .child_memory import Lent, Room, Slots
from .index import PacketIndex
from .packet_decoder import Decoded, DecodeError, Fed, PacketDecoder
from .pool import DecoderPool
from .surface import Surface

__all__ = ["Failed", "Feed", "Flush", "News", "Open", "Told", "main", "serve"]

_PICTURES_OF_A_MESSAGE: Final = 4  # so that they are converted while the next ones are decoded
_KEPT: Final = 4  # decoders that wait for another stream of their kind


class Open(NamedTuple):
    """Decode a stream from now on."""

    stream: PacketIndex
    threads: int


class Feed(NamedTuple):
    """Decode packets; answered by messages of news, of which the last says that it is."""

    packets: Seq[Fed]
    used: list[Room]


class Flush(NamedTuple):
    """Give out what is left, likewise; the decoder is then kept for another stream."""

    used: list[Room]


class Told(NamedTuple):
    """What a :class:`~seqpipe.video.packet_decoder.Decoded` says.

    Attributes:
        packet: its number.
        picture: where it is; the picture itself if there was no room; None for mere news.
        damaged: whether parts of it are invented.
    """

    packet: int
    picture: Lent | Surface | None
    damaged: bool


class News(NamedTuple):
    """What became known; more follows unless this is the last message about what was asked for."""

    told: list[Told]
    last: bool


class Failed(NamedTuple):
    """Why the decoder has ended; the next message must open a stream."""

    error: SeqpipeError | None
    fact: str = ""
    packet: int | None = None


class _Decoding:
    """The state of a child."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._slots, self._pool = Slots(memory), DecoderPool(idle=_KEPT)
        self._open: Open | None = None
        self._decoder: PacketDecoder | None = None
        self._wanted: set[int] = set()

    def answers(self, asked: Any) -> Iterator[News | Failed]:
        """What to say to a message; nothing if it opens a stream."""
        if isinstance(asked, Open):
            self._open, self._decoder = asked, None
            self._wanted.clear()
            return
        self._slots.take_back(asked.used)
        try:
            yield from self._fed(asked.packets) if isinstance(asked, Feed) else self._flushed()
        except DecodeError as error:
            self._decoder = None
            yield Failed(None, str(error), error.packet)
        except SeqpipeError as error:
            self._decoder = None
            yield Failed(error)

    def _fed(self, packets: Seq[Fed]) -> Iterator[News]:
        self._wanted.update(fed.number for fed in packets if fed.wanted)
        told: list[Told] = []
        try:
            for news in self._present().feed(packets):
                told += map(self._told, news)
                if sum(one.picture is not None for one in told) >= _PICTURES_OF_A_MESSAGE:
                    yield News(told, last=False)
                    told = []
        except DecodeError:
            yield News(told, last=False)
            raise
        yield News(told, last=True)

    def _flushed(self) -> Iterator[News]:
        decoder = self._present()
        yield News([self._told(decoded) for decoded in decoder.flush()], last=True)
        self._wanted.clear()
        if self._open is not None:
            self._pool.give_back(*self._open, decoder)
        self._decoder = None

    def _present(self) -> PacketDecoder:
        if self._decoder is None:
            if self._open is None:
                raise DecodeError("no stream was opened")
            self._decoder = self._pool.take(*self._open)
        return self._decoder

    def _told(self, decoded: Decoded) -> Told:
        if decoded.surface is None or decoded.packet not in self._wanted:
            return Told(decoded.packet, None, decoded.damaged)
        self._wanted.discard(decoded.packet)
        surface: Surface = decoded.surface(-1)
        return Told(decoded.packet, self._slots.put(surface) or surface, decoded.damaged)


def serve(connection: Connection, memory: mmap.mmap) -> None:
    """Answer until the other side is gone."""
    decoding = _Decoding(memory)
    try:
        connection.send(None)  # ready
        while True:
            for answer in decoding.answers(connection.recv()):
                connection.send(answer)
    except (EOFError, ConnectionError):
        return


def main() -> None:
    """What a child runs; its arguments are the descriptors of the connection and of the memory."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends Ctrl-C to it as well; it ends with its parent
    connection, memory = map(int, sys.argv[-2:])
    serve(Connection(connection), mmap.mmap(memory, 0))
