"""Frame selection: selection and range options applied to a video's index."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..array import IntArray, distinct
from ..errors import FrameRangeError, ParameterError
from ..sampling.clip import Span
from ..sampling.clock import EQUAL_S, frames_at
from .options import Mark

if TYPE_CHECKING:
    from ..readers.frame_content import ContentArray
    from ..sampling.windows import Windows
    from ..video.packet_index import PacketIndex

__all__ = [
    "FrameSelection",
    "Measured",
    "MotionArray",
    "TimeRange",
    "no_key_frame",
    "no_sequence",
    "not_on_screen",
    "nothing_in_range",
]

MotionArray: TypeAlias = npt.NDArray[np.float32]

_FIRST = Mark(0, in_frames=True)
_MOST_DARK: Final = 0.98


class Measured(Protocol):
    """What decoding a video tells of its frames; computed where it is asked for."""

    def motion(self) -> MotionArray:
        """Motion of each frame."""

    def content(self) -> ContentArray:
        """Change, darkness, sharpness and look of each frame."""


@dataclass(frozen=True)
class TimeRange:
    """The range of each video to export; its end is excluded.

    Attributes:
        start: start of the range; a time stands for the first frame at or after it.
        end: end of the range, limited to the end of the video.
        duration: length of the range, instead of ``end``.

    Raises:
        ParameterError: end and duration are both given, or the range is empty for every video.
    """

    start: Mark = _FIRST
    end: Mark | None = None
    duration: Mark | None = None

    def __post_init__(self) -> None:
        end = self.end
        if end is not None and self.duration is not None:
            raise ParameterError(
                f"end={end} and duration={self.duration} exclude one another", allowed="one of them"
            )
        if self.duration is not None and not self.duration.value:
            raise ParameterError(f"duration={self.duration} is nothing", allowed="more than 0")
        comparable = end is not None and (end.in_frames == self.start.in_frames or not self.start.value)
        if end is not None and comparable and not self.start.value < end.value:
            raise ParameterError(f"end={end} is not after start={self.start}", allowed="start < end")

    def of(self, index: PacketIndex) -> Span:
        """The frames of one video in the range."""
        if not len(index):
            raise index.range_error("any frame", "")
        first, start_s = _position(index, self.start)
        end, end_s = self._end(index, first, start_s)
        if first >= min(end, len(index)):
            length_s = index.end_s - float(index.timestamps[0])
            raise nothing_in_range(self, index.info.source, len(index), length_s, index.cut)
        return Span(first, min(end, len(index)), index.timestamps, end_s)

    def _end(self, index: PacketIndex, first: int, start_s: float) -> tuple[int, float | None]:
        """The end as a frame number and, if it is a time, also in seconds of the video's clock."""
        if self.duration is not None:
            if self.duration.in_frames:
                return first + int(self.duration.value), None
            end_s = start_s + self.duration.value
            return _first_from(index, end_s), end_s
        if self.end is None:
            return len(index), None
        end, end_s = _position(index, self.end)
        return end, None if self.end.in_frames else end_s

    def __str__(self) -> str:
        if self.duration is not None:
            return f"from {self.start} for {self.duration}"
        return f"from {self.start}" + ("" if self.end is None else f" up to {self.end}")


@dataclass(frozen=True, kw_only=True)
class FrameSelection:
    """The selection of frames in the range: at most one rule; every frame without one.

    Attributes:
        fps: the frames on screen at a constant rate in Hz, from the first frame on; repeated if the rate is above the
            video's.
        every: each N-th frame.
        frames: frame numbers, in ascending order and without repetition; negative numbers count from the end.
        at: times in seconds from the first frame on; the frames on screen then, in ascending order and without
            repetition.
        num: number of frames, at the centers of equal parts of the range.
        keyframes: key frames only.
        sequence_length: number of frames in a sequence.
        stride: distance between the frames of a sequence.
        step: distance between the starts of neighboring sequences.
        min_motion: sequences in which less moves on average are left out, in percent of the longer side per second.
        scenes: whether each scene is a sequence, of the frames that the rule selects in it; with ``sequence_length``,
            whether sequences lie within scenes.
        skip_black: whether black frames are left out, and sequences with one.
        min_sharpness: frames that are less sharp are left out, and sequences whose frames are so on average.
        dedup: frames that differ from the last one before by no more bits of their hashes are left out; of sequences,
            the middle frames count.
        within: the range of each video.

    Raises:
        ParameterError: several rules are given, or stride, step or min_motion without sequences.
    """

    fps: float | None = None
    every: int | None = None
    frames: tuple[int, ...] | None = None
    at: tuple[float, ...] | None = field(default=None, repr=False)
    num: int | None = None
    keyframes: bool = False
    sequence_length: int | None = None
    stride: int | None = None
    step: int | None = None
    min_motion: float | None = field(default=None, repr=False)
    scenes: bool = field(default=False, repr=False)
    skip_black: bool = field(default=False, repr=False)
    min_sharpness: float | None = field(default=None, repr=False)
    dedup: int | None = field(default=None, repr=False)
    within: TimeRange = TimeRange()

    def __post_init__(self) -> None:
        rules = ("fps", "every", "frames", "at", "num", "keyframes", "sequence_length")
        in_use = [f"--{name.replace('_', '-')}" for name in rules if getattr(self, name) not in (None, False)]
        if len(in_use) > 1:
            raise ParameterError(
                f"{' and '.join(in_use)} exclude one another", allowed="one of them, or none"
            )
        if self.sequence_length is None and {self.stride, self.step, self.min_motion} != {None}:
            raise ParameterError(
                "--stride, --step and --min-motion belong to --sequence-length", advice="Give the length too"
            )
        if {self.frames, self.at} != {None} and self.within != TimeRange():
            name = "--at" if self.frames is None else "--frames"
            raise ParameterError(
                f"{name} and a range exclude one another", advice="Remove --start, --end and --duration"
            )
        if self.scenes and {self.frames, self.at} != {None}:
            name = "--at" if self.frames is None else "--frames"
            raise ParameterError(f"{name} and --scenes exclude one another", allowed="one of them")

    @property
    def sequences(self) -> bool:
        """Whether sequences are exported, not single frames."""
        return self.sequence_length is not None or self.scenes

    @property
    def measures(self) -> dict[str, float]:
        """The rules in use that follow from the content of frames, by their options."""
        rules = ("min_motion", "scenes", "skip_black", "min_sharpness", "dedup")
        values = {f"--{name.replace('_', '-')}": getattr(self, name) for name in rules}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    @property
    def keeps_times(self) -> bool:
        """Whether what is selected lasts as long as it does in the video, so that its sound fits."""
        return {self.frames, self.at, self.num} == {None} and not self.keyframes

    def of(self, index: PacketIndex, measured: Measured | None = None) -> IntArray:
        """The selected frame numbers, a row for each sequence or frame, ascending in each row.

        Scenes may have different lengths: shorter rows are filled up with -1.
        """
        if self.frames is not None:  # no rule of sampling is imported for them
            return self._kept(distinct(index.check(self.frames))[:, None], index, measured)
        if self.at is not None:
            return self._kept(distinct(_on_screen(index, self.at))[:, None], index, measured)
        span = self.within.of(index)
        spans = self._scenes(span, measured) if self.scenes and measured is not None else [span]
        if self.sequence_length is not None:
            rows = self._sequences(index, spans, self.sequence_length, measured)
        else:
            chosen = [frames for scene in spans if len(frames := self._frames(index, scene))]
            if not chosen:
                raise no_key_frame(self.within, index.info.source)
            rows = _ragged(chosen) if self.scenes else chosen[0][:, None]
        return self._kept(rows, index, measured)

    def _scenes(self, span: Span, measured: Measured) -> list[Span]:
        """The scenes of a span, of which the first and the last one may begin before and end after it."""
        from ..readers.frame_content import scene_starts

        starts = scene_starts(measured.content()["change"])
        inner = starts[(starts > span.first) & (starts < span.end)].tolist()
        edges = [span.first, *inner, span.end]
        ends_s = [None] * len(inner) + [span.end_s]
        return [
            Span(first, end, span.timestamps, end_s)
            for first, end, end_s in zip(edges, edges[1:], ends_s, strict=False)
        ]

    def _kept(self, rows: IntArray, index: PacketIndex, measured: Measured | None) -> IntArray:
        """The rows, or frames of scenes, that the rules on quality keep."""
        if measured is None or not (self.skip_black or {self.min_sharpness, self.dedup} != {None}):
            return rows
        from ..readers.frame_content import unlike_before

        values, used = measured.content()[rows], rows >= 0
        if self.scenes and self.sequence_length is None:  # the unit is the frame
            units = used
            sharpness, dark, look = values["sharpness"], values["dark"], values["look"]
        else:
            units, look = np.ones(len(rows), bool), values["look"][:, rows.shape[1] // 2]
            sharpness, dark = values["sharpness"].mean(1), values["dark"].max(1)
        keep = units.copy()
        if self.skip_black:
            keep &= dark < _MOST_DARK
        if self.min_sharpness is not None:
            keep &= sharpness >= self.min_sharpness
        if self.dedup is not None:
            keep[keep] = unlike_before(look[keep], self.dedup)
        if not keep.any():
            rules = ", ".join(
                _rule(name, value) for name, value in self.measures.items() if name != "--scenes"
            )
            raise FrameRangeError(
                f"none of its {units.sum()} frames or sequences is kept by {rules}",
                source=index.info.source,
                advice="Give less strict rules",
            )
        if keep.ndim == 1:
            return rows[keep]
        return _ragged([row[kept] for row, kept in zip(rows, keep, strict=True) if kept.any()])

    def _frames(self, index: PacketIndex, span: Span) -> IntArray:
        """Return the frames of a span that the rule selects."""
        from ..sampling.rate import at_rate
        from ..sampling.windows import every, uniform

        if self.fps is not None:
            return at_rate(span, self.fps)
        if self.num is not None:
            return uniform(span, self.num)
        if self.keyframes:
            keys = index.key_frames
            return keys[(keys >= span.first) & (keys < span.end)]
        return every(span, self.every or 1)

    def _sequences(
        self, index: PacketIndex, spans: Seq[Span], length: int, measured: Measured | None
    ) -> IntArray:
        """Return the frames of each sequence."""
        from ..sampling.windows import MovingClips, Windows

        windows = Windows(sequence_length=length, stride=self.stride or 1, step=self.step)
        count = sum(map(windows.count, spans))
        if not count:
            raise no_sequence(windows, index.info.source, max(map(len, spans)))
        chosen: Windows | MovingClips = windows
        if self.min_motion is not None and measured is not None:
            motion = measured.motion()
            spans = [replace(span, motion=motion) for span in spans]
            chosen = MovingClips(clips=windows, min_motion=self.min_motion)
            if not sum(map(chosen.count, spans)):
                raise FrameRangeError(
                    f"none of its {count} sequences moves by {self.min_motion:g} % of the longer side per second",
                    source=index.info.source,
                    advice="Use a smaller --min-motion",
                )
        return np.stack([chosen.clip(span, k).frames for span in spans for k in range(chosen.count(span))])


def _ragged(rows: Seq[IntArray]) -> IntArray:
    """Rows of different lengths as one array, filled up with -1."""
    result = np.full((len(rows), max(map(len, rows))), -1, np.int64)
    for row, values in zip(result, rows, strict=True):
        row[: len(values)] = values
    return result


def _rule(name: str, value: float) -> str:
    """Return a rule as it is typed."""
    return name if value is True else f"{name} {value:g}"


def nothing_in_range(
    within: TimeRange, source: str, count: int, length_s: float, cut: str = ""
) -> FrameRangeError:
    """The error for a range without a frame."""
    return FrameRangeError(
        f"no frame begins in the range {within}",
        source=source,
        allowed=f"0 to {length_s:.3f} s from the first frame on, or 0f to {count}f",
        advice=cut[:1].upper() + cut[1:],
    )


def not_on_screen(seconds: float, source: str, length_s: float, cut: str = "") -> FrameRangeError:
    """The error for a time at which no frame is shown; arguments as of :func:`nothing_in_range`."""
    return FrameRangeError(
        f"no frame is shown at {seconds:g} s",
        source=source,
        allowed=f"0 to before {length_s:.3f} s from the first frame on",
        advice=cut[:1].upper() + cut[1:],
    )


def no_key_frame(within: TimeRange, source: str) -> FrameRangeError:
    """The error for a range of a video without a key frame."""
    return FrameRangeError(
        f"no key frame lies in the range {within}", source=source, advice="Use a longer range"
    )


def no_sequence(windows: Windows, source: str, count: int) -> FrameRangeError:
    """The error for a range of ``count`` frames that is too short for a sequence."""
    return FrameRangeError(
        f"no sequence of {windows.length} frames with a stride of {windows.stride} fits into {count} frames",
        source=source,
        allowed=f"sequences that span at most {count} frames",
        advice="Use a smaller --sequence-length or --stride",
    )


def _on_screen(index: PacketIndex, seconds: Seq[float]) -> IntArray:
    """The frames on screen at times from the first frame on."""
    if not len(index):
        raise index.range_error("any frame", "")
    times, start_s = index.timestamps, float(index.timestamps[0])
    end_s = max(
        index.end_s, float(times[-1]) + 2 * EQUAL_S
    )  # of a last frame without a duration, its timestamp
    for time_s in seconds:
        if start_s + time_s >= end_s:
            raise not_on_screen(time_s, index.info.source, end_s - start_s, index.cut)
    return frames_at(times, start_s + np.array(seconds))


def _position(index: PacketIndex, mark: Mark) -> tuple[int, float]:
    """A position as a frame number, which may exceed the last frame's, and in seconds of the video's clock."""
    times = index.timestamps
    if mark.in_frames:
        frame = int(mark.value)
        return frame, float(times[frame]) if frame < len(times) else index.end_s
    time_s = float(times[0]) + mark.value
    return _first_from(index, time_s), time_s


def _first_from(index: PacketIndex, time_s: float) -> int:
    """The first frame at or after a time."""
    return int(np.searchsorted(index.timestamps, time_s - EQUAL_S, side="left"))
