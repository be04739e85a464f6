"""Streaming of sources that can only be read sequentially, in constant memory.

For pipes, standard input and live addresses: no index is built, and the source is never seeked. Frames are numbered
from the first one that can be decoded; their pixels equal those that a reader returns for a file of the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from ..array import Array
from ..core.keywords import OF_OUTPUT, refuses_unknown
from ..core.padding import PadMode
from ..core.param import Param
from ..core.turns import InTurn
from ..errors import FrameRangeError
from ..sampling.clip import FrameClip
from ..sampling.clock import EQUAL_S
from ..sampling.windows import RollingWindows, Windows
from ..sequence import Sequence
from .byte_streams import Streamed
from .convert.output import OutputSpec, check_fill, check_output
from .frame_stream import FramePainter, FrameStream

__all__ = ["Streamed", "stream"]

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
    with ExitStack() as stack:
        opened = FrameStream(source, timeouts, stack)
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
