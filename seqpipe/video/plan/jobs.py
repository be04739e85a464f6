"""Jobs: groups of requests with overlapping decode plans, and the queue from which threads take them.

Requests of one video share a decode where the packets of their plans overlap, even if they were submitted later: a
thread that takes a job also takes the queued jobs that overlap it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...array import IntArray, distinct
from ...core.cached import cached_property
from ...core.interruptible import InterruptibleFuture
from ..packet_index import PacketIndex
from ..source.source import Source
from .plan import DecodePlan, make_plan
from .request import Outcomes, Request

__all__ = ["Job", "JobQueue", "PlannedVideo", "cut_jobs"]


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
        """Remove a job with all jobs that overlap it, and mark them as running; empty if no job can be taken.

        Args:
            choose: picks one of the queued jobs, or None.
        """
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
        group = [seed]
        self._waiting.remove(seed)
        for job in group:  # the list grows during the loop: an overlapping job may itself be overlapped
            more = [other for other in self._waiting if other.overlaps(job)]
            for other in more:
                self._waiting.remove(other)
            group.extend(more)
        return group
