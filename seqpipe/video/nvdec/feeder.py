"""Feeder: protocol that feeds packets to the driver's parser and returns decoded frames."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Protocol

from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..decode.packet_decoder import DecodeError, DecodeResult, FedPacket
from .hardware import HardwareDecoder

__all__ = ["MOST_OF_A_STEP", "Feeder", "PacketBatch"]

MOST_OF_A_STEP = 8
"""After so many pictures feeding pauses at the latest, so that they can be used before there are too many of them."""


class PacketBatch:
    """Packets to be fed.

    Args:
        packets: the packets, as the container has them.
        stream: makes an elementary stream of them.
        first: whether decoding starts with the first of them.
    """

    def __init__(self, packets: Seq[FedPacket], stream: ElementaryStream, *, first: bool) -> None:
        self.packets, self.stream, self.first = packets, stream, first

    def __len__(self) -> int:
        return len(self.packets)

    def role(self, place: int) -> int:
        """What a packet shows; see :mod:`seqpipe.video.bitstream.display`."""
        return self.stream.roles([self.packets[place].data])[0]

    def payload(self, place: int) -> bytes:
        """A packet of the elementary stream.

        Raises:
            DecodeError: the packet is not what the container promises.
        """
        packet = self.packets[place]
        try:
            return self.stream.packet(packet.data, first=self.first and place == 0)
        except BitstreamError as error:
            raise DecodeError(str(error), packet=packet.number) from error


class Feeder(Protocol):
    """Belongs to one session. A picture is called sound only on the GPU's word.

    The GPU decodes in order, so once a picture has been handed over, all that were decoded before it are finished,
    and each has said whether it came to an end without an error. These reports come with the picture, or before it.

    The parser may say of several pictures at once that their turn has come: of all that a key frame finds inside, or
    the end of a stream. Handing one over takes memory of the GPU, so they wait in the surfaces that they were decoded
    into, and nothing is fed until all are handed over, a step at a time. Only with the packet that has brought them may
    the parser have another picture decoded into such a surface: what waits in it is handed over early.

    Attributes:
        on_picture: pfnDecodePicture for the parser.
        on_display: pfnDisplayPicture for the parser.
        user_data: what the parser gives all of its callbacks.
    """

    on_picture: Any
    on_display: Any
    user_data: int | None

    @property
    def anew(self) -> bool:
        """Whether the packet that is being parsed needs none before it."""

    def asks(self, announce: Any) -> Any:
        """What the parser calls back with a stream: pfnSequenceCallback.

        Args:
            announce: what is called for a stream, at least if it is unlike the one before; it is to be kept alive.
        """

    def start(self, parser: int) -> None:
        """Use a parser that was made with these callbacks."""

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Decode with a decoder from now on, and for its shape; if it is another one, everything is settled."""

    def feed(self, batch: PacketBatch, begin: int) -> tuple[int, DecodeResult]:
        """Hand over pictures that wait, and feed packets from a place on, until enough pictures have come.

        Returns:
            How many were fed, at least one unless pictures have come, and what became known.

        Raises:
            DecodeError: the GPU or its parser refused the last one that was fed, or the next one cannot be.
            BackendError: the GPU could not hand over a picture.
        """

    def finish(self) -> tuple[bool, DecodeResult]:
        """Hand over some of what is left; with the last of it, make ready for another stream.

        Returns:
            Whether that was the last, and what became known.

        Raises:
            DecodeError: the GPU or its parser refused something.
            BackendError: the GPU could not hand over a picture.
        """

    def wait_decoded(self) -> None:
        """Wait for all that is being decoded, and report on it; called by the parser, while feeding."""

    def stop(self) -> None:
        """Feed nothing more of what was given: the parser's stream cannot be decoded."""

    def close(self) -> None:
        """Give back what it holds; the parser is gone."""
