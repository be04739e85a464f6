"""Copies of videos for training: small, upright, with key frames where random clips need them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
import av.error
import av.filter
import numpy as np

from ...core.param import check_fields
from ...core.whole_file import replacing
from ...errors import OutputError, SeqpipeError, SourceError
from ..convert.color import resolve
from ..packet_index import PacketIndex
from ..plan import make_plan
from ..probe.info import StreamInfo
from ..probe.probe import Demuxer, video_stream
from ..probe.recognize import parsing
from ..source.source import Source
from .params import CODEC, GOP, QUALITY, SHORT_SIDE
from .write import encoder_of, format_of

__all__ = ["Copied", "CopySettings", "decoded_per_frame", "transcode"]

_BT709, _TICKS = 1, 90_000
_UNTAGGED, _ANY_RANGE = 2, 0
_TURNS: Final[dict[int, list[tuple[str, str]]]] = {
    0: [],
    90: [("transpose", "cclock")],
    180: [("hflip", ""), ("vflip", "")],
    270: [("transpose", "clock")],
}


@dataclass(frozen=True, kw_only=True)
class CopySettings:
    """Settings of training copies.

    Attributes:
        short_side: pixels of the shorter side; the other one keeps the shape. Smaller videos are not enlarged.
        gop: frames from one key frame to the next.
        codec: "h264", "hevc" or "av1".
        quality: as for :func:`seqpipe.write_video`; None for its default.
    """

    short_side: int = 256
    gop: int = 16
    codec: str = "h264"
    quality: float | None = None

    def __post_init__(self) -> None:
        check_fields(self, SHORT_SIDE, GOP, CODEC, QUALITY)


@dataclass(frozen=True)
class Copied:
    """A copy that was written.

    Attributes:
        frames: number of its frames.
        bytes: size of the file.
        lost: number of packets that could not be decoded.
    """

    frames: int
    bytes: int
    lost: int


def transcode(
    source: Source,
    index: PacketIndex,
    path: Path,
    settings: CopySettings,
    *,
    frames: range | None = None,
    threads: int = 1,
) -> Copied:
    """Write a copy of a video, or of a part of it, beside ``path`` and renamed once it is complete.

    Frames are scaled as they are decoded, without a conversion to RGB: matrix and range stay and are tagged, rotation
    is applied, and more than 8 bits become 8. Times stay, counted from the first frame. B-frames of H.264 are not
    referred to, so that clips with a stride leave them out.
    """
    wanted = range(len(index)) if frames is None else frames
    if not len(wanted):
        raise index.range_error("the range", f"0 to {len(index) - 1}")
    try:
        with replacing(path) as part:
            with parsing(source):
                demuxer = Demuxer(source)
            options = {"movflags": "+faststart"}
            with demuxer, av.open(str(part), "w", format="mp4", options=options) as output:
                writer = _Copy(source, demuxer, index, settings, output, threads)
                count = writer.run(wanted)
            size = part.stat().st_size
        return Copied(count, size, writer.lost)
    except SeqpipeError:
        raise
    except (av.error.FFmpegError, FileNotFoundError, PermissionError, ValueError) as error:
        raise OutputError(
            f"the copy of {source.name} cannot be written ({getattr(error, 'strerror', None) or error})",
            source=str(path),
            advice="Check that the folder exists, may be written and has room",
        ) from error


def _copy_size(info: StreamInfo, short_side: int) -> tuple[int, int]:
    """Return (width, height) of a copy before its rotation, both even."""
    scale = min(Fraction(1), Fraction(short_side, min(info.width, info.height)))
    width, height = (max(2, 2 * round(side * scale / 2)) for side in (info.width, info.height))
    return width, height


def decoded_per_frame(index: PacketIndex, length: int, stride: int, clips: int = 64) -> float:
    """Return how many packets are decoded for each frame of clips that start evenly over a video."""
    table, span = index.packets, (length - 1) * stride + 1
    last = max(0, len(index) - span)
    starts = np.unique(np.linspace(0, last, clips).round().astype(np.int64))
    cost = delivered = 0
    for start in starts.tolist():
        numbers = np.arange(start, min(start + span, len(index)), stride)
        cost += make_plan(table, table.frame_packet[numbers]).cost
        delivered += len(numbers)
    return cost / max(1, delivered)


class _Copy:
    """Decodes, scales and encodes the frames of a range."""

    def __init__(
        self,
        source: Source,
        demuxer: Demuxer,
        index: PacketIndex,
        settings: CopySettings,
        output: Any,
        threads: int,
    ) -> None:
        self._source, self._container, self._index, self._settings = (
            source,
            demuxer.container,
            index,
            settings,
        )
        self._output, self._threads = output, threads
        self._stream = video_stream(source, demuxer.container, index.info.stream)
        self._stream.thread_count, self._stream.thread_type = threads, "AUTO" if threads > 1 else "SLICE"
        self._graph: _Scaled | None = None
        self.lost = 0

    def run(self, wanted: range) -> int:
        """Encode frames by number, and return how many there are."""
        table, tick = self._index.packets, self._index.info.time_base
        first, last = (int(table.pts[table.frame_packet[number]]) for number in (wanted[0], wanted[-1]))
        video, count = None, 0
        for frame in self._frames(wanted[0], last):
            if frame.pts is None or frame.pts < first:
                continue
            if frame.pts > last:
                break
            frame.pts, frame.time_base, frame.pict_type = frame.pts - first, tick, 0
            for scaled in self._scaled(frame):
                video = video or self._begin(scaled)
                scaled.pict_type = 0
                self._output.mux(video.encode(scaled))
                count += 1
        if video is None:
            raise SourceError(
                "no frame of the range can be decoded", source=self._source.name, advice="Leave the video out"
            )
        self._output.mux(video.encode(None))
        return count

    def _frames(self, number: int, last: int) -> Iterator[Any]:
        """Yield decoded frames from the key frame before a frame on."""
        table, stream = self._index.packets, self._stream
        key = int(table.gop[table.frame_packet[number]])
        if key:
            self._container.seek(int(table.pts[key]), stream=stream, backward=True)
        past = 0
        for packet in self._container.demux(stream):
            # frames after the last one are delayed by no more than the codec's reordering
            past += packet.pts is not None and packet.pts > last
            try:
                yield from packet.decode()
            except av.error.InvalidDataError:
                self.lost += 1
            if past > 64:
                break

    def _scaled(self, frame: Any) -> list[Any]:
        """Return what the filters make of a frame."""
        if self._graph is None:
            size = _copy_size(self._index.info, self._settings.short_side)
            self._graph = _Scaled(self._index.info, frame, size)
        return self._graph.of(frame)

    def _begin(self, frame: Any) -> Any:
        """Add the stream of the copy, with the color tags of the source."""
        info, settings = self._index.info, self._settings
        encoder = encoder_of(format_of(Path("copy.mp4")), settings.codec)
        rate = (info.average_rate or info.real_rate or Fraction(25)).limit_denominator(1 << 16)
        stream = self._output.add_stream(encoder.name, rate=rate)
        stream.width, stream.height, stream.pix_fmt = frame.width, frame.height, frame.format.name
        options = encoder.settings(settings.quality, settings.gop)
        if encoder.name == "libx264":
            options |= {
                "x264-params": f"b-pyramid=none:scenecut=0:keyint={settings.gop}:min-keyint={settings.gop}"
            }
        stream.options = options
        context, colors, rgb = stream.codec_context, resolve(info), info.chroma == "rgb"
        context.thread_count = self._threads
        context.colorspace = _BT709 if rgb else colors.matrix
        context.color_range = 1 if rgb or not colors.full_range else 2
        context.color_primaries, context.color_trc = info.primaries, info.transfer
        ratio = info.sample_aspect_ratio
        context.sample_aspect_ratio = 1 / ratio if info.rotation_degrees % 180 else ratio
        stream.time_base = context.time_base = Fraction(1, _TICKS)
        return stream


class _Scaled:
    """Filters of a copy: size, orientation, 8-bit 4:2:0."""

    def __init__(self, info: StreamInfo, frame: Any, size: tuple[int, int]) -> None:
        graph = self._graph = av.filter.Graph()
        graph.threads = 1
        self._source = graph.add_buffer(
            width=frame.width, height=frame.height, format=frame.format, time_base=info.time_base
        )
        width, height = size
        colors = ":out_color_matrix=bt709:out_range=tv" if info.chroma == "rgb" else ""
        steps: list[tuple[str, str]] = []
        if colors or (frame.width, frame.height) != size:
            steps.append(("scale", f"{width}:{height}:flags=bicubic{colors}"))
        steps += [("hflip", "")] if info.flipped else []
        steps += _TURNS[info.rotation_degrees]
        steps += [("format", "yuvj420p" if frame.format.name.startswith("yuvj") else "yuv420p")]
        steps += [("settb", f"1/{_TICKS}")]
        last = self._source
        for name, arguments in steps:
            node = graph.add(name, arguments)
            last.link_to(node)
            last = node
        self._sink = graph.add("buffersink")
        last.link_to(self._sink)
        graph.configure()

    def of(self, frame: Any) -> list[Any]:
        """Return what a frame becomes."""
        # filters convert tagged frames to their own idea of colors; the copy has the values and the tags of the source
        frame.colorspace, frame.color_range = _UNTAGGED, _ANY_RANGE
        self._source.push(frame)
        frames: list[Any] = []
        while True:
            try:
                frames.append(self._sink.pull())
            except (av.error.BlockingIOError, av.error.EOFError):
                return frames
