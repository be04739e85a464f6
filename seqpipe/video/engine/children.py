"""Pool of worker processes that decode small frames for an engine of many threads."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator
from typing import Final
from weakref import WeakKeyDictionary

from ...array import IntArray
from ...errors import BackendError
from ..convert.surface import Surface
from ..decode.run import Lost
from ..packet_index import PacketIndex
from ..plan.jobs import PlannedVideo
from .child_process import ChildProcess
from .processes import processes

__all__ = ["ChildDecoding", "Children", "children"]

_RUNS_BEFORE: Final = 4  # for each child, so that programs which are soon done start none
_MOST_PIXELS: Final = 1 << 20  # of a frame: larger ones take so long that threads rarely meet

_log = logging.getLogger(__name__)


def children(threads: int, count: int | None = None, *, nice: int = 0) -> Children | None:
    """Children of an engine, or None where there are to be none.

    Args:
        threads: how many would decode without them.
        count: how many children; None for what :func:`seqpipe.video.engine.processes.processes` says.
        nice: how far they stand back behind others that want a core.
    """
    count = processes(threads) if count is None else count
    return Children(count, runs_before=_RUNS_BEFORE * count, nice=nice) if count else None


class Children:
    """Children, started as they are needed; what they cannot take, or not yet, is for the threads of this process.

    Args:
        count: how many at most.
        pixels: of the largest frames that are left to them.
        runs_before: what the threads decode before the first one is started.
        nice: how far they stand back behind others that want a core.

    Attributes:
        count: how many at most; 0 once one could not be started.
    """

    def __init__(
        self, count: int, *, pixels: float = _MOST_PIXELS, runs_before: int = 0, nice: int = 0
    ) -> None:
        self.count, self._pixels, self._nice = count, pixels, nice
        self._runs_left = runs_before
        self._starting: list[ChildProcess] = []
        self._idle: list[ChildProcess] = []
        self._living: set[ChildProcess] = set()
        self._numbers: WeakKeyDictionary[PacketIndex, int] = WeakKeyDictionary()
        self._next_number = itertools.count()
        self._lock = threading.Condition()
        self._process = os.getpid()

    def fit(self, video: PlannedVideo) -> bool:
        """Whether a video may be left to them: a local file of small frames."""
        info = video.index.info
        return video.source.path is not None and info.width * info.height <= self._pixels

    def decode(self, video: PlannedVideo, frames: IntArray) -> ChildDecoding | None:
        """Let a child decode frames; once all of them have started, wait until one is free.

        Args:
            video: the video.
            frames: frame numbers, in any order.

        Returns:
            What comes of it, to be closed; None if this is not for children, or they are still starting.
        """
        # those of its parent are nothing to a forked process
        if os.getpid() != self._process or not self.fit(video) or (child := self._ready()) is None:
            return None
        try:
            child.ask(self._number(video.index), video, frames)
        except BackendError:
            self._end(child)
            return None
        return ChildDecoding(self, child)

    def take_back(self, child: ChildProcess) -> None:
        """A child is no longer needed; one that has still something to say is ended, for it would be for nobody."""
        if child.asked:
            self._end(child)
        else:
            with self._lock:
                self._idle.append(child)
                self._lock.notify()

    def wait(self) -> None:
        """Start all, and return when they are ready."""
        with self._lock:
            while self.count > len(self._living):
                self._start()
            self._sort(None)

    def close(self) -> None:
        """End all that are idle."""
        if os.getpid() != self._process:
            return
        with self._lock:
            ending, self._idle, self._starting = self._idle + self._starting, [], []
        for child in ending:
            child.leave()
        for child in ending:
            self._end(child)

    def _number(self, index: PacketIndex) -> int:
        with self._lock:
            if index not in self._numbers:
                self._numbers[index] = next(self._next_number)
            return self._numbers[index]

    def _ready(self) -> ChildProcess | None:
        with self._lock:
            while True:
                self._sort(0)
                if self._idle:
                    return self._idle.pop()
                if self._runs_left:
                    self._runs_left -= 1
                    return None
                if self.count > len(self._living):
                    self._start()
                if self._starting or not self._living:
                    return None
                self._lock.wait()

    def _sort(self, timeout_s: float | None) -> None:
        """See who has started."""
        for child in list(self._starting):
            try:
                if not child.is_ready(timeout_s):
                    continue
                self._idle.append(child)
            except BackendError as error:
                self._give_up(error.fact)
                self._living.discard(child)
            self._starting.remove(child)

    def _start(self) -> None:
        try:
            child = ChildProcess(self._nice)
        except OSError as error:
            self._give_up(str(error))
            return
        self._living.add(child)
        self._starting.append(child)

    def _give_up(self, why: str) -> None:
        """Start no more: what has failed once would fail every time."""
        self.count = 0
        _log.warning("no process can be started to decode in, threads do it: %s", why)

    def _end(self, child: ChildProcess) -> None:
        child.end()
        with self._lock:
            self._living.discard(child)
            self._lock.notify_all()


class ChildDecoding:
    """What a child decodes: an iterable like :class:`~seqpipe.video.decode.run.Decoding`, to be closed."""

    def __init__(self, owner: Children, child: ChildProcess) -> None:
        self._owner, self._child = owner, child
        self._closed = False

    def __iter__(self) -> Iterator[Surface | Lost]:
        """The frames; others may have the child while the last ones are painted.

        Raises:
            SeqpipeError: the source cannot be read, or there is no decoder for it.
            BackendError: the process has ended.
        """
        child = self._child
        while not self._closed:
            result = child.hear()
            # all at once: the memory of what was never asked for would not be given back
            items = deque(item if isinstance(item, Lost) else child.surface(item) for item in result.items)
            if result.last:
                self.close()
            while items:
                yield items.popleft()
            if not result.last:
                child.acknowledge()

    def close(self) -> None:
        """Leave the child to others."""
        if not self._closed:
            self._closed = True
            self._owner.take_back(self._child)
