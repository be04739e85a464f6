"""Sampler selection from the user's parameters."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.padding import PadMode
from ..errors import ParameterError
from .clip import Sampler
from .params import CLIP_MODE, PAD_MODE, SEGMENT_MODE, STRIDE, ClipMode, SegmentMode
from .rate import RandomRateClips, RateWindows
from .windows import EvenClips, MovingClips, RandomClips, UniformSegments, Windows

__all__ = ["choose_sampler"]


def choose_sampler(
    *,
    sequence_length: int | None = None,
    stride: int = 1,
    step: int | None = None,
    clips_per_video: int | None = None,
    clip_mode: ClipMode = "random",
    segments: int | None = None,
    segment_mode: SegmentMode = "random",
    fps: float | None = None,
    pad_mode: PadMode = "none",
    min_motion: float | None = None,
) -> Sampler:
    """Return the sampler for the user's parameters.

    ``segments`` selects :class:`UniformSegments`; ``clips_per_video`` selects random or even clips; otherwise windows
    are used. With ``fps``, windows and clips are sampled by time, and lengths and distances count frames at that rate.
    ``min_motion`` excludes windows and clips with little motion.

    Raises:
        ParameterError: a parameter is out of bounds, or two of them contradict each other.
    """
    segment_mode = SEGMENT_MODE.check(segment_mode)
    if segments is None and segment_mode != SEGMENT_MODE.choices[0]:
        raise ParameterError(
            f"segment_mode={segment_mode!r} has no meaning without segments", advice="Give segments too"
        )
    if clips_per_video is None and CLIP_MODE.check(clip_mode) != CLIP_MODE.choices[0]:
        raise ParameterError(
            f"clip_mode={clip_mode!r} has no meaning without clips_per_video",
            advice="Give clips_per_video too",
        )
    stride, pad_mode = STRIDE.check(stride), PAD_MODE.check(pad_mode)
    arguments = {
        "sequence_length": sequence_length,
        "clips_per_video": clips_per_video,
        "step": step,
        "fps": fps,
        "stride": stride if stride != 1 else None,
        "pad_mode": pad_mode if pad_mode != "none" else None,
        "min_motion": min_motion,
    }
    if min_motion is not None:
        _refuse("min_motion", min_motion, {"fps": fps}, "goes by frame numbers: choose a stride instead")
    if segments is not None:
        _refuse(
            "segments",
            segments,
            arguments,
            "takes one frame of each part of the video, so its length is that",
        )
        return UniformSegments(segments=segments, mode=segment_mode)
    if sequence_length is None:
        raise ParameterError("sequence_length is missing", advice="Give sequence_length, or segments")
    if clips_per_video is not None:
        _refuse(
            "clips_per_video", clips_per_video, {"step": step}, "draws starts at random, so they have no step"
        )
        wanted = {"sequence_length": sequence_length, "stride": stride, "clips_per_video": clips_per_video}
        if CLIP_MODE.check(clip_mode) == "even":
            _refuse("clips_per_video", clips_per_video, {"fps": fps}, "spreads evenly by frames, not by time")
            return _moving(EvenClips(**wanted, pad_mode=pad_mode), min_motion)
        clips = RandomClips(**wanted, pad_mode=pad_mode)
        return _moving(clips, min_motion) if fps is None else RandomRateClips(fps, clips)
    windows = Windows(sequence_length=sequence_length, stride=stride, step=step, pad_mode=pad_mode)
    return _moving(windows, min_motion) if fps is None else RateWindows(fps, windows)


def _moving(clips: Windows | RandomClips | EvenClips, min_motion: float | None) -> Sampler:
    return clips if min_motion is None else MovingClips(clips=clips, min_motion=min_motion)


def _refuse(name: str, value: float, others: Mapping[str, object], why: str) -> None:
    for other, argument in others.items():
        if argument is not None:
            raise ParameterError(
                f"{name}={value!r} and {other}={argument!r} exclude each other: {name} {why}"
            )
