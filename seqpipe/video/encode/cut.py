"""Cuts of videos by copying packets: nothing is decoded, so frames and sound are bit-identical.

Decoding starts at the key frame before the cut. In MP4 and QuickTime, an edit list hides what lies between the two, and
what follows the end because frames before it refer to it; players that honor it show the frames of the range alone.
Other containers have no such list: their cut begins with the key frame, or is encoded anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
import av.error

from ...core.param import check_path
from ...core.whole_file import replacing
from ...errors import OutputError, ParameterError, SeqpipeError
from ..index.open import open_index
from ..packet_index import PacketIndex
from ..plan import check_time_s
from ..probe.probe import Demuxer, video_stream
from ..probe.recognize import parsing
from ..source.source import Origin, Source, open_source
from .edit_lists import end_edit_lists
from .sound import BEFORE_S
from .write import FileFormat, encoder_of, format_of

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = ["CutResult", "cut_video"]

_QUALITY: Final = 85.0
_WITHOUT_TIMES: Final = frozenset({"avi", "h264", "hevc", "m4v", "mpegvideo"})


@dataclass(frozen=True)
class CutResult:
    """What a cut consists of.

    Attributes:
        start_s: time of its first frame on the source's clock.
        end_s: time at which it ends.
        copied: number of packets that were copied.
        encoded: number of frames that were encoded anew.
        hidden_s: seconds that are stored before the first frame, and hidden by an edit list.
    """

    start_s: float
    end_s: float
    copied: int
    encoded: int
    hidden_s: float


def cut_video(
    origin: Origin,
    path: str | os.PathLike[str],
    start_s: float,
    end_s: float,
    *,
    exact: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
) -> CutResult:
    """Cut a part out of a video, with its sound; its first frame is at 0 s.

    Packets are copied, with rotation, color tags and languages. The cut begins with the frame on screen at ``start_s``
    in MP4 and MOV, and with the key frame before it in other formats.
    """
    target = Path(check_path("path", path))
    form = format_of(target)
    if not form.sound:
        raise ParameterError(f"{form.name} files hold no cuts", allowed=".mp4, .mov, .mkv, .webm")
    source = open_source(origin)
    index = open_index(source, cache_dir=cache_dir)
    first, start, end = _range(index, check_time_s(start_s), check_time_s(end_s))
    if index.info.container in _WITHOUT_TIMES:
        raise ParameterError(
            f"its container ({index.info.container}) stores no times, so its packets cannot be copied",
            source=source.name,
            advice="Convert it to MP4 first",
        )
    try:
        with replacing(target) as part:
            with parsing(source):
                demuxer = Demuxer(source)
            with demuxer:
                cutter = _Cutter(source, demuxer.container, index, form, start, end)
                if exact and not form.edit_lists:
                    return cutter.encode(part)
                return cutter.copy(part, first)
    except SeqpipeError:
        raise
    except (av.error.FFmpegError, FileNotFoundError, PermissionError, ValueError) as error:
        raise OutputError(
            f"the cut cannot be written ({getattr(error, 'strerror', None) or error})",
            source=str(target),
            advice=f"Check that the folder exists, has room, and that {form.name} holds {index.info.codec}",
        ) from error


def _range(index: PacketIndex, start_s: float, end_s: float) -> tuple[int, Fraction, Fraction]:
    """Return the first frame, and the times of a cut on the stream's clock, exactly."""
    times = index.timestamps
    if not (len(times) and times[0] - 1e-6 <= start_s < index.end_s):
        allowed = f"from {times[0]:.6f} s to {index.end_s:.6f} s" if len(times) else ""
        raise index.range_error(f"start_s={start_s:g}", allowed)
    if end_s <= start_s:
        raise ParameterError(
            f"end_s={end_s:g} is not later than start_s={start_s:g}", source=index.info.source
        )
    frame = max(0, int(times.searchsorted(start_s + 1e-6, side="right")) - 1)
    ticks = int(index.packets.pts[index.packets.frame_packet[frame]])
    return frame, ticks * index.info.time_base, Fraction(min(end_s, index.end_s)).limit_denominator(10**6)


class _Cutter:
    """Copies or encodes the packets of a range of time."""

    def __init__(
        self,
        source: Source,
        container: InputContainer,
        index: PacketIndex,
        form: FileFormat,
        start: Fraction,
        end: Fraction,
    ) -> None:
        self._container, self._index, self._form = container, index, form
        self._start, self._end = start, end
        self._video = video_stream(source, container, index.info.stream)
        self._audio = [
            stream for stream in container.streams.audio if getattr(stream, "codec_context", None) is not None
        ]

    def copy(self, part: Path, first: int) -> CutResult:
        """Copy the packets."""
        table = self._index.packets
        key = int(table.gop[table.frame_packet[first]])
        lists = self._form.edit_lists
        key_time = int(table.pts[key]) * self._index.info.time_base
        zero = self._start if lists else key_time
        options = (
            {**self._form.options, "avoid_negative_ts": "disabled"} if lists else dict(self._form.options)
        )
        with av.open(str(part), "w", format=self._form.name, options=options) as output:
            streams = {
                stream.index: output.add_stream_from_template(stream, opaque=True)
                for stream in self._streams()
            }
            copied = 0
            sound = zero - Fraction(BEFORE_S) if lists else zero
            for packet in self._packets(int(table.pts[key]), sound):
                stream = streams[packet.stream_index]
                shift = round(zero / packet.time_base)
                packet.pts -= shift
                packet.dts = None if packet.dts is None else packet.dts - shift
                packet.stream = stream
                output.mux(packet)
                copied += 1
        if lists:
            with part.open("r+b") as file:
                end_edit_lists(file, float(self._end - zero))
        return CutResult(float(zero), float(self._end), copied, 0, float(zero - key_time))

    def encode(self, part: Path) -> CutResult:
        """Encode the frames anew, and copy the sound."""
        info, count, copied = self._index.info, 0, 0
        encoder = encoder_of(self._form, info.codec if info.codec in self._form.codecs else None)
        table, tick = self._index.packets, self._index.info.time_base
        with av.open(str(part), "w", format=self._form.name, options=dict(self._form.options)) as output:
            rate = (info.average_rate or info.real_rate or Fraction(30)).limit_denominator(1 << 16)
            video: Any = output.add_stream(encoder.name, rate=rate)
            sounds = {
                stream.index: output.add_stream_from_template(stream, opaque=True) for stream in self._audio
            }
            item: Any
            for item in self._decoded(self._packets(int(table.pts[self._first_key()]), self._start)):
                if isinstance(item, av.Packet):
                    assert item.pts is not None  # as _packets gives them
                    item.pts = item.dts = (item.pts or 0) - round(self._start / item.time_base)
                    item.stream = sounds[item.stream_index]
                    output.mux(item)
                    copied += 1
                elif self._start <= item.pts * tick < self._end:
                    if not count:
                        self._set_up(video, encoder.settings(_QUALITY, None), item, even=encoder.even)
                    item.pts, item.pict_type = item.pts - round(self._start / tick), 0
                    item.time_base = tick
                    output.mux(video.encode(item))
                    count += 1
            output.mux(video.encode(None))
        return CutResult(float(self._start), float(self._end), copied, count, 0.0)

    def _decoded(self, packets: Iterator[Any]) -> Iterator[Any]:
        """Yield frames in place of the packets of the video."""
        for packet in packets:
            if packet.stream_index == self._video.index:
                yield from packet.decode()
            else:
                yield packet
        yield from self._video.codec_context.decode(None)

    def _set_up(self, video: Any, options: dict[str, str], frame: Any, *, even: bool) -> None:
        """Give an encoder the properties of the frames that it encodes."""
        if even and (frame.width % 2 or frame.height % 2) and frame.format.name.startswith("yuv420"):
            raise ParameterError(
                "frames with an odd side cannot be encoded exactly", allowed="a cut without exact"
            )
        video.width, video.height, video.pix_fmt = frame.width, frame.height, frame.format.name
        video.options = options
        context, info = video.codec_context, self._index.info
        context.colorspace, context.color_range = info.matrix, 2 if info.full_range else 1
        context.color_primaries, context.color_trc = info.primaries, info.transfer
        context.sample_aspect_ratio = info.sample_aspect_ratio
        video.time_base = context.time_base = info.time_base
        if info.rotation_degrees:
            video.set_display_rotation(-info.rotation_degrees)

    def _first_key(self) -> int:
        """Return the packet of the key frame before the start."""
        table = self._index.packets
        frame = int(self._index.timestamps.searchsorted(float(self._start) + 1e-6, side="right")) - 1
        return int(table.gop[table.frame_packet[frame]])

    def _streams(self) -> list[Any]:
        """Return the streams that are copied."""
        return [self._video, *self._audio]

    def _packets(self, key_pts: int, sound: Fraction) -> Iterator[Any]:
        """Yield the packets of the range: frames from the key frame on, and what begins with ``sound`` or later."""
        video = self._video
        self._container.seek(key_pts, stream=video, backward=True)
        ended: set[int] = set()
        begun = False
        for packet in self._container.demux(*self._streams()):
            number = packet.stream_index
            if packet.size == 0 or number in ended or packet.pts is None:
                continue
            base = Fraction(packet.time_base)
            decoded = packet.pts if packet.dts is None or number != video.index else packet.dts
            if decoded * base >= self._end:
                ended.add(number)
                if len(ended) == 1 + len(self._audio):
                    return
                continue
            if number == video.index:
                begun = begun or (packet.is_keyframe and packet.pts >= key_pts)
                if begun:
                    yield packet
            elif packet.pts * base >= sound:
                yield packet
