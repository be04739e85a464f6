"""Session: the driver's parser and a decoder of the card, fed packet by packet.

A picture is called sound only on the card's word. The card decodes in order, so once a picture has been handed over,
all that were decoded before it are finished, and each has said whether it came to an end without an error.

No exception can pass through the driver: what the callbacks raise is kept, and raised when the driver has returned.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from ...errors import BackendError
from ..packet_decoder import DecodeError
from .cuvid import (
    CODECS,
    DISPLAY,
    END_OF_PICTURE,
    END_OF_STREAM,
    FAILED_STATES,
    IN_PROGRESS,
    PICTURE,
    SEQUENCE,
    TIMESTAMP,
    Cuvid,
    Display,
    Packet,
    ParserParams,
    Picture,
    VideoFormat,
    load,
)
from .hardware import HardwareDecoder, Mapped, StreamShape

__all__ = ["Event", "Session"]

# the parser is told the true number once it has seen the stream
_DECODE_SURFACES = 20
_DISPLAY_DELAY = 4
# VP9 and AV1 show pictures in the order of their packets, and may show one from before once more.
_IN_ORDER = frozenset({CODECS["vp9"], CODECS["av1"]})
_SURFACE_AT = Picture.surface.offset
_SECOND_FIELD_AT = Picture.is_second_field.offset


@dataclass(frozen=True, slots=True)
class Event:
    """Something that became known of a packet.

    Attributes:
        packet: its number.
        picture: its picture, if it was wanted.
        damaged: the card, or the parser, says that the picture is not as it was coded.
    """

    packet: int
    picture: Mapped | None
    damaged: bool


class Session:
    """A parser with its decoder, for one kind of codec; used for one stream after another by one thread at a time.

    Args:
        codec: cudaVideoCodec.
        stream: address of the CUDA stream on which pictures are handed over.
        in_use: how many pictures may be in use while others are handed over.

    Raises:
        BackendError: the driver has no parser for it.
    """

    def __init__(self, codec: int, stream: int, *, in_use: int) -> None:
        self._cuvid: Cuvid = load()
        self._stream, self._in_use = stream, in_use
        self._decoder: HardwareDecoder | None = None
        self._error: Exception | None = None
        self._wanted: set[int] = set()
        self._number = -1
        self._touched = False
        self._in_order = codec in _IN_ORDER
        self._inside: dict[int, int] = {}
        self._unchecked: dict[int, int] = {}
        self._events: list[Event] = []
        self._packet = Packet()
        self._packet_address = ctypes.addressof(self._packet)
        callbacks = SEQUENCE(self._on_sequence), PICTURE(self._on_picture), DISPLAY(self._on_display)
        self._callbacks: tuple[object, ...] = callbacks  # the parser does not keep them alive
        self._parser = ctypes.c_void_p()
        params = ParserParams(
            codec=codec,
            decode_surfaces=_DECODE_SURFACES,
            display_delay=_DISPLAY_DELAY,
            on_sequence=callbacks[0],
            on_picture=callbacks[1],
            on_display=callbacks[2],
        )
        code = self._cuvid.create_parser(ctypes.byref(self._parser), ctypes.byref(params))
        if code:
            raise BackendError(f"NVDEC has no parser for codec {codec}: CUDA error {code}")

    def feed(self, number: int, data: bytes, *, wanted: bool) -> list[Event]:
        """Parse one packet, and begin to decode it.

        Args:
            number: the packet's number, which comes back with its picture.
            data: one frame or field of the elementary stream.
            wanted: whether the picture is to be handed over.

        Raises:
            DecodeError: the card refused it.
            BackendError: the card refused the stream.
        """
        if wanted:
            self._wanted.add(number)
        self._number, self._touched = number, False
        events = self._parse(TIMESTAMP | END_OF_PICTURE, data, number)
        if not self._touched:
            events.append(Event(number, None, damaged=True))
        return events

    def finish(self) -> list[Event]:
        """Hand over what is left, and make ready for another stream.

        Raises:
            DecodeError: the card refused something.
        """
        events = self._parse(END_OF_STREAM, b"", 0)
        self._events = events
        for surface in list(self._unchecked):
            self._judge(surface, wait=True)
        self._wanted.clear()
        self._unchecked.clear()
        self._inside.clear()
        self._events = []
        return events

    def use(self, stream: int) -> None:
        """Hand pictures over on another CUDA stream from now on."""
        self._stream = stream
        if self._decoder is not None:
            self._decoder.use(stream)

    @property
    def memory(self) -> int:
        """About how many bytes of the card it holds."""
        return self._decoder.memory if self._decoder is not None else 0

    def close(self) -> None:
        """Destroy the parser, and the decoder once no picture of it is in use."""
        if self._parser:
            self._cuvid.destroy_parser(self._parser)
            self._parser = ctypes.c_void_p()
        self._decoder, self._callbacks = None, ()

    def _parse(self, flags: int, data: bytes, number: int) -> list[Event]:
        events: list[Event] = []
        self._events = events
        packet = self._packet
        packet.flags, packet.size, packet.payload, packet.timestamp = flags, len(data), data, number
        code = self._cuvid.parse(self._parser, self._packet_address)
        self._events = []  # those that are given out hold pictures, which must not be held here
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if code:
            raise DecodeError(f"NVDEC's parser gives up with CUDA error {code}")
        return events

    def _on_sequence(self, _: int, form: ctypes._Pointer[VideoFormat]) -> int:
        try:
            decoder = self._configure(StreamShape.of(form.contents))
        except Exception as error:
            self._error = error
            return 0
        return decoder.surfaces

    def _configure(self, shape: StreamShape) -> HardwareDecoder:
        if self._decoder is not None and self._decoder.take(shape):
            return self._decoder
        for surface in list(self._unchecked):
            self._judge(surface, wait=True)
        self._decoder = None  # it goes when the last of its pictures does
        self._decoder = decoder = HardwareDecoder(
            self._cuvid,
            shape,
            stream=self._stream,
            ahead=_DISPLAY_DELAY,
            in_use=self._in_use,
        )
        return decoder

    def _on_picture(self, _: int, picture: int) -> int:
        try:
            decoder = self._decoder
            if decoder is None:
                return 0
            surface = ctypes.c_int.from_address(picture + _SURFACE_AT).value
            if surface in self._unchecked and not ctypes.c_int.from_address(picture + _SECOND_FIELD_AT).value:
                self._judge(surface, wait=True)
            code = decoder.decode(picture)
            if code:
                self._error = DecodeError(f"NVDEC refuses it with CUDA error {code}")
                return 0
            self._unchecked[surface] = self._inside[surface] = self._number
            self._touched = True
        except Exception as error:
            self._error = error
            return 0
        return 1

    def _on_display(self, _: int, display: ctypes._Pointer[Display]) -> int:
        try:
            if not display or self._decoder is None:
                return 1
            shown = display.contents
            # The parser hands timestamps out sorted, so where pictures are reordered only the surface tells the packet.
            number: int = shown.timestamp if self._in_order else self._inside[shown.surface]
            self._touched = True
            if number in self._wanted:
                picture = self._decoder.map(shown)
                for surface in list(self._unchecked):
                    if not self._judge(surface, wait=False):
                        break
                self._events.append(Event(number, picture, damaged=False))
        except Exception as error:
            self._error = error
            return 0
        return 1

    def _judge(self, surface: int, *, wait: bool) -> bool:
        """Report whether the picture in a surface was decoded without an error; False if that is not known yet."""
        decoder = self._decoder
        if decoder is None:
            return False
        state = decoder.wait(surface) if wait else decoder.state(surface)
        if state == IN_PROGRESS:
            return False
        self._events.append(Event(self._unchecked.pop(surface), None, state in FAILED_STATES))
        return True
