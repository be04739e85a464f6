"""Jobs: requests cut where their decoding does not overlap, and the queue in which they wait for a thread.

Requests of one video share a decoding run where their runs overlap, also requests that were submitted later: whoever
takes a job takes along what waits for the same packets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...array import IntArray, distinct
from ...cached import cached_property
from ..interruptible import Awaited
from ..packet_index import PacketIndex
from ..source.source import Source
from .plan import DecodePlan, make_plan
from .request import Outcomes, Request

__all__ = ["Job", "JobQueue", "PlannedVideo", "cut"]


@dataclass(frozen=True, eq=False)
class PlannedVideo:
    """An open video, shared by the threads."""

    source: Source
    index: PacketIndex


@dataclass(frozen=True, eq=False)
class Job:
    """Requests of one video, submitted together, whose decoding runs overlap, so that one run serves them all.

    Attributes:
        video: the video.
        requests: each with its place among those that were submitted together.
        first: the first packet that is fed.
        last: the last one.
        cost: packets to decode, counted for each request.
        packets: the numbers of the packets that are fed, ascending.
        future: will hold what became of the requests.
    """

    video: PlannedVideo
    requests: tuple[tuple[int, Request], ...]
    first: int
    last: int
    cost: int
    packets: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    future: Awaited[Outcomes] = field(default_factory=Awaited)

    @cached_property
    def pixels(self) -> int:
        """Of all packets to decode together."""
        info = self.video.index.info
        return self.cost * info.width * info.height

    def overlaps(self, other: Job) -> bool:
        """Whether one run can serve both."""
        return self.video.index is other.video.index and self.first <= other.last and other.first <= self.last


def cut(video: PlannedVideo, group: Seq[tuple[int, Request]]) -> Iterator[Job]:
    """Cut a video's requests where no decoding run of one overlaps that of another."""
    table = video.index.packets
    spans = []
    for place, request in group:
        plan = make_plan(table, table.frame_packet[request.frames[request.frames >= 0]])
        first = int(plan.segments[0].packets[0]) if plan.segments else 0
        last = int(plan.segments[-1].packets[-1]) if plan.segments else 0
        spans.append(_Span(first, last, plan, (place, request)))
    spans.sort(key=lambda span: (span.first, span.last))
    island: list[_Span] = []
    for span in spans:
        if island and span.first > max(other.last for other in island):
            yield _job(video, island)
            island = []
        island.append(span)
    if island:
        yield _job(video, island)


class _Span(NamedTuple):
    """From the first to the last packet that a request needs."""

    first: int
    last: int
    plan: DecodePlan
    request: tuple[int, Request]


def _job(video: PlannedVideo, island: Seq[_Span]) -> Job:
    segments = [segment.packets for span in island for segment in span.plan.segments]
    return Job(
        video,
        tuple(span.request for span in island),
        first=island[0].first,
        last=max(span.last for span in island),
        cost=sum(span.plan.cost for span in island),
        packets=distinct(np.concatenate(segments)) if segments else np.empty(0, np.int64),
    )


class JobQueue:
    """Jobs that wait: those submitted first go first, and among them the costliest, so that none is left at the end."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._lock = threading.Lock()

    def put(self, jobs: Seq[Job]) -> None:
        """Add jobs that were submitted together."""
        with self._lock:
            self._waiting.extend(sorted(jobs, key=lambda job: -job.cost))

    def take(self, choose: Callable[[Seq[Job]], Job | None] = lambda jobs: jobs[0]) -> list[Job]:
        """A job with all that overlap it, each marked as begun; none if nothing waits.

        Args:
            choose: picks one of the waiting jobs, or none of them.
        """
        with self._lock:
            while self._waiting:
                seed = choose(self._waiting)
                if seed is None:
                    return []
                group = self._overlapping(seed)
                if begun := [job for job in group if job.future.set_running_or_notify_cancel()]:
                    return begun
        return []

    def clear(self) -> None:
        """Cancel all that has not begun."""
        for job in self._emptied():
            job.future.cancel()

    def fail(self, error: BaseException) -> None:
        """End all that has not begun with an error: nobody could take it."""
        for job in self._emptied():
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def _emptied(self) -> list[Job]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _overlapping(self, seed: Job) -> list[Job]:
        group = [seed]
        self._waiting.remove(seed)
        for job in group:  # it grows while it is gone through: what overlaps may itself be overlapped
            more = [other for other in self._waiting if other.overlaps(job)]
            for other in more:
                self._waiting.remove(other)
            group.extend(more)
        return group
