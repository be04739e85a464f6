"""PythonFeeder: the parser's callbacks in Python, for machines without a C compiler, and to be read.

No exception can pass through the driver: what the callbacks raise is kept, and raised when the driver has returned.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

from ..bitstream.display import ANEW, SHOWS_EARLIER, SHOWS_LAST
from ..decode.packet_decoder import DecodedFrame, DecodeError, DecodeResult
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
from .hardware import HardwareDecoder, Mapped

__all__ = ["PythonFeeder"]

_SURFACE_AT = PictureParams.surface.offset
_SECOND_FIELD_AT = PictureParams.is_second_field.offset
_ANY_SURFACE = -1
_NOBODYS = -1


class _PendingReports:
    """A picture whose turn has come.

    Args:
        number: its packet.
        decoder: where it is.
        display: what the parser said of it.
    """

    def __init__(self, number: int, decoder: HardwareDecoder, display: Display) -> None:
        self.number, self.decoder, self.shape = number, decoder, decoder.shape
        self.display = Display.from_buffer_copy(display)
        self._mapped: Mapped | None = None

    def map(self) -> Mapped:
        """Map it, unless it is mapped already.

        Raises:
            BackendError: the GPU refuses.
        """
        if self._mapped is None:
            self._mapped = self.decoder.map(self.display, self.shape)
        return self._mapped


class PythonFeeder:
    """A feeder; see :class:`seqpipe.video.nvdec.feeder.Feeder`.

    Args:
        cuvid: the library.
        in_order: whether the codec shows pictures in the order of their packets.
        step: after how many pictures feeding pauses.
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
        self._due: dict[int, int] = {}  # by packet, the surface of the picture that it is to show
        self._waiting: deque[_PendingReports] = deque()
        self._news = _nothing()
        self._packet = Packet()
        self._packet_address = ctypes.addressof(self._packet)
        self.on_picture: Any = PICTURE(self._on_picture)
        self.on_display: Any = DISPLAY(self._on_display)

    def asks(self, announce: Any) -> Any:
        """It is asked about every stream."""
        return announce

    def start(self, parser: int) -> None:
        """Use a parser that was made with these callbacks."""
        self._parser = parser

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Decode with another decoder from now on."""
        self._decoder = decoder

    def feed(self, batch: PacketBatch, begin: int) -> tuple[int, DecodeResult]:
        """Feed packets from a place on, until enough pictures have come.

        Raises:
            DecodeError: the GPU or its parser refused the last one that was fed, or the next one cannot be.
            BackendError: the GPU could not hand over a picture.
        """
        self._stopped, fed = False, 0
        self._hand_over()
        for place in range(begin, len(batch)):
            if self._enough() or self._stopped:
                break
            packet = batch.packets[place]
            try:
                data = batch.payload(place)
            except DecodeError:
                if fed or self._news[2]:  # first what came of those before it
                    break
                raise
            if packet.wanted:
                self._wanted.add(packet.number)
            self._number, self._role = packet.number, batch.role(place)
            self._touched = self._in_order and bool(self._role & SHOWS_EARLIER)
            if self._touched:
                self._due[packet.number] = _ANY_SURFACE
            self._parse(TIMESTAMP | END_OF_PICTURE, data, packet.number)
            if not self._touched:
                self._report(packet.number, damaged=True)
            self._hand_over()
            fed += 1
        return fed, self._taken()

    def finish(self) -> tuple[bool, DecodeResult]:
        """Hand over some of what is left; with the last of it, make ready for another stream.

        Raises:
            DecodeError: the GPU or its parser refused something.
            BackendError: the GPU could not hand over a picture.
        """
        if not self._ended:
            self._ended = True
            self._parse(END_OF_STREAM, b"", 0)
        self._hand_over()
        if self._waiting:
            return False, self._taken()
        self.wait_decoded()
        for known in (self._undecided, self._wanted, self._inside):
            known.clear()
        self._ended = False
        return True, self._taken()

    def wait_decoded(self) -> None:
        """Wait for all that is being decoded, and report on it."""
        for surface in list(self._undecided):
            self._judge(surface, wait=True)
        self._pass_over(list(self._due))

    @property
    def anew(self) -> bool:
        """Whether the packet that is being parsed needs none before it."""
        return bool(self._role & ANEW)

    def stop(self) -> None:
        """Feed nothing more of what was given."""
        self._stopped = True

    def close(self) -> None:
        """Break the circle of callbacks."""
        self._decoder, self.on_picture, self.on_display = None, None, None
        self._waiting.clear()

    def _enough(self) -> bool:
        return len(self._news[2]) >= self._step

    def _hand_over(self) -> None:
        """Hand over what waits, until it is enough."""
        while self._waiting and not self._enough():
            waiting = self._waiting.popleft()
            self._news[2].append(DecodedFrame(waiting.number, waiting.map().surface))
            for surface in list(self._undecided):
                if not self._judge(surface, wait=False):
                    break

    def _taken(self) -> DecodeResult:
        # what is given out holds pictures, which must not be held here
        (decoded, damaged, pictures), self._news = self._news, _nothing()
        return DecodeResult(decoded, damaged, pictures)

    def _report(self, number: int, *, damaged: bool) -> None:
        self._news[0].append(number)
        if damaged:
            self._news[1].append(number)

    def _parse(self, flags: int, data: bytes, number: int) -> None:
        packet = self._packet
        packet.flags, packet.size, packet.payload, packet.timestamp = flags, len(data), data, number
        code = self._cuvid.parse(self._parser, self._packet_address)
        if self._error is not None:
            try:
                raise self._error  # a local name for it would be a circle, in which pictures stay
            finally:
                self._error = None
        if code:
            raise DecodeError(f"NVDEC's parser gives up with CUDA error {code}", packet=self._number)

    def _on_picture(self, _: int, picture: int) -> int:
        try:
            decoder = self._decoder
            if decoder is None:
                return 0
            surface = ctypes.c_int.from_address(picture + _SURFACE_AT).value
            self._map_early(decoder, surface)
            if surface in self._undecided and not ctypes.c_int.from_address(picture + _SECOND_FIELD_AT).value:
                self._judge(surface, wait=True)
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
            # No timestamp tells the packet: the parser hands them out sorted, and to hidden pictures as well.
            number = self._shown_of(shown.surface) if self._in_order else self._inside[shown.surface]
            self._touched |= not self._in_order
            if number in self._wanted:
                self._waiting.append(_PendingReports(number, decoder, shown))
        except BaseException as error:
            self._error = error
            return 0
        return 1

    def _shown_of(self, surface: int) -> int:
        """The packet whose picture is shown, where packets show theirs in their order.

        A surface holds one picture that is still to be shown for the first time. If none, a picture is shown once more,
        or one that was hidden until now: for the first packet that has to show an earlier one. Packets before it whose
        turn is over have shown nothing.
        """
        packets, surfaces = list(self._due), list(self._due.values())
        wanted = surface if surface in surfaces else _ANY_SURFACE
        if wanted not in surfaces:
            return _NOBODYS
        place = surfaces.index(wanted)
        self._pass_over(packets[:place])
        if self._due.pop(packets[place]) == _ANY_SURFACE:
            self._report(packets[place], damaged=False)
        return packets[place]

    def _pass_over(self, packets: list[int]) -> None:
        """These have shown nothing; an earlier picture that one had to show is missing."""
        for packet in packets:
            if self._due.pop(packet) == _ANY_SURFACE:
                self._report(packet, damaged=True)

    def _map_early(self, decoder: HardwareDecoder, surface: int) -> None:
        """Map what waits in a surface that is about to be decoded into."""
        for waiting in self._waiting:
            if waiting.decoder is decoder and waiting.display.surface == surface:
                waiting.map()

    def _judge(self, surface: int, *, wait: bool) -> bool:
        """Report whether the picture in a surface was decoded without an error; False if that is not known yet."""
        decoder = self._decoder
        if decoder is None:
            return False
        state = decoder.wait(surface) if wait else decoder.state(surface)
        if state == IN_PROGRESS:
            return False
        self._report(self._undecided.pop(surface), damaged=state in FAILED_STATES)
        return True


def _nothing() -> tuple[list[int], list[int], list[DecodedFrame]]:
    return [], [], []
