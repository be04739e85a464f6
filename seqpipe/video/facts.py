"""Facts: the little that sampling needs to know of a video, small enough to be kept for very many of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..array import FloatArray
from .index import PacketIndex

__all__ = ["Facts", "clock_of"]


class Facts(NamedTuple):
    """What decides how many samples a video gives, and the shape of its pictures; plain whole numbers.

    Attributes:
        frames: how many it has.
        width: columns of the surface in pixels, before rotation.
        height: rows of the surface in pixels, before rotation.
        rotation_degrees: counter-clockwise turn that the display matrix asks for: 0, 90, 180 or 270.
        flipped: whether the display matrix mirrors the picture left to right, before the turn.
        first: when its first frame is shown, in ticks.
        distance: from each frame to the next, in ticks.
        numerator: of a tick in seconds.
        denominator: of a tick in seconds; 0 where the distances differ, or are not known.
    """

    frames: int
    width: int
    height: int
    rotation_degrees: int
    flipped: bool
    first: int = 0
    distance: int = 0
    numerator: int = 0
    denominator: int = 0

    @classmethod
    def of(cls, index: PacketIndex) -> Facts:
        """The facts of an indexed video."""
        info, clock, tick = index.info, clock_of(index), index.info.time_base
        picture = (info.frame_count or 0, info.width, info.height, info.rotation_degrees, info.flipped)
        return cls(*picture) if clock is None else cls(*picture, *clock, tick.numerator, tick.denominator)

    @classmethod
    def from_header(cls, info: dict[str, Any], clock: list[int] | None) -> Facts:
        """The facts of an index on disk.

        Args:
            info: what :meth:`seqpipe.video.info.StreamInfo.to_json` gave.
            clock: what :func:`clock_of` gave.

        Raises:
            KeyError: a field is missing.
            ValueError: the time base cannot be read.
        """
        sides = info["width"], info["height"]
        picture = (info["frame_count"] or 0, *sides, info["rotation_degrees"], info["flipped"])
        if clock is None:
            return cls(*picture)
        first, distance = clock
        numerator, _, denominator = info["time_base"].partition("/")
        return cls(*picture, first, distance, int(numerator), int(denominator or 1))

    @property
    def picture(self) -> tuple[int, ...]:
        """What decides the shape of its pictures: width, height, rotation and flip."""
        return self[1:5]

    @property
    def clock(self) -> tuple[int, ...]:
        """What decides its timestamps, beside the number of frames: the first, the distance, and the tick."""
        return self[5:]

    @property
    def timestamps(self) -> FloatArray | None:
        """The presentation time of each frame in seconds, bit for bit the index's; None if they are not known."""
        if not self.denominator:
            return None
        ticks = self.first + self.distance * np.arange(self.frames, dtype=np.int64)
        times: FloatArray = ticks * self.numerator / self.denominator
        return times


def clock_of(index: PacketIndex) -> tuple[int, int] | None:
    """The first frame's pts and the distance between neighbours, in ticks; None where distances differ."""
    table = index.packets
    ticks = table.pts[table.frame_packet]
    gaps = np.diff(ticks)
    if gaps.size and (gaps != gaps[0]).any():
        return None
    return int(ticks[0]) if ticks.size else 0, int(gaps[0]) if gaps.size else 0
