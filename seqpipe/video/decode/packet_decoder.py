"""PacketDecoder: protocol of decoders from packets to frames, on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

from ..convert.surface import AnySurface
from ..packet_index import PacketIndex

__all__ = ["DecodeError", "DecodeResult", "DecodedFrame", "Decoders", "FedPacket", "PacketDecoder"]


class DecodeError(Exception):
    """A decoder refused a packet; internal, the engine turns it into what the user sees.

    Args:
        fact: what it said.
        packet: the packet's number, where the decoder knows it.
    """

    def __init__(self, fact: str, *, packet: int | None = None) -> None:
        super().__init__(fact)
        self.packet = packet


class FedPacket(NamedTuple):
    """A packet for a decoder.

    Attributes:
        number: comes back with its picture.
        data: its bytes, as the container has them.
        key: whether decoding can start at it.
        wanted: whether its picture is to be handed out; a decoder may hand it out all the same.
    """

    number: int
    data: bytes
    key: bool
    wanted: bool


class DecodedFrame(NamedTuple):
    """A picture that came out.

    Attributes:
        packet: the number of its packet.
        surface: makes the surface, given its frame number, and owns the picture.
    """

    packet: int
    surface: Callable[[int], AnySurface]


class DecodeResult(NamedTuple):
    """What became known of packets that were fed.

    Attributes:
        decoded: those of which it is known how decoding them went.
        damaged: those among them of whose pictures the decoder had to invent parts.
        pictures: in presentation order.
    """

    decoded: Seq[int]
    damaged: Seq[int]
    pictures: Seq[DecodedFrame]


class PacketDecoder(Protocol):
    """Turns packets into pictures; belongs to one thread at a time.

    ``feed`` packets in decode order starting at a key packet, then ``flush``; after that the decoder takes the next
    run. Pictures are few: a step's are let go before the next step is asked for. One that has raised is thrown away.
    """

    def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        """Decode packets, and tell as it goes what became known.

        Raises:
            DecodeError: one of them cannot be decoded; those before it are.
        """

    def flush(self) -> Iterator[DecodeResult]:
        """Tell what is still inside, and, at the end of that, make ready for another run.

        Raises:
            DecodeError: something of it cannot be decoded.
        """


class Decoders(Protocol):
    """Where decoders are taken from and given back to; any thread may do so.

    One that has raised, or that was left in the middle of a run, is not given back but forgotten. No function is called
    for it then: where a generator is abandoned, Python would lose a Ctrl-C that arrives while one runs.
    """

    def take(self, index: PacketIndex, threads: int) -> PacketDecoder:
        """A decoder for this stream that no one else uses.

        Raises:
            BackendError: there is none for it.
        """

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:
        """Keep a flushed decoder for the next run."""
