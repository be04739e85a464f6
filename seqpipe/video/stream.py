"""Streaming of sources that can only be read sequentially, in constant memory.

For pipes, standard input and live addresses: no index is built, and the source is never seeked. Frames are numbered
from the first one that can be decoded; their pixels equal those that a reader returns for a file of the same bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from ..array import Array
from ..core.keywords import OF_OUTPUT, refuses_unknown
from ..core.padding import PadMode
from ..core.param import Param
from ..core.turns import InTurn
from ..errors import FrameRangeError, ParameterError
from ..sampling.clip import FrameClip
from ..sampling.clock import EQUAL_S
from ..sampling.windows import RollingWindows, Windows
from ..sequence import Sequence
from .byte_streams import Streamed
from .convert.output import OutputSpec, check_fill, check_output
from .decode.cpu import CpuDecoder
from .decode.packets import DecodeError, DecodeResult, FedPacket
from .frame_stream import FramePainter, FrameStream
from .index.alpha import ALPHA_CODECS
from .index.build import Scan
from .packet_index import NO_PACKETS, PacketIndex
from .probe.info import StreamInfo
from .probe.probe import open_container, side_data
from .probe.recognize import parsing
from .source.source import Source

if TYPE_CHECKING:
    import av

__all__ = ["FirstFrame", "FirstPass", "Streamed", "first_pass", "stream"]

_START_S: Final = Param(
    name="start_s", doc="Seconds after the first frame to begin at", kind=float, lo=0, unit="s"
)
_DURATION_S: Final = Param(
    name="duration_s", doc="Seconds to take", kind=float, lo=0, unit="s", optional=True
)


@refuses_unknown("seqpipe.stream", OF_OUTPUT)
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
    fill_value: float = 0,
    open_timeout_s: float = 10.0,
    read_timeout_s: float = 10.0,
) -> Iterator[Sequence]:
    """Iterate over the sequences of a stream; each is returned as soon as its last frame has arrived.

    The sequences equal those of :func:`seqpipe.videos` for a file of the same bytes, in order.

    Args:
        source: ``"-"`` for standard input; a path, of a pipe too; an address that FFmpeg opens (``http://``,
            ``rtsp://``, …) or fsspec does (``s3://``); or a binary file object, which need not seek.
        sequence_length: frames in a sequence.
        stride: distance between its frames.
        step: distance between the starts of sequences; by default ``sequence_length * stride``.
        pad_mode: how sequences that reach past the end are filled, see :mod:`seqpipe.core.padding`; "none" drops them.
        output: color, dtype and geometry of the frames; by default oriented 8-bit RGB at full size.
        operators: a callable such as a :class:`seqpipe.ops.Chain`, called as ``operators(sequence, index=number)``.
        start_s: start in seconds after the first frame.
        duration_s: duration in seconds, after which reading stops; None for the whole stream.
        fill_value: pixel value of frames padded by "constant".
        open_timeout_s: longest wait for data, in seconds, while the stream is opened.
        read_timeout_s: longest wait for data, in seconds, afterwards; not applied to objects with ``read``.

    Yields:
        Sequences of layout ``FHWC``, or the results of ``operators``.

    Raises:
        ParameterError: a parameter is out of bounds.
        UnreadableSourceError: the source is not a video, or its container requires seeking.
        FrameRangeError: no frame begins in the range; raised at the end of the range or of the stream.
        SourceError: the stream is truncated, or a timeout has passed; raised after the sequences before were returned.
        DamagedSourceError: a frame cannot be decoded; raised after the sequences before were returned.
    """
    windows = Windows(sequence_length=sequence_length, stride=stride, step=step, pad_mode=pad_mode)
    span = _Span(_START_S.check(start_s), _DURATION_S.check(duration_s))
    spec = check_output(output)
    timeouts = tuple(
        float(Param(name=name, doc="", kind=float, lo=1e-3, unit="s").check(value))
        for name, value in (("open_timeout_s", open_timeout_s), ("read_timeout_s", read_timeout_s))
    )
    fill_value = check_fill(fill_value, spec)
    sequences = _sequences(source, windows, span, spec, fill_value, cast("tuple[float, float]", timeouts))
    if operators is None:
        return InTurn(sequences)
    return InTurn(operators(sequence, index=number) for number, sequence in enumerate(sequences))


@dataclass(frozen=True)
class _Span:
    """The span of time to read, in seconds after the first frame."""

    start_s: float
    duration_s: float | None

    def __str__(self) -> str:
        until = "" if self.duration_s is None else f" for duration_s={self.duration_s:g}"
        return f"from start_s={self.start_s:g} on{until}"

    def is_before(self, seconds: float) -> bool:
        """Whether a time lies before the span."""
        return seconds < self.start_s - EQUAL_S

    def is_after(self, seconds: float) -> bool:
        """Whether a time lies after the span."""
        return self.duration_s is not None and seconds >= self.start_s + self.duration_s - EQUAL_S


def _sequences(
    source: Streamed,
    windows: Windows,
    span: _Span,
    output: OutputSpec,
    fill_value: float,
    timeouts: tuple[float, float],
) -> Iterator[Sequence]:
    """Yield the sequences of windows of a stream."""
    with ExitStack() as stack:
        opened = FrameStream(source, timeouts, stack)
        if output.color == "RGBA" and opened.info.codec in ALPHA_CODECS:
            raise ParameterError(
                f"color='RGBA' of {opened.info.codec} is not streamed",
                source=opened.info.source,
                advice="Save the stream to a file, and open that by seqpipe.open",
            )
        painter = FramePainter(opened.info, output)
        rolling: RollingWindows[tuple[float, Array]] | None = None
        first_s, seconds = None, 0.0

        def sequence(clip: FrameClip) -> Sequence:
            assert rolling is not None
            pixels = np.empty((len(clip), *painter.shape), painter.dtype)
            for position, number in enumerate(clip.frames.tolist()):
                pixels[position] = rolling.buffer[number][1] if number >= 0 else fill_value
            frames = clip.labeled()
            times = np.array([rolling.buffer[n][0] if n >= 0 else np.nan for n in frames.tolist()])
            return Sequence(pixels, output.layout, opened.info.source, frames, times)

        for frame in opened.frames():
            first_s = frame.seconds if first_s is None else first_s
            seconds = frame.seconds - first_s
            if rolling is None and span.is_before(seconds):
                continue
            if span.is_after(seconds):
                break
            rolling = rolling or RollingWindows(windows, frame.number)
            if rolling.needs(frame.number):
                pixels = painter.pixels(frame.number, frame.surface)
                rolling.buffer[frame.number] = frame.seconds, pixels
            yield from map(sequence, rolling.passed(frame.number))
        if rolling is not None:
            yield from map(sequence, rolling.rest())
        if opened.error is not None:
            raise opened.error
        if rolling is None and first_s is not None:
            raise FrameRangeError(
                f"no frame begins {span}",
                source=opened.info.source,
                allowed=f"a range that holds a frame, such as the one at {seconds:.3f} s",
            )


_WITHOUT_PTS = ("avi",)
_STATEFUL = {"new_extradata", "palette", "unknown"}
"""Side data that changes how later packets are decoded."""


class FirstFrame(NamedTuple):
    """Frame of a first pass.

    Attributes:
        frame: sequence with its pixels, number and time; layout ``HWC`` or ``CHW``.
        pts: timestamp in ticks.
    """

    frame: Sequence
    pts: int


@contextlib.contextmanager
def first_pass(source: Source, *, output: OutputSpec, threads: int = 1) -> Iterator[FirstPass]:
    """Start a first pass over a video."""
    with open_container(source) as container:
        with parsing(source):
            video = FirstPass(source, Scan(source, container), output, threads)
        yield video


class FirstPass:
    """Decoding of a video during the pass that builds its index.

    Args:
        source: the video.
        packets: the pass over its packets.
        output: color, dtype and geometry of the pixels.
        threads: number of decoding threads.

    Attributes:
        info: properties of the stream, before frames are counted.
    """

    def __init__(self, source: Source, packets: Scan, output: OutputSpec, threads: int) -> None:
        self._source, self._scan = source, packets
        self._head: list[av.Packet[Any]] = []
        for packet in packets.packets():
            self._head.append(packet)
            if packets.first.done:
                break
        described = packets.described(NO_PACKETS)
        self.info: StreamInfo = described.info
        self._decoder = CpuDecoder(described, threads)
        self._painter = FramePainter(self.info, output)
        self._count, self._last = 0, -(1 << 63)

    def frames(self) -> Iterator[FirstFrame]:
        """Yield frames from the first one on, up to the last one or the first whose number or time is uncertain."""
        if self.info.container in _WITHOUT_PTS:
            return
        with parsing(self._source):
            times: dict[int, int] = {}
            with contextlib.suppress(DecodeError):
                for result in self._decoded(times):
                    for picture in result.frames:
                        pts = times.pop(picture.packet)
                        if result.damaged or pts <= self._last:
                            return
                        seconds = pts * self.info.time_base.numerator / self.info.time_base.denominator
                        yield FirstFrame(self._painter.sequence(self._count, seconds, picture.surface), pts)
                        self._count, self._last = self._count + 1, pts

    def index(self, *, rest: bool = True) -> PacketIndex:
        """Return the index of the video, see :meth:`seqpipe.video.index.build.Scan.index`."""
        with parsing(self._source):
            return self._scan.index(rest=rest)

    def _decoded(self, times: dict[int, int]) -> Iterator[DecodeResult]:
        """Yield decode results up to an uncertain packet, and store the pts of packets in ``times``."""
        for number, packet in enumerate(chain(self._head, self._scan.packets())):
            uncertain = packet.pts is None or packet.is_corrupt or packet.is_discard
            if uncertain or (not number and not packet.is_keyframe) or _STATEFUL & set(side_data(packet)):
                return
            times[number] = int(packet.pts or 0)
            yield from self._decoder.feed([FedPacket(number, bytes(packet), packet.is_keyframe, wanted=True)])
        self._head = []
        if self._scan.whole:
            yield from self._decoder.flush()
