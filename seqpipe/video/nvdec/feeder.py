"""Feeder of the driver's parser, whose callbacks are in C (feeder.c) and run without the GIL.

With callbacks in Python each packet would release and acquire the GIL several times, and threads wait for each other;
benchmarks/RESULTS.md has the figures of an H200 with seven engines at 340×256.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ...array import BoolArray, IntArray
from ...core.finalizers import Finalizer
from ...core.native import COMPILER, buffer_of, load_native
from ...errors import BackendError
from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..decode.packets import DecodedFrame, DecodeError, DecodeResult, FedPacket
from .cuvid import DISPLAY, PICTURE, SEQUENCE, Cuvid
from .hardware import HardwareDecoder, MappedFrame, PaintParams, StreamShape

__all__ = ["MOST_FRAMES_PER_STEP", "Feeder", "PacketArrays", "PacketBatch", "PendingFrames", "native"]

MOST_FRAMES_PER_STEP = 8
"""Maximum number of frames after which feeding pauses, so that the caller can use them before more are mapped."""


class PacketBatch:
    """Packets to be fed.

    Args:
        packets: the packets, as stored in the container.
        stream: converts packets to an elementary stream.
        first: whether decoding starts with the first of them.
    """

    def __init__(self, packets: Seq[FedPacket], stream: ElementaryStream, *, first: bool) -> None:
        self.packets, self.stream, self.first = packets, stream, first

    def __len__(self) -> int:
        return len(self.packets)

    def payload(self, index: int) -> bytes:
        """Return a packet in the form of the elementary stream."""
        packet = self.packets[index]
        try:
            return self.stream.packet(packet.data, first=self.first and index == 0)
        except BitstreamError as error:
            raise DecodeError(str(error), packet=packet.number) from error


# Forms of a packet, see feeder.c.
_READY, _LENGTH_PREFIXED, _UNSUPPORTED = 0, 1, 6
# Flags of a packet, see fused_run.c.
_WANTED, _TRACKED, _UNDECODABLE = 1, 2, 4
_LENGTH_BYTES = 4


class PacketArrays:
    """Packets as C arrays; C replaces length prefixes of 4 bytes by start codes.

    Args:
        numbers: packet numbers.
        data: bytes of the packets.
        wanted: whether each packet's frame is wanted.
        stream: form of the packets.
    """

    def __init__(
        self, numbers: Iterable[int], data: Seq[bytes], wanted: Iterable[bool], stream: ElementaryStream
    ) -> None:
        count = len(data)
        integers = _array(ctypes.c_int64, count)
        self._data = _array(ctypes.c_char_p, count)(*data)
        self._sizes = integers(*map(len, data))
        self._numbers, self._wanted = integers(*numbers), bytes(wanted)
        prefixed = _LENGTH_PREFIXED if stream.lengths == _LENGTH_BYTES else _UNSUPPORTED
        self._forms = _array(ctypes.c_uint8, count)(*[prefixed if stream.lengths else _READY] * count)
        self._roles = stream.roles(data)

    @classmethod
    def of(cls, batch: PacketBatch) -> PacketArrays:
        """Return the arrays of a batch."""
        numbers, data, _, wanted = zip(*batch.packets, strict=True)
        arrays = cls(numbers, data, wanted, batch.stream)
        if batch.first:
            arrays.replace(0, batch.payload(0))
        return arrays

    def replace(self, index: int, payload: bytes) -> None:
        """Replace a packet by the form that the parser takes."""
        self._data[index], self._sizes[index], self._forms[index] = payload, len(payload), _READY

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the C functions."""
        return (
            len(self._wanted),
            self._data,
            self._sizes,
            self._numbers,
            self._wanted,
            self._forms,
            self._roles,
        )


class PendingFrames:
    """Frames and reports that a fused run has to produce.

    Args:
        wanted: indices of the packets whose frames are wanted.
        targets: for each of these, all target frames: the address, and the index of the painting's conversion.
        tracked: for each packet, whether the decoder must report the state of its frame.
        undecodable: for each packet, whether its frame cannot be decoded and may be reported as damaged.
    """

    def __init__(
        self,
        wanted: IntArray,
        targets: Seq[Seq[tuple[int, int]]],
        tracked: BoolArray,
        undecodable: BoolArray,
    ) -> None:
        self._flags = tracked * np.uint8(_TRACKED) | undecodable * np.uint8(_UNDECODABLE)
        self._flags[wanted] |= _WANTED
        self._begins = np.zeros(len(tracked) + 1, np.int64)
        self._begins[wanted + 1] = list(map(len, targets))
        np.cumsum(self._begins, out=self._begins)
        values = chain.from_iterable(chain.from_iterable(targets))
        self._targets = np.fromiter(values, np.uint64, 2 * int(self._begins[-1]))

    @property
    def wanted(self) -> Iterable[bool]:
        """Whether each packet's frame is wanted."""
        wanted: list[bool] = (self._flags & _WANTED).tolist()
        return wanted

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the C function, which clears the flags of what it has produced."""
        return buffer_of(self._flags), buffer_of(self._begins), buffer_of(self._targets)


@cache
def _array(kind: Any, count: int) -> Callable[..., Any]:
    """Return a ctypes array type, memoized: creating the type takes longer than filling an array."""
    array: Callable[..., Any] = kind * count
    return array


# Entries of each output array: more than feeder.c can have undecided frames, and those of one step.
_CAPACITY = 1024
_VALUES_PER_FRAME = 5
# Constants of feeder.c and fused_run.c.
_PARSER_FAILED, _FRAME_REFUSED, _MAP_FAILED, _STOPPED, _PACKET_UNSUPPORTED = 1, 2, 3, 5, 6
_UNDAMAGED, _FLUSHED = 1, 2


class _Native:
    """Functions of the compiled library; those that may wait for the GPU release the GIL."""

    def __init__(self, waiting: ctypes.CDLL) -> None:
        quick = ctypes.PyDLL(waiting._name)
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        self.on_sequence = ctypes.cast(quick.seqpipe_on_sequence, SEQUENCE)
        self.on_picture = ctypes.cast(quick.seqpipe_on_picture, PICTURE)
        self.on_display = ctypes.cast(quick.seqpipe_on_display, DISPLAY)
        self.new = _function(quick, "feeder_new", pointer, pointer, integer)
        self.free = _function(quick, "feeder_free", None, pointer)
        self.parser = _function(quick, "feeder_parser", None, pointer, pointer)
        self.announce = _function(quick, "feeder_announce", None, pointer, SEQUENCE)
        self.use = _function(quick, "feeder_use", None, pointer, pointer, pointer, ctypes.c_int64)
        self.drop = _function(quick, "drop", None, pointer)
        self.stop = _function(quick, "stop", None, pointer)
        self.drain = _function(quick, "drain", None, pointer, pointer)
        self.failure = _function(quick, "failure", integer, pointer)
        self.code = _function(quick, "code", integer, pointer)
        self.at_key = _function(quick, "at_key", integer, pointer)
        arrays = (ctypes.POINTER(ctypes.c_char_p), pointer, pointer, pointer, pointer, pointer)
        self.feed = _function(
            waiting, "feed", integer, pointer, integer, integer, *arrays, integer, pointer, integer
        )
        fused = (pointer, pointer, integer, *arrays, pointer, pointer, pointer, pointer, integer)
        self.fused_run = _function(waiting, "fused_run", integer, *fused)
        self.wait_decoded = _function(waiting, "wait_decoded", None, pointer)
        self.finish = _function(waiting, "finish", integer, pointer, integer, pointer, integer)


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, f"seqpipe_{name}")
    function.restype, function.argtypes = result, arguments
    return function


@cache
def native() -> _Native | None:
    """Return the compiled library; None without a C compiler."""
    library = load_native(__package__, "fused_run.c")
    return None if library is None else _Native(library)


class Feeder:
    """Feeds packets of one session to the parser, and reports frames as undamaged only after the GPU has said so.

    The GPU decodes in order: once a frame is mapped, all frames decoded before it are finished, and their states are
    known. These reports are delivered with the frame, or before it.

    The parser may release several frames for display at once, at a key frame or at the end of a stream. A mapped frame
    takes GPU memory, so they wait in their decode surfaces, and feeding resumes once all are mapped, a step at a time.
    The packet that released them may also decode another frame into such a surface; the waiting frame is mapped early.

    Args:
        cuvid: the driver's library.
        in_order: whether the codec shows frames in packet order.
        step: number of frames after which feeding pauses.

    Attributes:
        on_picture: pfnDecodePicture for the parser.
        on_display: pfnDisplayPicture for the parser.
        user_data: pointer that the parser passes to its callbacks.

    Raises:
        BackendError: there is no C compiler.
    """

    def __init__(self, cuvid: Cuvid, *, in_order: bool, step: int) -> None:
        library = native()
        if library is None:
            raise BackendError(
                "NVDEC needs a C compiler, which builds its callbacks on first use, and none works here",
                advice=f"Install gcc, name a compiler in {COMPILER}, or decode with decode='cpu'",
            )
        self._step = step
        self._library = library
        self._functions = (ctypes.c_void_p * 5)(*cuvid.addresses())
        self.user_data: int | None = library.new(self._functions, in_order)
        self._memory: Finalizer | None = Finalizer(library.free, self.user_data)
        self.sequence = 0
        self.on_picture = library.on_picture
        self.on_display = library.on_display
        self._decoder: HardwareDecoder | None = None
        # Decoder and stream by sequence number: the current ones, and earlier ones whose frames are not all mapped.
        self._sequences: dict[int, tuple[HardwareDecoder, StreamShape]] = {}
        self._waiting = 0
        self._output = (ctypes.c_int64 * ((2 + _VALUES_PER_FRAME) * _CAPACITY))()
        self._counts = (ctypes.c_int * 4)()
        self._decoded: list[int] = []
        self._damaged: list[int] = []
        self._frames: list[DecodedFrame] = []
        self._batch: PacketBatch | None = None
        self._arrays: PacketArrays | None = None
        self._last = -1

    def start(self, parser: int) -> None:
        """Use a parser that was created with these callbacks."""
        self._library.parser(self.user_data, parser)

    def sequence_callback(self, announce: Any) -> Any:
        """Return the parser's pfnSequenceCallback: C handles an unchanged stream, and calls ``announce`` for others.

        The caller keeps ``announce`` alive.
        """
        self._library.announce(self.user_data, announce)
        return self._library.on_sequence

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Use a decoder for the stream of its shape; before another decoder, all reports are delivered."""
        self._decoder = decoder
        self.sequence += 1
        handle, proc = None, None
        if decoder is None:
            self._drop_old_sequences()
        else:
            self._sequences[self.sequence] = decoder, decoder.shape
            handle, proc = decoder.addresses
        self._library.use(self.user_data, handle, proc, self.sequence)

    def feed(self, batch: PacketBatch, begin: int) -> tuple[int, DecodeResult]:
        """Map waiting frames, and feed packets from an index on, until a step of frames is mapped."""
        arrays = self._arrays
        if arrays is None or self._batch is not batch:
            self._batch, arrays = batch, PacketArrays.of(batch)
            self._arrays = arrays
        fed: int = self._run(self._library.feed, begin, *arrays.arguments, self._step)
        if not fed and not self._frames and self._library.failure(self.user_data) == _PACKET_UNSUPPORTED:
            arrays.replace(begin, batch.payload(begin))
            fed = self._run(self._library.feed, begin, *arrays.arguments, self._step)
        if fed:
            self._last = batch.packets[begin + fed - 1].number
        self._check()
        if begin + fed == len(batch):
            self._batch = self._arrays = None
        return fed, self._take_result()

    def finish(self) -> tuple[bool, DecodeResult]:
        """Map some of the remaining frames; after the last of them, prepare for another stream."""
        last: int = self._run(self._library.finish, self._step)
        self._check()
        return bool(last), self._take_result()

    def fused_run(
        self, arrays: PacketArrays, pending: PendingFrames, painting: PaintParams
    ) -> tuple[bool, bool]:
        """Decode all packets of a run and convert the wanted frames in one C call.

        Returns:
            Whether the run was undamaged, and whether the parser was flushed. If the run was damaged, some frames may
            have been converted already.
        """
        # Frames of these decoders are mapped in C alone; the decoders must outlive a change of the stream.
        decoders = [decoder for decoder, _ in self._sequences.values()]
        flags: int = self._run(
            self._library.fused_run, ctypes.addressof(painting), *arrays.arguments, *pending.arguments
        )
        decoders.clear()
        self._take_result()
        return bool(flags & _UNDAMAGED), bool(flags & _FLUSHED)

    def wait_decoded(self) -> None:
        """Wait for all frames that are being decoded, and report their states; called during a callback."""
        self._library.wait_decoded(self.user_data)
        self._drain()

    @property
    def at_key(self) -> bool:
        """Whether the packet being parsed begins with a key frame."""
        return bool(self._library.at_key(self.user_data))

    def stop(self) -> None:
        """Stop feeding the packets of the current call: the stream cannot be decoded."""
        self._library.stop(self.user_data)

    def close(self) -> None:
        """Free the feeder's memory."""
        self._library.drop(self.user_data)
        self._sequences.clear()
        self.user_data, self._memory, self._decoder = None, None, None

    def _run(self, function: Any, *arguments: Any) -> Any:
        """Call a C function that fills the output arrays."""
        self._unmap_returned()
        result = function(self.user_data, *arguments, self._output, _CAPACITY)
        self._drain()
        return result

    def _unmap_returned(self) -> None:
        for decoder, _ in self._sequences.values():
            decoder.unmap_returned()

    def _drain(self) -> None:
        """Copy reports and mapped frames from the output arrays."""
        self._library.drain(self.user_data, self._counts)
        decoded, damaged, shown, self._waiting = self._counts
        self._decoded += self._output[:decoded]
        self._damaged += self._output[_CAPACITY : _CAPACITY + damaged]
        begin = 2 * _CAPACITY
        values = iter(self._output[begin : begin + _VALUES_PER_FRAME * shown])
        for packet, pointer, pitch, sequence, _ in zip(*[values] * _VALUES_PER_FRAME, strict=True):
            decoder, shape = self._sequences[sequence]
            decoder.pitch = pitch
            self._frames.append(DecodedFrame(packet, MappedFrame(decoder, pointer, pitch, shape).surface))
        if len(self._sequences) > 1:
            self._drop_old_sequences()

    def _drop_old_sequences(self) -> None:
        """Drop earlier decoders once no frame waits in them."""
        if not self._waiting:
            for sequence in self._sequences.keys() - {self.sequence}:
                del self._sequences[sequence]

    def _take_result(self) -> DecodeResult:
        """Return the collected result, and forget it."""
        # The feeder must not reference the frames that the caller is to release.
        result = DecodeResult(self._decoded, self._damaged, self._frames)
        self._decoded, self._damaged, self._frames = [], [], []
        return result

    def _check(self) -> None:
        """Raise the error of the last call, if it failed."""
        failure = self._library.failure(self.user_data)
        if failure in (
            0,
            _STOPPED,
            _PACKET_UNSUPPORTED,
        ):  # an unsupported packet is converted in Python by the next call
            return
        code = self._library.code(self.user_data)
        self._take_result()
        if failure == _MAP_FAILED and self._decoder is not None:
            self._decoder.check(code, "map a frame of")
        if failure == _FRAME_REFUSED:
            raise DecodeError(f"NVDEC refuses it with CUDA error {code}", packet=self._last)
        if failure == _PARSER_FAILED:
            raise DecodeError(f"NVDEC's parser fails with CUDA error {code}", packet=self._last)
        raise DecodeError("NVDEC outputs more frames than it can hold", packet=self._last)
