"""NativeFeeder: the parser's callbacks in C (whole_run.c), which run without the GIL.

A thread of Python that gives its lock up and takes it again waits for others to be woken, and decoding a packet does so
several times. Measured on an H200 with seven engines at 340×256: see tests/bench/RESULTS.md.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ...native import load_native
from ..decode.packet_decoder import DecodedFrame, DecodeError, DecodeResult
from ..finalizers import Afterwards
from .arrays import PacketArrays, PendingFrames
from .cuvid import DISPLAY, PICTURE, SEQUENCE, Cuvid
from .feeder import PacketBatch
from .hardware import HardwareDecoder, Mapped, StreamShape
from .painting import Painting

__all__ = ["NativeFeeder", "native"]

# as many as feeder.c may have undecided pictures, and as many again for one step
_ROOM = 1024
_VALUES_OF_A_PICTURE = 5
_PARSER_FAILED, _PICTURE_REFUSED, _MAP_FAILED, _STOPPED, _NOT_PLAIN = 1, 2, 3, 5, 6
_CLEAN, _ENDED = 1, 2


class _Native:
    """The compiled callbacks. Functions that may wait for the GPU let other threads of Python run meanwhile."""

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
        self.anew = _function(quick, "anew", integer, pointer)
        arrays = (ctypes.POINTER(ctypes.c_char_p), pointer, pointer, pointer, pointer, pointer)
        self.feed = _function(
            waiting, "feed", integer, pointer, integer, integer, *arrays, integer, pointer, integer
        )
        whole = (pointer, pointer, integer, *arrays, pointer, pointer, pointer, pointer, integer)
        self.whole_run = _function(waiting, "whole_run", integer, *whole)
        self.wait_decoded = _function(waiting, "wait_decoded", None, pointer)
        self.finish = _function(waiting, "finish", integer, pointer, integer, pointer, integer)


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, f"seqpipe_{name}")
    function.restype, function.argtypes = result, arguments
    return function


@cache
def native() -> _Native | None:
    """The compiled callbacks; None where there is no C compiler."""
    library = load_native(__package__, "whole_run.c")
    return None if library is None else _Native(library)


class NativeFeeder:
    """A feeder; see :class:`seqpipe.video.nvdec.feeder.Feeder`.

    Args:
        library: the compiled callbacks.
        cuvid: the driver's library.
        in_order: whether the codec shows pictures in the order of their packets.
        step: after how many pictures feeding pauses.
    """

    def __init__(self, library: _Native, cuvid: Cuvid, *, in_order: bool, step: int) -> None:
        self._step = step
        self._library = library
        self._functions = (ctypes.c_void_p * 5)(*cuvid.addresses())
        self.user_data: int | None = library.new(self._functions, in_order)
        self._memory: Afterwards | None = Afterwards(library.free, self.user_data)
        self.sequence = 0
        self.on_picture = library.on_picture
        self.on_display = library.on_display
        self._decoder: HardwareDecoder | None = None
        # by its number, where pictures are from: of the present one, and of those before it that some still wait for
        self._sequences: dict[int, tuple[HardwareDecoder, StreamShape]] = {}
        self._waiting = 0
        self._told = (ctypes.c_int64 * ((2 + _VALUES_OF_A_PICTURE) * _ROOM))()
        self._counts = (ctypes.c_int * 4)()
        self._decoded: list[int] = []
        self._damaged: list[int] = []
        self._pictures: list[DecodedFrame] = []
        self._batch: PacketBatch | None = None
        self._arrays: PacketArrays | None = None
        self._last = -1

    def start(self, parser: int) -> None:
        """Use a parser that was made with these callbacks."""
        self._library.parser(self.user_data, parser)

    def asks(self, announce: Any) -> Any:
        """What the parser calls back with a stream: C answers for one like the one before, and asks about others."""
        self._library.announce(self.user_data, announce)
        return self._library.on_sequence

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Decode with another decoder from now on."""
        self._decoder = decoder
        self.sequence += 1
        handle, proc = None, None
        if decoder is None:
            self._forget_sequences()
        else:
            self._sequences[self.sequence] = decoder, decoder.shape
            handle, proc = decoder.addresses
        self._library.use(self.user_data, handle, proc, self.sequence)

    def feed(self, batch: PacketBatch, begin: int) -> tuple[int, DecodeResult]:
        """Feed packets from a place on, until enough pictures have come.

        Raises:
            DecodeError: the GPU or its parser refused the last one that was fed, or the next one cannot be.
            BackendError: the GPU could not hand over a picture.
        """
        arrays = self._arrays
        if arrays is None or self._batch is not batch:
            self._batch, arrays = batch, PacketArrays.of(batch)
            self._arrays = arrays
        fed: int = self._run(self._library.feed, begin, *arrays.arguments, self._step)
        if not fed and not self._pictures and self._library.failure(self.user_data) == _NOT_PLAIN:
            arrays.replace(begin, batch.payload(begin))
            fed = self._run(self._library.feed, begin, *arrays.arguments, self._step)
        if fed:
            self._last = batch.packets[begin + fed - 1].number
        self._check()
        if begin + fed == len(batch):
            self._batch = self._arrays = None
        return fed, self._taken()

    def finish(self) -> tuple[bool, DecodeResult]:
        """Hand over some of what is left; with the last of it, make ready for another stream.

        Raises:
            DecodeError: the GPU or its parser refused something.
            BackendError: the GPU could not hand over a picture.
        """
        last: int = self._run(self._library.finish, self._step)
        self._check()
        return bool(last), self._taken()

    def whole_run(
        self, arrays: PacketArrays, awaited: PendingFrames, painting: Painting
    ) -> tuple[bool, bool]:
        """Decode all packets of a run, and convert what is wanted of them, without Python in between.

        Returns:
            Whether nothing was wrong, and whether it is ready for another stream. Where something was, some pictures
            may have been converted.
        """
        # of their pictures only C knows; they must outlive a change of the stream
        kept = [decoder for decoder, _ in self._sequences.values()]
        how: int = self._run(
            self._library.whole_run, ctypes.addressof(painting), *arrays.arguments, *awaited.arguments
        )
        kept.clear()
        self._taken()
        return bool(how & _CLEAN), bool(how & _ENDED)

    def wait_decoded(self) -> None:
        """Wait for all that is being decoded, and report on it."""
        self._library.wait_decoded(self.user_data)
        self._drain()

    @property
    def anew(self) -> bool:
        """Whether the packet that is being parsed needs none before it."""
        return bool(self._library.anew(self.user_data))

    def stop(self) -> None:
        """Feed nothing more of what was given."""
        self._library.stop(self.user_data)

    def close(self) -> None:
        """Give back its memory."""
        self._library.drop(self.user_data)
        self._sequences.clear()
        self.user_data, self._memory, self._decoder = None, None, None

    def _run(self, function: Any, *arguments: Any) -> Any:
        self._unmap_returned()
        result = function(self.user_data, *arguments, self._told, _ROOM)
        self._drain()
        return result

    def _unmap_returned(self) -> None:
        for decoder, _ in self._sequences.values():
            decoder.unmap_returned()

    def _drain(self) -> None:
        """Take over what was reported and handed over."""
        self._library.drain(self.user_data, self._counts)
        decoded, damaged, shown, self._waiting = self._counts
        self._decoded += self._told[:decoded]
        self._damaged += self._told[_ROOM : _ROOM + damaged]
        begin = 2 * _ROOM
        values = iter(self._told[begin : begin + _VALUES_OF_A_PICTURE * shown])
        for packet, pointer, pitch, sequence, _ in zip(*[values] * _VALUES_OF_A_PICTURE, strict=True):
            decoder, shape = self._sequences[sequence]
            decoder.pitch = pitch
            self._pictures.append(DecodedFrame(packet, Mapped(decoder, pointer, pitch, shape).surface))
        if len(self._sequences) > 1:
            self._forget_sequences()

    def _forget_sequences(self) -> None:
        """Keep no decoder that nothing comes from any more."""
        if not self._waiting:
            for sequence in self._sequences.keys() - {self.sequence}:
                del self._sequences[sequence]

    def _taken(self) -> DecodeResult:
        # what is given out holds pictures, which must not be held here
        result = DecodeResult(self._decoded, self._damaged, self._pictures)
        self._decoded, self._damaged, self._pictures = [], [], []
        return result

    def _check(self) -> None:
        failure = self._library.failure(self.user_data)
        if failure in (0, _STOPPED, _NOT_PLAIN):  # the last: it is the next one's turn to be converted
            return
        code = self._library.code(self.user_data)
        self._taken()
        if failure == _MAP_FAILED and self._decoder is not None:
            self._decoder.check(code, "hand over a picture of")
        if failure == _PICTURE_REFUSED:
            raise DecodeError(f"NVDEC refuses it with CUDA error {code}", packet=self._last)
        if failure == _PARSER_FAILED:
            raise DecodeError(f"NVDEC's parser gives up with CUDA error {code}", packet=self._last)
        raise DecodeError("NVDEC gives out more pictures than it can hold", packet=self._last)
