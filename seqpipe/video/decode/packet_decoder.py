"""Protocol of packet decoders on any device, and the packets and results that they exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from typing import NamedTuple, Protocol

from ..convert.surface import AnySurface
from ..packet_index import PacketIndex

__all__ = ["DecodeError", "DecodeResult", "DecodedFrame", "Decoders", "FedPacket", "PacketDecoder"]


class DecodeError(Exception):
    """A decoder refused a packet. Internal: users see the frames that depend on it as lost.

    Args:
        fact: the decoder's message.
        packet: the packet's number, if the decoder knows it.
    """

    def __init__(self, fact: str, *, packet: int | None = None) -> None:
        super().__init__(fact)
        self.packet = packet


class FedPacket(NamedTuple):
    """Packet for a decoder.

    Attributes:
        number: packet number, returned with its frame.
        data: bytes of the packet as stored in the container.
        key: whether decoding can start at it.
        wanted: whether its frame is wanted; a decoder may also return unwanted frames.
    """

    number: int
    data: bytes
    key: bool
    wanted: bool


class DecodedFrame(NamedTuple):
    """Frame returned by a decoder.

    Attributes:
        packet: number of its packet.
        surface: creates the surface for a given frame number; owns the frame's memory.
    """

    packet: int
    surface: Callable[[int], AnySurface]


class DecodeResult(NamedTuple):
    """Results of packets that were fed.

    Attributes:
        decoded: packets whose decoding has finished, damaged or not.
        damaged: those of them whose frames are incomplete or concealed.
        frames: decoded frames in presentation order.
    """

    decoded: Seq[int]
    damaged: Seq[int]
    frames: Seq[DecodedFrame]


class PacketDecoder(Protocol):
    """Decoder from packets to frames; belongs to one thread at a time.

    ``feed`` packets in decode order starting at a key packet, then ``flush``; after that the decoder takes the next
    run. Frame buffers are few: release the frames of a result before asking for the next one. A decoder that has raised
    is not used again.
    """

    def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        """Decode packets, and yield results as they become available.

        Raises:
            DecodeError: a packet cannot be decoded; those before it are.
        """

    def flush(self) -> Iterator[DecodeResult]:
        """Yield the remaining results, and prepare the decoder for another run.

        Raises:
            DecodeError: a remaining packet cannot be decoded.
        """


class Decoders(Protocol):
    """Thread-safe pool of decoders.

    A decoder that has raised, or that was abandoned in the middle of a run, is not given back but dropped. Nothing is
    called for it: Python loses a Ctrl-C that arrives while it runs the ``finally`` of an abandoned generator.
    """

    def take(self, index: PacketIndex, threads: int) -> PacketDecoder:
        """Return a decoder for the caller's exclusive use.

        Raises:
            BackendError: there is no decoder for the stream.
        """

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:
        """Keep a flushed decoder for the next run."""
