"""Facts: the little that sampling needs to know of a video, small enough to be kept for very many of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ...array import FloatArray
from ..packet_index import PacketIndex

__all__ = ["Facts", "clock_of"]

_LIMIT = 1 << 62


class Facts(NamedTuple):
    """Facts that determine the number of samples of a video and the shape of its frames; integers only.

    Attributes:
        frames: how many it has.
        width: columns of the surface in pixels, before rotation.
        height: rows of the surface in pixels, before rotation.
        rotation_degrees: counter-clockwise turn that the display matrix asks for: 0, 90, 180 or 270.
        flipped: whether the display matrix mirrors frames left to right, before the rotation.
        first: when its first frame is shown, in ticks.
        steps: frame i is shown ``(i * steps + offset) // per`` ticks after the first one: at a constant rate, or at
            one that is rounded to ticks, as Matroska's milliseconds are.
        per: see there.
        offset: see there.
        numerator: of a tick in seconds.
        denominator: of a tick in seconds; 0 where the rate is not constant, or not known.
    """

    frames: int
    width: int
    height: int
    rotation_degrees: int
    flipped: bool
    first: int = 0
    steps: int = 0
    per: int = 1
    offset: int = 0
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
            info: what :meth:`seqpipe.video.probe.info.StreamInfo.to_json` gave.
            clock: what :func:`clock_of` gave.

        Raises:
            KeyError: a field is missing.
            ValueError: the time base cannot be read.
        """
        sides = info["width"], info["height"]
        picture = (info["frame_count"] or 0, *sides, info["rotation_degrees"], info["flipped"])
        if clock is None:
            return cls(*picture)
        first, steps, per, offset = clock
        numerator, _, denominator = info["time_base"].partition("/")
        return cls(*picture, first, steps, per, offset, int(numerator), int(denominator or 1))

    @property
    def geometry(self) -> tuple[int, ...]:
        """Width, height, rotation and flip, which determine the shape of the frames."""
        return self[1:5]

    @property
    def clock(self) -> tuple[int, ...]:
        """The fields that determine the timestamps, besides the number of frames."""
        return self[5:]

    @property
    def timestamps(self) -> FloatArray | None:
        """The presentation time of each frame in seconds, bit for bit the index's; None if they are not known."""
        if not self.denominator:
            return None
        frames = np.arange(self.frames, dtype=np.int64)
        ticks = self.first + (frames * self.steps + self.offset) // self.per
        times: FloatArray = ticks * self.numerator / self.denominator
        return times


def clock_of(index: PacketIndex) -> tuple[int, int, int, int] | None:
    """The numbers (first, steps, per, offset) of :class:`Facts` that give every pts of a video; None if none do."""
    table, info = index.packets, index.info
    ticks = table.pts[table.frame_packet]
    if len(ticks) < 2:
        return int(ticks[0]) if len(ticks) else 0, 0, 1, 0
    rates = [rate for rate in (info.average_rate, info.real_rate) if rate]
    by_rate = (1 / (rate * info.time_base) for rate in rates)
    for distance in chain([Fraction(int(ticks[1] - ticks[0]))], by_rate):
        steps, per = distance.as_integer_ratio()
        if max(steps, per) * max(len(ticks), int(np.ptp(ticks))) < _LIMIT:
            # frame i tells that per * later[i] <= i * steps + offset < per * later[i] + per
            least = per * (ticks - ticks[0]) - steps * np.arange(len(ticks))
            if least.max() < least.min() + per:
                return int(ticks[0]), steps, per, int(least.max())
    return None
