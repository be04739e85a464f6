"""Read-ahead of queued jobs' packets, for sources with a high latency."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Final

import numpy as np

from ...array import IntArray
from ...core.workers import Workers
from ...errors import SourceError
from ..decode.packets import PacketReader, open_packets
from ..plan import Job

__all__ = ["ReadAhead"]

_THREADS: Final = 16
# compressed packets of queued jobs; readers limit the decoded frames of these jobs
_MOST_BYTES: Final = 256 << 20

_Packets = dict[int, bytes]


class ReadAhead:
    """Threads that read the packets of queued jobs, up to a limit of bytes.

    Where the limit is reached, or reading fails, the thread that decodes the job reads its packets.
    """

    def __init__(self) -> None:
        self._workers = Workers(_THREADS, "seqpipe-read")
        self._pending: dict[Job, tuple[Future[_Packets], int]] = {}
        self._buffered = 0
        self._lock = threading.Lock()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of packets that are buffered or being read."""
        return self._buffered

    def begin(self, job: Job) -> None:
        """Start to read a job's packets, if its source has a high latency."""
        video = job.video
        if not (video.source.slow and video.index.by_offset):
            return
        size = int(video.index.packets.size[job.packets].sum())
        with self._lock:
            if self._buffered + size > _MOST_BYTES:
                return
            self._pending[job] = self._workers.submit(partial(_read, job)), size
            self._buffered += size
        job.future.add_done_callback(lambda _: self.end(job))  # if it is canceled or fails

    def reader(self, jobs: Seq[Job]) -> PacketReader:
        """Open a packet reader for jobs of one video that are decoded together."""
        direct = open_packets(jobs[0].video.source, jobs[0].video.index)
        with self._lock:
            pending = [self._pending[job][0] for job in jobs if job in self._pending]
        return _PrefetchedPackets(direct, pending) if pending else direct

    def end(self, job: Job) -> None:
        """Release the packets of a job, if any are buffered.

        Called before the job's future is set: the future wakes a waiting thread before it runs other callbacks, and
        that thread's next job needs the room.
        """
        with self._lock:
            if job not in self._pending:
                return
            reading, size = self._pending.pop(job)
            self._buffered -= size
        reading.cancel()

    def close(self) -> None:
        """Cancel queued reads, and wait for running ones."""
        self._workers.close()


class _PrefetchedPackets:
    """PacketReader that serves prefetched packets from memory and reads the others."""

    def __init__(self, direct: PacketReader, pending: Seq[Future[_Packets]]) -> None:
        self._direct, self._pending = direct, pending

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """The bytes of the packets with the given ascending numbers."""
        prefetched: _Packets = {}
        for future in self._pending:
            # The packets are read again below, which raises the error if it persists.
            with contextlib.suppress(SourceError, CancelledError):
                prefetched.update(future.result())
        missing = [number for number in numbers.tolist() if number not in prefetched]
        others = self._direct.read(np.array(missing, dtype=np.int64))
        for number in numbers.tolist():
            yield prefetched[number] if number in prefetched else next(others)

    def close(self) -> None:
        """Close the underlying reader."""
        self._direct.close()


def _read(job: Job) -> _Packets:
    with contextlib.closing(open_packets(job.video.source, job.video.index)) as packets:
        return dict(zip(job.packets.tolist(), packets.read(job.packets), strict=True))
