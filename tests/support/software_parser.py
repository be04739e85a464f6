"""The driver's parser and an engine behind it, for machines without a GPU: libavcodec decodes what they are given."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from typing import Any

import av
import av.error
import numpy as np
from numpy.typing import NDArray

from seqpipe.video.nvdec.cuvid import CODECS, END_OF_STREAM, Display, Packet, VideoFormat
from seqpipe.video.probe.probe import av_packet
from tests.support.cuvid_callbacks import PictureParams

__all__ = [
    "CHROMA",
    "CODEC_NAMES",
    "DONE",
    "FAILED",
    "SoftwareParser",
    "context_of",
    "decoded",
    "laid_down",
    "packet_of",
]

_IN_PROGRESS, DONE, FAILED = 1, 2, 9
_SURFACES = 32
_ROOM = 4  # surfaces that are free, so that none is used again before it is judged
_KEPT = 3  # pictures whose turn has come, and that are shown with later ones
CODEC_NAMES = {number: name for name, number in CODECS.items()}
CHROMA = {"yuv420p": (1, 8), "yuv420p10le": (1, 10), "yuv444p": (3, 8)}
"""cudaVideoChromaFormat and bits of what it decodes."""


class SoftwareParser:
    """A parser and the engine behind it: a picture is decoded before the parser calls back for it.

    As the driver's does where surfaces are few or a key frame comes, it shows several pictures at once, before it has
    the packet decoded that it was given, and has that decoded into a surface that was shown just now.

    Args:
        params: what the driver's is made with.

    Attributes:
        states: cuvidDecodeStatus of what was last decoded into each surface.
        pictures: what is in the surfaces of its present decoder.
    """

    def __init__(self, params: Any) -> None:
        self._codec, self._user = CODEC_NAMES[params.codec], params.user_data
        self._on_sequence, self._on_picture = params.on_sequence, params.on_picture
        self._on_display = params.on_display
        self._context: Any = None
        self._parsed: list[tuple[int, bytes]] = []
        self._judged: dict[int, int] = {}
        self._kept: list[Any] = []
        self._left: tuple[int, int] | None = None
        self._last = 0
        self._form: tuple[Any, ...] = ()
        self._surfaces, self._number, self._taken = 0, 0, False
        self._inside: dict[int, int] = {}
        self._stamps: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        self.states: dict[int, int] = {}
        self.pictures: dict[int, NDArray[np.uint8]] = {}

    def parse(self, packet: Packet, address: int) -> None:
        """Take a packet, and call back."""
        if packet.flags & END_OF_STREAM:
            self._end()
            return
        begin = c_void_p.from_address(address + Packet.payload.offset).value
        number = self._number = self._number + 1
        data = ctypes.string_at(begin or 0, packet.size)
        self._announce(data)
        self._parsed.append((number, data))
        self._context = self._context or context_of(self._codec)
        frames, taken = decoded(self._context, packet_of(number, data))
        self._judge(frames)
        self._kept += frames
        if len(self._kept) > _KEPT:
            own = [frame for frame in self._kept if frame.pts >= number]  # it is not decoded yet
            self._show([frame for frame in self._kept if frame.pts < number])
            self._kept = own
        surface = self._free()
        self._stamps[number], self._taken = packet.timestamp, taken
        picture = PictureParams(surface=surface)
        if self._on_picture(self._user, ctypes.addressof(picture)) and taken:
            self._inside[number] = self._judged[number] = surface
        self._judge([frame for frame in frames if frame.pts == number])

    def _end(self) -> None:
        if self._context is not None:
            rest = decoded(self._context, None)[0]
            self._judge(rest)
            self._show([*self._kept, *rest])
        for surface in self._judged.values():  # libavcodec does not give them
            self.states[surface] = FAILED
        self._context, self._kept, self._parsed, self._inside, self._judged = None, [], [], {}, {}

    def decode(self, surface: int) -> None:
        """Begin to decode into a surface; what was in it is gone."""
        self._numbers[surface] = self._number
        self.states[surface] = _IN_PROGRESS if self._taken else FAILED
        width, height, _ = self._form
        self.pictures[surface] = np.full((3 * (height + 16), 2 * width + 512), 0x33, np.uint8)

    def finish(self, surface: int) -> None:
        """Let it be known how decoding into a surface went; an engine decodes in order: of all before it, too."""
        last = self._numbers[surface]
        if min(self._judged, default=last + 1) > last:
            return
        context = context_of(self._codec)
        for number, data in self._parsed:
            self._judge(decoded(context, packet_of(number, data))[0])
        self._judge(decoded(context, None)[0])
        failed = [number for number in self._judged if number <= last]  # libavcodec does not give them
        for number in failed:
            self.states[self._judged.pop(number)] = FAILED

    def _free(self) -> int:
        """A surface that nothing is in, shown just now if there is one; else that of a picture that will never come.

        An engine decodes in order, so where the picture in a surface is finished all before it are.
        """
        if self._left is not None:
            (number, surface), self._left = self._left, None
            if number < min(self._judged, default=self._number):
                return surface
        if len(self._inside) >= self._surfaces - _ROOM:
            del self._inside[min(self._inside)]
        while self._last % self._surfaces in self._inside.values():
            self._last += 1
        self._last += 1
        return (self._last - 1) % self._surfaces

    def _judge(self, frames: list[Any]) -> None:
        """These are finished."""
        for frame in frames:
            if (surface := self._judged.pop(frame.pts, None)) is not None:
                self.states[surface] = FAILED if frame.is_corrupt else DONE

    def _announce(self, data: bytes) -> None:
        """Call back if a packet begins a stream of another form, after all of the stream before it."""
        context = context_of(self._codec)
        decoded(context, packet_of(0, data))
        # where there is no form yet, PyAV 17 asks for its name nevertheless, and the process ends
        form = (context.width, context.height, context.pix_fmt) if context.width else self._form
        if form == self._form:
            return
        self._end()
        self._form = form
        chroma, bits = CHROMA[context.pix_fmt.replace("yuvj", "yuv")]
        announced = VideoFormat(
            codec=CODECS[self._codec],
            chroma=chroma,
            luma_bits_minus_8=bits - 8,
            chroma_bits_minus_8=bits - 8,
            min_surfaces=_SURFACES,
            coded_width=-(-context.width // 16) * 16,
            coded_height=-(-context.height // 16) * 16,
        )
        announced.display_area.right, announced.display_area.bottom = context.width, context.height
        self._surfaces = self._on_sequence(self._user, ctypes.pointer(announced))

    def _show(self, frames: list[Any]) -> None:
        for frame in frames:
            if (surface := self._inside.pop(frame.pts, None)) is None:
                continue
            self.pictures[surface] = laid_down(frame)
            display = Display(surface=surface, progressive=1, timestamp=self._stamps.pop(frame.pts))
            self._on_display(self._user, ctypes.pointer(display))
            self._left = frame.pts, surface


def context_of(codec: str) -> Any:
    context: Any = av.CodecContext.create(codec, "r")
    context.thread_count = 1
    context.options = {"strict": "1"} if codec == "h264" else {"err_detect": "crccheck+explode"}
    return context


def packet_of(number: int, data: bytes) -> Any:
    packet = av_packet(data)
    packet.pts = number
    return packet


def decoded(context: Any, packet: Any) -> tuple[list[Any], bool]:
    try:
        return context.decode(packet), True
    except av.error.FFmpegError:
        return [], False


def laid_down(frame: Any) -> NDArray[np.uint8]:
    """A picture as NVDEC lays it down: NV12, P016, or three planes; rows of bytes, below them rubbish."""
    planes = [np.asarray(plane) for plane in _planes(frame)]
    rows, columns = planes[0].shape
    coded_rows = -(-rows // 16) * 16
    separate = planes[1].shape == planes[0].shape
    if not separate:
        both = np.stack(planes[1:], axis=-1)
        planes[1:] = [both.reshape(both.shape[0], -1)]
    pitch = -(-columns * planes[0].itemsize // 256) * 256 + 256
    heights = [coded_rows] * 3 if separate else [coded_rows, coded_rows // 2]
    out = np.full((sum(heights), pitch), 0x55, np.uint8)
    begin = 0
    for plane, height in zip(planes, heights, strict=True):
        line = plane.view(np.uint8).reshape(plane.shape[0], -1)
        out[begin : begin + plane.shape[0], : line.shape[1]] = line
        begin += height
    return out


def _planes(frame: Any) -> list[NDArray[Any]]:
    wide = frame.format.name.endswith("10le")
    planes = []
    for plane in frame.planes:
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height]
        if wide:
            planes.append(np.ascontiguousarray(rows[:, : 2 * plane.width]).view("<u2") << 6)
        else:
            planes.append(np.ascontiguousarray(rows[:, : plane.width]))
    return planes
