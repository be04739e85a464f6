"""PacketDecoder of a GPU, and the pool of idle NVDEC sessions."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as Seq
from typing import cast

from ...array import IntArray
from ...core.finalizers import Finalizer
from ...errors import BackendError
from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..cuda.device_surface import frames_per_launch
from ..decode.packets import DecodeResult, FedPacket, PacketDecoder
from ..packet_index import PacketIndex
from .caps import exact_refusal, refusal
from .cuvid import CODECS
from .feeder import MOST_FRAMES_PER_STEP, PacketArrays, PendingFrames
from .hardware import Painting, ReleasedDecoders
from .session import Session

__all__ = ["NvdecDecoder", "NvdecDecoders", "NvdecPool"]

# Codecs whose key frames hold all that their decoding takes.
_WITHOUT_PARAMETER_SETS = frozenset({"mjpeg", "vp8", "vp9"})


class NvdecDecoder:
    """Session that decodes one stream.

    Args:
        session: a session for the stream's codec.
        index: the stream's index.
        abandoned: receives the session if this decoder is dropped without :meth:`release`.
    """

    def __init__(self, session: Session, index: PacketIndex, abandoned: deque[list[Session]]) -> None:
        self.session = session
        self._owned = [session]
        self._finalizer = Finalizer(abandoned.append, self._owned)
        self._stream = ElementaryStream(index.info.codec, index.extradata)
        self._parameter_sets = _parameter_sets(index)
        self._first = True

    def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        """Decode packets."""
        first, self._first = self._first, False
        if first:
            self.session.begin(self._parameter_sets)
        yield from self.session.feed(packets, self._stream, first=first)

    def flush(self) -> Iterator[DecodeResult]:
        """Drain the session; the next packet starts another run."""
        self._first = True
        yield from self.session.finish()

    @property
    def can_fuse(self) -> bool:
        """Whether :meth:`fused_run` is available."""
        return self.session.can_fuse

    def fused_run(
        self, numbers: IntArray, data: Seq[bytes], pending: PendingFrames, painting: Painting
    ) -> tuple[bool, bool]:
        """Decode a run of packets and convert the wanted frames in one C call."""
        arrays = PacketArrays(numbers.tolist(), data, pending.wanted, self._stream)
        try:
            arrays.replace(0, self._stream.packet(data[0], first=True))
        except BitstreamError:
            return False, True
        self.session.begin(self._parameter_sets)
        return self.session.fused_run(arrays, pending, painting)

    def release(self) -> Session:
        """Return the session, and give up its ownership."""
        self._owned.clear()
        return self.session


class NvdecPool:
    """Idle sessions of one GPU by codec and frame size; the least recently used are closed first.

    Args:
        device: the GPU's number.
        memory: GPU memory in bytes that idle sessions may hold.
    """

    def __init__(self, device: int, *, memory: int) -> None:
        self._device, self._memory, self._process = device, memory, os.getpid()
        self._released = ReleasedDecoders()
        self._idle: list[tuple[Hashable, Session]] = []
        # Sessions that raised, or were dropped in the middle of a run; closed by the next thread that uses the pool.
        self._abandoned: deque[list[Session]] = deque()
        self._lock = threading.Lock()

    def take(self, index: PacketIndex, stream: int, *, exact: bool) -> NvdecDecoder:
        """Return a decoder for the caller's exclusive use; the GPU must be the current one."""
        if reason := (exact_refusal if exact else refusal)(self._device, index.info):
            raise BackendError(reason, advice="Use decode='auto', which leaves such files to the CPU")
        self._close_abandoned()
        key = _key(index)
        with self._lock:
            newest = next((i for i in reversed(range(len(self._idle))) if self._idle[i][0] == key), None)
            session = None if newest is None else self._idle.pop(newest)[1]
        if session is None:
            session = self._create(index, stream)
        session.use(stream)
        return NvdecDecoder(session, index, self._abandoned)

    def _create(self, index: PacketIndex, stream: int) -> Session:
        converted = frames_per_launch(index.info.width, index.info.height)
        step = min(converted, MOST_FRAMES_PER_STEP)
        # One launch is being converted, and the next one lacks only its last frame.
        in_use = 2 * converted - 1
        codec = CODECS[index.info.codec]
        return Session(codec, stream, in_use=in_use, step=step, released=self._released)

    def give_back(self, index: PacketIndex, decoder: NvdecDecoder) -> None:
        """Keep a flushed session for the next run, and close the oldest ones beyond the memory limit."""
        surplus = []
        with self._lock:
            self._idle.append((_key(index), decoder.release()))
            while len(self._idle) > 1 and sum(session.memory for _, session in self._idle) > self._memory:
                surplus.append(self._idle.pop(0)[1])
        for session in surplus:
            session.close()
        self._close_abandoned()
        self._released.destroy()

    def clear(self) -> None:
        """Close the idle sessions; a forked process leaves its parent's alone."""
        if os.getpid() != self._process:
            return
        with self._lock:
            idle, self._idle = self._idle, []
        while idle:
            idle.pop()[1].close()
        self._close_abandoned()

    def _close_abandoned(self) -> None:
        while True:
            try:
                sessions = self._abandoned.popleft()
            except IndexError:  # no check beforehand: another thread may take the last one
                return
            for session in sessions:
                session.close()


class NvdecDecoders:
    """Adapter of the pool to the :class:`~seqpipe.video.decode.packets.Decoders` protocol.

    Args:
        pool: the GPU's pool.
        stream: makes the GPU current, and returns the address of the CUDA stream to decode on.
        exact: whether to refuse streams whose frames differ from the CPU decoder's.
    """

    def __init__(self, pool: NvdecPool, stream: Callable[[], int], *, exact: bool) -> None:
        self._pool, self._stream, self._exact = pool, stream, exact

    def take(self, index: PacketIndex, threads: int) -> NvdecDecoder:  # noqa: ARG002  the GPU has no frame threads
        """Return a decoder for the caller's exclusive use."""
        return self._pool.take(index, self._stream(), exact=self._exact)

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:  # noqa: ARG002
        """Keep a flushed decoder for the next run."""
        self._pool.give_back(index, cast("NvdecDecoder", decoder))


def _parameter_sets(index: PacketIndex) -> Hashable:
    """Return what identifies the parameter sets of a stream; None if they change within it."""
    known = index.extradata or index.info.codec in _WITHOUT_PARAMETER_SETS
    return (index.extradata, index.set_ups) if known and len(index.set_ups) < 2 else None


def _key(index: PacketIndex) -> Hashable:
    """Return the properties that a session's hardware decoder was created for."""
    info = index.info
    return info.codec, info.pixel_format, info.width, info.height
