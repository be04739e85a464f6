"""NvdecDecoder: the PacketDecoder of the card, and the pool in which its sessions wait for the next stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import cast

from ...errors import BackendError
from ..bitstream.bits import BitstreamError
from ..bitstream.elementary import ElementaryStream
from ..gpu.device_surface import DeviceSurface
from ..index import PacketIndex
from ..packet_decoder import Decoded, DecodeError, PacketDecoder
from ..surface import SurfaceFormat, surface_format
from .caps import mistrust, refusal
from .cuvid import CODECS
from .hardware import Mapped
from .session import Event, Session

__all__ = ["IN_USE", "CardDecoders", "NvdecDecoder", "NvdecPool"]

IN_USE = 12
"""Pictures of one session that may be referred to while it hands over others."""

_CHROMA_444 = 3


class NvdecDecoder:
    """A session for one stream.

    Args:
        session: a session for its codec.
        index: the stream's index.
    """

    def __init__(self, session: Session, index: PacketIndex) -> None:
        self.session = session
        self._stream = ElementaryStream(index.info.codec, index.extradata)
        self._first = True

    def feed(self, number: int, data: bytes, *, key: bool, wanted: bool = True) -> list[Decoded]:  # noqa: ARG002
        """Decode packet ``number``; the parser knows by itself what a key packet is.

        Raises:
            DecodeError: it cannot be parsed, or the card refused it.
            BackendError: the card cannot decode such a stream.
        """
        try:
            payload = self._stream.packet(data, first=self._first)
        except BitstreamError as error:
            raise DecodeError(str(error)) from error
        self._first = False
        return [_decoded(event) for event in self.session.feed(number, payload, wanted=wanted)]

    def flush(self) -> list[Decoded]:
        """Drain the session; the next packet begins another run."""
        self._first = True
        return [_decoded(event) for event in self.session.finish()]


class NvdecPool:
    """Idle sessions of one card by what they decode, the least recently used given up first.

    Args:
        device: the card's number.
        memory: bytes of the card that idle sessions may hold.
    """

    def __init__(self, device: int, *, memory: int) -> None:
        self._device, self._memory = device, memory
        self._idle: list[tuple[Hashable, Session]] = []
        self._lock = threading.Lock()

    def take(self, index: PacketIndex, stream: int, *, exact: bool) -> NvdecDecoder:
        """A decoder for a stream that no one else uses; the card must be the current one.

        Args:
            index: the stream's index.
            stream: address of the CUDA stream on which pictures are handed over.
            exact: whether to refuse what does not come out as on the CPU.

        Raises:
            BackendError: the card does not decode such a stream.
        """
        if reason := (mistrust if exact else refusal)(self._device, index.info):
            raise BackendError(reason, advice="Use decode='auto', which leaves such files to the CPU")
        key = _key(index)
        with self._lock:
            place = next((i for i in reversed(range(len(self._idle))) if self._idle[i][0] == key), None)
            session = None if place is None else self._idle.pop(place)[1]
        if session is None:
            session = Session(CODECS[index.info.codec], stream, in_use=IN_USE)
        session.use(stream)
        return NvdecDecoder(session, index)

    def give_back(self, index: PacketIndex, decoder: NvdecDecoder) -> None:
        """Keep a flushed session for the next run, and close the oldest ones where they hold too much."""
        surplus = []
        with self._lock:
            self._idle.append((_key(index), decoder.session))
            while len(self._idle) > 1 and sum(session.memory for _, session in self._idle) > self._memory:
                surplus.append(self._idle.pop(0)[1])
        for session in surplus:
            session.close()

    def clear(self) -> None:
        """Close all idle sessions."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, session in idle:
            session.close()


class CardDecoders:
    """The pool as those who decode on some streams see it.

    Args:
        pool: the card's pool.
        stream: makes the card current, and gives the address of the stream to decode on.
        exact: whether to refuse what does not come out as on the CPU.
    """

    def __init__(self, pool: NvdecPool, stream: Callable[[], int], *, exact: bool) -> None:
        self._pool, self._stream, self._exact = pool, stream, exact

    def take(self, index: PacketIndex, threads: int) -> NvdecDecoder:  # noqa: ARG002  the card has no frame threads
        """A decoder for this stream that no one else uses.

        Raises:
            BackendError: the card does not decode such a stream.
        """
        return self._pool.take(index, self._stream(), exact=self._exact)

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:  # noqa: ARG002
        """Keep a flushed decoder for the next run."""
        self._pool.give_back(index, cast("NvdecDecoder", decoder))

    def discard(self, decoder: PacketDecoder) -> None:
        """Close a session that has raised, or that was left in the middle of a run."""
        cast("NvdecDecoder", decoder).session.close()


def _key(index: PacketIndex) -> Hashable:
    """What a session's decoder was created for."""
    info = index.info
    return info.codec, info.pixel_format, info.width, info.height


def _decoded(event: Event) -> Decoded:
    surface = None if event.picture is None else partial(_surface, event.picture)
    return Decoded(event.packet, surface, event.damaged)


def _surface(picture: Mapped, number: int) -> DeviceSurface:
    """Where the planes of a mapped picture lie: luma, then interleaved chroma, or Cb and Cr for 4:4:4."""
    shape, pitch = picture.shape, picture.pitch
    x, y, width, height = shape.area
    form = _format(shape.chroma, shape.bits)
    size = 1 if shape.bits == 8 else 2
    plane = pitch * shape.height
    first = picture.pointer + y * pitch + x * size
    if shape.chroma == _CHROMA_444:
        planes: tuple[int, ...] = (first, first + plane, first + 2 * plane)
    else:
        planes = (first, picture.pointer + plane + y // 2 * pitch + x // 2 * 2 * size)
    return DeviceSurface(
        number=number,
        planes=planes,
        pitch=pitch,
        width=width,
        height=height,
        format=form,
        interleaved=shape.chroma != _CHROMA_444,
        shift=0 if shape.bits == 8 else 16 - shape.bits,
        owner=picture,
    )


def _format(chroma: int, bits: int) -> SurfaceFormat:
    stem = "yuv444p" if chroma == _CHROMA_444 else "yuv420p"
    return surface_format(stem if bits == 8 else f"{stem}{bits}le")
