"""Probing of a video stream: demuxer, stream selection, properties from headers and the first frame; padded packets."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any, Final, cast

import av
import av.container
import av.error
import av.filter
import av.video
import numpy as np
from av.codec.codec import Codec, UnknownCodecError
from av.codec.context import CodecContext
from av.format import ContainerFormat

from ...core.closing import Closing
from ...core.files.content import HEAD, OTHER_VOLUMES, VOLUME_KINDS, likely_kind, volume_kind
from ...core.files.images import check_image, is_picture
from ...core.finalizers import Finalizer
from ...core.limits import IMAGE_PIXELS, check_image_size
from ...errors import ParameterError, UnreadableSourceError
from ..source.source import Origin, Source, open_source
from .info import ContainerStream, StreamInfo
from .recognize import COMMON_ENCRYPTION, check_scrambled, encrypted, parsing, recognize
from .stills import numbered_info, rgba_info

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

__all__ = [
    "Demuxer",
    "FirstPicture",
    "av_packet",
    "bounded",
    "build_name",
    "chapters",
    "encrypted_packets",
    "is_cover",
    "is_encrypted",
    "languages",
    "locate",
    "missing_decoders",
    "no_packets",
    "nothing_decodable",
    "open_container",
    "probe",
    "set_extradata",
    "side_data",
    "stores_pts",
    "stream_info",
    "unreadable",
    "video_stream",
    "with_source",
]

_PADDING: Final = bytes(64)
"""AV_INPUT_BUFFER_PADDING_SIZE zeros."""


def av_packet(data: bytes) -> av.Packet[Any]:
    """Return a packet with a copy of the bytes, followed by the zeros that decoders may read beyond the end.

    ``Packet(data)`` would reference the bytes without padding, and a read beyond them may crash the process.
    """
    packet: av.Packet[Any] = av.Packet(len(data))
    packet.update(data)
    return packet


def set_extradata(context: CodecContext, data: bytes) -> None:
    """Set a decoder's extradata, if there is any, followed by zeros."""
    if data:
        # PyAV does not clear the padding; assigning shorter data keeps the zeros of the first assignment.
        context.extradata = data + _PADDING
        context.extradata = data


_DECODERS = ("h264", "hevc", "vp8", "vp9", "libdav1d", "mpeg2video", "mpeg4", "mjpeg")


def build_name() -> str:
    """Return the versions of FFmpeg and PyAV."""
    return f"FFmpeg {av.ffmpeg_version_info} in PyAV {av.__version__}"


def missing_decoders() -> list[str]:
    """Return the decoders of common codecs that FFmpeg was built without."""
    missing = []
    for decoder in _DECODERS:
        try:
            Codec(decoder, "r")
        except UnknownCodecError:
            missing.append(decoder)
    return missing


_BUFFER = 1 << 20
_LARGEST_PICTURE: Final = 1 << 28  # bytes
_DEFAULT, _ATTACHED_PICTURE = 1, 0x400
_DEFAULT_PIXELS = 5_000_000
_FEW_FRAMES = 5
_UNSPECIFIED = 2
_FULL, _LIMITED = 2, 1
_PACKETS_TO_FIRST_FRAME = 64
_HEADER_BEFORE_DATA = 64
_MAX_INT = 2**31 - 1
_RAISE_THE_LIMIT = f"If the file can be trusted, set the environment variable {IMAGE_PIXELS.variable}"
_ENCRYPTED_TAGS = ("encv", "drmi")
_EXIF = 31  # AV_FRAME_DATA_EXIF
_NO_TIMESTAMPS: Final = 0x80  # AVFMT_NOTIMESTAMPS


def probe(origin: Origin, *, stream: int | None = None) -> StreamInfo:
    """Return the properties of a video without reading all of it.

    The frame count is that of the container; :func:`seqpipe.video.index.open.open_index` counts frames.
    """
    source = open_source(origin, stream=stream)
    stills = source.stills
    if stills is not None and stills.rgba_size:
        return rgba_info(source, stills)
    with parsing(source), open_container(source) as container:
        video = video_stream(source, container)
        first = FirstPicture(video)
        try:
            for packet in container.demux(video):
                first.offer(packet)
                if first.done:
                    break
        except av.error.FFmpegError as error:
            raise unreadable(source, error) from error
        info = stream_info(source, container, video, first)
    return info if stills is None else numbered_info(source, stills, info)


def chapters(container: InputContainer) -> list[dict[str, Any]]:
    """Return start and end in seconds, and title, of each chapter; times count from the container's start."""
    return [
        {
            "start_s": float(chapter["start"] * chapter["time_base"]),
            "end_s": float(chapter["end"] * chapter["time_base"]),
            "title": chapter["metadata"].get("title", ""),
        }
        for chapter in container.chapters()
        if chapter["time_base"]
    ]


def languages(container: InputContainer) -> dict[int, str]:
    """Return the language of each stream that states one, such as "eng", by its number."""
    stated = {stream.index: stream.metadata.get("language", "und") for stream in container.streams}
    return {number: language for number, language in stated.items() if language != "und"}


@contextlib.contextmanager
def open_container(source: Source) -> Iterator[InputContainer]:
    """Open the demuxer of a source, and close it at the end of the context."""
    head = source.read([(0, HEAD)])[0]
    if is_picture(head) and source.size() <= _LARGEST_PICTURE:
        check_image(memoryview(source.read([(0, source.size())])[0]), source.name)
    kind = volume_kind(head)
    if kind not in (None, "tiff"):  # FFmpeg decodes TIFF images correctly
        raise UnreadableSourceError(
            f"this is {VOLUME_KINDS[kind]}, not a video",
            source=source.name,
            advice=OTHER_VOLUMES[kind][1]
            if kind in OTHER_VOLUMES
            else "Open it with seqpipe.open, which returns a volume",
        )
    with Demuxer(source) as demuxer:
        yield demuxer.container


class Demuxer(Closing):
    """Demuxer of a source; closed at the end of its context, or when it is collected.

    Attributes:
        container: PyAV's container.

    Raises:
        UnreadableSourceError: FFmpeg has no demuxer for the source.
    """

    def __init__(self, source: Source) -> None:
        file = self._file = source.for_demuxer()
        try:
            self.container = (
                av.open(file, options=bounded({}))
                if isinstance(file, str)
                else av.open(file, "r", buffer_size=_BUFFER, options=bounded({}))
            )
        except (av.error.FFmpegError, ValueError, UnicodeDecodeError) as error:
            raise unreadable(source, error) from error
        # Container and streams form a reference cycle, which would keep the file open until a garbage collection.
        self._finalizer = Finalizer(self.container.close)

    def close(self) -> None:
        """Close the container and its file object."""
        self.container.close()
        if not isinstance(self._file, str):
            self._file.close()


def locate(source: Source, packet: av.Packet[Any]) -> int:
    """Return the file offset of a packet's bytes; -1 if they are not contiguous right after the demuxer's position."""
    position = packet.pos
    if position is None or position < 0:
        return -1
    near = source.read_sequential(position, packet.size + _HEADER_BEFORE_DATA)
    index = near.find(memoryview(packet))
    return position + index if index >= 0 else -1


def video_stream(source: Source, container: InputContainer, number: int | None = None) -> VideoStream:
    """Return the requested video stream, else the one that ffmpeg selects; cover images are excluded.

    ffmpeg selects the stream with the most pixels, with a bonus of five million for the default stream; of equal ones
    the first. Streams that declare fewer than five frames rank behind all others, and undecodable ones last.
    """
    videos = [s for s in container.streams.video if not is_cover(s)]
    wanted = source.stream if number is None else number
    if wanted is not None:
        stream = next((s for s in videos if s.index == wanted), None)
        if stream is None:
            raise ParameterError(
                f"stream={wanted} is no video stream",
                source=source.name,
                allowed=", ".join(str(s.index) for s in videos) or "none: the file has no video stream",
            )
    elif videos:
        stream = max(videos, key=_rank)
    else:
        kinds = {"a cover image" if s.type == "video" else str(s.type) for s in container.streams}
        raise UnreadableSourceError(
            f"the file has no video stream (it has {', '.join(sorted(kinds)) or 'no streams'})",
            source=source.name,
            advice="Pass a file with video; a truncated file may have lost it",
        )
    if getattr(stream, "codec_context", None) is None:
        raise UnreadableSourceError(
            f"its codec is unknown to FFmpeg {av.ffmpeg_version_info}",
            source=source.name,
            advice="Convert the file to H.264, HEVC, VP9 or AV1",
        )
    if stream.codec_context.codec_tag in _ENCRYPTED_TAGS:
        raise encrypted(source, f"its sample entry is {stream.codec_context.codec_tag!r}")
    check_scrambled(source, container)
    check_image_size(stream.codec_context.width, stream.codec_context.height, source.name)
    stream.codec_context.options = bounded({})
    return stream


def _rank(stream: VideoStream) -> tuple[bool, bool, int]:
    """Return the sort key of ffmpeg's choice of a video stream."""
    context = getattr(stream, "codec_context", None)
    if context is None:
        return False, False, 0
    # FFmpeg prefers streams with several frames: phones store a still image next to the video.
    moves = not 0 < stream.frames < _FEW_FRAMES
    return (
        True,
        moves,
        context.width * context.height + _DEFAULT_PIXELS * bool(_disposition(stream) & _DEFAULT),
    )


def _entries(container: InputContainer) -> tuple[ContainerStream, ...]:
    """Return the properties of all streams of a container."""
    return tuple(
        ContainerStream(
            number=s.index,
            kind=str(s.type),
            codec=None if (context := getattr(s, "codec_context", None)) is None else context.name,
            width=context.width if s.type == "video" and context is not None else None,
            height=context.height if s.type == "video" and context is not None else None,
            default=bool(_disposition(s) & _DEFAULT),
            cover=is_cover(s),
        )
        for s in container.streams
    )


def bounded(options: dict[str, str]) -> dict[str, str]:
    """Return decoder options with the limit of the frame size, which any packet may change."""
    return {**options, "max_pixels": f"{min(IMAGE_PIXELS.value(), _MAX_INT):.0f}"}


class FirstPicture:
    """First packet and first decoded frame of a stream, taken from packets that are offered in order.

    The display matrix, and for some codecs the pixel format and the color tags, are known only from a decoded frame.

    Attributes:
        packet: the first packet's data.
        frame: the frame, or None until one is decoded.
        too_large: whether a frame may have been refused for its size, which FFmpeg only logs.
        encrypted: whether the first packet is encrypted.
    """

    def __init__(self, stream: VideoStream) -> None:
        stream.thread_count, stream.thread_type = 1, "SLICE"
        self.packet = b""
        self.frame: av.VideoFrame | None = None
        self.too_large = self.encrypted = False
        self._left = _PACKETS_TO_FIRST_FRAME

    @property
    def done(self) -> bool:
        """Whether no further packet is needed."""
        return self.frame is not None or self._left == 0

    def offer(self, packet: av.Packet[Any]) -> None:
        """Decode the next packet; the empty one at the end flushes the decoder."""
        if self.done:
            return
        if not self.packet:
            self.packet, self.encrypted = bytes(packet), is_encrypted(packet)
        self._left -= 1
        # A packet that fails to decode is reported when its frame is requested; the next one serves here.
        try:
            for frame in packet.decode():
                if isinstance(frame, av.VideoFrame) and self.frame is None:
                    self.frame = frame
        except av.error.FFmpegError as error:
            self.too_large |= error.errno == errno.EINVAL


def stream_info(
    source: Source, container: InputContainer, stream: VideoStream, first: FirstPicture
) -> StreamInfo:
    """Return the properties of a stream."""
    from ..bitstream.kind import chroma_location  # imported late: not needed for indexed videos

    context, frame = stream.codec_context, first.frame
    if first.encrypted:
        raise encrypted_packets(source)
    pixel = frame.format if frame is not None else context.format
    width, height = (frame.width, frame.height) if frame is not None else (context.width, context.height)
    if first.too_large and frame is None:
        raise _unusable(
            source,
            "no frame can be decoded: the file is damaged, or its frames have more than "
            f"{IMAGE_PIXELS.value():.0f} pixels",
            _RAISE_THE_LIMIT,
        )
    if pixel is None or not width or not height:
        raise _unusable(source, "no frame can be decoded") if first.packet else no_packets(source)
    degrees, flipped = _orientation(frame)
    codec = context.codec.canonical_name
    tick = _fraction(stream.time_base) or Fraction(1, 1000)
    return StreamInfo(
        source=source.name,
        container=container.format.name,
        codec=codec,
        profile=context.profile,
        pixel_format=pixel.name,
        bit_depth=max(component.bits for component in pixel.components),
        chroma=_chroma(pixel),
        width=width,
        height=height,
        sample_aspect_ratio=_fraction(stream.sample_aspect_ratio or context.sample_aspect_ratio)
        or Fraction(1),
        rotation_degrees=degrees,
        flipped=flipped,
        matrix=_tag(frame.colorspace if frame else None, context.colorspace),
        full_range=_full_range(
            pixel.name, int(frame.color_range if frame else 0) or int(context.color_range)
        ),
        primaries=_tag(frame.color_primaries if frame else None, context.color_primaries),
        transfer=_tag(frame.color_trc if frame else None, context.color_trc),
        chroma_location=chroma_location(codec, bytes(context.extradata or b""), first.packet),
        average_rate=_fraction(stream.average_rate),
        real_rate=_fraction(stream.base_rate or stream.guessed_rate),
        time_base=tick,
        start_s=None if stream.start_time is None else float(stream.start_time * tick),
        duration_s=_duration(container, stream, tick),
        frame_count=stream.frames or None,
        declared_frames=stream.frames or None,
        has_b_frames=bool(context.has_b_frames),
        has_audio=bool(container.streams.audio),
        stream=stream.index,
        streams=_entries(container),
    )


def stores_pts(info: StreamInfo) -> bool:
    """Return whether the container has presentation timestamps; else those of FFmpeg's demuxer are guesses.

    AVI has none, and neither have elementary streams, which have no container.
    """
    return info.container != "avi" and not ContainerFormat(info.container, "r").flags & _NO_TIMESTAMPS


def side_data(packet: av.Packet[Any]) -> list[str]:
    """Return the types of a packet's side data, by FFmpeg's names."""
    try:
        return [str(item.data_type) for item in packet.iter_sidedata()]
    except IndexError:  # PyAV has no name for the type
        return ["unknown"]


def is_encrypted(packet: av.Packet[Any]) -> bool:
    """Return whether a packet is encrypted, by Common Encryption (ISO/IEC 23001-7)."""
    return packet.has_sidedata("encryption_info")


def encrypted_packets(source: Source) -> UnreadableSourceError:
    """Return the error for encrypted packets."""
    return encrypted(source, COMMON_ENCRYPTION)


def no_packets(source: Source) -> UnreadableSourceError:
    """Return the error for a file with a valid header and no packets."""
    return _unusable(source, "it holds no video packets")


def nothing_decodable(source: Source, packets: int) -> UnreadableSourceError:
    """Return the error for a video none of whose packets yields a frame."""
    return UnreadableSourceError(
        f"none of its {packets} packets can be decoded: it has no key frame at which decoding can start",
        source=source.name,
        advice="It may be a part of another video: cut that one at a key frame, or convert it",
    )


def _unusable(
    source: Source,
    fact: str,
    advice: str = "The file may be truncated or damaged: fetch it again, or leave it out with on_error='skip'",
) -> UnreadableSourceError:
    """Return the error for a source, which says what it is if it is recognized."""
    known = recognize(source)
    fact, advice = known or (fact, advice)
    return UnreadableSourceError(fact, source=source.name, advice=advice)


def with_source(info: StreamInfo, name: str) -> StreamInfo:
    """Return the properties with another source name."""
    return info if info.source == name else replace(info, source=name)


def unreadable(source: Source, error: Exception) -> UnreadableSourceError:
    """Convert FFmpeg's error on opening or demuxing."""
    if isinstance(error, PermissionError):
        return UnreadableSourceError(
            f"cannot be opened ({error.strerror})", source=source.name, advice="Pass a file that you may read"
        )
    likely = likely_kind(source.read([(0, HEAD)])[0], source.name)
    if likely is not None:
        return UnreadableSourceError(
            f"this is not a video; by its name or a part of its header it is {VOLUME_KINDS[likely]}",
            source=source.name,
            advice="Open it with seqpipe.open, which says why it cannot be read as a volume",
        )
    if (known := recognize(source)) is not None:
        return UnreadableSourceError(known.fact, source=source.name, advice=known.advice)
    return UnreadableSourceError(
        f"this is not a video that FFmpeg can open ({getattr(error, 'strerror', None) or error})",
        source=source.name,
        advice="Check that the file is complete and that it is a video",
    )


def _fraction(value: Rational | None) -> Fraction | None:
    # PyAV 19 has its own rational type; zero means unknown.
    return Fraction(int(value.numerator), int(value.denominator)) if value else None


def _disposition(stream: Stream) -> int:
    # An IntFlag from PyAV 18 on, a Flag before.
    return int(getattr(stream.disposition, "value", stream.disposition))


def is_cover(stream: Stream) -> bool:
    """Return whether a stream is an attached cover image."""
    return bool(_disposition(stream) & _ATTACHED_PICTURE)


def _orientation(frame: av.VideoFrame | None) -> tuple[int, bool]:
    """Return the counter-clockwise rotation in degrees, and whether to mirror left to right before it."""
    matrix = None if frame is None else _frame_side_data(frame, "DISPLAYMATRIX")
    if matrix is None:
        return 0, False
    turn = np.frombuffer(matrix, "<i4", count=9).reshape(3, 3)[:2, :2].astype(float)
    flipped = bool(np.linalg.det(turn) < 0)
    if flipped:
        turn[0] = -turn[0]
    quarters = round(-np.degrees(np.arctan2(turn[0, 1], turn[0, 0])) / 90)
    return int(quarters * 90 % 360), flipped


def _frame_side_data(frame: av.VideoFrame, kind: str) -> bytes | None:
    """Return side data of a frame, or None."""
    try:
        data = frame.side_data.get(kind)
    except ValueError:  # PyAV fails if it has no name for another item; a filter removes that
        data = _without(_EXIF, frame).side_data.get(kind)
    return None if data is None else bytes(cast("bytes", data))


def _without(kind: int, frame: av.VideoFrame) -> av.VideoFrame:
    """Return a frame without a kind of side data."""
    graph = av.filter.Graph()
    time_base = frame.time_base or Fraction(1)
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=time_base
    )
    remove, sink = graph.add("sidedata", f"mode=delete:type={kind}"), graph.add("buffersink")
    source.link_to(remove)
    remove.link_to(sink)
    graph.configure()
    source.push(frame)
    return cast("av.VideoFrame", sink.pull())


def _chroma(pixel: av.VideoFormat) -> str:
    """Return the chroma format of a pixel format."""
    if pixel.is_rgb:
        return "rgb"
    if len(pixel.components) < 3:
        return "gray"
    name = {
        (1, 1): "4:2:0",
        (2, 1): "4:2:2",
        (1, 2): "4:4:0",
        (2, 2): "4:2:0",
        (4, 1): "4:1:1",
        (4, 4): "4:1:0",
    }
    ratio = (_ratio(pixel.chroma_width(64)), _ratio(pixel.chroma_height(64)))
    return "4:4:4" if ratio == (1, 1) else name[ratio]


def _ratio(size: int) -> int:
    return 64 // size


def _tag(frame: int | None, context: int) -> int:
    """Return the bitstream's tag from the frame, else the container's."""
    return int(frame) if frame is not None and int(frame) != _UNSPECIFIED else int(context)


def _full_range(pixel_format: str, tag: int) -> bool | None:
    return True if pixel_format.startswith("yuvj") else {_FULL: True, _LIMITED: False}.get(tag)


def _duration(container: InputContainer, stream: VideoStream, tick: Fraction) -> float | None:
    if stream.duration is not None:
        return float(stream.duration * tick)
    return None if container.duration is None else container.duration / 1e6
