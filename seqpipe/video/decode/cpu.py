"""CPU packet decoder: libavcodec through PyAV, fed packet by packet; and the pool of idle decoders.

Known limits: libavcodec's HEVC decoder does not report a slice that ends early, as one flipped bit may cause, and keeps
the old content of the frame buffer in the frame. That content depends on the frames decoded before, so such a frame may
differ with the set of requested frames. PyAV cannot pass frame buffers to a decoder, and keeping all frames alive so
that no buffer is reused would take gigabytes. Streams with picture checksums (``hash=1`` of x265) are not affected:
there the frame is lost. Nor does libavcodec report where it fills a damaged slice of FFV1 without checksums
(``slicecrc=0``, and versions before 3) from the previous frame.
"""

from __future__ import annotations

import bisect
import ctypes
import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from collections.abc import Sequence as Seq
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import av
import av.codec
import av.error
import av.packet
from av.codec.context import CodecContext

from ...errors import BackendError
from ..bitstream.kind import REPLENISHED
from ..bitstream.mpeg import frame_size, mpeg4_interlaced
from ..convert.surface import Surface
from ..packet_index import PacketIndex
from ..probe.probe import av_packet, bounded, set_extradata
from .packets import ALPHA_SIZE_BYTES, DecodedFrame, DecodeError, DecodeResult, FedPacket, PacketDecoder

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

__all__ = ["CpuDecoder", "DecoderPool", "ffv1_is_sound", "ffv1_may_check", "is_inherited", "watch"]

_MIRRORED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_REMAINDERS = (0, 0x7A8C4079)
"""CRC remainder of an undamaged slice or extradata: of version 3, and of version 4 with another initial value."""
_WITHOUT, _WITH = 3, 8
"""Bytes after each slice: its size, and with checksums a status and the checksum."""


def ffv1_may_check(extradata: bytes) -> bool:
    """Return whether a stream's packets may have checksums: from version 3 on, whose extradata has one, too."""
    return len(extradata) > 4 and _remainder(extradata) in _REMAINDERS


def ffv1_is_sound(packet: bytes) -> bool:
    """Return whether the sizes of a packet's slices add up, and their checksums, if any, are correct.

    libavcodec fills a slice with a wrong checksum from the previously decoded frame, and only logs that.
    """
    slices = _slices(packet, _WITH)
    if slices:
        return all(_remainder(piece) in _REMAINDERS for piece in slices)
    return bool(_slices(packet, _WITHOUT))


def _slices(packet: bytes, behind: int) -> list[bytes]:
    """Return the slices with their trailers, parsed from the packet's end; empty if their sizes do not add up."""
    slices: list[bytes] = []
    end = len(packet)
    while end > behind:
        begin = end - behind - int.from_bytes(packet[end - behind : end - behind + 3], "big")
        if begin < 0:
            return []
        slices.append(packet[begin:end])
        end = begin
    return slices if not end else []


def _remainder(data: bytes) -> int:
    # CRC-32 with the most significant bit first and initial value 0; zlib has the opposite order and all ones.
    reverse = zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{reverse:032b}"[::-1], 2)


# libavcodec's own "av1" needs hardware; these decode on the CPU.
_DECODERS = {
    "av1": ("libdav1d", "libaom-av1", "av1"),
    "vp8 with alpha": ("libvpx",),  # FFmpeg's own decoders leave alpha out
    "vp9 with alpha": ("libvpx-vp9",),
}

_PALETTE = 0
"""AV_PKT_DATA_PALETTE of FFmpeg."""
_BLOCK_ADDITIONAL = av.packet.packet_sidedata_type_from_literal("matroska_block_additional")
_ALPHA_ID = (1).to_bytes(8, "big")

_OPTIONS = {
    # Without reorder limits in the stream, libavcodec guesses H.264's delay and drops late frames.
    "h264": {"strict": "1"},
    # HEVC may carry a checksum of each picture: a mismatch is an error, not only a log message.
    "hevc": {"err_detect": "crccheck+explode"},
    # Otherwise a truncated scan is output without an error.
    "mjpeg": {"err_detect": "explode"},
}
_OPTIONS_WITH_THREADS = {
    # A frame thread may output a frame before another one finds its damage: is_corrupt may be set too late, an error is
    # always raised in time. With one thread is_corrupt suffices, and faulty SEI messages are not errors.
    "h264": {"strict": "1", "err_detect": "explode"},
    "mpeg4": {"err_detect": "explode"},
}


# Decoders whose state after undetected damage survives a flush: headers, macroblock maps, and reused frame buffers that
# a broken slice leaves partly untouched. These, and streams without extradata or with parameter sets that change, get a
# new context for each run; for others that would cost more than it is worth.
_KEEPS_STATE = REPLENISHED | {
    *("ffv1", "flv1", "h263", "h263i", "h263p", "hevc", "mpeg1video", "mpeg2video", "mpeg4"),
    *("msmpeg4v1", "msmpeg4v2", "msmpeg4v3", "rv10", "rv20", "vp8", "wmv1", "wmv2"),
}

_DROPS_ON_RESIZE = {"mpeg1video", "mpeg2video", "mpeg4"}
"""Codecs whose decoder drops delayed frames where the frame size changes."""


class CpuDecoder:
    """libavcodec decoder, opened from the index alone.

    Args:
        index: the stream's index.
        threads: number of frame threads; 1 is used for streams that frame threads would decode differently.

    Raises:
        BackendError: PyAV's FFmpeg was built without a decoder for this codec.
    """

    def __init__(self, index: PacketIndex, threads: int = 1) -> None:
        if threads > 1 and _threads_differ(index):
            threads = 1
        self._palettes, self._alpha = index.palettes, index.alpha is not None
        self._codec = index.info.codec
        self._size: tuple[int, int] | None = None
        self.threads = threads
        self._checked = self._codec == "ffv1" and ffv1_may_check(index.extradata)
        self._reopens = self._codec in _KEEPS_STATE or not index.extradata or len(index.set_ups) > 1
        self._open = partial(_open_context, index, threads)
        self._context: VideoCodecContext | None = self._open()

    def feed(self, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        """Decode packets; unwanted frames are returned as well."""
        for number, data, key, _ in packets:
            if self._checked and not ffv1_is_sound(data):
                raise DecodeError("the checksum of a slice is wrong", packet=number)
            alpha = b""
            if self._alpha:
                end = ALPHA_SIZE_BYTES + int.from_bytes(data[:ALPHA_SIZE_BYTES], "big")
                alpha, data = data[ALPHA_SIZE_BYTES:end], data[end:]
            packet = av_packet(data)
            # The pts only identifies the frame's packet: packet numbers are unique, real pts need not be.
            packet.pts = packet.dts = number
            # PNG in QuickTime adds the previous frame to one that is not marked as a key frame.
            packet.is_keyframe = key
            if self._palettes:
                packet.set_sidedata(_palette(self._palettes, number))
            if alpha:
                packet.set_sidedata(_side_data(_BLOCK_ADDITIONAL, _ALPHA_ID + alpha))
            if key and self._codec in _DROPS_ON_RESIZE and self._size_changes(data):
                yield from self.flush()
            result = self._decode(packet, number)
            if result.decoded:
                yield result

    def flush(self) -> Iterator[DecodeResult]:
        """Drain the decoder and reset it."""
        rest = self._decode(None)
        if self._reopens:
            self._context = None
        elif self._context is not None:
            self._context.flush_buffers()
        yield rest

    def _size_changes(self, data: bytes) -> bool:
        before, size = self._size, frame_size(self._codec, data)
        self._size = size or before
        return None not in (before, size) and size != before

    def _decode(self, packet: av.Packet[Any] | None, number: int | None = None) -> DecodeResult:
        """Decode a packet, or drain the decoder with None."""
        if self._context is None:
            self._context = self._open()
        try:
            frames = self._context.decode(packet)
        except av.error.FFmpegError as error:
            raise DecodeError(error.strerror or str(error), packet=number) from error
        decoded = [
            DecodedFrame(frame.pts, partial(Surface.of, frame)) for frame in frames if frame.pts is not None
        ]
        damaged = [frame.pts for frame in frames if frame.is_corrupt and frame.pts is not None]
        return DecodeResult([frame.packet for frame in decoded], damaged, decoded)


def _open_context(index: PacketIndex, threads: int) -> VideoCodecContext:
    """Open a decoder of a stream."""
    info = index.info
    codec = info.codec if index.alpha is None else f"{info.codec} with alpha"
    context = cast("VideoCodecContext", CodecContext.create(_decoder_name(codec), "r"))
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
    """Return the palette of a packet as side data; containers store it with the first packet that uses it."""
    last = bisect.bisect_right(palettes, number, key=itemgetter(0)) - 1
    return _side_data(_PALETTE, palettes[max(0, last)][1])


def _side_data(kind: int, content: bytes) -> av.packet.PacketSideData:
    """Return side data of a packet."""
    make: Any = av.packet.PacketSideData  # PyAV's stub lacks the constructor's parameters
    data: av.packet.PacketSideData = make(kind, len(content))
    data.update(content)
    return data


def _threads_differ(index: PacketIndex) -> bool:
    """Return whether frame threads decode other frames: those of MPEG-4 do not share an interlaced frame's duration."""
    return index.info.codec == "mpeg4" and mpeg4_interlaced(index.extradata)


@cache
def _decoder_name(codec: str) -> str:
    """Return the first decoder of a codec that FFmpeg has."""
    for name in _DECODERS.get(codec, (codec,)):
        try:
            return av.codec.Codec(name, "r").name
        except av.codec.codec.UnknownCodecError:
            continue
    raise BackendError(
        f"FFmpeg {av.ffmpeg_version_info} in PyAV {av.__version__} has no decoder for {codec}",
        advice="Install PyAV's own wheel (pip install --force-reinstall av), or convert the file",
    )


_with_threads: set[ref[Any]] = set()
_inherited: set[int] = set()


def watch(decoder: Any) -> None:
    """Register a decoder that has threads of its own."""
    # The callback is a C function: Python loses a Ctrl-C that arrives in a Python callback, such as that of WeakSet.
    _with_threads.add(ref(decoder, _with_threads.discard))


def is_inherited(decoder: Any) -> bool:
    """Return whether a decoder was created before a fork, so that its threads do not exist in this process."""
    return id(decoder) in _inherited


def _keep() -> None:
    """Keep decoders with threads alive in a forked process."""
    # Destroying such a decoder would wait for its threads forever, also at interpreter exit: leak a reference.
    for decoder in [known() for known in _with_threads]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(decoder))
        _inherited.add(id(decoder))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep)


class DecoderPool:
    """Idle decoders by stream parameters; the least recently used are dropped first.

    A decoder is taken, used, and given back; one that has raised or reported damage is not given back. A forked
    process does not reuse decoders with threads.

    Args:
        idle: maximum number of idle decoders.
        make: opens a decoder for a stream and a number of threads.
    """

    def __init__(self, idle: int = 8, make: Callable[[PacketIndex, int], PacketDecoder] = CpuDecoder) -> None:
        self._idle: OrderedDict[Hashable, list[PacketDecoder]] = OrderedDict()
        self._limit = idle
        self._make = make
        self._lock = threading.Lock()

    def take(self, index: PacketIndex, threads: int) -> PacketDecoder:
        """Return a decoder for the caller's exclusive use."""
        key = _key(index, threads)
        with self._lock:
            while decoders := self._idle.get(key):
                decoder = decoders.pop()
                if not decoders:
                    del self._idle[key]
                if not is_inherited(decoder):
                    return decoder
        decoder = self._make(index, threads)
        if threads > 1:
            watch(decoder)
        return decoder

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:
        """Keep a flushed decoder for the next run."""
        if is_inherited(decoder):
            return
        key = _key(index, threads)
        with self._lock:
            self._idle.setdefault(key, []).append(decoder)
            self._idle.move_to_end(key)
            while sum(len(decoders) for decoders in self._idle.values()) > self._limit:
                oldest = next(iter(self._idle))
                self._idle[oldest].pop(0)
                if not self._idle[oldest]:
                    del self._idle[oldest]

    def clear(self) -> None:
        """Drop all idle decoders."""
        with self._lock:
            self._idle.clear()


def _key(index: PacketIndex, threads: int) -> Hashable:
    info = index.info
    set_up = index.codec_tag, index.extradata, index.set_ups, index.palettes, index.alpha is not None
    return info.codec, set_up, info.width, info.height, info.pixel_format, threads
