"""Feeder with the parser's callbacks in C (feeder.c), which run without the GIL.

With callbacks in Python each packet releases and acquires the GIL several times, and threads wait for each other;
tests/bench/RESULTS.md has the figures of an H200 with seven engines at 340×256.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ...core.finalizers import Finalizer
from ...core.native import load_native
from ..decode.packets import DecodedFrame, DecodeError, DecodeResult
from .cuvid import DISPLAY, PICTURE, SEQUENCE, Cuvid
from .feeder import PacketArrays, PacketBatch, PendingFrames
from .hardware import HardwareDecoder, MappedFrame, PaintParams, StreamShape

__all__ = ["NativeFeeder", "native"]

# Entries of each output array: more than feeder.c can have undecided frames, and those of one step.
_CAPACITY = 1024
_VALUES_PER_FRAME = 5
# Constants of feeder.c and fused_run.c.
_PARSER_FAILED, _FRAME_REFUSED, _MAP_FAILED, _STOPPED, _UNSUPPORTED = 1, 2, 3, 5, 6
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


class NativeFeeder:
    """Feeder in C, see :class:`seqpipe.video.nvdec.feeder.Feeder`.

    Args:
        library: the compiled library.
        cuvid: the driver's library.
        in_order: whether the codec shows frames in packet order.
        step: number of frames after which feeding pauses.
    """

    def __init__(self, library: _Native, cuvid: Cuvid, *, in_order: bool, step: int) -> None:
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
        """Return the parser's sequence callback: C handles an unchanged stream, and calls ``announce`` for others."""
        self._library.announce(self.user_data, announce)
        return self._library.on_sequence

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Use another decoder from now on."""
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
        """Feed packets from an index on, until a step of frames is mapped.

        Raises:
            DecodeError: the GPU or its parser refused the last packet fed, or the next one is malformed.
            BackendError: the GPU could not map a frame.
        """
        arrays = self._arrays
        if arrays is None or self._batch is not batch:
            self._batch, arrays = batch, PacketArrays.of(batch)
            self._arrays = arrays
        fed: int = self._run(self._library.feed, begin, *arrays.arguments, self._step)
        if not fed and not self._frames and self._library.failure(self.user_data) == _UNSUPPORTED:
            arrays.replace(begin, batch.payload(begin))
            fed = self._run(self._library.feed, begin, *arrays.arguments, self._step)
        if fed:
            self._last = batch.packets[begin + fed - 1].number
        self._check()
        if begin + fed == len(batch):
            self._batch = self._arrays = None
        return fed, self._take_result()

    def finish(self) -> tuple[bool, DecodeResult]:
        """Map some of the remaining frames; after the last of them, prepare for another stream.

        Raises:
            DecodeError: the GPU or its parser refused something.
            BackendError: the GPU could not map a frame.
        """
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
        """Wait for all frames that are being decoded, and report their states."""
        self._library.wait_decoded(self.user_data)
        self._drain()

    @property
    def at_key(self) -> bool:
        """Whether the packet being parsed begins with a key frame."""
        return bool(self._library.at_key(self.user_data))

    def stop(self) -> None:
        """Stop feeding the packets of the current call."""
        self._library.stop(self.user_data)

    def close(self) -> None:
        """Free the feeder's memory."""
        self._library.drop(self.user_data)
        self._sequences.clear()
        self.user_data, self._memory, self._decoder = None, None, None

    def _run(self, function: Any, *arguments: Any) -> Any:
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
        # The feeder must not reference the frames that the caller is to release.
        result = DecodeResult(self._decoded, self._damaged, self._frames)
        self._decoded, self._damaged, self._frames = [], [], []
        return result

    def _check(self) -> None:
        failure = self._library.failure(self.user_data)
        if failure in (
            0,
            _STOPPED,
            _UNSUPPORTED,
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
