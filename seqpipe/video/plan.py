"""Requests for sequences, and the plans that serve them: which packets to decode for which frames, without any pixels.

A plan feeds no packet that cannot affect a wanted frame: it starts at the nearest key frame from which the wanted frame
can be decoded, feeds every reference frame up to the last wanted one, a non-reference frame only if it is wanted, and
skips to a later key frame where that saves reference frames. A leading picture of an open GOP is predicted from the GOP
before, so a plan for it starts one key frame earlier; where decoding starts at its own key frame, it is left out.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Collection, Iterator, Sized
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from ..array import Array, BoolArray, IntArray, distinct
from ..core.cached import cached_property
from ..core.param import Param, check_list
from ..core.workers import InterruptibleFuture
from ..errors import DamagedSourceError, ParameterError, SeqpipeError, SourceError
from ..sampling.clock import EQUAL_S
from ..sequence import Sequence
from .convert.output import OutputSpec
from .packet_index import PacketIndex, PacketTable
from .source.source import Origin, Source

__all__ = [
    "DecodePlan",
    "Job",
    "JobQueue",
    "Outcomes",
    "PlannedVideo",
    "Request",
    "Segment",
    "assemble",
    "check_frame_number",
    "check_frame_numbers",
    "check_memory",
    "check_time_s",
    "cut_jobs",
    "damaged_by",
    "lost_error",
    "make_plan",
    "nearest_frames",
    "resolve_slice",
    "start_packets",
    "tracked",
    "undecodable",
]

_TOLERANCE_S: Final = Param(
    name="tolerance_s",
    doc="Largest distance from a time to a timestamp",
    kind=float,
    lo=0,
    unit="s",
    optional=True,
)


def check_frame_number(number: Any) -> int:
    """Return a frame number as an int."""
    try:
        if not isinstance(number, (bool, np.bool_)):
            return operator.index(number)
    except TypeError:
        pass  # raised below
    raise ParameterError(f"{number!r} is not a frame number", allowed="whole numbers", advice=_advice(number))


def _advice(number: Any) -> str:
    """Return what to do instead of giving something that is no frame number."""
    if isinstance(number, (bool, np.bool_)):
        return "For a mask of frames use numpy.flatnonzero(mask)"
    if isinstance(number, Sized) and not isinstance(number, str):
        return "For several frames use frames([0, 8, 16]), or a slice"
    return "For times use at([seconds]); round other numbers"


def check_frame_numbers(numbers: Any) -> list[int]:
    """Return frame numbers as a list of ints."""
    return [
        check_frame_number(number)
        for number in check_list("numbers", numbers, "a list of frame numbers; video[8] is one frame")
    ]


def resolve_slice(frames: slice, count: int) -> range:
    """Return the frame numbers that a slice selects from ``count`` frames."""
    try:
        return range(count)[frames]
    except (TypeError, ValueError):
        allowed = "whole numbers, and a step that is not 0"
        raise ParameterError(f"{frames} is not valid", allowed=allowed) from None


def check_time_s(seconds: Any) -> float:
    """Return a time in seconds as a float."""
    try:
        if type(seconds) is not bool and isinstance(seconds, Real):
            return float(seconds)
    except OverflowError:  # an int beyond the range of float
        return math.inf if seconds > 0 else -math.inf
    raise ParameterError(f"{seconds!r} is not a time", allowed="a number of seconds")


def nearest_frames(
    index: PacketIndex, seconds: Seq[float], nearest: bool, tolerance_s: float | None
) -> list[int]:
    """Return the frames whose timestamps are nearest to times, of two the earlier one.

    Raises:
        FrameRangeError: the nearest one is further away than ``tolerance_s``; there is no frame.
        ParameterError: a tolerance without ``nearest``, or below 0.
    """
    tolerance = _TOLERANCE_S.check(tolerance_s)
    if not nearest:
        raise ParameterError(f"tolerance_s={tolerance_s!r} without nearest", allowed="nearest=True")
    clock, wanted = index.timestamps, np.array(seconds)
    if not len(clock):
        raise index.range_error("any frame", "")
    after = np.searchsorted(clock, wanted).clip(0, len(clock) - 1)
    before = np.maximum(after - 1, 0)
    chosen = np.where(wanted - clock[before] <= clock[after] - wanted, before, after)
    far = np.abs(clock[chosen] - wanted) > (math.inf if tolerance is None else tolerance + EQUAL_S)
    if far.any():
        raise index.range_error(
            f"a frame within {tolerance:g} s of {wanted[far][0]:.6f} s",
            f"times near frames; the nearest one is at {clock[chosen[far][0]]:.6f} s",
        )
    return [int(number) for number in chosen]


Outcomes: TypeAlias = "dict[int, Sequence | SeqpipeError]"
"""Sequence or error of each request, by its number among those submitted together."""


@dataclass(frozen=True, eq=False)
class Request:
    """Sequence to be read.

    Attributes:
        origin: the video: a path or URL.
        frames: int64 frame number of each position; -1 for a position that is filled with ``fill``.
        padding: mask of padded positions; the sequence has frame number -1 and time NaN there.
        output: color, dtype and geometry of the pixels. Each request may have its own, such as a random crop and
            mirror (``crop``, ``size``, ``mirror``): on a GPU the conversion kernel applies them at no additional cost.
        fill: pixel value of positions without a frame, or one value for each channel.
        out: array to write the pixels to, one frame per position; a new array by default.
    """

    origin: Origin
    frames: IntArray
    padding: BoolArray | None = None
    output: OutputSpec = field(default_factory=OutputSpec)
    fill: float | tuple[float, ...] = 0
    out: Array | None = None

    def fill_values(self, position: int) -> Iterator[tuple[Any, float]]:
        """Yield the parts of a position to fill, as indices into the pixels, with their values."""
        if not isinstance(self.fill, tuple):
            yield position, self.fill
            return
        for channel, value in enumerate(self.fill):
            yield (position, channel) if self.output.layout == "FCHW" else (position, ..., channel), value


def check_memory(out: Array, shape: tuple[int, ...], dtype: np.dtype[Any], source: str) -> None:
    """Check that an array given for a request's pixels has their shape and dtype."""
    if out.shape != shape or out.dtype != dtype:
        raise SourceError(
            f"its frames make {shape} {dtype}, but {out.shape} {out.dtype} was expected",
            source=source,
            advice="The file may have been replaced by one of another size: create the dataset again",
        )


def assemble(
    index: PacketIndex, request: Request, pixels: Array, lost: dict[int, str]
) -> Sequence | SeqpipeError:
    """Return the sequence of a request whose frames were decoded, or the error if some of them are lost."""
    missing = {frame: lost[frame] for frame in request.frames.tolist() if frame in lost} if lost else {}
    if missing:
        return lost_error(index, missing)
    padding = request.frames < 0 if request.padding is None else request.padding | (request.frames < 0)
    frames = np.where(padding, -1, request.frames)
    times = np.where(padding, np.nan, index.timestamps[np.maximum(request.frames, 0)])
    return Sequence(pixels, request.output.layout, index.info.source, frames, times)


def lost_error(index: PacketIndex, lost: dict[int, str], advice: str = "") -> DamagedSourceError:
    """Return the error for frames that could not be decoded."""
    numbers = tuple(sorted(lost))
    some = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
    frames = f"frame {some}" if len(numbers) == 1 else f"{len(numbers)} frames ({some})"
    return DamagedSourceError(
        f"{frames} cannot be decoded ({lost[numbers[0]]})",
        source=index.info.source,
        advice=advice or "Ask for other frames, or leave the video out with on_error='skip'",
        lost=numbers,
    )


@dataclass(frozen=True, eq=False)
class Segment:
    """Packets that a decoder is fed from a key packet to a flush.

    Attributes:
        packets: packet numbers to feed, ascending; the first is a key packet.
        wanted: packet numbers whose frames are wanted, ascending, a subset of ``packets``.
    """

    packets: IntArray
    wanted: IntArray


@dataclass(frozen=True, eq=False)
class DecodePlan:
    """Segments that deliver the wanted frames, in file order."""

    segments: tuple[Segment, ...]

    @property
    def cost(self) -> int:
        """Number of packets to decode."""
        return sum(len(segment.packets) for segment in self.segments)


def make_plan(
    table: PacketTable,
    wanted: IntArray,
    *,
    earlier: int = 0,
    refused: Collection[tuple[int, int]] = (),
    thorough: bool = False,
    least_saved: int = 1,
) -> DecodePlan:
    """Return the plan that decodes the fewest packets for the frames of the given packets.

    Args:
        table: the packets of the stream.
        wanted: packet numbers of the wanted frames, in any order, repeats allowed.
        earlier: number of key frames before the nearest one to start at, for streams whose key frames are not true
            random access points.
        refused: (start of a segment, packet) wherever a decoder raised an error; the packet is not fed again in a
            segment with that start, and no wanted frame depends on it.
        thorough: feed all packets, and give each wanted frame the segment that it has when it is wanted alone. Used for
            damaged streams: their packet headers may be wrong, and what a decoder makes of a packet, even of a key
            frame, may depend on damage before it.
        least_saved: reference frames that skipping to a later key frame has to save; more than 1 for decoders whose
            drain at the end of a segment takes longer than decoding so many frames.
    """
    packets = distinct(wanted)
    if not packets.size:
        return DecodePlan(())
    own = _own_starts(table, packets, earlier)
    if thorough:
        segments = ((int(start), packets[own == start]) for start in np.unique(own))
        return DecodePlan(tuple(_segment(table, *segment, refused, thorough=True) for segment in segments))
    starts = _shared_starts(own)
    # Each segment is a run of its own, whose end drains the decoder.
    first = int(starts[0])
    before = np.concatenate([[0], np.cumsum(table.reference[first : int(packets[-1])], dtype=np.int64)])
    saved = before[starts[1:] - first] - before[np.minimum(packets[:-1] + 1, starts[1:]) - first]
    ends = [*(np.flatnonzero(saved >= least_saved) + 1).tolist(), packets.size]
    return DecodePlan(
        tuple(
            _segment(table, int(starts[begin]), packets[begin:end], refused, thorough=False)
            for begin, end in zip([0, *ends], ends, strict=False)
        )
    )


def start_packets(table: PacketTable, packets: IntArray, earlier: int) -> IntArray:
    """Return the key packet at which decoding starts for each of the given ascending packets, decoded together."""
    return _shared_starts(_own_starts(table, packets, earlier))


def _own_starts(table: PacketTable, packets: IntArray, earlier: int) -> IntArray:
    """Return the key packet at which decoding starts for each packet alone."""
    starts = table.gop[packets]
    back = (table.leads(packets) & ~table.self_contained[packets]).astype(np.int64) + earlier
    for _ in range(int(back.max())):
        step = (back > 0) & (starts > 0)
        starts = np.where(step, table.gop[np.maximum(starts - 1, 0)], starts)
        back -= 1
    return starts


def _shared_starts(starts: IntArray) -> IntArray:
    """Return the starts where a packet before one that needs an earlier start shares that start."""
    result: IntArray = np.minimum.accumulate(starts[::-1])[::-1]
    return result


def undecodable(table: PacketTable, segment: Segment) -> BoolArray:
    """Return a mask of the packets fed although they cannot be decoded: unwanted leading pictures of the key frame."""
    packets = segment.packets
    leading: BoolArray = table.leads(packets) & (table.gop[packets] == packets[0])
    if leading.any():
        leading &= ~np.isin(packets, segment.wanted)
    return leading


def tracked(table: PacketTable, segment: Segment) -> BoolArray:
    """Return a mask of the reference frames whose decode result must be known before frames are delivered."""
    packets = segment.packets
    references: BoolArray = table.reference[packets] & (table.packet_frame[packets] >= 0)
    return references & ~undecodable(table, segment)


def damaged_by(table: PacketTable, packet: int) -> IntArray:
    """Return the packets whose frames are invalid once a packet failed to decode.

    For a non-reference frame, that is only itself. For any other, all packets up to the next key packet, and the
    leading pictures of that one, which are predicted from before it. For a leading picture, the leading pictures that
    follow: no other frames may be predicted from it, and a decode that starts at its key packet does without it.
    """
    if not table.reference[packet]:
        return np.array([packet], dtype=np.int64)
    later_keys = np.flatnonzero(table.key[packet + 1 :])
    end = packet + 1 + int(later_keys[0]) if later_keys.size else len(table)
    if table.leading[packet] or table.undecodable[packet] or table.self_contained[packet]:
        followers: IntArray = np.flatnonzero(table.leads(slice(packet, end))) + packet
        return np.union1d(followers, packet)
    end_leading = packet + 1 + int(later_keys[1]) if later_keys.size > 1 else len(table)
    leading = np.flatnonzero(table.leads(slice(end, end_leading))) + end
    return np.concatenate([np.arange(packet, end), leading])


def _segment(
    table: PacketTable, start: int, wanted: IntArray, refused: Collection[tuple[int, int]], *, thorough: bool
) -> Segment:
    """Return the packets to feed from a key packet on."""
    last = int(wanted[-1])
    feed = table.reference[start : last + 1] | thorough
    # Leading reference pictures of H.264 are fed even though they cannot be decoded from here: leaving them out would
    # open a gap in frame_num, which the decoder conceals with made-up frames. HEVC skips its RASL pictures by design.
    feed &= ~(table.undecodable[start : last + 1] & (table.gop[start : last + 1] == start))
    feed[[packet - start for by, packet in refused if by == start and start < packet <= last]] = False
    feed[wanted - start] = True
    return Segment(np.flatnonzero(feed) + start, wanted)


@dataclass(frozen=True, eq=False)
class PlannedVideo:
    """Open video with its index, shared by threads."""

    source: Source
    index: PacketIndex


@dataclass(frozen=True, eq=False)
class Job:
    """Requests of one video, submitted together, whose decode plans overlap, so that they share one decode.

    Attributes:
        video: the video.
        requests: the requests, each with its number among those submitted together.
        first: number of the first packet to feed.
        last: number of the last packet to feed.
        cost: sum of the requests' packets to decode.
        packets: numbers of the packets to feed, ascending.
        future: future of the requests' outcomes.
    """

    video: PlannedVideo
    requests: tuple[tuple[int, Request], ...]
    first: int
    last: int
    cost: int
    packets: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    future: InterruptibleFuture[Outcomes] = field(default_factory=InterruptibleFuture)

    @cached_property
    def pixels(self) -> int:
        """Number of pixels to decode, as a measure of the work."""
        info = self.video.index.info
        return self.cost * info.width * info.height

    def overlaps(self, other: Job) -> bool:
        """Return whether one decode can serve both jobs."""
        return self.video.index is other.video.index and self.first <= other.last and other.first <= self.last


def cut_jobs(video: PlannedVideo, group: Seq[tuple[int, Request]]) -> Iterator[Job]:
    """Group a video's requests into jobs whose packet ranges do not overlap."""
    table = video.index.packets
    spans = []
    for number, request in group:
        plan = make_plan(table, table.frame_packet[request.frames[request.frames >= 0]])
        first = int(plan.segments[0].packets[0]) if plan.segments else 0
        last = int(plan.segments[-1].packets[-1]) if plan.segments else 0
        spans.append(_Span(first, last, plan, (number, request)))
    spans.sort(key=lambda span: (span.first, span.last))
    overlapping: list[_Span] = []
    end = -1
    for span in spans:
        if overlapping and span.first > end:
            yield _job(video, overlapping)
            overlapping = []
        overlapping.append(span)
        end = max(end, span.last)
    if overlapping:
        yield _job(video, overlapping)


class _Span(NamedTuple):
    """Range from the first to the last packet of a request's plan."""

    first: int
    last: int
    plan: DecodePlan
    request: tuple[int, Request]


def _job(video: PlannedVideo, spans: Seq[_Span]) -> Job:
    """Return the job that decodes spans together."""
    segments = [segment.packets for span in spans for segment in span.plan.segments]
    return Job(
        video,
        tuple(span.request for span in spans),
        first=spans[0].first,
        last=max(span.last for span in spans),
        cost=sum(span.plan.cost for span in spans),
        packets=distinct(np.concatenate(segments)) if segments else np.empty(0, np.int64),
    )


class JobQueue:
    """Queue of jobs in the order of submission; of jobs submitted together, the most expensive is first."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._lock = threading.Lock()

    def put(self, jobs: Seq[Job]) -> None:
        """Add jobs that were submitted together."""
        with self._lock:
            self._waiting.extend(sorted(jobs, key=lambda job: -job.cost))

    def take(self, choose: Callable[[Seq[Job]], Job | None] = lambda jobs: jobs[0]) -> list[Job]:
        """Remove a job with all jobs that overlap it, and mark them as running; empty if no job can be taken."""
        with self._lock:
            while self._waiting:
                seed = choose(self._waiting)
                if seed is None:
                    return []
                group = self._overlapping(seed)
                if running := [job for job in group if job.future.set_running_or_notify_cancel()]:
                    return running
        return []

    def clear(self) -> None:
        """Cancel all queued jobs."""
        for job in self._empty():
            job.future.cancel()

    def fail(self, error: BaseException) -> None:
        """Set an error on all queued jobs: no thread can take them."""
        for job in self._empty():
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def _empty(self) -> list[Job]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _overlapping(self, seed: Job) -> list[Job]:
        """Remove a job from the queue, with those that overlap it or one another."""
        group = [seed]
        self._waiting.remove(seed)
        for job in group:  # the list grows during the loop: an overlapping job may itself be overlapped
            more = [other for other in self._waiting if other.overlaps(job)]
            for other in more:
                self._waiting.remove(other)
            group.extend(more)
        return group
