"""ReadAhead: packets of queued jobs, read before a decoder is free where reading is slow."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import IntArray
from ...errors import SourceError
from ..decode.packets import PacketReader, open_packets
from ..plan.jobs import Job
from .workers import Workers

__all__ = ["ReadAhead"]

_THREADS: Final = 16
_ROOM: Final = 256 << 20

_Read = dict[int, bytes]


class ReadAhead:
    """Reads for jobs on a few threads of its own; no more bytes than there is room for.

    A job that finds no room, or whose reading failed, is read for by whoever decodes it.
    """

    def __init__(self) -> None:
        self._workers = Workers(_THREADS, "seqpipe-read")
        self._begun: dict[Job, Future[_Read]] = {}
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes of packets that are read, or being read."""
        return self._held

    def begin(self, job: Job) -> None:
        """Begin to read a job's packets, if its source is slow to answer."""
        video = job.video
        if not (video.source.slow and video.index.by_offset):
            return
        size = int(video.index.packets.size[job.packets].sum())
        with self._lock:
            if self._held + size > _ROOM:
                return
            self._held += size
            self._begun[job] = self._workers.submit(partial(_read, job))
        job.future.add_done_callback(partial(self._end, job, size))

    def reader(self, jobs: Seq[Job]) -> PacketReader:
        """What reads for jobs of one video that are decoded together."""
        plain = open_packets(jobs[0].video.source, jobs[0].video.index)
        with self._lock:
            begun = [self._begun[job] for job in jobs if job in self._begun]
        return _Prepared(plain, begun) if begun else plain

    def close(self) -> None:
        """Begin nothing more, and wait for what is being read."""
        self._workers.close()

    def _end(self, job: Job, size: int, _future: Future[Any]) -> None:
        with self._lock:
            self._held -= size
            reading = self._begun.pop(job)
        reading.cancel()


class _Prepared:
    """Packets that were read ahead, and the others from where they lie."""

    def __init__(self, plain: PacketReader, begun: Seq[Future[_Read]]) -> None:
        self._plain, self._begun = plain, begun

    def read(self, numbers: IntArray) -> Iterator[bytes]:
        """The bytes of the packets with the given ascending numbers.

        Raises:
            SourceError: the source cannot be read, or is not what was indexed.
        """
        known: _Read = {}
        for future in self._begun:
            # whoever asks reads once more, and sees what is wrong if it still is
            with contextlib.suppress(SourceError, CancelledError):
                known.update(future.result())
        missing = [number for number in numbers.tolist() if number not in known]
        others = self._plain.read(np.array(missing, dtype=np.int64))
        for number in numbers.tolist():
            yield known[number] if number in known else next(others)

    def close(self) -> None:
        """Give back what is held open."""
        self._plain.close()


def _read(job: Job) -> _Read:
    with contextlib.closing(open_packets(job.video.source, job.video.index)) as packets:
        return dict(zip(job.packets.tolist(), packets.read(job.packets), strict=True))
