"""Tracks of sound: streams of a container, and the place of each packet's samples on the clock.

Rules, each tested:

- **The clock** of a track counts samples from its first one, whose time is the first packet's, after the samples that
  the container marks to be skipped (delay of encoders by edit lists, Opus' pre-skip, LAME's header).
- **Packets follow one another** without gaps as long as their timestamps agree: within half a packet where the
  container counts samples, else within 40 ms, as timestamps in milliseconds are rounded and may jitter.
- **A later timestamp** is a gap, which is silence. **One that is earlier by half a second**, as where recordings were
  joined, continues from the packet before, as for frames.
- **The end** of a track in MP4 is that of its last packet by the container, which may be before that of its samples.
- **The number of samples of a packet** is the codec's where it has a constant one, or the container's where its clock
  counts samples; else the track is decoded once. A packet that decodes to fewer is followed by silence.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, Final

import av.error
import numpy as np
from av.codec.context import CodecContext, Flags2

from ...array import IntArray
from ...errors import ParameterError, UnreadableSourceError
from ..probe.probe import Demuxer, av_packet, is_encrypted, locate, unreadable
from ..probe.recognize import COMMON_ENCRYPTION, encrypted, parsing
from ..source.source import Source

if TYPE_CHECKING:
    import av
    from av.audio.stream import AudioStream
    from av.container import InputContainer

__all__ = [
    "AudioStreamInfo",
    "AudioTrack",
    "audio_streams",
    "choose_stream",
    "nearest",
    "read_track",
    "set_up_decoder",
]

_DEFAULT = 1  # AV_DISPOSITION_DEFAULT
_PACKETS_TO_FIRST_FRAME: Final = 16
_NO_TIME: Final = -(2**62)
_JITTER_S, _RESTART_S = 0.04, 0.5
_SKIP_SAMPLES = struct.Struct("<II")
# Codecs of which each packet is a known number of samples: that of the container, where its clock counts samples.
_COUNTED: Final = frozenset(
    {"aac", "ac3", "alac", "eac3", "flac", "mp2", "mp2float", "mp3", "mp3float", "opus"}
)
# Codecs whose decoder needs no more than the extradata, the rate and the channels.
_DIRECT: Final = _COUNTED | {"vorbis"}

# Decoders that leave out what their first packet gives, which is no sound: these always have to.
_SKIPPING: Final = frozenset({"vorbis", "wmapro", "wmav1", "wmav2"})


@dataclass(frozen=True, kw_only=True)
class AudioStreamInfo:
    """Properties of a stream of sound.

    Attributes:
        number: stream number in the container, the value of ``stream=``.
        codec: the decoder's name.
        sample_rate: samples per second of each channel.
        channels: number of channels.
        layout: FFmpeg's name of the channel layout, such as ``stereo``.
        language: the container's language code, such as ``eng``; None if it has none.
        default: whether the container marks it as the default stream.
    """

    number: int
    codec: str
    sample_rate: int
    channels: int
    layout: str
    language: str | None
    default: bool

    def __str__(self) -> str:
        """Format the stream, such as ``1: aac 48000 Hz stereo eng``."""
        language = f" {self.language}" if self.language else ""
        return f"{self.number}: {self.codec} {self.sample_rate} Hz {self.layout}{language}"


@dataclass(frozen=True, eq=False)
class AudioTrack:
    """Packets of a stream of sound, in order.

    Attributes:
        info: properties of the stream.
        extradata: the codec's configuration.
        start: time of the first sample in seconds.
        begin: position of the first sample that each packet gives, counted from the first of the track.
        skip: number of samples that are left out at the start of what each packet decodes to.
        keep: number of samples that each packet gives.
        size: size of each packet in bytes.
        offset: file offset of each packet; empty if ``data`` holds the packets.
        data: the packets, where the container does not store them contiguously.
        direct: whether a decoder can be opened from these properties alone.
    """

    info: AudioStreamInfo
    extradata: bytes
    start: Fraction
    begin: IntArray
    skip: IntArray
    keep: IntArray
    size: IntArray
    offset: IntArray
    data: tuple[bytes, ...]
    direct: bool

    @property
    def length(self) -> int:
        """Number of samples, with gaps."""
        return int(self.begin[-1] + self.keep[-1])

    def packets(self, source: Source, numbers: range) -> list[bytes]:
        """Return the bytes of packets."""
        if self.data:
            return [self.data[number] for number in numbers]
        places = slice(numbers.start, numbers.stop)
        return source.read(list(zip(self.offset[places].tolist(), self.size[places].tolist(), strict=True)))


@dataclass(eq=False)
class _Collected:
    """Columns of a pass over the packets, an entry for each packet."""

    pts: list[int | None]
    count: list[int]
    skip: list[int]
    trim: list[int]
    discard: list[bool]
    size: list[int]
    offset: list[int]
    data: list[bytes]


def nearest(value: Fraction | float) -> int:
    """Return the nearest whole number; of two the larger one."""
    return floor(value + Fraction(1, 2)) if isinstance(value, Fraction) else floor(value + 0.5)


def audio_streams(container: InputContainer) -> list[AudioStreamInfo]:
    """Return the streams of sound that can be decoded."""
    return [_info(stream) for stream in container.streams.audio if _decodable(stream)]


def choose_stream(source: Source, streams: Seq[AudioStreamInfo], wanted: int | str | None) -> AudioStreamInfo:
    """Return a stream by number or language; by default the container's default, of several that of most channels."""
    if not streams:
        raise UnreadableSourceError(
            "the file has no audio stream that can be decoded",
            source=source.name,
            advice="Leave the audio out for this file, or pass one with sound",
        )
    if wanted is None:
        return max(streams, key=lambda stream: (stream.default, stream.channels, -stream.number))
    is_number = isinstance(wanted, int) and not isinstance(wanted, bool)
    for stream in streams:
        if (stream.number if is_number else stream.language) == wanted:
            return stream
    raise ParameterError(
        f"stream={wanted!r} is no audio stream",
        source=source.name,
        allowed=f"a number or a language of {'; '.join(map(str, streams))}",
    )


def read_track(source: Source, number: int, container: InputContainer | None = None) -> AudioTrack:
    """Read the packets of a stream of sound once, without decoding most of them."""
    with parsing(source):
        if container is not None and (track := _read(source, container, number, counted=True)) is not None:
            return track
        for counted in (container is None, False):
            with Demuxer(source) as demuxer:
                if (track := _read(source, demuxer.container, number, counted=counted)) is not None:
                    return track
    raise AssertionError("a track is counted by its decoder")


def set_up_decoder(context: CodecContext) -> None:
    """Let a decoder return every sample of the packets that it gets: what is left out follows from the track."""
    context.thread_count = 1
    if context.name not in _SKIPPING:
        context.flags2 = context.flags2 | Flags2.skip_manual


def _decodable(stream: AudioStream) -> bool:
    """Return whether FFmpeg decodes a stream."""
    return getattr(stream, "codec_context", None) is not None and bool(stream.codec_context.sample_rate)


def _info(stream: AudioStream) -> AudioStreamInfo:
    """Return the properties of a stream."""
    context = stream.codec_context
    return AudioStreamInfo(
        number=stream.index,
        codec=context.name,
        sample_rate=context.sample_rate,
        channels=context.layout.nb_channels,
        layout=context.layout.name,
        language=stream.language,
        default=bool(int(getattr(stream.disposition, "value", stream.disposition)) & _DEFAULT),
    )


def _read(source: Source, container: InputContainer, number: int, *, counted: bool) -> AudioTrack | None:
    """Return a track; None if its packets are not counted by the container, or the codec, alone."""
    stream = next(stream for stream in container.streams.audio if stream.index == number)
    context = stream.codec_context
    set_up_decoder(context)
    columns = _Collected([], [], [], [], [], [], [], [])
    by_container = Fraction(stream.time_base or 0) * context.sample_rate == 1
    counts = _Counts(context, by_container=by_container) if counted else None
    first, last, ends = True, 0, 0
    for packet in _demuxed(source, container, stream):
        if counts is None:
            columns.count.append(_decoded_count(context, packet))
        else:
            known = counts.of(packet)
            if known is None or (first and not _agrees(context, packet, known)):
                return None
            columns.count.append(known)
            last, ends = known, (by_container and packet.duration) or known
        first = False
        _collect(source, columns, packet)
    if ends < last and container.format.name.startswith("mov"):
        columns.trim[-1] = max(columns.trim[-1], last - ends)
    if not any(columns.count):
        raise UnreadableSourceError(
            "none of its sound can be decoded",
            source=source.name,
            advice="The file may be damaged: leave it out",
        )
    return _placed(source, stream, columns)


def _demuxed(source: Source, container: InputContainer, stream: AudioStream) -> Iterator[av.Packet[Any]]:
    """Yield the packets of a stream."""
    read = 0
    try:
        for packet in container.demux(stream):
            if packet.size:
                if not read and is_encrypted(packet):
                    raise encrypted(source, COMMON_ENCRYPTION)
                read += 1
                yield packet
    except av.error.FFmpegError as error:
        # a truncated file gives what it has, as for frames
        if not read:
            raise unreadable(source, error) from error


class _Counts:
    """Numbers of samples of packets, by the codec or the container."""

    def __init__(self, context: av.AudioCodecContext, *, by_container: bool) -> None:
        self._name = context.name
        self._by_container = by_container and context.name in _COUNTED
        self._constant = context.frame_size if context.name in _COUNTED else 0
        is_pcm = context.name.startswith("pcm_")
        self._frame_bytes = _pcm_bytes(context) if is_pcm else 0

    def of(self, packet: av.Packet[Any]) -> int | None:
        """Return the number of samples of a packet; None if it follows from neither."""
        if self._frame_bytes:
            return int(packet.size // self._frame_bytes)
        if self._constant:
            return int(self._constant)
        if self._name == "opus":
            return _opus_count(bytes(memoryview(packet)[:2]))
        return packet.duration if self._by_container and packet.duration else None


def _pcm_bytes(context: av.AudioCodecContext) -> int:
    """Return the bytes of a sample of all channels."""
    bits = "".join(c for c in context.name.removeprefix("pcm_") if c.isdigit())
    if context.name in ("pcm_alaw", "pcm_mulaw"):
        bits = "8"
    return int(bits or 0) // 8 * context.layout.nb_channels


def _opus_count(head: bytes) -> int | None:
    """Return the samples at 48 kHz of an Opus packet, by its table-of-contents byte (RFC 6716, 3.1)."""
    config, code = head[0] >> 3, head[0] & 3
    if config < 12:
        size = (480, 960, 1920, 2880)[config & 3]
    else:
        size = (480, 960)[config & 1] if config < 16 else (120, 240, 480, 960)[config & 3]
    frames = (1, 2, 2, head[1] & 63 if len(head) > 1 else 0)[code]
    return size * frames or None


def _agrees(context: av.AudioCodecContext, packet: av.Packet[Any], count: int) -> bool:
    """Return whether the decoder gives the number of samples that is known of the first packet."""
    decoded = _decoded_count(context, packet)
    # the first packet of a stream cut somewhere may give none
    return decoded in (0, count)


def _decoded_count(context: av.AudioCodecContext, packet: av.Packet[Any]) -> int:
    """Return the number of samples that a packet decodes to."""
    try:
        # a copy has no side data, by which libavcodec would leave samples out
        return sum(frame.samples for frame in context.decode(av_packet(bytes(packet))))
    except av.error.FFmpegError:
        return 0


def _collect(source: Source, columns: _Collected, packet: av.Packet[Any]) -> None:
    """Add the columns of a packet."""
    start, end = 0, 0
    if packet.has_sidedata("skip_samples"):
        start, end = _SKIP_SAMPLES.unpack_from(bytes(packet.get_sidedata("skip_samples")))
    columns.pts.append(packet.pts)
    columns.skip.append(start)
    columns.trim.append(end)
    columns.discard.append(packet.is_discard)
    columns.size.append(packet.size)
    columns.offset.append(locate(source, packet))
    columns.data.append(b"" if columns.offset[-1] >= 0 else bytes(packet))


def _placed(source: Source, stream: AudioStream, columns: _Collected) -> AudioTrack:
    """Return the track, with the place of each packet on its clock."""
    info = _info(stream)
    tick = Fraction(stream.time_base or Fraction(1, info.sample_rate))
    count = np.array(columns.count, np.int64)
    skip, keep = _kept(columns, count)
    first = int(np.argmax(keep > 0))
    pts = np.array([_NO_TIME if pts is None else pts for pts in columns.pts], np.int64)
    delay = nearest(Fraction(int(skip[first]), info.sample_rate) / tick)
    start = (int(pts[first]) if pts[first] != _NO_TIME else 0) * tick + delay * tick
    raw = _positions(pts, count, first, tick, info.sample_rate) - int(skip[first])
    size, offset = np.array(columns.size, np.int64), np.array(columns.offset, np.int64)
    data: list[bytes] = []
    if offset.min() < 0:
        located = np.flatnonzero(offset >= 0)
        read = source.read(list(zip(offset[located].tolist(), size[located].tolist(), strict=True)))
        data = columns.data
        for number, content in zip(located.tolist(), read, strict=True):
            data[number] = content
    return AudioTrack(
        info=info,
        extradata=bytes(stream.codec_context.extradata or b""),
        start=start,
        begin=np.maximum(raw + skip, 0),
        skip=skip,
        keep=keep,
        size=size,
        offset=offset,
        data=tuple(data),
        direct=info.codec in _DIRECT or info.codec.startswith("pcm_"),
    )


def _kept(columns: _Collected, count: IntArray) -> tuple[IntArray, IntArray]:
    """Return how many samples of each packet are left out at its start, and how many are kept."""
    skip, keep, left = np.zeros_like(count), np.zeros_like(count), 0
    marked = any(columns.skip) or any(columns.trim) or any(columns.discard)
    if not marked:
        return skip, count.copy()
    for number, here in enumerate(columns.count):
        left = columns.skip[number] or left
        skip[number] = min(left, here)
        left -= int(skip[number])
        if not columns.discard[number]:
            keep[number] = max(0, here - int(skip[number]) - columns.trim[number])
    return skip, keep


def _positions(pts: IntArray, count: IntArray, first: int, tick_s: Fraction, rate: int) -> IntArray:
    """Return the position of what each packet decodes to, counted from that of packet ``first``."""
    tick = tick_s * rate
    gapless: IntArray = np.concatenate([[0], np.cumsum(count)[:-1]])
    gapless -= gapless[first]
    known = (pts != _NO_TIME) & (np.arange(len(pts)) >= first) & (pts[first] != _NO_TIME)
    by_clock = ((pts - pts[first]) * tick.numerator + tick.denominator // 2) // tick.denominator
    off = np.where(known, by_clock - gapless, 0)
    slack = np.maximum(np.maximum(count, np.roll(count, 1)) // 2, 0 if tick == 1 else int(_JITTER_S * rate))
    if (np.abs(off) <= slack).all():
        return gapless
    shift = restarted = 0
    shifts = np.zeros_like(gapless)
    for number in range(first, len(pts)):
        if known[number]:
            apart = int(off[number]) - shift - restarted
            if apart > slack[number]:
                shift += apart
            elif apart < -_RESTART_S * rate:
                restarted += apart
        shifts[number] = shift
    return gapless + shifts
