"""ChildDecoders: decoders in processes of their own, for engines of many threads."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any, Final

from ..errors import BackendError
from ..param import Param
from .child import Failed, Feed, Flush, News, Open, Told
from .child_memory import SharedPictures
from .index import PacketIndex
from .packet_decoder import Decoded, DecodeError, Decoders, Fed, PacketDecoder
from .pool import DecoderPool
from .surface import Plane, Surface, SurfaceFormat

__all__ = ["PROCESSES", "ChildDecoder", "ChildDecoders", "processes", "with_children"]

PROCESSES: Final = Param(
    name="SEQPIPE_PROCESSES",
    doc="Processes that decode small pictures on the CPU for each reader of many files; 0 for none",
    kind=int,
    lo=0,
)
_MOST_PIXELS: Final = 1 << 20  # of a picture: larger ones take so long that threads rarely meet
_RUN: Final = "import sys; sys.path.append(sys.argv[1]); from seqpipe.video.child import main; main()"
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_ENDING_S: Final = 5.0

_log = logging.getLogger(__name__)


def with_children(own: DecoderPool, count: int | None = None) -> tuple[Decoders, Callable[[], None]]:
    """Decoders of this process, with those of children where there are to be any.

    Args:
        own: decoders of this process.
        count: how many children; None for ``SEQPIPE_PROCESSES``.

    Returns:
        The decoders, and what ends and forgets those that are idle.
    """
    count = processes() if count is None else count
    if not count:
        return own, own.clear
    children = ChildDecoders(count, own)

    def close() -> None:
        children.clear()
        own.clear()

    return children, close


def processes() -> int:
    """How many processes decode for an engine: ``SEQPIPE_PROCESSES``, else none.

    Raises:
        ParameterError: the variable is no whole number of at least 0.
        BackendError: the system has no memory that processes can share in this way.
    """
    text = os.environ.get(PROCESSES.name)
    if text is None:
        return 0
    count = int(PROCESSES.check(int(text) if text.strip().isdecimal() else text))
    if count and not hasattr(os, "memfd_create"):
        raise BackendError(
            f"{PROCESSES.name}={count}, but this system has no memfd_create",
            advice=f"Leave {PROCESSES.name} out: threads decode, in the same way",
        )
    return count


class ChildDecoder:
    """A decoder in a child, for one stream.

    Args:
        child: the process.
        index: the stream's index.
        threads: frame threads.
    """

    def __init__(self, child: _Child, index: PacketIndex, threads: int) -> None:
        self.child = child
        child.send(Open(index.head, threads))

    def feed(self, packets: Seq[Fed]) -> Iterator[list[Decoded]]:
        """Decode packets.

        Raises:
            DecodeError: libavcodec refused one of them.
            BackendError: there is no decoder for the codec, or the process has ended.
        """
        return self.child.ask(Feed(packets, self.child.pictures.used()))

    def flush(self) -> list[Decoded]:
        """Drain the decoder and reset it."""
        return [one for news in self.child.ask(Flush(self.child.pictures.used())) for one in news]


class ChildDecoders:
    """Children, started as they are needed; until one is ready, and for large pictures, others decode.

    Args:
        count: how many at most.
        own: decoders of this process.
        pixels: of the largest pictures that are left to children.
    """

    def __init__(self, count: int, own: Decoders, *, pixels: float = _MOST_PIXELS) -> None:
        self._count, self._own, self._pixels = count, own, pixels
        self._starting: list[_Child] = []
        self._idle: list[_Child] = []
        self._living: set[_Child] = set()
        self._lock = threading.Lock()
        self._process = os.getpid()

    def take(self, index: PacketIndex, threads: int) -> PacketDecoder:
        """A decoder for this stream that no one else uses.

        Raises:
            BackendError: there is no decoder for its codec.
        """
        # those of its parent are nothing to a forked process
        fits = index.info.width * index.info.height <= self._pixels and os.getpid() == self._process
        child = self._ready() if fits else None
        if child is None:
            return self._own.take(index, threads)
        try:
            return ChildDecoder(child, index, threads)
        except BackendError:
            self._end(child)
            return self._own.take(index, threads)

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:
        """Keep a flushed decoder for the next run."""
        if isinstance(decoder, ChildDecoder):
            with self._lock:
                self._idle.append(decoder.child)
        else:
            self._own.give_back(index, threads, decoder)

    def discard(self, decoder: PacketDecoder) -> None:
        """Give up a decoder that has raised, or that was left in the middle of a run."""
        if not isinstance(decoder, ChildDecoder):
            self._own.discard(decoder)
        elif decoder.child.asked:  # it goes on, and what it says next is for nobody
            self._end(decoder.child)
        else:
            with self._lock:
                self._idle.append(decoder.child)

    def wait(self) -> None:
        """Start all, and return when they are ready."""
        with self._lock:
            while self._count > len(self._living):
                self._start()
            self._sort(None)

    def clear(self) -> None:
        """End all children that are idle."""
        if os.getpid() != self._process:
            return
        with self._lock:
            ending, self._idle, self._starting = self._idle + self._starting, [], []
        for child in ending:
            child.leave()
        for child in ending:
            self._end(child)

    def _ready(self) -> _Child | None:
        with self._lock:
            self._sort(0)
            if self._idle:
                return self._idle.pop()
            if self._count > len(self._living):
                self._start()
        return None

    def _sort(self, timeout_s: float | None) -> None:
        """See who has started."""
        for child in list(self._starting):
            try:
                if not child.is_ready(timeout_s):
                    continue
                self._idle.append(child)
            except BackendError as error:
                self._give_up(error.fact)
                self._living.discard(child)
            self._starting.remove(child)

    def _start(self) -> None:
        try:
            child = _Child()
        except OSError as error:
            self._give_up(str(error))
            return
        self._living.add(child)
        self._starting.append(child)

    def _give_up(self, why: str) -> None:
        """Start no more: what has failed once would fail every time."""
        self._count = 0
        _log.warning("no process can be started to decode in, threads do it: %s", why)

    def _end(self, child: _Child) -> None:
        child.end()
        with self._lock:
            self._living.discard(child)


class _Child:
    """A process that decodes.

    Attributes:
        pictures: the memory in which it leaves them.
        asked: whether it has still to say something.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        self.pictures, self.asked = SharedPictures(), False
        here, there = socketpair()
        with there:
            given = there.fileno(), self.pictures.descriptor
            command = [sys.executable, "-c", _RUN, _ROOT, *map(str, given)]
            try:
                self._process = subprocess.Popen(command, pass_fds=given, stdin=subprocess.DEVNULL)
            except OSError:
                here.close()
                raise
            finally:
                self.pictures.close()
        self._connection = Connection(here.detach())

    def is_ready(self, timeout_s: float | None) -> bool:
        """Whether it has said so; asked until it has.

        Raises:
            BackendError: it has ended.
        """
        try:
            return self._connection.poll(timeout_s) and self._connection.recv() is None
        except (EOFError, OSError) as error:
            raise self._ended() from error

    def send(self, message: Any) -> None:
        """Tell it something.

        Raises:
            BackendError: it has ended.
        """
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._ended() from error

    def ask(self, message: Feed | Flush) -> Iterator[list[Decoded]]:
        """Ask for something, and say what it answers.

        Raises:
            DecodeError: the decoder refused something.
            BackendError: the process has ended, or has no such decoder.
        """
        self.send(message)
        self.asked = True
        while self.asked:
            try:
                answer: News | Failed = self._connection.recv()
            except (EOFError, OSError) as error:
                raise self._ended() from error
            if isinstance(answer, Failed):
                self.asked = False
                raise answer.error or DecodeError(answer.fact, packet=answer.packet)
            self.asked = not answer.last
            yield [self._decoded(told) for told in answer.told]

    def leave(self) -> None:
        """Let it end."""
        self._connection.close()

    def end(self) -> None:
        """Wait until it has ended, if it still has something to do not for long."""
        busy, self.asked = self.asked, False
        self.leave()
        if busy:
            self._process.kill()
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _decoded(self, told: Told) -> Decoded:
        picture = told.picture
        if picture is None:
            return Decoded(told.packet, None, told.damaged)
        planes = picture.planes if isinstance(picture, Surface) else self.pictures.borrow(picture)
        return Decoded(told.packet, partial(_surface, planes, picture.format), told.damaged)

    def _ended(self) -> BackendError:
        self.asked = True  # so that nobody uses it again
        try:
            code: int | None = self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            code = None
        how = "does not answer" if code is None else f"has ended with {code}"
        return BackendError(
            f"the process that decoded it {how}",
            advice=f"It may have been short of memory; {PROCESSES.name}=0 decodes in this process instead",
        )


def _surface(planes: tuple[Plane, ...], form: SurfaceFormat, number: int) -> Surface:
    return Surface(number, planes, form)
