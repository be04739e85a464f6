"""Packet index of a video: all packets in decode order, with the properties that planning needs.

Rules for missing or invalid timestamps, each tested:

- **Presentation order** is the order of the pts. Frames with equal pts are in the order in which a decoder outputs
  them. Frame ``i`` is the ``i``-th of it.
- **Negative pts** are kept: times are on the stream's own clock.
- **Timestamps that restart** at a key frame, as where recordings were joined, continue from the last frame before.
- **Edit lists**: packets that the container marks to be discarded are decoded where others need them, but are not
  counted as frames.
- **pts of some packets only**: times count on from the frame before by the frame rate, and back from the first frame
  that has one; with reordering, a decoding pass at index time finds the order.
- **No pts** (raw streams; AVI, which does not store them): without reordering, the dts are the times; with reordering,
  one decoding pass at index time finds the order, and the sorted dts are the times. Without dts, times follow from the
  stream's frame rate, or 25 Hz.
- **pts in decode order** despite reordered B-frames, as in copies of raw streams: the same, with these pts in place of
  the dts; also where only some frames of MPEG-1, 2 or 4 have their dts as pts.
- **Missing durations**: the last frame lasts as long as the container states, else as long as the one before it.
- **Frames before the first key frame**, and leading pictures of the first key frame that depend on earlier frames, are
  not counted: they cannot be decoded.
- **No key frame at all**, as in a part of a stream with gradual refresh: frames start where a refresh is complete.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..array import BoolArray, FloatArray, IntArray
from ..core.cached import cached_property
from ..errors import FrameRangeError
from .probe.info import StreamInfo

__all__ = ["LEARNED", "NO_PACKETS", "Facts", "PacketIndex", "PacketTable", "clock_of"]

LEARNED = ("reference", "undecodable", "self_contained", "known")
"""The columns of a table that are updated while packets are read."""


@dataclass(frozen=True, eq=False)
class PacketTable:
    """Packets of a stream in decode order, one array entry per packet.

    Attributes:
        pts: presentation time in ticks; by the rules above where the container has none.
        size: size in bytes.
        offset: file offset of the packet's bytes; -1 for all packets if the container does not store them contiguously.
        checksum: CRC-32 of the packets of a source that is read by its demuxer, else empty.
        key: whether decoding can start at the packet.
        reference: whether other frames may be predicted from its frame; True where not known.
        shown: whether the packet yields a frame.
        undecodable: whether it is a leading picture that is skipped if decoding starts at its key frame (HEVC RASL).
        damaged: whether the demuxer or a verification found the packet damaged.
        self_contained: whether it is a leading picture that is decodable from its own key frame (HEVC RADL).
        known: whether ``reference``, ``undecodable`` and ``self_contained`` were read from the packet. These four are
            updated while packets are read, see :mod:`seqpipe.video.decode.packets`. Empty if all are known.
        rank: order of frames with equal pts: those of lower ranks are presented first. Empty if it is the decode order.
    """

    pts: IntArray
    size: npt.NDArray[np.int32]
    offset: IntArray
    checksum: npt.NDArray[np.uint32]
    key: BoolArray
    reference: BoolArray
    shown: BoolArray
    damaged: BoolArray
    undecodable: BoolArray
    self_contained: BoolArray
    known: BoolArray = field(default_factory=lambda: np.empty(0, dtype=bool))
    rank: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def whole(self) -> bool:
        """Whether all packet kinds are known."""
        return not len(self.known) or bool(self.known.all())

    @cached_property
    def frame_packet(self) -> IntArray:
        """Packet number of each frame, in presentation order."""
        packets = np.flatnonzero(self.shown)
        if len(self.rank):
            packets = packets[np.argsort(self.rank[packets], kind="stable")]
        order: IntArray = packets[np.argsort(self.pts[packets], kind="stable")]
        return order

    @cached_property
    def packet_frame(self) -> IntArray:
        """Frame number of each packet; -1 for packets that yield no frame."""
        frames = np.full(len(self), -1, dtype=np.int64)
        frames[self.frame_packet] = np.arange(len(self.frame_packet))
        return frames

    @cached_property
    def gop(self) -> IntArray:
        """Number of the key packet at or before each packet; 0 if there is none."""
        starts = np.where(self.key, np.arange(len(self)), 0)
        result: IntArray = np.maximum.accumulate(starts) if len(self) else starts
        return result

    @cached_property
    def leading(self) -> BoolArray:
        """Whether each packet follows its key packet in decode order, but precedes it in presentation order."""
        key = self.pts[self.gop]
        result: BoolArray = self.pts < key
        if len(self.rank):
            result |= (self.pts == key) & (self.rank < self.rank[self.gop])
        return result

    def leads(self, packets: IntArray | slice) -> BoolArray:
        """Return whether packets are leading pictures, by their times or by their headers."""
        result: BoolArray = self.leading[packets] | self.undecodable[packets]
        return result


NO_PACKETS: Final = PacketTable(
    pts=np.empty(0, np.int64),
    size=np.empty(0, np.int32),
    offset=np.empty(0, np.int64),
    checksum=np.empty(0, np.uint32),
    **{
        name: np.empty(0, bool)
        for name in ("key", "reference", "shown", "damaged", "undecodable", "self_contained")
    },
)
"""Empty table, for a stream without an index."""


@dataclass(frozen=True, eq=False)
class PacketIndex:
    """Index of a video: stream properties, decoder configuration and packets.

    Attributes:
        info: properties of the stream, with the number of frames.
        extradata: the codec's configuration (FFmpeg's extradata).
        codec_tag: the container's four characters for the codec; decoders need them for bugs of known encoders.
        coded_bits: the container's bits per coded pixel, which some uncompressed formats need; 0 if unspecified.
        packets: packets in decode order.
        dropped_at_start: number of frames before the first random access point, which are not counted.
        end_s: end of the last frame in seconds.
        cut: why the file holds less than its header states, or "".
        verified: whether the video was decoded once, so that all detectable damage is known.
        set_ups: (packet number, parameter sets) wherever parameter sets change; they are prepended to key packets.
            Empty if those of the extradata apply to all packets.
        palettes: (packet number, palette) wherever the container changes the palette, in FFmpeg's format; empty if it
            has none.
        alpha: file offset and size of each packet's alpha, where it is read, see :mod:`seqpipe.video.index.alpha`; it
            is not stored with the index.
    """

    info: StreamInfo
    extradata: bytes
    codec_tag: str
    coded_bits: int
    packets: PacketTable
    dropped_at_start: int
    end_s: float
    cut: str = ""
    verified: bool = False
    set_ups: tuple[tuple[int, bytes], ...] = ()
    palettes: tuple[tuple[int, bytes], ...] = ()
    alpha: tuple[IntArray, IntArray] | None = None

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.packets.frame_packet)

    def plain(self) -> PacketIndex:
        """Return a copy without cached properties, for another process."""
        return replace(self, packets=replace(self.packets))

    @cached_property
    def timestamps(self) -> FloatArray:
        """Presentation time of each frame in seconds, ascending, on the stream's own clock."""
        ticks = self.packets.pts[self.packets.frame_packet]
        base = self.info.time_base
        # Rounded once, by the division: ticks * (numerator / denominator) would round twice.
        result: FloatArray = (ticks * base.numerator / base.denominator).astype(np.float64)
        result.flags.writeable = False
        return result

    @cached_property
    def key_frames(self) -> IntArray:
        """Numbers of the frames at which decoding can start, ascending."""
        frames = self.packets.packet_frame[self.packets.key]
        result: IntArray = np.sort(frames[frames >= 0])
        return result

    def check(self, frames: IntArray | Seq[int]) -> IntArray:
        """Return frame numbers with negative ones resolved from the end.

        Raises:
            FrameRangeError: a frame number is out of range.
        """
        count = len(self)
        try:
            numbers = np.asarray(frames, dtype=np.int64)
        except OverflowError:  # out of range, which is raised below
            numbers = np.asarray(frames, dtype=object)
        resolved: IntArray = np.where(numbers < 0, numbers + count, numbers)
        outside = (resolved < 0) | (resolved >= count)
        if outside.any():
            raise self.range_error(
                f"frame {int(numbers[outside][0])}", f"0 to {count - 1}, or -{count} to -1"
            )
        return resolved

    def range_error(self, what: str, allowed: str) -> FrameRangeError:
        """Return the error for a frame or time out of range; it names the reason if the file is truncated."""
        if not len(self):
            allowed = ""
        fact = f"{what} is not in the video" if len(self) else "the video has no frame that can be decoded"
        return FrameRangeError(
            fact, source=self.info.source, allowed=allowed, advice=self.cut[:1].upper() + self.cut[1:]
        )

    @property
    def by_offset(self) -> bool:
        """Whether packets can be read from the file by offset, without a demuxer."""
        return bool(len(self.packets)) and int(self.packets.offset[0]) >= 0


_LIMIT = 1 << 62


class Facts(NamedTuple):
    """Number of frames, timestamps and geometry of a video, as integers.

    Attributes:
        frames: number of frames.
        width: width of the surface in pixels, before rotation.
        height: height of the surface in pixels, before rotation.
        rotation_degrees: counter-clockwise rotation of the display matrix: 0, 90, 180 or 270.
        flipped: whether the display matrix mirrors the frame left to right, before the rotation.
        first: timestamp of the first frame in ticks.
        steps: frame i is displayed ``(i * steps + offset) // per`` ticks after the first one: at a constant frame rate,
            or at one rounded to ticks, such as Matroska's milliseconds.
        per: see ``steps``.
        offset: see ``steps``.
        numerator: numerator of a tick in seconds.
        denominator: denominator of a tick in seconds; 0 if the frame rate is variable or unknown.
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
        """Return the facts of an indexed video."""
        info, clock, tick = index.info, clock_of(index), index.info.time_base
        picture = (info.frame_count or 0, info.width, info.height, info.rotation_degrees, info.flipped)
        return cls(*picture) if clock is None else cls(*picture, *clock, tick.numerator, tick.denominator)

    @classmethod
    def from_header(cls, info: dict[str, Any], clock: list[int] | None) -> Facts:
        """Return the facts stored in an index file's header."""
        sides = info["width"], info["height"]
        picture = (info["frame_count"] or 0, *sides, info["rotation_degrees"], info["flipped"])
        if clock is None:
            return cls(*picture)
        first, steps, per, offset = clock
        numerator, _, denominator = info["time_base"].partition("/")
        return cls(*picture, first, steps, per, offset, int(numerator), int(denominator or 1))

    @property
    def geometry(self) -> tuple[int, ...]:
        """Width, height, rotation and flip, which determine the shape of output frames."""
        return self[1:5]

    @property
    def clock(self) -> tuple[int, ...]:
        """The fields that, with the number of frames, determine the timestamps."""
        return self[5:]

    @property
    def timestamps(self) -> FloatArray | None:
        """Presentation time of each frame in seconds, bit-identical to the index's; None if they are not known."""
        if not self.denominator:
            return None
        frames = np.arange(self.frames, dtype=np.int64)
        ticks = self.first + (frames * self.steps + self.offset) // self.per
        times: FloatArray = ticks * self.numerator / self.denominator
        return times


def clock_of(index: PacketIndex) -> tuple[int, int, int, int] | None:
    """Return (first, steps, per, offset) of :class:`Facts` that reproduce every pts of a video; None if none do."""
    table, info = index.packets, index.info
    ticks = table.pts[table.frame_packet]
    if len(ticks) < 2:
        return int(ticks[0]) if len(ticks) else 0, 0, 1, 0
    rates = [rate for rate in (info.average_rate, info.real_rate) if rate]
    by_rate = (1 / (rate * info.time_base) for rate in rates)
    for distance in chain([Fraction(int(ticks[1] - ticks[0]))], by_rate):
        steps, per = distance.as_integer_ratio()
        if max(steps, per) * max(len(ticks), int(np.ptp(ticks))) < _LIMIT:
            # For frame i, per * ticks[i] <= i * steps + offset < per * ticks[i] + per, with ticks from the first frame.
            least = per * (ticks - ticks[0]) - steps * np.arange(len(ticks))
            if least.max() < least.min() + per:
                return int(ticks[0]), steps, per, int(least.max())
    return None
