"""NativeFeeder: the parser's callbacks in C (feeder.c), so that Python's lock is free while the card works.

A thread of Python that gives its lock up and takes it again waits for others to be woken, and decoding a packet does so
several times. Measured on an H200 with seven engines at 340×256: see tests/bench/RESULTS.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import cache
from typing import Any

from ...native import load_native
from ..packet_decoder import Decoded, DecodeError
from .cuvid import DISPLAY, PICTURE, Cuvid
from .feeder import Coded
from .hardware import HardwareDecoder, Mapped

__all__ = ["NativeFeeder", "native"]

# as many as feeder.c may have undecided pictures, and as many again for one step
_ROOM = 1024
_VALUES_OF_AN_EVENT = 4
_PARSER_FAILED, _PICTURE_REFUSED, _MAP_FAILED, _STOPPED = 1, 2, 3, 5


class _Native:
    """The compiled callbacks. Functions that may wait for the card let other threads of Python run meanwhile."""

    def __init__(self, waiting: ctypes.CDLL) -> None:
        quick = ctypes.PyDLL(waiting._name)
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        self.on_picture = ctypes.cast(quick.seqpipe_on_picture, PICTURE)
        self.on_display = ctypes.cast(quick.seqpipe_on_display, DISPLAY)
        self.new = _function(quick, "feeder_new", pointer, pointer, integer)
        self.free = _function(quick, "feeder_free", None, pointer)
        self.parser = _function(quick, "feeder_parser", None, pointer, pointer)
        self.use = _function(quick, "feeder_use", None, pointer, pointer, pointer)
        self.stop = _function(quick, "stop", None, pointer)
        self.drain = _function(quick, "drain", integer, pointer)
        self.failure = _function(quick, "failure", integer, pointer)
        self.code = _function(quick, "code", integer, pointer)
        arrays = (ctypes.POINTER(ctypes.c_char_p), pointer, pointer, pointer)
        self.feed = _function(waiting, "feed", integer, pointer, integer, *arrays, integer, pointer, integer)
        self.settle = _function(waiting, "settle", None, pointer)
        self.finish = _function(waiting, "finish", None, pointer, pointer, integer)


def _function(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, f"seqpipe_{name}")
    function.restype, function.argtypes = result, arguments
    return function


@cache
def native() -> _Native | None:
    """The compiled callbacks; None where there is no C compiler."""
    library = load_native(__package__, "feeder.c")
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
        self.on_picture = library.on_picture
        self.on_display = library.on_display
        self._decoder: HardwareDecoder | None = None
        self._events = (ctypes.c_int64 * (_VALUES_OF_AN_EVENT * _ROOM))()
        self._news: list[Decoded] = []
        self._last = -1

    def __del__(self) -> None:
        self.close()

    def start(self, parser: int) -> None:
        """Use a parser that was made with these callbacks."""
        self._library.parser(self.user_data, parser)

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Decode with another decoder from now on."""
        self._decoder = decoder
        handle, proc = (None, None) if decoder is None else decoder.addresses
        self._library.use(self.user_data, handle, proc)

    def feed(self, packets: Seq[Coded], begin: int) -> tuple[int, list[Decoded]]:
        """Feed packets from a place on, until enough pictures have come.

        Raises:
            DecodeError: the card or its parser refused the last one that was fed.
            BackendError: the card could not hand over a picture.
        """
        numbers, data, wanted = zip(*packets[begin:], strict=True)
        count = len(numbers)
        integers: Callable[..., Any] = ctypes.c_int64 * count
        fed: int = self._run(
            self._library.feed,
            count,
            (ctypes.c_char_p * count)(*data),
            integers(*map(len, data)),
            integers(*numbers),
            bytes(wanted),
            self._step,
        )
        self._last = numbers[fed - 1]
        self._check()
        return fed, self._taken()

    def finish(self) -> list[Decoded]:
        """Hand over what is left, and make ready for another stream.

        Raises:
            DecodeError: the card or its parser refused something.
            BackendError: the card could not hand over a picture.
        """
        self._run(self._library.finish)
        self._check()
        return self._taken()

    def settle(self) -> None:
        """Wait for all that is being decoded, and report on it."""
        self._library.settle(self.user_data)
        self._drain()

    def stop(self) -> None:
        """Feed nothing more of what was given."""
        self._library.stop(self.user_data)

    def close(self) -> None:
        """Give back its memory."""
        if getattr(self, "user_data", None):
            self._library.free(self.user_data)
            self.user_data, self._decoder = None, None

    def _run(self, function: Any, *arguments: Any) -> Any:
        if self._decoder is not None:
            self._decoder.unmap_returned()
        result = function(self.user_data, *arguments, self._events, _ROOM)
        self._drain()
        return result

    def _drain(self) -> None:
        """Take over what was reported, while the decoder that it came from is still the present one."""
        values = iter(self._events[: _VALUES_OF_AN_EVENT * self._library.drain(self.user_data)])
        decoder = self._decoder
        for packet, pointer, pitch, damaged in zip(values, values, values, values, strict=True):
            surface = None
            if pointer and decoder is not None:
                surface = Mapped(decoder, pointer, pitch, decoder.shape).surface
            self._news.append(Decoded(packet, surface, bool(damaged)))

    def _taken(self) -> list[Decoded]:
        # what is given out holds pictures, which must not be held here
        news, self._news = self._news, []
        return news

    def _check(self) -> None:
        failure = self._library.failure(self.user_data)
        if failure in (0, _STOPPED):
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
