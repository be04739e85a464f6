"""Streaming of sources that can only be read from front to back, in order and in constant memory.

For pipes, standard input and live addresses: nothing is indexed, and the source is never sought. Frames are numbered
from the first one that can be decoded; their pixels equal those that a reader returns for a file of the same bytes.
"""

from __future__ import annotations

import math
import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from stat import S_ISFIFO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import av
import av.container
import av.error
import numpy as np

from ..array import Array
from ..errors import DamagedSourceError, ParameterError, SeqpipeError, SourceError
from ..padding import PadMode
from ..param import Param
from ..sampling.clip import FrameClip, Span, padded
from ..sampling.windows import Windows
from ..sequence import Sequence
from .convert.output import OutputSpec, check_output
from .convert.paint import HostPainter
from .convert.surface import AnySurface
from .decode.cpu import CpuDecoder
from .decode.packet_decoder import DecodeError, DecodeResult, FedPacket
from .packet_index import NO_PACKETS, PacketIndex
from .probe.extent import HEAD, declared_size
from .probe.info import StreamInfo
from .probe.probe import FirstPicture, stream_info, unreadable, video_stream
from .source.source import Source, open_source

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = ["Streamed", "stream"]

Streamed: TypeAlias = "str | os.PathLike[str] | Any"
"""A source to stream: "-" for standard input, a path of a file or pipe, an address, or an object with ``read``."""

_START_S: Final = Param(
    name="start_s", doc="Seconds after the first frame to begin at", kind=float, lo=0, unit="s"
)
_DURATION_S: Final = Param(
    name="duration_s", doc="Seconds to take", kind=float, lo=0, unit="s", optional=True
)
_EQUAL_S: Final = 1e-6
_BUFFER: Final = 1 << 16
_INSIDE: Final = 256  # packets of which a decoder may still give a picture
_SCHEMES: Final = ("http://", "https://", "rtsp://", "rtmp://", "udp://", "tcp://", "srt://", "hls+http")


def stream(
    source: Streamed,
    *,
    sequence_length: int = 1,
    stride: int = 1,
    step: int | None = None,
    pad_mode: PadMode = "none",
    output: OutputSpec | None = None,
    operators: Callable[..., Sequence] | None = None,
    start_s: float = 0.0,
    duration_s: float | None = None,
    fill: float = 0,
    open_timeout_s: float = 10.0,
    read_timeout_s: float = 10.0,
) -> Iterator[Sequence]:
    """Iterate over the sequences of a stream; each is returned as soon as its last frame has arrived.

    The sequences equal those of :class:`seqpipe.readers.Video` for a file of the same bytes, in order.

    Args:
        source: ``"-"`` for standard input; a path, of a pipe too; an address that FFmpeg opens (``http://``,
            ``rtsp://``, …) or fsspec does (``s3://``); or a binary file object, which need not seek.
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        step: distance between the starts of sequences; by default ``sequence_length * stride``.
        pad_mode: how sequences that reach past the end are filled, see :mod:`seqpipe.padding`; "none" drops them.
        output: color, dtype and geometry of the frames; by default oriented 8-bit RGB at full size.
        operators: a callable such as a :class:`seqpipe.ops.Chain`, called as ``operators(sequence, index=number)``.
        start_s: start in seconds after the first frame.
        duration_s: duration in seconds, after which reading stops; None for the whole stream.
        fill: pixel value of frames padded by "constant".
        open_timeout_s: longest wait for data, in seconds, while the stream is opened.
        read_timeout_s: longest wait for data, in seconds, afterwards; not applied to objects with ``read``.

    Yields:
        Sequences of layout ``FHWC``, or the results of ``operators``.

    Raises:
        ParameterError: a parameter is out of bounds.
        UnreadableSourceError: the source is not a video, or its container requires seeking.
        SourceError: the stream is cut off, or a timeout has passed; raised after the sequences before were returned.
        DamagedSourceError: a frame cannot be decoded; raised after the sequences before were returned.
    """
    windows = Windows(sequence_length=sequence_length, stride=stride, step=step, pad_mode=pad_mode)
    chosen = _Chosen(_START_S.check(start_s), _DURATION_S.check(duration_s))
    spec = check_output(output)
    timeouts = tuple(
        float(Param(name=name, doc="", kind=float, lo=1e-3, unit="s").check(value))
        for name, value in (("open_timeout_s", open_timeout_s), ("read_timeout_s", read_timeout_s))
    )
    made = _sequences(source, windows, chosen, spec, fill, cast("tuple[float, float]", timeouts))
    if operators is None:
        return made
    return (operators(sequence, index=number) for number, sequence in enumerate(made))


@dataclass(frozen=True)
class _Chosen:
    """The seconds after the first frame that are taken."""

    start_s: float
    duration_s: float | None

    def place(self, seconds: float) -> int:
        """-1 before them, 0 inside, 1 behind."""
        if seconds < self.start_s - _EQUAL_S:
            return -1
        end = math.inf if self.duration_s is None else self.start_s + self.duration_s
        return int(seconds >= end - _EQUAL_S)


@dataclass(frozen=True)
class _Frame:
    number: int
    seconds: float
    surface: Callable[[int], AnySurface]


def _sequences(
    source: Streamed,
    windows: Windows,
    chosen: _Chosen,
    output: OutputSpec,
    fill: float,
    timeouts: tuple[float, float],
) -> Iterator[Sequence]:
    with ExitStack() as stack:
        opened = _Opened(source, timeouts, stack)
        ring: _Ring | None = None
        begin = None
        for frame in opened.frames():
            begin = frame.seconds if begin is None else begin
            place = chosen.place(frame.seconds - begin)
            if place > 0:
                break
            if place == 0:
                if ring is None:
                    ring = _Ring(windows, frame.number, opened.info, output, fill)
                yield from ring.add(frame)
        if ring is not None:
            yield from ring.end()
        if opened.error is not None:
            raise opened.error


class _Ring:
    """The frames that sequences to come still need, converted."""

    def __init__(
        self, windows: Windows, first: int, info: StreamInfo, output: OutputSpec, fill: float
    ) -> None:
        self._windows, self._first, self._fill = windows, first, fill
        self._info, self._output = info, output
        self._reach = (windows.sequence_length - 1) * windows.stride
        self._painter = HostPainter()
        self._converter = self._painter.converter(info, output)
        self._held: dict[int, tuple[float, Array]] = {}
        self._next, self._end = 0, first

    def add(self, frame: _Frame) -> Iterator[Sequence]:
        """Take a frame; gives the sequences that it completes."""
        self._end = frame.number + 1
        if self._is_needed(frame.number - self._first):
            pixels = self._painter.allocate(self._converter.shape, self._converter.dtype)
            self._painter.put(frame.surface(frame.number), [(self._converter, pixels)])
            self._held[frame.number] = frame.seconds, pixels
        while self._begin() + self._reach < self._end:
            yield self._sequence()

    def end(self) -> Iterator[Sequence]:
        """The sequences that reach past the end."""
        while self._windows.pad_mode != "none" and self._begin() < self._end:
            yield self._sequence()

    def _begin(self) -> int:
        return self._first + self._next * self._windows.distance

    def _is_needed(self, at: int) -> bool:
        distance, stride = self._windows.distance, self._windows.stride
        earliest = max(self._next, -(-(at - self._reach) // distance))
        return any((at - k * distance) % stride == 0 for k in range(earliest, at // distance + 1))

    def _sequence(self) -> Sequence:
        clip = (
            self._windows.clip(Span(self._first, self._end), self._next) if self._fits() else self._padded()
        )
        pixels = np.empty((len(clip), *self._converter.shape), self._converter.dtype)
        for place, number in enumerate(clip.frames.tolist()):
            pixels[place] = self._held[number][1] if number >= 0 else self._fill
        frames = clip.labeled()
        times = np.array([self._held[n][0] if n >= 0 else np.nan for n in frames.tolist()])
        self._next += 1
        begin = self._begin()
        self._held = {number: held for number, held in self._held.items() if number >= begin}
        return Sequence(pixels, self._output.layout, self._info.source, frames, times)

    def _fits(self) -> bool:
        return self._begin() + self._reach < self._end

    def _padded(self) -> FrameClip:
        begin, stride = self._begin(), self._windows.stride
        real = np.arange(begin, min(begin + self._reach + 1, self._end), stride, dtype=np.int64)
        return padded(real, self._windows.sequence_length, self._windows.pad_mode)


class _Opened:
    """An open stream.

    Attributes:
        info: the facts of the stream; nothing is counted.
        error: why it ended too early, once it has.
    """

    def __init__(self, source: Streamed, timeouts: tuple[float, float], stack: ExitStack) -> None:
        self._source = cast("Source", SimpleNamespace(name=_name(source), stream=None))
        self._waiting = _Waiting(*timeouts)
        self.error: SourceError | None = None
        try:
            self._container, self._heard = _container(source, self._waiting, stack)
            self._stream = video_stream(self._source, self._container)
            self._packets = iter(self._container.demux(self._stream))
            self._first: list[tuple[bytes, bool, int | None]] = []
            picture = FirstPicture(self._stream)
            while not picture.done and (packet := next(self._packets, None)) is not None:
                picture.offer(packet)
                self._keep(packet)
        except SeqpipeError:
            raise
        except TimeoutError as error:
            raise _stalled(self._source, error) from error
        except (av.error.FFmpegError, ValueError) as error:
            found = unreadable(self._source, error)
            found.advice = "What cannot seek must have its header first: for MP4, ffmpeg -movflags +faststart"
            raise found from error
        self.info = stream_info(self._source, self._container, self._stream, picture)
        context = self._stream.codec_context
        index = PacketIndex(
            info=self.info,
            extradata=bytes(context.extradata or b""),
            codec_tag=context.codec_tag,
            coded_bits=context.bits_per_coded_sample,
            packets=NO_PACKETS,
            dropped_at_start=0,
            end_s=0.0,
        )
        self._decoder = CpuDecoder(index)
        self._waiting.opened()

    def frames(self) -> Iterator[_Frame]:
        """Its frames, in the order in which they are shown."""
        times: dict[int, int | None] = {}
        given = _Given(self.info)
        begun = False
        for number, (data, key, pts) in enumerate(self._data()):
            begun = begun or key
            if not begun:
                continue  # nothing can be decoded before the first key packet
            times[number] = pts
            try:
                for result in self._decoder.feed([FedPacket(number, data, key, wanted=True)]):
                    yield from given.frames(result, times)
            except DecodeError as error:
                if not given.count:
                    continue
                raise given.damaged(str(error)) from error
        yield from (frame for result in self._decoder.flush() for frame in given.frames(result, times))
        if self.error is not None:
            self.error.fact += (
                f", after frame {given.count - 1}" if given.count else ", before its first frame"
            )

    def _data(self) -> Iterator[tuple[bytes, bool, int | None]]:
        """The packets from the first one on; says in ``error`` why there are no more."""
        yield from self._first
        self._first = []
        try:
            for packet in self._packets:
                if packet.size:
                    yield (
                        bytes(packet),
                        packet.is_keyframe,
                        packet.pts if packet.pts is not None else packet.dts,
                    )
        except TimeoutError as error:
            self.error = _stalled(self._source, error)
        except av.error.FFmpegError as error:
            self.error = self._ended(error.strerror or str(error))
        else:
            if self._heard is not None and (missing := self._heard.missing()):
                self.error = self._ended(missing)

    def _ended(self, reason: str) -> SourceError:
        return SourceError(f"the stream ends in the middle ({reason})", source=self._source.name)

    def _keep(self, packet: av.Packet[Any]) -> None:
        if packet.size:
            pts = packet.pts if packet.pts is not None else packet.dts
            self._first.append((bytes(packet), packet.is_keyframe, pts))


class _Given:
    """What was given so far."""

    def __init__(self, info: StreamInfo) -> None:
        self.count = 0
        self._info = info
        self._seconds = -math.inf
        rate = info.average_rate or info.real_rate or 25
        self._step = float(1 / rate)

    def frames(self, result: DecodeResult, times: dict[int, int | None]) -> Iterator[_Frame]:
        """The frames of what a decoder gave; damaged ones before the first sound one are none."""
        for picture in result.frames:
            pts = times.pop(picture.packet, None)
            if self._info.container == "avi":
                pts = None  # which has no place for them; what FFmpeg gives for them is a guess
            if picture.packet in result.damaged:
                if not self.count:
                    continue
                raise self.damaged("the decoder concealed an error in its frame")
            base = self._info.time_base
            seconds = self._seconds + self._step if pts is None else pts * base.numerator / base.denominator
            if pts is None and not math.isfinite(seconds):
                seconds = 0.0
            self._seconds = seconds
            self.count += 1
            yield _Frame(self.count - 1, seconds, picture.surface)
        for packet in [packet for packet in times if packet < min(result.decoded, default=0) - _INSIDE]:
            del times[packet]  # hidden, or not decoded

    def damaged(self, reason: str) -> DamagedSourceError:
        """The error for the next frame."""
        return DamagedSourceError(
            f"frame {self.count} cannot be decoded ({reason})",
            source=self._info.source,
            advice="Save the stream to a file, and leave lost frames out there",
            lost=(self.count,),
        )


class _Waiting:
    """How long to wait for data."""

    def __init__(self, open_s: float, read_s: float) -> None:
        self.open_s, self.read_s = open_s, read_s
        self.now_s = open_s

    def opened(self) -> None:
        """From now on the stream is read."""
        self.now_s = self.read_s


class _Pipe:
    """A descriptor that is read from front to back, and not waited for forever."""

    def __init__(self, descriptor: int, waiting: _Waiting) -> None:
        self._descriptor, self._waiting = descriptor, waiting

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes, as soon as there are some; none at the end.

        Raises:
            TimeoutError: there are none for too long.
        """
        limit = self._waiting.now_s
        if not select.select([self._descriptor], [], [], limit)[0]:
            raise TimeoutError(f"no data for {limit:g} s")
        return os.read(self._descriptor, max(1, size))


class _Front:
    """A file object that is read from front to back, whatever else it could do."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes."""
        data = self._file.read(size)
        if not isinstance(data, bytes):
            raise ParameterError("the file object gives text", advice="Open it with mode 'rb'")
        return data


def _name(source: Streamed) -> str:
    if isinstance(source, (str, os.PathLike)):
        return "<standard input>" if source == "-" else os.fspath(source)
    return f"<{getattr(source, 'name', None) or type(source).__name__}>"


class _Heard:
    """A stream of bytes whose end is noticed where its header promises more."""

    def __init__(self, plain: Any) -> None:
        self._read = plain.read
        self._head, self._size = b"", 0

    def read(self, size: int = _BUFFER) -> bytes:
        """Up to so many bytes."""
        data: bytes = self._read(size)
        self._head += data[: HEAD - len(self._head)]
        self._size += len(data)
        return data

    def missing(self) -> str:
        """What does not come of what the header promises, or nothing."""
        stated = declared_size(self._head)
        while stated is not None and stated > self._size and self.read():
            pass  # what stands behind the last packet
        if stated is None or stated <= self._size:
            return ""
        return f"its header promises {stated} bytes, {self._size} came"


def _container(source: Streamed, waiting: _Waiting, stack: ExitStack) -> tuple[InputContainer, _Heard | None]:
    """The demuxer over a stream, and what it is read through, if that is not FFmpeg's own business."""
    file = _file(source, waiting, stack)
    if isinstance(file, str):
        timeout = (waiting.open_s, waiting.read_s) if file.startswith(_SCHEMES) else None
        return stack.enter_context(av.open(file, timeout=timeout)), None
    heard = _Heard(file)
    opened = av.open(cast("Any", heard), "r", buffer_size=_BUFFER)
    return cast("InputContainer", stack.enter_context(opened)), heard


def _file(source: Streamed, waiting: _Waiting, stack: ExitStack) -> Any:
    """What ``av.open`` takes: a path or address, or an object that reads."""
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "read"):
            raise ParameterError(
                f"a {type(source).__name__} cannot be streamed",
                allowed='"-", a path, an address, or a binary file object',
            )
        return _Front(source)
    name = os.fspath(source)
    if name == "-":
        return _Pipe(sys.stdin.fileno(), waiting)
    if name.startswith(_SCHEMES):
        return name
    if "://" in name:
        import fsspec

        return stack.enter_context(fsspec.open(name, "rb").open())
    if S_ISFIFO(os.stat(name).st_mode) if os.path.exists(name) else False:  # noqa: PTH110, PTH116  names are texts here
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        return _Pipe(descriptor, waiting)
    return open_source(name).for_demuxer()


def _stalled(source: Source, error: TimeoutError) -> SourceError:
    return SourceError(
        f"the stream has stalled ({error})",
        source=source.name,
        advice="Give more time: open_timeout_s, read_timeout_s",
    )
