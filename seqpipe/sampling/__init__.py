"""Which frames make a sample, and in which order samples come: arithmetic only, no pixels and no files."""

from __future__ import annotations

from .batches import BatchPlan
from .choose import choose_sampler
from .clip import FrameClip, Sampler, Span
from .clock import frame_at, frame_range, frames_at, span_between
from .order import EpochOrder
from .rate import RandomRateClips, RateWindows, at_rate, frames_at_rate
from .segments import UniformSegments, every, uniform
from .state import State, check_state, fingerprint
from .windows import EvenClips, MovingClips, RandomClips, Windows

__all__ = [
    "BatchPlan",
    "EpochOrder",
    "EvenClips",
    "FrameClip",
    "MovingClips",
    "RandomClips",
    "RandomRateClips",
    "RateWindows",
    "Sampler",
    "Span",
    "State",
    "UniformSegments",
    "Windows",
    "at_rate",
    "check_state",
    "choose_sampler",
    "every",
    "fingerprint",
    "frame_at",
    "frame_range",
    "frames_at",
    "frames_at_rate",
    "span_between",
    "uniform",
]
