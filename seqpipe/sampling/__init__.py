"""Selection of the frames of samples, and order of the samples: pure arithmetic on frame numbers and timestamps.

Imports only seqpipe's top-level modules; reads no files and no pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

if TYPE_CHECKING:
    from .choose import choose_sampler
    from .clip import FrameClip, Sampler, Span
    from .clock import frame_range, frames_at, span_between
    from .order import EpochOrder
    from .qwen import QwenFrames, qwen_vl, smart_resize
    from .rate import RandomRateClips, RateWindows, WholeSpans, at_rate
    from .state import IteratorState, check_count, check_state, fingerprint
    from .windows import EvenClips, MovingClips, RandomClips, UniformSegments, Windows, every, uniform

_LAZY = {
    "EpochOrder": "order",
    "EvenClips": "windows",
    "FrameClip": "clip",
    "MovingClips": "windows",
    "QwenFrames": "qwen",
    "RandomClips": "windows",
    "RandomRateClips": "rate",
    "RateWindows": "rate",
    "Sampler": "clip",
    "Span": "clip",
    "IteratorState": "state",
    "UniformSegments": "windows",
    "WholeSpans": "rate",
    "Windows": "windows",
    "at_rate": "rate",
    "check_count": "state",
    "check_state": "state",
    "choose_sampler": "choose",
    "every": "windows",
    "fingerprint": "state",
    "frame_range": "clock",
    "frames_at": "clock",
    "qwen_vl": "qwen",
    "smart_resize": "qwen",
    "span_between": "clock",
    "uniform": "windows",
}

__all__ = [
    "EpochOrder",
    "EvenClips",
    "FrameClip",
    "IteratorState",
    "MovingClips",
    "QwenFrames",
    "RandomClips",
    "RandomRateClips",
    "RateWindows",
    "Sampler",
    "Span",
    "UniformSegments",
    "WholeSpans",
    "Windows",
    "at_rate",
    "check_count",
    "check_state",
    "choose_sampler",
    "every",
    "fingerprint",
    "frame_range",
    "frames_at",
    "qwen_vl",
    "smart_resize",
    "span_between",
    "uniform",
]

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
