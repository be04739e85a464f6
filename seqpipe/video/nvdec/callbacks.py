"""Feeder with the parser's callbacks in Python: the fallback without a C compiler, and the reference of feeder.c.

Exceptions cannot propagate through the driver: they are stored in the callback and raised after the driver's call.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

from ..bitstream.elementary import AT_KEY, SHOWS_EARLIER, SHOWS_LAST
from ..decode.packets import DecodedFrame, DecodeError, DecodeResult
from .cuvid import (
    DISPLAY,
    END_OF_PICTURE,
    END_OF_STREAM,
    FAILED_STATES,
    IN_PROGRESS,
    PICTURE,
    TIMESTAMP,
    Cuvid,
    Display,
    Packet,
    PictureParams,
)
from .feeder import PacketBatch
from .hardware import HardwareDecoder, MappedFrame

__all__ = ["PythonFeeder"]

_SURFACE_AT = PictureParams.surface.offset
_SECOND_FIELD_AT = PictureParams.is_second_field.offset
_ANY_SURFACE = -1
_NO_PACKET = -1


class _WaitingFrame:
    """Frame that the parser has released for display and that is not handed out yet.

    Args:
        number: packet number.
        decoder: decoder that holds the frame.
        display: the parser's display parameters.
    """

    def __init__(self, number: int, decoder: HardwareDecoder, display: Display) -> None:
        self.number, self.decoder, self.shape = number, decoder, decoder.shape
        self.display = Display.from_buffer_copy(display)
        self._mapped: MappedFrame | None = None

    def map(self) -> MappedFrame:
        """Map the frame unless it is mapped already.

        Raises:
            BackendError: the GPU refuses.
        """
        if self._mapped is None:
            self._mapped = self.decoder.map(self.display, self.shape)
        return self._mapped


class PythonFeeder:
    """Feeder in Python, see :class:`seqpipe.video.nvdec.feeder.Feeder`.

    Args:
        cuvid: the library.
        in_order: whether the codec shows frames in packet order.
        step: number of frames after which feeding pauses.
    """

    user_data: int | None = None

    def __init__(self, cuvid: Cuvid, *, in_order: bool, step: int) -> None:
        self._cuvid, self._in_order, self._step = cuvid, in_order, step
        self._parser = 0
        self._decoder: HardwareDecoder | None = None
        self._error: BaseException | None = None
        self._wanted: set[int] = set()
        self._number, self._touched, self._stopped, self._ended = -1, False, False, False
        self._inside: dict[int, int] = {}
        self._undecided: dict[int, int] = {}
        self._role = 0
        self._due: dict[int, int] = {}  # surface of the frame that each packet is expected to show
        self._waiting: deque[_WaitingFrame] = deque()
        self._results = _no_results()
        self._packet = Packet()
        self._packet_address = ctypes.addressof(self._packet)
        self.on_picture: Any = PICTURE(self._on_picture)
        self.on_display: Any = DISPLAY(self._on_display)

    def sequence_callback(self, announce: Any) -> Any:
        """Return ``announce`` itself, which is called for every stream."""
        return announce

    def start(self, parser: int) -> None:
        """Use a parser that was created with these callbacks."""
        self._parser = parser

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Use another decoder from now on."""
        self._decoder = decoder

    def feed(self, batch: PacketBatch, begin: int) -> tuple[int, DecodeResult]:
        """Feed packets from an index on, until a step of frames is mapped.

        Raises:
            DecodeError: the GPU or its parser refused the last packet fed, or the next one is malformed.
            BackendError: the GPU could not map a frame.
        """
        self._stopped, fed = False, 0
        self._map_waiting()
        for index in range(begin, len(batch)):
            if self._step_is_full() or self._stopped:
                break
            packet = batch.packets[index]
            try:
                data = batch.payload(index)
            except DecodeError:
                if fed or self._results[2]:  # the results of earlier packets are returned first
                    break
                raise
            if packet.wanted:
                self._wanted.add(packet.number)
            self._number, self._role = packet.number, batch.role(index)
            self._touched = self._in_order and bool(self._role & SHOWS_EARLIER)
            if self._touched:
                self._due[packet.number] = _ANY_SURFACE
            self._parse(TIMESTAMP | END_OF_PICTURE, data, packet.number)
            if not self._touched:
                self._report(packet.number, damaged=True)
            self._map_waiting()
            fed += 1
        return fed, self._take_results()

    def finish(self) -> tuple[bool, DecodeResult]:
        """Map some of the remaining frames; after the last of them, prepare for another stream.

        Raises:
            DecodeError: the GPU or its parser refused something.
            BackendError: the GPU could not map a frame.
        """
        if not self._ended:
            self._ended = True
            self._parse(END_OF_STREAM, b"", 0)
        self._map_waiting()
        if self._waiting:
            return False, self._take_results()
        self.wait_decoded()
        for state in (self._undecided, self._wanted, self._inside):
            state.clear()
        self._ended = False
        return True, self._take_results()

    def wait_decoded(self) -> None:
        """Wait for all frames that are being decoded, and report their states."""
        for surface in list(self._undecided):
            self._report_surface(surface, wait=True)
        self._skip_due(list(self._due))

    @property
    def at_key(self) -> bool:
        """Whether the packet being parsed begins with a key frame."""
        return bool(self._role & AT_KEY)

    def stop(self) -> None:
        """Stop feeding the packets of the current call."""
        self._stopped = True

    def close(self) -> None:
        """Break the reference cycle through the callbacks."""
        self._decoder, self.on_picture, self.on_display = None, None, None
        self._waiting.clear()

    def _step_is_full(self) -> bool:
        return len(self._results[2]) >= self._step

    def _map_waiting(self) -> None:
        """Map waiting frames, up to a step of them."""
        while self._waiting and not self._step_is_full():
            waiting = self._waiting.popleft()
            self._results[2].append(DecodedFrame(waiting.number, waiting.map().surface))
            for surface in list(self._undecided):
                if not self._report_surface(surface, wait=False):
                    break

    def _take_results(self) -> DecodeResult:
        # The feeder must not reference the frames that the caller is to release.
        (decoded, damaged, frames), self._results = self._results, _no_results()
        return DecodeResult(decoded, damaged, frames)

    def _report(self, number: int, *, damaged: bool) -> None:
        self._results[0].append(number)
        if damaged:
            self._results[1].append(number)

    def _parse(self, flags: int, data: bytes, number: int) -> None:
        packet = self._packet
        packet.flags, packet.size, packet.payload, packet.timestamp = flags, len(data), data, number
        code = self._cuvid.parse(self._parser, self._packet_address)
        if self._error is not None:
            try:
                raise self._error  # a local variable would form a reference cycle that keeps frames mapped
            finally:
                self._error = None
        if code:
            raise DecodeError(f"NVDEC's parser fails with CUDA error {code}", packet=self._number)

    def _on_picture(self, _: int, picture: int) -> int:
        try:
            decoder = self._decoder
            if decoder is None:
                return 0
            surface = ctypes.c_int.from_address(picture + _SURFACE_AT).value
            self._map_early(decoder, surface)
            if surface in self._undecided and not ctypes.c_int.from_address(picture + _SECOND_FIELD_AT).value:
                self._report_surface(surface, wait=True)
            code = decoder.decode(picture)
            if code:
                self._error = DecodeError(f"NVDEC refuses it with CUDA error {code}", packet=self._number)
                return 0
            self._undecided[surface] = self._inside[surface] = self._number
            self._touched = True
            if self._in_order and self._role & SHOWS_LAST:
                self._due[self._number] = surface
        except BaseException as error:
            self._error = error
            return 0
        return 1

    def _on_display(self, _: int, display: ctypes._Pointer[Display]) -> int:
        try:
            decoder = self._decoder
            if not display or decoder is None:
                return 1
            shown = display.contents
            # Timestamps do not identify the packet: the parser sorts them, and assigns them to hidden frames as well.
            number = self._packet_shown(shown.surface) if self._in_order else self._inside[shown.surface]
            self._touched |= not self._in_order
            if number in self._wanted:
                self._waiting.append(_WaitingFrame(number, decoder, shown))
        except BaseException as error:
            self._error = error
            return 0
        return 1

    def _packet_shown(self, surface: int) -> int:
        """Return the packet whose frame is shown, for codecs that show frames in packet order.

        A surface holds at most one frame that is due to be shown for the first time. If it holds none, a frame is shown
        again, or a hidden one is shown at last: by the first packet that shows an earlier frame. Due packets before it
        have shown nothing.
        """
        packets, surfaces = list(self._due), list(self._due.values())
        wanted = surface if surface in surfaces else _ANY_SURFACE
        if wanted not in surfaces:
            return _NO_PACKET
        index = surfaces.index(wanted)
        self._skip_due(packets[:index])
        if self._due.pop(packets[index]) == _ANY_SURFACE:
            self._report(packets[index], damaged=False)
        return packets[index]

    def _skip_due(self, packets: list[int]) -> None:
        """Drop due packets that have shown nothing; one that was to show an earlier frame is damaged."""
        for packet in packets:
            if self._due.pop(packet) == _ANY_SURFACE:
                self._report(packet, damaged=True)

    def _map_early(self, decoder: HardwareDecoder, surface: int) -> None:
        """Map frames that wait in a surface that is about to be overwritten."""
        for waiting in self._waiting:
            if waiting.decoder is decoder and waiting.display.surface == surface:
                waiting.map()

    def _report_surface(self, surface: int, *, wait: bool) -> bool:
        """Report whether the frame in a surface was decoded without an error; False if it is still in progress."""
        decoder = self._decoder
        if decoder is None:
            return False
        state = decoder.wait(surface) if wait else decoder.state(surface)
        if state == IN_PROGRESS:
            return False
        self._report(self._undecided.pop(surface), damaged=state in FAILED_STATES)
        return True


def _no_results() -> tuple[list[int], list[int], list[DecodedFrame]]:
    return [], [], []
