"""Frame selection in a stream: the options of :class:`FrameSelection`, applied to frames as they arrive.

What a selection gives must be that of a file of the same frames, though neither their number nor the times of those to
come are known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol, TypeVar

import numpy as np

from ..array import FloatArray
from ..errors import FrameRangeError, ParameterError
from ..sampling.clip import Span
from ..sampling.clock import EQUAL_S, end_of, rate_tolerance_s
from .selection import FrameSelection, no_key_frame, not_on_screen, nothing_in_range

__all__ = ["LOOK_AHEAD", "SAVE_STREAM", "StreamSelector", "TimedFrame", "Upcoming", "check_streamable"]

LOOK_AHEAD: Final = 256
"""Number of frames whose times :func:`seqpipe.sampling.clock.rate_tolerance_s` judges the clock by."""

SAVE_STREAM: Final = "Save the stream to a file and export that"
"""Advice on what a stream cannot do."""


class TimedFrame(Protocol):
    """What is known of a frame when it arrives."""

    @property
    def number(self) -> int:
        """Its number in the stream."""

    @property
    def seconds(self) -> float:
        """Its time on the stream's clock."""

    @property
    def key(self) -> bool:
        """Whether decoding can start at it."""


class Upcoming(Protocol):
    """Knows times beforehand."""

    def upcoming(self, seconds: float) -> FloatArray:
        """The times of the next frames after a time, in seconds, ascending."""


FrameT = TypeVar("FrameT", bound=TimedFrame)


def check_streamable(selection: FrameSelection) -> None:
    """Check that a selection can be made without seeking, before the length of the video is known."""
    if selection.measures:
        raise ParameterError(
            f"{next(iter(selection.measures))} requires reading the video twice", advice=SAVE_STREAM
        )
    within = selection.within
    in_frames = any(mark is not None and mark.in_frames for mark in (within.end, within.duration))
    if selection.num is not None and not in_frames:
        raise ParameterError(
            f"num={selection.num} requires the number of frames, which is not known of a stream before its end",
            allowed="--num with a range in frames, such as --start 100f --end 400f or --duration 300f",
            advice="Give such a range, use --every or --frames, or save the stream to a file",
        )
    if min(selection.frames or (0,)) < 0:
        raise ParameterError(
            f"--frames {min(selection.frames or ())} counts from the end, which is not known of a stream",
            advice=SAVE_STREAM,
        )


class StreamSelector:
    """Selects frames of one video as they arrive.

    Args:
        selection: which frames are wanted.
        source: for messages.

    Attributes:
        first: the first frame of the range, once it has arrived; else None.
        frame_count: number of frames that have arrived.
        begin_s: time of the first frame of the stream, once it has arrived.
    """

    def __init__(self, selection: FrameSelection, source: str) -> None:
        self._selection, self._within, self._source = selection, selection.within, source
        self.first: int | None = None
        self.frame_count = 0
        self.begin_s = self._start_s = 0.0
        self._times: deque[float] = deque(maxlen=LOOK_AHEAD + 2)
        self._next_s: float | None = None

    def selected(self, frames: Iterator[FrameT], clock: Upcoming) -> Iterator[FrameT]:
        """The selected frames, ascending; of sequences, every frame of the range.

        Reading stops as soon as no more frames are wanted. Where that is the end of the stream, the range or the
        numbers asked for are checked.
        """
        rule = self._selection
        if rule.fps is not None:
            yield from self._at_rate(frames, rule.fps, clock)
        elif rule.at is not None:
            yield from self._on_screen(frames, sorted(rule.at))
        elif rule.frames is not None or rule.num is not None:
            yield from self._numbered(frames)
        else:
            every, any_frame = rule.every or 1, False
            for frame in self._inside(frames):
                assert self.first is not None
                if frame.key if rule.keyframes else not (frame.number - self.first) % every:
                    any_frame = True
                    yield frame
            if self.first is not None and not any_frame:
                raise no_key_frame(self._within, self._source)

    def _inside(self, frames: Iterator[FrameT]) -> Iterator[FrameT]:
        """The frames in the range."""
        for frame in frames:
            self.begin_s = frame.seconds if not self.frame_count else self.begin_s
            begins = self.first is None and self._is_in_range(frame)
            if begins:
                self.first = frame.number
            if self._is_after_range(frame):
                self.first = None if begins else self.first
                self._next_s = frame.seconds
                break
            self.frame_count += 1
            self._times.append(frame.seconds)
            if self.first is None:
                continue
            yield frame
            if self._selection.fps is None and frame.number + 1 == self._end():
                return  # without waiting for the next one
        if self.first is None:
            length_s = self._times[-1] - self.begin_s if self._times else 0.0
            raise nothing_in_range(self._within, self._source, self.frame_count, length_s)

    def _is_in_range(self, frame: TimedFrame) -> bool:
        """Return whether a frame lies behind the start of the range."""
        start = self._within.start
        if start.in_frames:
            self._start_s = frame.seconds
            return frame.number >= start.value
        self._start_s = self.begin_s + start.value
        return frame.seconds >= self._start_s - EQUAL_S

    def _end(self) -> int | None:
        """Where the range ends as a frame number, if that is known by now."""
        end, duration = self._within.end, self._within.duration
        if end is not None and end.in_frames:
            return int(end.value)
        if duration is None or not duration.in_frames or self.first is None:
            return None
        return self.first + int(duration.value)

    def _end_s(self) -> float | None:
        """Where the range ends in seconds on the stream's clock, if it ends at a time."""
        end, duration = self._within.end, self._within.duration
        if duration is not None:
            return None if duration.in_frames else self._start_s + duration.value
        return None if end is None or end.in_frames else self.begin_s + end.value

    def _is_after_range(self, frame: TimedFrame) -> bool:
        """Return whether a frame lies behind the end of the range."""
        if self.first is None and self._within.duration is not None:
            return False
        end, end_s = self._end(), self._end_s()
        return (end is not None and frame.number >= end) or (
            end_s is not None and frame.seconds >= end_s - EQUAL_S
        )

    def _numbered(self, frames: Iterator[FrameT]) -> Iterator[FrameT]:
        """The frames with the selected numbers."""
        from ..sampling.windows import uniform

        left: deque[int] = deque(sorted(set(self._selection.frames or ())))
        for frame in self._inside(frames):
            if self._selection.num is not None and frame.number == self.first:
                span = Span(frame.number, self._end() or frame.number)
                left.extend(uniform(span, self._selection.num).tolist())
            while left and left[0] == frame.number:
                left.popleft()
                yield frame
            if not left:
                return
        raise FrameRangeError(
            f"frame {left[0]} is not in the video",
            source=self._source,
            allowed=f"0 to {self.frame_count - 1}",
            advice="" if self._selection.num is None else "The range must lie inside of the stream for --num",
        )

    def _on_screen(self, frames: Iterator[FrameT], times_s: list[float]) -> Iterator[FrameT]:
        """The frames on screen at ascending times from the first frame on."""
        left, before = deque(times_s), None
        for frame in self._inside(frames):
            if before is not None and left[0] < frame.seconds - self.begin_s - EQUAL_S:
                yield before
                while left and left[0] < frame.seconds - self.begin_s - EQUAL_S:
                    left.popleft()
            if not left:
                return
            before = frame
        assert before is not None
        length_s = max(self._ends_s(), before.seconds + 2 * EQUAL_S) - self.begin_s
        if left[0] < length_s:
            yield before
        if left[-1] >= length_s:
            raise not_on_screen(left[-1], self._source, length_s)

    def _at_rate(self, frames: Iterator[FrameT], fps: float, clock: Upcoming) -> Iterator[FrameT]:
        """The frames on screen at a constant rate, as :func:`seqpipe.sampling.rate.at_rate` gives them."""
        before: FrameT | None = None
        start_s = tolerance_s = 0.0
        k = 0
        for frame in self._inside(frames):
            if before is None:
                start_s = frame.seconds
                times = self._in_range(np.concatenate([[start_s], clock.upcoming(start_s)]))
                tolerance_s = rate_tolerance_s(Span(0, len(times), times))
            while before is not None and frame.seconds > start_s + k / fps + tolerance_s:
                yield before
                k += 1
            before = frame
        assert before is not None
        lasts_s = self._ends_s() - tolerance_s - start_s
        while not k or k / fps < lasts_s:
            yield before
            k += 1

    def _in_range(self, times: FloatArray) -> FloatArray:
        """Those of the times of consecutive frames, from the first one of the range on, that lie in it."""
        end, end_s = self._end(), self._end_s()
        inside = times if end is None or self.first is None else times[: end - self.first]
        return inside if end_s is None else inside[inside < end_s - EQUAL_S]

    def _ends_s(self) -> float:
        """When the last frame of the range stops being shown."""
        times = np.array([*self._times, *([] if self._next_s is None else [self._next_s])])
        return end_of(Span(0, len(self._times), times, self._end_s()))
