"""The driver's parser with a hardware decoder, the packet decoder over it, and the pool of idle sessions."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

from ...array import IntArray
from ...core.finalizers import Finalizer
from ...errors import BackendError
from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..cuda.device_surface import frames_per_launch
from ..decode.packets import DecodeResult, FedPacket, PacketDecoder
from ..packet_index import PacketIndex
from .cuvid import CODECS, SEQUENCE, Cuvid, ParserParams, VideoFormat, load
from .feeder import MOST_FRAMES_PER_STEP, Feeder, PacketArrays, PacketBatch, PendingFrames
from .hardware import HardwareDecoder, Painting, ReleasedDecoders, StreamShape, exact_refusal, refusal

__all__ = ["NvdecDecoder", "NvdecDecoders", "NvdecPool", "Session", "defer_sigint"]


@contextmanager
def defer_sigint() -> Iterator[None]:
    """Defer SIGINT until the end of this context.

    Python runs signal handlers in the main thread at the start of the next Python function, which may be a callback,
    before any ``try`` in it. ctypes prints and drops what they raise there, and returns an error to the library.
    """
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if in_main else None
    if handler is None or not callable(handler):
        yield
        return
    deferred: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: deferred.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if deferred:
            signal.raise_signal(signal.SIGINT)


# The sequence callback replaces this by the stream's own number.
_DECODE_SURFACES = 20
_DISPLAY_DELAY = 2
# VP9 and AV1 show frames in packet order; a packet may hold hidden frames, or show an earlier one again.
_IN_ORDER = frozenset({CODECS["vp9"], CODECS["av1"]})
# Codecs whose packets may hold several frames.
_SEVERAL = _IN_ORDER | {CODECS["mpeg4"]}
# Codecs with reference scaling: references of another size, which are lost when the decoder is replaced.
_SCALED = _IN_ORDER

ResultT = TypeVar("ResultT")


class Session:
    """Parser with its decoder for one codec, reused by consecutive streams; belongs to one thread at a time.

    Args:
        codec: cudaVideoCodec.
        stream: address of the CUDA stream that frames are mapped on.
        in_use: number of frames that may be in use while the frames of another step are mapped.
        step: number of frames after which feeding pauses.
        released: the GPU's decoders that wait for destruction.

    Raises:
        BackendError: the driver has no parser for the codec, or there is no C compiler.
    """

    def __init__(
        self,
        codec: int,
        stream: int,
        *,
        in_use: int,
        step: int = MOST_FRAMES_PER_STEP,
        released: ReleasedDecoders | None = None,
    ) -> None:
        self._released = released or ReleasedDecoders()
        self._cuvid: Cuvid = load()
        self._stream, self._most_mapped, self._several = stream, in_use + step, codec in _SEVERAL
        self._predicted = codec in _SCALED
        self._decoder: HardwareDecoder | None = None
        self._painting: Painting | None = None
        self._error: BaseException | None = None
        self._feeder = Feeder(self._cuvid, in_order=codec in _IN_ORDER, step=step)
        self._on_sequence: Any = SEQUENCE(self._sequence)  # the parser does not keep it alive
        self._params = ParserParams(
            codec=codec,
            decode_surfaces=_DECODE_SURFACES,
            display_delay=_DISPLAY_DELAY,
            user_data=self._feeder.user_data,
            on_sequence=self._feeder.sequence_callback(self._on_sequence),
            on_picture=self._feeder.on_picture,
            on_display=self._feeder.on_display,
        )
        self._parser = self._new_parser()
        self._parsed: tuple[Hashable, ...] = ()  # parameter sets that the parser holds; none at first

    def begin(self, parameter_sets: Hashable) -> None:
        """Prepare for a run of packets, with a new parser if this one holds parameter sets of another stream.

        A damaged stream that lacks a parameter set would otherwise be decoded, without a report, by the one of the same
        number in the stream before. The hardware decoder is kept.

        Args:
            parameter_sets: identifies the parameter sets of the stream; None if they change within it.
        """
        if self._parsed and (parameter_sets is None or self._parsed != (parameter_sets,)):
            old, self._parser = self._parser, self._new_parser()
            self._cuvid.destroy_parser(old)
        self._parsed = (parameter_sets,)

    def feed(
        self, packets: Seq[FedPacket], stream: ElementaryStream, *, first: bool
    ) -> Iterator[DecodeResult]:
        """Parse packets, start to decode them, and yield decode results."""
        batch, begin = PacketBatch(packets, stream, first=first), 0
        while begin < len(packets):
            fed, result = self._call(partial(self._feeder.feed, batch, begin))
            begin += fed
            yield result
            del result  # releases its frames, of which only a few may be mapped

    def finish(self) -> Iterator[DecodeResult]:
        """Drain the decoder, a step at a time, and prepare for another stream."""
        last = False
        while not last:
            last, result = self._call(self._feeder.finish)
            yield result
            del result

    @property
    def can_fuse(self) -> bool:
        """Whether :meth:`fused_run` is available: the pitch of mapped frames is known only after the first one."""
        return self._decoder is not None and self._decoder.pitch > 0

    def fused_run(
        self, arrays: PacketArrays, pending: PendingFrames, painting: Painting
    ) -> tuple[bool, bool]:
        """Decode all packets of a run and convert the wanted frames in one C call.

        Returns:
            Whether the run was undamaged, and whether the session was flushed and can be reused. If the run was
            damaged, some frames may have been converted already; decoding it step by step finds the damaged packet.
        """
        self._painting, painting.params.begun = painting, 0
        self._fit()
        try:
            return self._call(partial(self._feeder.fused_run, arrays, pending, painting.params))
        finally:
            self._painting = None

    def use(self, stream: int) -> None:
        """Map frames on another CUDA stream from now on."""
        self._stream = stream
        if self._decoder is not None:
            self._decoder.use(stream)

    @property
    def memory(self) -> int:
        """Approximate GPU memory of the session in bytes."""
        return self._decoder.memory if self._decoder is not None else 0

    def close(self) -> None:
        """Destroy the parser, and the decoder once none of its frames is in use."""
        # Cleared first, so that an interrupt cannot destroy the parser twice.
        parser, self._parser = self._parser, ctypes.c_void_p()
        if parser:
            self._cuvid.destroy_parser(parser)
            self._feeder.close()
        self._decoder, self._on_sequence = None, None
        self._released.destroy()

    def _new_parser(self) -> ctypes.c_void_p:
        """Create a parser, and feed it from now on."""
        parser = ctypes.c_void_p()
        if code := self._cuvid.create_parser(ctypes.byref(parser), ctypes.byref(self._params)):
            raise BackendError(f"NVDEC has no parser for codec {self._params.codec}: CUDA error {code}")
        self._feeder.start(parser.value or 0)
        return parser

    def _call(self, step: Callable[[], ResultT]) -> ResultT:
        """Call the feeder, deferring Ctrl-C and exceptions of callbacks to the end of the call."""
        with defer_sigint():
            try:
                return step()
            finally:
                self._raise()

    def _raise(self) -> None:
        """Raise the exception of a callback; a deferred interrupt is raised after it and replaces it.

        The opposite order would lose the interrupt: a stream that the GPU refuses is decoded on the CPU.
        """
        if self._error is not None:
            try:
                raise self._error  # a local variable would form a reference cycle that keeps frames mapped
            finally:
                self._error = None

    def _sequence(self, _: int, form: ctypes._Pointer[VideoFormat]) -> int:
        """Answer the parser's callback for a new stream: the number of surfaces, or 0 to stop."""
        try:
            return self._configure(StreamShape.of(form.contents)).surfaces
        except BaseException as error:
            self._error = error
            self._feeder.stop()
            return 0

    def _configure(self, shape: StreamShape) -> HardwareDecoder:
        """Return the decoder of a stream's shape."""
        if self._decoder is not None and self._decoder.accept(shape):
            self._feeder.use(self._decoder)
            self._fit()
            return self._decoder
        if self._decoder is not None and self._predicted and not self._feeder.at_key:
            raise BackendError(
                f"NVDEC cannot continue with {shape.width}×{shape.height} pixels predicted from frames of another size",
                advice="Use decode='auto' or 'cpu' for this file",
            )
        self._feeder.wait_decoded()
        self._feeder.use(None)
        self._decoder = None  # released once none of its frames is in use
        self._released.destroy()
        self._decoder = decoder = HardwareDecoder(
            self._cuvid,
            shape,
            stream=self._stream,
            most_mapped=self._most_mapped,
            several=self._several,
            released=self._released,
        )
        self._feeder.use(decoder)
        self._fit()
        return decoder

    def _fit(self) -> None:
        """Configure the painting of a fused run for the current stream."""
        decoder = self._decoder
        if self._painting is not None and decoder is not None:
            self._painting.fit(decoder.shape, decoder.pitch, self._feeder.sequence)


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
        """Create a session for a stream."""
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
        """Close the sessions of decoders that were dropped in the middle of a run."""
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
