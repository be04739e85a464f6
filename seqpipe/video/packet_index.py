"""PacketIndex: every packet of a video, in decode order, with what the planner needs to know of it.

Rules for clocks that containers leave out or break, each tested:

- **Presentation order** is the order of the pts. Equal pts keep their decode order. Frame ``i`` is the ``i``-th of it.
- **Negative pts** are kept: the clock is the stream's own.
- **A clock that starts again** at a key frame, as where recordings were joined, goes on from where it was.
- **Edit lists**: packets that the container marks to be discarded are decoded where others need them, but are no
  frames.
- **No pts** (raw streams; AVI, which has no place for them): where the pictures are in presentation order already, the
  dts are the clock; where they are reordered, one decoding pass at index time tells the order, and the sorted dts are
  the clock. Without dts the clock runs at the stream's rate, 25 Hz if it has none.
- **pts that ascend as packets are decoded**, though B pictures are reordered, as where raw streams were copied: the
  same, with these pts in place of the dts; so too where only some pictures of MPEG-1, 2 or 4 have their dts for a pts.
- **Missing durations**: the last frame lasts as long as the container says, else as the one before it.
- **Frames before the first key frame**, and leading pictures of the first key frame that cannot be decoded without what
  came before, are no frames: nothing could ever be shown for them.
- **No key frame at all**, as where a stream of gradual refresh was cut: frames begin where a refresh is complete.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from ..array import BoolArray, FloatArray, IntArray
from ..cached import cached_property
from ..errors import FrameRangeError
from .probe.info import StreamInfo

__all__ = ["LEARNED", "NO_PACKETS", "PacketIndex", "PacketTable"]

LEARNED = ("reference", "undecodable", "self_contained", "known")
"""The columns of a table that are added to as runs of packets are read."""


@dataclass(frozen=True, eq=False)
class PacketTable:
    """The packets of a stream, one entry each, in decode order.

    Attributes:
        pts: presentation time in ticks; made up by the rules above where the container has none.
        size: bytes.
        offset: where the packet's bytes lie in the file; -1 for all if the container does not keep them in one piece.
        checksum: CRC-32 of the packet where it must be recognized after seeking, else empty.
        key: decoding can start here.
        reference: other frames may be predicted from it; taken for granted where it is not known.
        shown: it yields a frame.
        undecodable: a leading picture that must not be fed when decoding starts at its key frame (HEVC RASL).
        damaged: the demuxer knows that bytes of it are missing or wrong, or verifying has found out.
        self_contained: a leading picture that can be decoded when decoding starts at its key frame (HEVC RADL).
        known: whether ``reference``, ``undecodable`` and ``self_contained`` were read from the packet. These four are
            added to as runs of packets are read, see :mod:`seqpipe.video.decode.kinds`. Empty where all are known.
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

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def whole(self) -> bool:
        """Whether every packet's kind is known."""
        return not len(self.known) or bool(self.known.all())

    @cached_property
    def frame_packet(self) -> IntArray:
        """The packet of each frame, in presentation order."""
        packets = np.flatnonzero(self.shown)
        order: IntArray = packets[np.argsort(self.pts[packets], kind="stable")]
        return order

    @cached_property
    def packet_frame(self) -> IntArray:
        """The frame number of each packet; -1 for packets that yield none."""
        frames = np.full(len(self), -1, dtype=np.int64)
        frames[self.frame_packet] = np.arange(len(self.frame_packet))
        return frames

    @cached_property
    def gop(self) -> IntArray:
        """The key packet that each packet follows; the first packet where there is none before it."""
        starts = np.where(self.key, np.arange(len(self)), 0)
        result: IntArray = np.maximum.accumulate(starts) if len(self) else starts
        return result

    @cached_property
    def leading(self) -> BoolArray:
        """Whether a packet comes after its key packet in the file, but before it in presentation."""
        result: BoolArray = self.pts < self.pts[self.gop]
        return result

    def leads(self, packets: IntArray | slice) -> BoolArray:
        """Whether some packets are leading pictures by their times, or by what they say of themselves."""
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
"""The table of a stream that is not indexed."""


@dataclass(frozen=True, eq=False)
class PacketIndex:
    """A video without its pixels.

    Attributes:
        info: the facts of the stream, with the frames counted.
        extradata: the codec's set-up bytes.
        codec_tag: the container's four characters for the codec; decoders work around bugs of known encoders by it.
        coded_bits: the container's bits per coded pixel, which some uncompressed formats need; 0 where unspecified.
        packets: the packets in decode order.
        dropped_at_start: frames before the first point where decoding can start, left out.
        end_s: the end of the last frame, in seconds.
        cut: why the file holds less than it promises, or "" if it does not.
        verified: whether the video was decoded once, so that all damage which can be noticed is known.
        set_ups: where parameter sets change on the way: the packet from which some hold, and these as packets have
            them; key packets are given out with theirs. Empty where the extradata's hold throughout.
        palettes: the colors that the container keeps beside the packets: the packet from which some hold, and these as
            FFmpeg has them. Empty if it keeps none.
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

    def __len__(self) -> int:
        """The number of frames."""
        return len(self.packets.frame_packet)

    def plain(self) -> PacketIndex:
        """The same without what was worked out from it, to be sent elsewhere."""
        return replace(self, packets=replace(self.packets))

    @cached_property
    def timestamps(self) -> FloatArray:
        """Presentation time of each frame in seconds, ascending, on the stream's own clock."""
        ticks = self.packets.pts[self.packets.frame_packet]
        base = self.info.time_base
        # One rounding at the end: tick * (numerator / denominator) would round twice.
        result: FloatArray = (ticks * base.numerator / base.denominator).astype(np.float64)
        result.flags.writeable = False
        return result

    @cached_property
    def key_frames(self) -> IntArray:
        """The numbers of the frames that decoding can start at, ascending."""
        frames = self.packets.packet_frame[self.packets.key]
        result: IntArray = np.sort(frames[frames >= 0])
        return result

    def check(self, frames: IntArray | Seq[int]) -> IntArray:
        """Frame numbers with negative ones counted from the end.

        Raises:
            FrameRangeError: one of them is not in the video.
        """
        count = len(self)
        try:
            numbers = np.asarray(frames, dtype=np.int64)
        except OverflowError:  # one is in no video, and is named below
            numbers = np.asarray(frames, dtype=object)
        resolved: IntArray = np.where(numbers < 0, numbers + count, numbers)
        outside = (resolved < 0) | (resolved >= count)
        if outside.any():
            raise self.range_error(
                f"frame {int(numbers[outside][0])}", f"0 to {count - 1}, or -{count} to -1"
            )
        return resolved

    def range_error(self, what: str, allowed: str) -> FrameRangeError:
        """The error for something beyond the video's ends; it says so if the file was cut."""
        if not len(self):
            allowed = ""
        fact = f"{what} is not in the video" if len(self) else "the video has no frame that can be decoded"
        return FrameRangeError(
            fact, source=self.info.source, allowed=allowed, advice=self.cut[:1].upper() + self.cut[1:]
        )

    @property
    def by_offset(self) -> bool:
        """Whether packets can be read straight from the file, without its demuxer."""
        return bool(len(self.packets)) and int(self.packets.offset[0]) >= 0
