"""Random sampling of one clip of one video in one epoch: the only random numbers of a dataset."""

from __future__ import annotations

from ..random import stream
from .clip import FrameClip, Sampler, Span

__all__ = ["draw_clip"]


def draw_clip(sampler: Sampler, span: Span, k: int, *, seed: int, epoch: int, index: int) -> FrameClip:
    """The frames of a dataset's sample.

    Random samplers draw from a stream that is keyed by (seed, "clips", epoch, index), so that a sample is the
    same on every rank, in every thread and in batches of any size.

    Args:
        sampler: what picks.
        span: the frames of the sample's video that may be used.
        k: which of the video's samples, from 0 on.
        seed: the user's seed.
        epoch: the epoch, from 0 on.
        index: the sample's index within the dataset, from 0 on.

    Raises:
        ParameterError: the span has no such sample.
    """
    rng = stream(seed, "clips", epoch, index) if sampler.is_random else None
    return sampler.clip(span, k, rng)
