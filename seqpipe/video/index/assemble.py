"""Properties of a video that are computed from its packets: frame count, start, duration and reordering."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from ..packet_index import PacketIndex

__all__ = ["DEFAULT_RATE", "finish"]

DEFAULT_RATE = Fraction(25)
"""Frames per second where the stream has no frame rate."""


def finish(index: PacketIndex, duration: int) -> PacketIndex:
    """Return the index with frame count, start, end and reordering computed from its packets.

    Args:
        index: the index so far.
        duration: duration of the last frame in ticks; 0 if unknown.
    """
    frames = index.packets.frame_packet
    times = index.timestamps
    if not frames.size:
        return replace(index, info=replace(index.info, frame_count=0, has_b_frames=False))
    last = duration * float(index.info.time_base)
    if last <= 0:
        last = (
            float(times[-1] - times[-2])
            if len(times) > 1
            else float(1 / (index.info.average_rate or DEFAULT_RATE))
        )
    info = replace(
        index.info,
        frame_count=len(frames),
        has_b_frames=bool((np.diff(frames) < 0).any()),
        start_s=float(times[0]),
        duration_s=float(times[-1]) + last - float(times[0]),
    )
    return replace(index, info=info, end_s=float(times[-1]) + last)
