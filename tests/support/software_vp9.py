"""The driver's parser of VP9 and an engine behind it, for machines without a GPU: with hidden pictures.

As NVIDIA's published parsers do: every picture has a surface, hidden ones as well; a picture waits for a while before
it is shown; the timestamp of a packet goes to the first picture in it, shown or hidden, and later ones are guessed at
30 Hz; who is shown takes the earliest timestamp of all that were not shown yet.
"""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqpipe.video.bitstream.bits import BitstreamError
from seqpipe.video.bitstream.vpx import _frames, _header
from seqpipe.video.nvdec.cuvid import CODECS, END_OF_STREAM, Display, Packet, VideoFormat
from tests.support.cuvid_callbacks import PictureParams
from tests.support.software_parser import CHROMA, DONE, FAILED, context_of, decoded, laid_down, packet_of

__all__ = ["SoftwareVp9Parser"]

_SURFACES = 10
_DELAY = 2
_GUESSED_DURATION = 333_333


class SoftwareVp9Parser:
    """See :class:`tests.support.software_parser.SoftwareParser`.

    Args:
        params: what the driver's is made with.

    Attributes:
        states: cuvidDecodeStatus of what was last decoded into each surface.
        pictures: what is in the surfaces of its present decoder.
    """

    def __init__(self, params: Any) -> None:
        self._user = params.user_data
        self._on_sequence, self._on_picture = params.on_sequence, params.on_picture
        self._on_display = params.on_display
        self._surfaces, self._form = 0, ()
        self.states: dict[int, int] = {}
        self.pictures: dict[int, NDArray[np.uint8]] = {}
        self._reset()

    def _reset(self) -> None:
        self._context: Any = None
        self._slots: dict[int, int] = {}
        self._queue: list[tuple[int, Any]] = []
        self._stamps: dict[int, tuple[int, bool]] = {}
        self._packet_stamp: int | None = None
        self._expected = 0

    def parse(self, packet: Packet, address: int) -> None:
        """Take a packet, and call back."""
        if packet.flags & END_OF_STREAM:
            self._show(0)
            self._reset()
            return
        begin = c_void_p.from_address(address + Packet.payload.offset).value
        data = ctypes.string_at(begin or 0, packet.size)
        self._context = self._context or context_of("vp9")
        self._packet_stamp = packet.timestamp
        frames, taken = decoded(self._context, packet_of(0, data))
        try:
            heads = [(frame[0], _header(frame)) for frame in _frames(data)]
        except BitstreamError:
            return
        if frames:
            self._announce(frames[0])
        for first, header in heads:
            if header.existing:
                if (surface := self._slots.get(first & 7)) is not None and frames:
                    self._queue.append((surface, frames.pop(0)))
            else:
                surface = self._free()
                self._decode(surface, taken)
                self._slots.update({slot: surface for slot in range(8) if header.refresh >> slot & 1})
                if header.shown and frames:
                    self._queue.append((surface, frames.pop(0)))
            self._show(_DELAY)

    def decode(self, surface: int) -> None:
        """Begin to decode into a surface; what was in it is gone."""
        width, height, _ = self._form
        self.pictures[surface] = np.full((3 * (height + 16), 2 * width + 512), 0x33, np.uint8)

    def finish(self, surface: int) -> None:
        """It is finished at once."""

    def _decode(self, surface: int, taken: bool) -> None:
        self.states[surface] = DONE if taken else FAILED
        stamp, self._packet_stamp = self._packet_stamp, None
        self._stamps[surface] = (self._expected, False) if stamp is None else (stamp, True)
        picture = PictureParams(surface=surface)
        self._on_picture(self._user, ctypes.addressof(picture))

    def _free(self) -> int:
        while True:
            used = {*self._slots.values(), *(surface for surface, _ in self._queue)}
            if free := set(range(self._surfaces)) - used:
                return min(free)
            self._show(len(self._queue) - 1)

    def _show(self, most: int) -> None:
        """Show pictures until so many wait at the most."""
        while len(self._queue) > most:
            surface, frame = self._queue.pop(0)
            self.pictures[surface] = laid_down(frame)
            stamp = self._stamp(surface)
            self._expected = stamp + _GUESSED_DURATION
            display = Display(surface=surface, progressive=1, timestamp=stamp)
            self._on_display(self._user, ctypes.pointer(display))

    def _stamp(self, surface: int) -> int:
        stamp, valid = self._stamps.pop(surface, (self._expected, False))
        if not valid:
            return self._expected
        waiting = {other: found for other, (found, known) in self._stamps.items() if known and found < stamp}
        if not waiting:
            return stamp
        earliest = min(waiting, key=lambda other: waiting[other])
        self._stamps[earliest] = stamp, True
        return waiting[earliest]

    def _announce(self, frame: Any) -> None:
        """Call back for a picture of another form, after all that were before it are shown."""
        form = frame.width, frame.height, frame.format.name
        if form == self._form:
            return
        self._show(0)
        self._form = form
        chroma, bits = CHROMA[frame.format.name]
        announced = VideoFormat(
            codec=CODECS["vp9"],
            chroma=chroma,
            luma_bits_minus_8=bits - 8,
            chroma_bits_minus_8=bits - 8,
            min_surfaces=_SURFACES,
            coded_width=-(-frame.width // 16) * 16,
            coded_height=-(-frame.height // 16) * 16,
        )
        announced.display_area.right, announced.display_area.bottom = frame.width, frame.height
        self._surfaces = self._on_sequence(self._user, ctypes.pointer(announced))
