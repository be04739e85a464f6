"""Frames and frame sizes as Qwen's vision-language models are trained with.

Source: the package qwen-vl-utils 0.0.14 (``smart_nframes``, ``smart_resize``), compared in the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from ..array import FloatArray, IntArray
from ..core.param import Param, check_fields
from ..errors import FrameRangeError, ParameterError
from .clip import FrameClip, Span, check_sample
from .clock import EQUAL_S, clock_of, rate_tolerance_s
from .params import FPS

__all__ = ["LEAST_FRAMES", "MAX_COUNT", "MIN_COUNT", "QwenFrames", "qwen_vl", "smart_resize"]

LEAST_FRAMES: Final = 2
"""Frames are merged in pairs, so their number is even."""
_MOST_RATIO: Final = 200
_MIN_TOKENS: Final = 4
_MAX_TOKENS: Final = 16384

MIN_COUNT: Final = Param(name="min_count", doc="Smallest number of frames", lo=1, hi=10_000_000)
MAX_COUNT: Final = replace(MIN_COUNT, name="max_count", doc="Largest number of frames", lo=LEAST_FRAMES)
_TOTAL: Final = Param(name="total_frames", doc="Frames of the video", lo=0)
_VIDEO_FPS: Final = replace(FPS, name="video_fps", doc="Mean frame rate of the video")
_SIDE: Final = Param(name="height", doc="Size of a frame in pixels", lo=1, unit="pixels")
_FACTOR: Final = replace(_SIDE, name="factor", doc="Size of a token in pixels")
_PIXELS: Final = replace(_SIDE, name="min_pixels", doc="Pixels of a frame", optional=True)


def qwen_vl(
    total_frames: int,
    video_fps: float,
    fps: float = 2.0,
    min_frames: int = 4,
    max_frames: int = 768,
) -> IntArray:
    """Return the frames that Qwen2-VL and later models are shown of a video.

    The number of frames is the duration times ``fps``, within the bounds and the frames that there are, rounded down
    to an even number. They are spread evenly from the first frame to the last. For videos of more than 10,000 frames,
    qwen-vl-utils depends on the rounding of torch.linspace in float32; these are its frames on CPUs with fused
    multiply-add (AVX2 and later), and others may differ by one frame.

    Args:
        total_frames: number of frames of the video.
        video_fps: its mean frame rate in Hz.
        fps: frames per second to take.
        min_frames: smallest number of frames, rounded up to an even one.
        max_frames: largest number of frames, rounded down to an even one; it wins over ``min_frames``.

    Returns:
        Frame numbers, int64, ascending.

    Raises:
        ParameterError: an argument is out of bounds.
        FrameRangeError: the video has fewer than two frames.
    """
    total, rate = _TOTAL.check(total_frames), _VIDEO_FPS.check(video_fps)
    least = replace(MIN_COUNT, name="min_frames").check(min_frames)
    most = replace(MAX_COUNT, name="max_frames").check(max_frames)
    if total < LEAST_FRAMES:
        raise FrameRangeError(
            f"total_frames={total} gives no pair of frames", allowed=f"at least {LEAST_FRAMES} frames"
        )
    return _spread(0, total, _count(total, rate, FPS.check(fps), least, most))


@dataclass(frozen=True, kw_only=True)
class QwenFrames:
    """The frames of :func:`qwen_vl` of each span as one sequence, whose length depends on the span.

    The frame rate of a video is the mean over all of its frames.

    Attributes:
        fps: frames per second to take.
        min_count: smallest number of frames.
        max_count: largest number of frames.

    Raises:
        ParameterError: a parameter is out of bounds.
    """

    fps: float = 2.0
    min_count: int = 4
    max_count: int = 768

    def __post_init__(self) -> None:
        check_fields(self, FPS, MIN_COUNT, MAX_COUNT)

    @property
    def is_random(self) -> bool:
        """False."""
        return False

    @property
    def length(self) -> None:
        """None: it depends on the span."""
        return

    def count(self, span: Span) -> int:
        """Return 1; 0 if the span has fewer than two frames."""
        return int(len(span) >= LEAST_FRAMES)

    def clip(self, span: Span, k: int, rng: np.random.Generator | None = None) -> FrameClip:  # noqa: ARG002  not random
        """Return the sequence.

        Raises:
            ParameterError: the span has fewer than two frames, or no timestamps.
        """
        check_sample(self, span, k)
        count = _count(len(span), _mean_rate(span), self.fps, self.min_count, self.max_count)
        return FrameClip.whole(_spread(span.first, span.end, count))


def smart_resize(
    height: int,
    width: int,
    factor: int = 28,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
) -> tuple[int, int]:
    """Return the size that Qwen's models scale a frame to.

    Both sides become multiples of ``factor``, and their product lies within the bounds, with nearly the same aspect
    ratio.

    Args:
        height: height in pixels.
        width: width in pixels.
        factor: side of a token in pixels: patch size times merged patches, 28 for Qwen2-VL and Qwen2.5-VL, 32 for
            Qwen3-VL.
        min_pixels: smallest number of pixels; None for 4 tokens.
        max_pixels: largest number of pixels; None for 16384 tokens.

    Returns:
        (height, width) in pixels.

    Raises:
        ParameterError: an argument is out of bounds, one side is more than 200 times the other, or ``max_pixels`` has
            no room for one token in each direction.
    """
    high, wide = _SIDE.check(height), replace(_SIDE, name="width").check(width)
    side = _FACTOR.check(factor)
    least = _PIXELS.check(min_pixels) or _MIN_TOKENS * side**2
    most = replace(_PIXELS, name="max_pixels").check(max_pixels) or _MAX_TOKENS * side**2
    if least > most:
        raise ParameterError(
            f"min_pixels={least} and max_pixels={most} are no range", allowed="min_pixels <= max_pixels"
        )
    if max(high, wide) / min(high, wide) > _MOST_RATIO:
        raise ParameterError(
            f"{high}x{wide} is too narrow", allowed=f"sides of a ratio of at most {_MOST_RATIO}"
        )
    sides = [max(1, round(n / side)) for n in (high, wide)]
    area = math.prod(sides) * side**2
    if area > most:
        shrink = math.sqrt(high * wide / most)
        sides = [math.floor(n / shrink / side) for n in (high, wide)]
    elif area < least:
        grow = math.sqrt(least / (high * wide))
        sides = [math.ceil(n * grow / side) for n in (high, wide)]
    if not all(sides):
        raise ParameterError(
            f"max_pixels={most} has no room for {high}x{wide} at factor={side}", advice="Give more pixels"
        )
    return sides[0] * side, sides[1] * side


def _count(total: int, rate: float, fps: float, least: int, most: int) -> int:
    """Return the even number of frames to take of ``total``, which are at least two."""
    wanted = max(total / rate * fps, 2 * math.ceil(least / 2))
    return 2 * math.floor(min(wanted, most // 2 * 2, total) / 2)


def _spread(first: int, end: int, count: int) -> IntArray:
    """Return ``count`` frames from the first to the last, at least two, as float32 arithmetic places them."""
    step = (np.float32(end - 1) - np.float32(first)) / np.float32(count - 1)
    steps = np.arange(count)
    from_start = first + np.float64(step) * steps  # in float64 and then rounded: a fused multiply-add
    from_end = (end - 1) - np.float64(step) * steps[::-1]
    times: FloatArray = np.where(steps < count // 2, from_start, from_end)
    return np.rint(times.astype(np.float32)).astype(np.int64)


def _mean_rate(span: Span) -> float:
    """Return the mean frame rate of a span's video in Hz: a rounded clock gives the fraction that it was made of."""
    clock = clock_of(span)
    duration_s = float(clock[-1] - clock[0])
    if duration_s <= 0:
        raise ParameterError("the frames have equal timestamps, so they have no rate")
    steps = len(clock) - 1
    rate = steps / duration_s
    tolerance_s = 2 * rate_tolerance_s(Span(0, len(clock), clock)) + EQUAL_S
    # the simplest one: in a short video, fractions of larger denominators are nearer to the rounded rate
    simple = [Fraction(round(rate)), Fraction(1000 * round(rate * 1.001), 1001)]
    simple += [Fraction(rate).limit_denominator(most) for most in (2, 10, 100, 1001)]
    fits = (exact for exact in simple if exact and abs(steps / exact - duration_s) <= tolerance_s)
    return float(next(fits, rate))
