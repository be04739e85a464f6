"""Feeder: protocol that feeds packets to the driver's parser and returns decoded frames."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Protocol

from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..decode.packet_decoder import DecodeError, DecodeResult, FedPacket
from .hardware import HardwareDecoder

__all__ = ["MOST_FRAMES_PER_STEP", "Feeder", "PacketBatch"]

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

    def role(self, index: int) -> int:
        """Return the display role of a packet, see :mod:`seqpipe.video.bitstream.display`."""
        return self.stream.roles([self.packets[index].data])[0]

    def payload(self, index: int) -> bytes:
        """Return a packet in the form of the elementary stream.

        Raises:
            DecodeError: the packet is malformed.
        """
        packet = self.packets[index]
        try:
            return self.stream.packet(packet.data, first=self.first and index == 0)
        except BitstreamError as error:
            raise DecodeError(str(error), packet=packet.number) from error


class Feeder(Protocol):
    """Feeds packets of one session to the parser, and reports frames as undamaged only after the GPU has said so.

    The GPU decodes in order: once a frame is mapped, all frames decoded before it are finished, and their states are
    known. These reports are delivered with the frame, or before it.

    The parser may release several frames for display at once, at a key frame or at the end of a stream. A mapped frame
    takes GPU memory, so they wait in their decode surfaces, and feeding resumes once all are mapped, a step at a time.
    The packet that released them may also decode another frame into such a surface; the waiting frame is mapped early.

    Attributes:
        on_picture: pfnDecodePicture for the parser.
        on_display: pfnDisplayPicture for the parser.
        user_data: pointer that the parser passes to its callbacks.
    """

    on_picture: Any
    on_display: Any
    user_data: int | None

    @property
    def at_key(self) -> bool:
        """Whether the packet being parsed begins with a key frame."""

    def sequence_callback(self, announce: Any) -> Any:
        """Return the parser's pfnSequenceCallback.

        Args:
            announce: called for a stream, at least if it differs from the one before; the caller keeps it alive.
        """

    def start(self, parser: int) -> None:
        """Use a parser that was created with these callbacks."""

    def use(self, decoder: HardwareDecoder | None) -> None:
        """Use a decoder for the stream of its shape; before another decoder, all reports are delivered."""

    def feed(self, batch: PacketBatch, begin: int) -> tuple[int, DecodeResult]:
        """Map waiting frames, and feed packets from an index on, until a step of frames is mapped.

        Returns:
            Number of packets fed, at least one unless frames were mapped, and the decode results.

        Raises:
            DecodeError: the GPU or its parser refused the last packet fed, or the next one is malformed.
            BackendError: the GPU could not map a frame.
        """

    def finish(self) -> tuple[bool, DecodeResult]:
        """Map some of the remaining frames; after the last of them, prepare for another stream.

        Returns:
            Whether this was the last step, and the decode results.

        Raises:
            DecodeError: the GPU or its parser refused something.
            BackendError: the GPU could not map a frame.
        """

    def wait_decoded(self) -> None:
        """Wait for all frames that are being decoded, and report their states; called during a callback."""

    def stop(self) -> None:
        """Stop feeding the packets of the current call: the stream cannot be decoded."""

    def close(self) -> None:
        """Release resources, after the parser was destroyed."""
