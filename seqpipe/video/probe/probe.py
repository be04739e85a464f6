"""What a container and its headers say of its video stream."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from numbers import Rational
from typing import TYPE_CHECKING, Any, cast

import av
import av.container
import av.error
import av.filter
import av.video
import numpy as np

from ...content import HEAD, VOLUME_KINDS, volume_kind
from ...errors import ParameterError, UnreadableSourceError
from ...limits import IMAGE_PIXELS, check_image_size
from ..finalizers import Finalizer
from ..source.parsing import parsing
from ..source.source import Origin, Source, open_source
from .info import ContainerStream, StreamInfo

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

__all__ = [
    "Demuxer",
    "FirstPicture",
    "bounded",
    "no_packets",
    "open_container",
    "probe",
    "side_data",
    "stream_info",
    "unreadable",
    "video_stream",
    "with_source",
]

_BUFFER = 1 << 20
_DEFAULT, _ATTACHED_PICTURE = 1, 0x400
_DEFAULT_PIXELS = 5_000_000
_FEW_FRAMES = 5
_UNSPECIFIED = 2
_FULL, _LIMITED = 2, 1
_PACKETS_TO_FIRST_FRAME = 64
_MAX_INT = 2**31 - 1
_RAISE_THE_LIMIT = f"If the file can be trusted, set the environment variable {IMAGE_PIXELS.variable}"
_EXIF = 31  # AV_FRAME_DATA_EXIF


def probe(origin: Origin, *, stream: int | None = None) -> StreamInfo:
    """What is known of a video without reading it through.

    The frame count is what the container claims; :func:`seqpipe.video.packet_index.open_index` counts.

    Args:
        origin: a path, a URL, bytes, or a seekable binary file object.
        stream: which of its streams, by its number in the container; None for the best video.

    Raises:
        SourceNotFoundError: it is not there.
        UnreadableSourceError: it is not a video that can be decoded.
        ParameterError: there is no such video stream.
    """
    source = open_source(origin, stream=stream)
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
        return stream_info(source, container, video, first)


@contextlib.contextmanager
def open_container(source: Source) -> Iterator[InputContainer]:
    """The demuxer over a source, closed at the end; FFmpeg's errors become ours.

    Raises:
        UnreadableSourceError: it is a volume, which FFmpeg may take for a film of one of its pieces; or no demuxer
            reads it.
    """
    kind = volume_kind(source.read([(0, HEAD)])[0])
    if kind not in (None, "tiff"):  # of a TIFF file FFmpeg decodes the picture rightly
        raise UnreadableSourceError(
            f"this is {VOLUME_KINDS[kind]}, not a video",
            source=source.name,
            advice="Open it with seqpipe.open, which gives a volume",
        )
    demuxer = Demuxer(source)
    try:
        yield demuxer.container
    finally:
        demuxer.close()


class Demuxer:
    """The demuxer over a source; forgotten, it closes itself.

    Attributes:
        container: FFmpeg's.

    Raises:
        UnreadableSourceError: no demuxer reads it.
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
        # its streams and it refer to one another, so that it would stay open until garbage is collected
        self._finalizer = Finalizer(self.container.close)

    def close(self) -> None:
        """Close it."""
        self.container.close()
        if not isinstance(self._file, str):
            self._file.close()


def video_stream(source: Source, container: InputContainer, number: int | None = None) -> VideoStream:
    """The container's video: the one that is asked for, else the one that ffmpeg takes; cover pictures do not count.

    ffmpeg takes the one with the most pixels, where the default one has five million to its credit; of equal ones the
    first. Streams that state fewer than five frames come behind the others. What FFmpeg cannot decode is taken only if
    there is nothing else.

    Args:
        source: says which stream is asked for, if any is.
        container: holds the streams.
        number: of the stream that an index was built of.

    Raises:
        UnreadableSourceError: there is none, no decoder for it, or its pictures are too large.
        ParameterError: the stream that is asked for is not there, or no video.
    """
    videos = [s for s in container.streams.video if not _disposition(s) & _ATTACHED_PICTURE]
    wanted = source.stream if number is None else number
    if wanted is not None:
        stream = next((s for s in videos if s.index == wanted), None)
        if stream is None:
            raise ParameterError(
                f"stream={wanted} is no video stream",
                source=source.name,
                allowed=", ".join(str(s.index) for s in videos) or "no video is in it",
            )
    elif videos:
        stream = max(videos, key=_rank)
    else:
        kinds = {"a cover picture" if s.type == "video" else str(s.type) for s in container.streams}
        raise UnreadableSourceError(
            f"there is no video stream in it (it holds {', '.join(sorted(kinds)) or 'nothing'})",
            source=source.name,
            advice="Give a file with video; one that was cut may have lost it",
        )
    if getattr(stream, "codec_context", None) is None:
        raise UnreadableSourceError(
            f"its codec is unknown to FFmpeg {av.ffmpeg_version_info}",
            source=source.name,
            advice="Convert the file to H.264, HEVC, VP9 or AV1",
        )
    check_image_size(stream.codec_context.width, stream.codec_context.height, source.name)
    stream.codec_context.options = bounded({})
    return stream


def _rank(stream: VideoStream) -> tuple[bool, bool, int]:
    context = getattr(stream, "codec_context", None)
    if context is None:
        return False, False, 0
    # FFmpeg prefers streams that it has seen several frames of: phones store a still beside the film
    moves = not 0 < stream.frames < _FEW_FRAMES
    return (
        True,
        moves,
        context.width * context.height + _DEFAULT_PIXELS * bool(_disposition(stream) & _DEFAULT),
    )


def _entries(container: InputContainer) -> tuple[ContainerStream, ...]:
    """What is known of all streams of a container."""
    return tuple(
        ContainerStream(
            number=s.index,
            kind=str(s.type),
            codec=None if (context := getattr(s, "codec_context", None)) is None else context.name,
            width=context.width if s.type == "video" and context is not None else None,
            height=context.height if s.type == "video" and context is not None else None,
            default=bool(_disposition(s) & _DEFAULT),
            cover=bool(_disposition(s) & _ATTACHED_PICTURE),
        )
        for s in container.streams
    )


def bounded(options: dict[str, str]) -> dict[str, str]:
    """Options of a decoder with the limit on the size of a picture, which a packet may declare anew."""
    return {**options, "max_pixels": f"{min(IMAGE_PIXELS.value(), _MAX_INT):.0f}"}


class FirstPicture:
    """The first packet with data and the first picture of a stream, taken from the packets as they go by.

    The display matrix, and for some codecs the pixel format and the color tags, only come with a decoded picture.

    Attributes:
        packet: the first packet's data.
        frame: the picture, or None while there is none.
        too_large: whether one may have been refused for its size; FFmpeg tells only its log.
    """

    def __init__(self, stream: VideoStream) -> None:
        stream.thread_count, stream.thread_type = 1, "SLICE"
        self.packet = b""
        self.frame: av.VideoFrame | None = None
        self.too_large = False
        self._left = _PACKETS_TO_FIRST_FRAME

    @property
    def done(self) -> bool:
        """Whether no further packet is of use."""
        return self.frame is not None or self._left == 0

    def offer(self, packet: av.Packet[Any]) -> None:
        """Look at the next packet; the one without data at the end flushes the decoder."""
        if self.done:
            return
        self.packet = self.packet or bytes(packet)
        self._left -= 1
        # A packet that does not decode is reported when its frame is asked for; here the next one will do.
        try:
            for frame in packet.decode():
                if isinstance(frame, av.VideoFrame) and self.frame is None:
                    self.frame = frame
        except av.error.FFmpegError as error:
            self.too_large |= error.errno == errno.EINVAL


def stream_info(
    source: Source, container: InputContainer, stream: VideoStream, first: FirstPicture
) -> StreamInfo:
    """The facts of one stream.

    Raises:
        UnreadableSourceError: neither its header nor its first picture tells a size and a pixel format.
    """
    from ..bitstream import (
        chroma_location,  # what is indexed already is opened without the readers of bitstreams
    )

    context, frame = stream.codec_context, first.frame
    pixel = frame.format if frame is not None else context.format
    width, height = (frame.width, frame.height) if frame is not None else (context.width, context.height)
    if first.too_large and frame is None:
        raise _unusable(
            source,
            "no frame can be decoded: the file is damaged, or its pictures have more than "
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


def side_data(packet: av.Packet[Any]) -> list[str]:
    """What the container keeps beside a packet's bytes that its decoder is to be told, by FFmpeg's names."""
    try:
        return [str(one.data_type) for one in packet.iter_sidedata()]
    except IndexError:  # of a kind that PyAV has no name for
        return ["unknown"]


def no_packets(source: Source) -> UnreadableSourceError:
    """A header that may be sound, and no video behind it."""
    return _unusable(source, "it holds no video packets")


def _unusable(
    source: Source,
    fact: str,
    advice: str = "The file may be cut or damaged: fetch it again, or leave it out with on_error='skip'",
) -> UnreadableSourceError:
    return UnreadableSourceError(fact, source=source.name, advice=advice)


def with_source(info: StreamInfo, name: str) -> StreamInfo:
    """The same facts under another name."""
    return info if info.source == name else replace(info, source=name)


def unreadable(source: Source, error: Exception) -> UnreadableSourceError:
    """FFmpeg's refusal to open or to demux, in our words."""
    if isinstance(error, PermissionError):
        return UnreadableSourceError(
            f"cannot be opened ({error.strerror})", source=source.name, advice="Give a file that you may read"
        )
    return UnreadableSourceError(
        f"this is not a video that FFmpeg can open ({getattr(error, 'strerror', None) or error})",
        source=source.name,
        advice="Check that the file is complete and that it is a video",
    )


def _fraction(value: Rational | None) -> Fraction | None:
    # PyAV 19 has a rational type of its own; zero stands for unknown.
    return Fraction(int(value.numerator), int(value.denominator)) if value else None


def _disposition(stream: Stream) -> int:
    # An IntFlag from PyAV 18 on, a Flag before.
    return int(getattr(stream.disposition, "value", stream.disposition))


def _orientation(frame: av.VideoFrame | None) -> tuple[int, bool]:
    """Degrees counter-clockwise, and whether to mirror left to right before the turn."""
    matrix = None if frame is None else _beside(frame, "DISPLAYMATRIX")
    if matrix is None:
        return 0, False
    turn = np.frombuffer(matrix, "<i4", count=9).reshape(3, 3)[:2, :2].astype(float)
    flipped = bool(np.linalg.det(turn) < 0)
    if flipped:
        turn[0] = -turn[0]
    quarters = round(-np.degrees(np.arctan2(turn[0, 1], turn[0, 0])) / 90)
    return int(quarters * 90 % 360), flipped


def _beside(frame: av.VideoFrame, kind: str) -> bytes | None:
    """What a decoder has put beside a picture, None if it is not there."""
    try:
        found = frame.side_data.get(kind)
    except ValueError:  # PyAV lists nothing where one thing has no name in it; a filter takes that away
        found = _without(_EXIF, frame).side_data.get(kind)
    return None if found is None else bytes(cast("bytes", found))


def _without(kind: int, frame: av.VideoFrame) -> av.VideoFrame:
    graph = av.filter.Graph()
    time_base = frame.time_base or Fraction(1)
    given = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=time_base)
    taken, made = graph.add("sidedata", f"mode=delete:type={kind}"), graph.add("buffersink")
    given.link_to(taken)
    taken.link_to(made)
    graph.configure()
    given.push(frame)
    return cast("av.VideoFrame", made.pull())


def _chroma(pixel: av.VideoFormat) -> str:
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
    """The bitstream's tag as the frame carries it, else the container's."""
    return int(frame) if frame is not None and int(frame) != _UNSPECIFIED else int(context)


def _full_range(pixel_format: str, tag: int) -> bool | None:
    return True if pixel_format.startswith("yuvj") else {_FULL: True, _LIMITED: False}.get(tag)


def _duration(container: InputContainer, stream: VideoStream, tick: Fraction) -> float | None:
    if stream.duration is not None:
        return float(stream.duration * tick)
    return None if container.duration is None else container.duration / 1e6
