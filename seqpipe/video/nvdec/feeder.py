"""Feeder: protocol that feeds packets to the driver's parser and returns decoded frames."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from functools import cache
from itertools import chain
from typing import Any, Protocol

import numpy as np

from ...array import BoolArray, IntArray
from ...core.native import buffer_of
from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..decode.packets import DecodeError, DecodeResult, FedPacket
from .hardware import HardwareDecoder

__all__ = ["MOST_FRAMES_PER_STEP", "Feeder", "PacketArrays", "PacketBatch", "PendingFrames"]

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
        """Return the display role of a packet, see :mod:`seqpipe.video.bitstream.elementary`."""
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


# Forms of a packet, see feeder.c.
_READY, _LENGTH_PREFIXED, _UNSUPPORTED = 0, 1, 6
# Flags of a packet, see fused_run.c.
_WANTED, _TRACKED, _UNDECODABLE = 1, 2, 4
_LENGTH_BYTES = 4


class PacketArrays:
    """Packets as C arrays; C replaces length prefixes of 4 bytes by start codes.

    Args:
        numbers: packet numbers.
        data: bytes of the packets.
        wanted: whether each packet's frame is wanted.
        stream: form of the packets.
    """

    def __init__(
        self, numbers: Iterable[int], data: Seq[bytes], wanted: Iterable[bool], stream: ElementaryStream
    ) -> None:
        count = len(data)
        integers = _array(ctypes.c_int64, count)
        self._data = _array(ctypes.c_char_p, count)(*data)
        self._sizes = integers(*map(len, data))
        self._numbers, self._wanted = integers(*numbers), bytes(wanted)
        prefixed = _LENGTH_PREFIXED if stream.lengths == _LENGTH_BYTES else _UNSUPPORTED
        self._forms = _array(ctypes.c_uint8, count)(*[prefixed if stream.lengths else _READY] * count)
        self._roles = stream.roles(data)

    @classmethod
    def of(cls, batch: PacketBatch) -> PacketArrays:
        """Return the arrays of a batch.

        Raises:
            DecodeError: decoding starts with the first packet, and this is malformed.
        """
        numbers, data, _, wanted = zip(*batch.packets, strict=True)
        arrays = cls(numbers, data, wanted, batch.stream)
        if batch.first:
            arrays.replace(0, batch.payload(0))
        return arrays

    def replace(self, index: int, payload: bytes) -> None:
        """Replace a packet by the form that the parser takes."""
        self._data[index], self._sizes[index], self._forms[index] = payload, len(payload), _READY

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the C functions."""
        return (
            len(self._wanted),
            self._data,
            self._sizes,
            self._numbers,
            self._wanted,
            self._forms,
            self._roles,
        )


class PendingFrames:
    """Frames and reports that a fused run has to produce.

    Args:
        wanted: indices of the packets whose frames are wanted.
        targets: for each of these, all target frames: the address, and the index of the painting's conversion.
        tracked: for each packet, whether the decoder must report the state of its frame.
        undecodable: for each packet, whether its frame cannot be decoded and may be reported as damaged.
    """

    def __init__(
        self,
        wanted: IntArray,
        targets: Seq[Seq[tuple[int, int]]],
        tracked: BoolArray,
        undecodable: BoolArray,
    ) -> None:
        self._flags = tracked * np.uint8(_TRACKED) | undecodable * np.uint8(_UNDECODABLE)
        self._flags[wanted] |= _WANTED
        self._begins = np.zeros(len(tracked) + 1, np.int64)
        self._begins[wanted + 1] = list(map(len, targets))
        np.cumsum(self._begins, out=self._begins)
        values = chain.from_iterable(chain.from_iterable(targets))
        self._targets = np.fromiter(values, np.uint64, 2 * int(self._begins[-1]))

    @property
    def wanted(self) -> Iterable[bool]:
        """Whether each packet's frame is wanted."""
        wanted: list[bool] = (self._flags & _WANTED).tolist()
        return wanted

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the C function, which clears the flags of what it has produced."""
        return buffer_of(self._flags), buffer_of(self._begins), buffer_of(self._targets)


@cache
def _array(kind: Any, count: int) -> Callable[..., Any]:
    """Return a ctypes array type, memoized: creating the type takes longer than filling an array."""
    array: Callable[..., Any] = kind * count
    return array
