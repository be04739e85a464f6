"""CPU PacketDecoder: libavcodec through PyAV, fed packet by packet.

A limit: libavcodec's HEVC decoder gives no sign of a slice that ends early, as one wrong bit makes it do, and leaves in
the picture what the memory of its frame buffer held. That depends on the pictures before, so such a frame may look
otherwise where others are asked for with it. PyAV does not let memory be given to a decoder, and holding on to
pictures, so that none comes into used memory, would take gigabytes. Streams with checksums of their pictures
(``hash=1`` of x265) do not have it: there the frame is lost. Nor does libavcodec tell where it fills a damaged slice of
FFV1 without checksums (``slicecrc=0``, and versions before 3) from the picture before.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

import av
import av.codec
import av.error
import av.packet
from av.codec.context import CodecContext

from ...errors import BackendError
from ..av_packet import av_packet, set_extradata
from ..bitstream import REPLENISHED
from ..bitstream.ffv1 import ffv1_is_sound, ffv1_may_check
from ..bitstream.mpeg import frame_size, mpeg4_interlaced
from ..convert.surface import Surface
from ..packet_index import PacketIndex
from ..probe.probe import bounded
from .packet_decoder import DecodedFrame, DecodeError, DecodeResult, FedPacket

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

__all__ = ["CpuDecoder"]

# libavcodec's own "av1" only drives hardware; these decode on the CPU.
_DECODERS = {"av1": ("libdav1d", "libaom-av1", "av1")}

_PALETTE = 0
"""FFmpeg's number of that kind of side data."""

_OPTIONS = {
    # Without reorder limits in its headers, libavcodec guesses H.264's delay and drops what comes late.
    "h264": {"strict": "1"},
    # HEVC may carry a checksum of every picture: a wrong one is damage, not a line in a log.
    "hevc": {"err_detect": "crccheck+explode"},
    # Else a scan that breaks off is shown as far as it goes.
    "mjpeg": {"err_detect": "explode"},
}
_OPTIONS_WITH_THREADS = {
    # One thread gives a picture out while another has yet to find that it is damaged: the flag may come too late, an
    # error never does. With one thread the flag does, and faulty SEI messages are no errors.
    "h264": {"strict": "1", "err_detect": "explode"},
    "mpeg4": {"err_detect": "explode"},
}


# What is left behind by damage that libavcodec does not notice outlives its flush: headers, maps of macroblocks, and
# pictures that a broken slice leaves parts of untouched, in buffers that are used again. So these, and streams whose
# headers stand among their pictures, are opened anew for each run; for others that costs more than it is worth.
_KEEPS_STATE = REPLENISHED | {
    *("ffv1", "flv1", "h263", "h263i", "h263p", "hevc", "mpeg1video", "mpeg2video", "mpeg4"),
    *("msmpeg4v1", "msmpeg4v2", "msmpeg4v3", "rv10", "rv20", "vp8", "wmv1", "wmv2"),
}

_BEGINS_ANEW = {"mpeg1video", "mpeg2video", "mpeg4"}
"""Whose decoder forgets the pictures that it has yet to give out where the size of frames changes."""


class CpuDecoder:
    """One libavcodec decoder, opened from the index alone.

    Args:
        index: the stream's index.
        threads: 1, or the number of frame threads for one long run, which are used where they change nothing.

    Raises:
        BackendError: PyAV's FFmpeg was built without a decoder for this codec.
    """

    def __init__(self, index: PacketIndex, threads: int = 1) -> None:
        if threads > 1 and _threads_differ(index):
            threads = 1
        self._palettes = index.palettes
        self._codec = index.info.codec
        self._size: tuple[int, int] | None = None
        self.threads = threads
        self._checked = self._codec == "ffv1" and ffv1_may_check(index.extradata)
        self._begins_anew = self._codec in _KEEPS_STATE or not index.extradata
        self._open = partial(_opened, index, threads)
        self._context: VideoCodecContext | None = self._open()

    def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        """Decode packets; their pictures come out whether they are wanted or not.

        Raises:
            DecodeError: libavcodec refused one of them, or with threads: one that was fed shortly before.
        """
        for number, data, key, _ in packets:
            if self._checked and not ffv1_is_sound(data):
                raise DecodeError("the checksum of a slice is wrong", packet=number)
            packet = av_packet(data)
            # The pts only has to come back with the frame: the packet's own number is unique, a real pts need not be.
            packet.pts = packet.dts = number
            # PNG in QuickTime adds the previous picture to one that is not marked as a key frame.
            packet.is_keyframe = key
            if self._palettes:
                packet.set_sidedata(_palette(self._palettes, number))
            if key and self._codec in _BEGINS_ANEW and self._is_of_another_size(data):
                yield from self.flush()
            result = self._decode(packet, number)
            if result.decoded:
                yield result

    def flush(self) -> Iterator[DecodeResult]:
        """Drain the decoder and reset it."""
        rest = self._decode(None)
        if self._begins_anew:
            self._context = None
        elif self._context is not None:
            self._context.flush_buffers()
        yield rest

    def _is_of_another_size(self, data: bytes) -> bool:
        before, size = self._size, frame_size(self._codec, data)
        self._size = size or before
        return None not in (before, size) and size != before

    def _decode(self, packet: av.Packet[Any] | None, number: int | None = None) -> DecodeResult:
        if self._context is None:
            self._context = self._open()
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            raise DecodeError(error.strerror or str(error), packet=number) from error
        pictures = [
            DecodedFrame(frame.pts, partial(Surface.of, frame)) for frame in frames if frame.pts is not None
        ]
        damaged = [frame.pts for frame in frames if frame.is_corrupt and frame.pts is not None]
        return DecodeResult([picture.packet for picture in pictures], damaged, pictures)


def _opened(index: PacketIndex, threads: int) -> VideoCodecContext:
    info = index.info
    context = cast("VideoCodecContext", CodecContext.create(_decoder_name(info.codec), "r"))
    set_extradata(context, index.extradata)
    context.codec_tag = index.codec_tag
    context.bits_per_coded_sample = index.coded_bits
    context.width, context.height = info.width, info.height
    if not info.pixel_format.startswith("yuvj"):
        context.pix_fmt = info.pixel_format
    context.thread_count = threads
    context.thread_type = "FRAME" if threads > 1 else "SLICE"
    options = _OPTIONS.get(info.codec, {})
    context.options = bounded(_OPTIONS_WITH_THREADS.get(info.codec, options) if threads > 1 else options)
    return context


def _palette(palettes: Seq[tuple[int, bytes]], number: int) -> av.packet.PacketSideData:
    """What a decoder looks for beside a packet; containers keep a palette with the first packet that it is for."""
    place = bisect.bisect_right(palettes, number, key=itemgetter(0)) - 1
    _, colors = palettes[max(0, place)]
    make: Any = av.packet.PacketSideData  # its stub does not say what it takes
    data: av.packet.PacketSideData = make(_PALETTE, len(colors))
    data.update(colors)
    return data


def _threads_differ(index: PacketIndex) -> bool:
    """Whether frame threads give other pictures: those of MPEG-4 do not tell one another how long a frame is."""
    if index.info.codec != "mpeg4":
        return False
    return mpeg4_interlaced(index.extradata)


@cache
def _decoder_name(codec: str) -> str:
    for name in _DECODERS.get(codec, (codec,)):
        try:
            return av.codec.Codec(name, "r").name
        except av.codec.codec.UnknownCodecError:
            continue
    raise BackendError(
        f"FFmpeg {av.ffmpeg_version_info} in PyAV {av.__version__} has no decoder for {codec}",
        advice="Install PyAV's own wheel (pip install --force-reinstall av), or convert the file",
    )
