"""NvdecDecoder: the PacketDecoder of a GPU, and the pool of idle sessions."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as Seq
from typing import cast

from ...array import IntArray
from ...errors import BackendError
from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..cuda.device_surface import at_once
from ..decode.packet_decoder import DecodeResult, FedPacket, PacketDecoder
from ..finalizers import Afterwards
from ..packet_index import PacketIndex
from .arrays import PacketArrays, PendingFrames
from .caps import mistrust, refusal
from .cuvid import CODECS
from .feeder import MOST_OF_A_STEP
from .hardware import Forgotten
from .painting import PaintingOf
from .session import Session

__all__ = ["NvdecDecoder", "NvdecDecoders", "NvdecPool"]


class NvdecDecoder:
    """A session for one stream.

    Args:
        session: a session for its codec.
        index: the stream's index.
        given_up: where the session goes when nothing refers to this any more.
    """

    def __init__(self, session: Session, index: PacketIndex, given_up: deque[list[Session]]) -> None:
        self.session = session
        self._held = [session]
        self._afterwards = Afterwards(given_up.append, self._held)
        self._stream = ElementaryStream(index.info.codec, index.extradata)
        self._first = True

    def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        """Decode packets.

        Raises:
            DecodeError: one of them cannot be parsed, or the GPU refused it.
            BackendError: the GPU cannot decode such a stream.
        """
        first, self._first = self._first, False
        yield from self.session.feed(packets, self._stream, first=first)

    def flush(self) -> Iterator[DecodeResult]:
        """Drain the session; the next packet begins another run.

        Raises:
            DecodeError: the GPU refused something.
        """
        self._first = True
        yield from self.session.finish()

    @property
    def runs_whole(self) -> bool:
        """Whether :meth:`whole_run` can be tried."""
        return self.session.runs_whole

    def whole_run(
        self, numbers: IntArray, data: Seq[bytes], awaited: PendingFrames, painting: PaintingOf
    ) -> tuple[bool, bool]:
        """Decode a run, and convert what is wanted of it, without Python in between.

        Args:
            numbers: the packets, ascending; the first is a key packet.
            data: their bytes, as the container has them.
            awaited: what is to come of them.
            painting: how pictures are converted.

        Returns:
            As of :meth:`seqpipe.video.nvdec.session.Session.whole_run`.

        Raises:
            BackendError: the GPU refused the stream.
            SourceError: the stream's color cannot be converted to the one that is asked for.
        """
        arrays = PacketArrays(numbers.tolist(), data, awaited.wanted, self._stream)
        try:
            arrays.replace(0, self._stream.packet(data[0], first=True))
        except BitstreamError:
            return False, True
        return self.session.whole_run(arrays, awaited, painting)

    def release(self) -> Session:
        """Give the session to others."""
        self._held.clear()
        return self.session


class NvdecPool:
    """Idle sessions of one GPU by what they decode, the least recently used given up first.

    Args:
        device: the GPU's number.
        memory: bytes of the GPU that idle sessions may hold.
    """

    def __init__(self, device: int, *, memory: int) -> None:
        self._device, self._memory, self._process = device, memory, os.getpid()
        self._forgotten = Forgotten()
        self._idle: list[tuple[Hashable, Session]] = []
        # of sessions that have raised, or that were left in the middle of a run; whoever comes next closes them
        self._given_up: deque[list[Session]] = deque()
        self._lock = threading.Lock()

    def take(self, index: PacketIndex, stream: int, *, exact: bool) -> NvdecDecoder:
        """A decoder for a stream that no one else uses; the GPU must be the current one.

        Args:
            index: the stream's index.
            stream: address of the CUDA stream on which pictures are handed over.
            exact: whether to refuse what does not come out as on the CPU.

        Raises:
            BackendError: the GPU does not decode such a stream.
        """
        if reason := (mistrust if exact else refusal)(self._device, index.info):
            raise BackendError(reason, advice="Use decode='auto', which leaves such files to the CPU")
        self._close_given_up()
        key = _key(index)
        with self._lock:
            place = next((i for i in reversed(range(len(self._idle))) if self._idle[i][0] == key), None)
            session = None if place is None else self._idle.pop(place)[1]
        if session is None:
            session = self._made(index, stream)
        session.use(stream)
        return NvdecDecoder(session, index, self._given_up)

    def _made(self, index: PacketIndex, stream: int) -> Session:
        converted = at_once(index.info.width, index.info.height)
        step = min(converted, MOST_OF_A_STEP)
        # some are being converted, and of the next ones the last is missing
        in_use = 2 * converted - 1
        codec = CODECS[index.info.codec]
        return Session(codec, stream, in_use=in_use, step=step, forgotten=self._forgotten)

    def give_back(self, index: PacketIndex, decoder: NvdecDecoder) -> None:
        """Keep a flushed session for the next run, and close the oldest ones where they hold too much."""
        surplus = []
        with self._lock:
            self._idle.append((_key(index), decoder.release()))
            while len(self._idle) > 1 and sum(session.memory for _, session in self._idle) > self._memory:
                surplus.append(self._idle.pop(0)[1])
        for session in surplus:
            session.close()
        self._close_given_up()
        self._forgotten.destroy()

    def clear(self) -> None:
        """Close all idle sessions; those of its parent are nothing to a forked process."""
        if os.getpid() != self._process:
            return
        with self._lock:
            idle, self._idle = self._idle, []
        for _, session in idle:
            session.close()
        self._close_given_up()

    def _close_given_up(self) -> None:
        while True:
            try:
                sessions = self._given_up.popleft()
            except IndexError:  # to look first would not do: another thread may take the last one
                return
            for session in sessions:
                session.close()


class NvdecDecoders:
    """The pool as those who decode on some streams see it.

    Args:
        pool: the GPU's pool.
        stream: makes the GPU current, and gives the address of the stream to decode on.
        exact: whether to refuse what does not come out as on the CPU.
    """

    def __init__(self, pool: NvdecPool, stream: Callable[[], int], *, exact: bool) -> None:
        self._pool, self._stream, self._exact = pool, stream, exact

    def take(self, index: PacketIndex, threads: int) -> NvdecDecoder:  # noqa: ARG002  the GPU has no frame threads
        """A decoder for this stream that no one else uses.

        Raises:
            BackendError: the GPU does not decode such a stream.
        """
        return self._pool.take(index, self._stream(), exact=self._exact)

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:  # noqa: ARG002
        """Keep a flushed decoder for the next run."""
        self._pool.give_back(index, cast("NvdecDecoder", decoder))


def _key(index: PacketIndex) -> Hashable:
    """What a session's decoder was created for."""
    info = index.info
    return info.codec, info.pixel_format, info.width, info.height
