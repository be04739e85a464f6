"""Pool of worker processes that decode small frames for an engine of many threads."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any, Final
from weakref import WeakKeyDictionary

from ...array import IntArray
from ...errors import BackendError
from ..convert.surface import Surface, has_alpha
from ..decode.run import Lost
from ..packet_index import PacketIndex
from ..plan import PlannedVideo
from .backend import PROCESSES, processes
from .child import (
    Answer,
    ChildFrame,
    ChildResult,
    DecodeRequest,
    Failed,
    FrameMemory,
    IndexedFile,
    LruCache,
    ReleasedBuffers,
)

__all__ = ["ChildDecoding", "ChildProcess", "Children", "children"]

_RUN: Final = "import sys; sys.path.append(sys.argv[1]); from seqpipe.video.engine.child import main; main()"
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_EXIT_TIMEOUT_S: Final = 5.0


class ChildProcess:
    """Worker process that decodes.

    Args:
        nice: niceness (scheduling priority) of the process, as in ``nice(1)``.

    Attributes:
        busy: whether a request is pending.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(self, nice: int = 0) -> None:
        self.busy = False
        self._memory, self._files = FrameMemory(), LruCache[None]()
        here, there = socketpair()
        with there:
            descriptors = there.fileno(), self._memory.descriptor
            command = [sys.executable, "-c", _RUN, _ROOT, str(nice), *map(str, descriptors)]
            try:
                with _sigint_blocked():
                    self._process = subprocess.Popen(command, pass_fds=descriptors, stdin=subprocess.DEVNULL)
            except OSError:
                here.close()
                raise
            finally:
                self._memory.close()
        self._connection = Connection(here.detach())

    def is_ready(self, timeout_s: float | None) -> bool:
        """Wait for the message that the process has started; call it again only after False."""
        try:
            return self._connection.poll(timeout_s) and self._connection.recv() is None
        except (EOFError, OSError) as error:
            raise self._exit_error() from error

    def request(self, number: int, video: PlannedVideo, frames: IntArray) -> None:
        """Request frames of a video; ``number`` identifies the video in all requests."""
        if number in self._files:
            self._files.use(number)
            file = None
        else:
            self._files.add(number, None)
            file = IndexedFile(str(video.source.path), video.index.plain())
        self._send(DecodeRequest(number, file, frames, self._memory.released()))
        self.busy = True

    def receive(self) -> ChildResult:
        """Wait for the next message of results."""
        try:
            answer: Answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._exit_error() from error
        self.busy = isinstance(answer, ChildResult) and not answer.last
        if isinstance(answer, Failed):
            raise answer.error
        return answer

    def acknowledge(self) -> None:
        """Acknowledge a message of results other than the last, so that the process continues."""
        self._send(ReleasedBuffers(self._memory.released()))

    def surface(self, item: ChildFrame) -> Surface:
        """Return the surface of a frame in the shared memory."""
        frame = item.frame
        if isinstance(frame, Surface):
            return frame
        return Surface(item.number, self._memory.borrow(frame), frame.layout.format)

    def disconnect(self) -> None:
        """Close the connection, upon which the process ends."""
        self._connection.close()

    def end(self) -> None:
        """End the process and wait for it; a process with a pending request is killed."""
        busy, self.busy = self.busy, False
        self.disconnect()
        if busy:
            self._process.kill()
        try:
            self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: Any) -> None:
        """Send a message to the process."""
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._exit_error() from error

    def _exit_error(self) -> BackendError:
        """Return the error for a process that has ended."""
        self.busy = True  # the pool ends a busy process instead of reusing it
        try:
            code: int | None = self._process.wait(_EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = None
        how = "does not answer" if code is None else f"has ended with exit code {code}"
        return BackendError(
            f"the worker process that decoded it {how}",
            advice=f"It may have run out of memory; {PROCESSES.name}=0 decodes in this process instead",
        )


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT for processes that this thread starts: a terminal sends Ctrl-C to all of them."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


_JOBS_BEFORE: Final = 4  # per process, so that short programs start none
_MOST_PIXELS: Final = 1 << 20  # larger frames take so long to decode that threads rarely wait for the GIL

_log = logging.getLogger(__name__)


def children(threads: int, count: int | None = None, *, nice: int = 0) -> Children | None:
    """Create the worker processes of an engine, or None if it has none."""
    count = processes(threads) if count is None else count
    return Children(count, jobs_before=_JOBS_BEFORE * count, nice=nice) if count else None


class Children:
    """Pool of worker processes, started on demand; until they are ready, threads of this process decode.

    Args:
        count: maximum number of processes.
        pixels: pixels of the largest frames that they decode.
        jobs_before: number of jobs that threads decode before the first process is started.
        nice: niceness (scheduling priority) of the processes.

    Attributes:
        count: maximum number of processes; 0 once one failed to start.
    """

    def __init__(
        self, count: int, *, pixels: float = _MOST_PIXELS, jobs_before: int = 0, nice: int = 0
    ) -> None:
        self.count, self._pixels, self._nice = count, pixels, nice
        self._jobs_left = jobs_before
        self._starting: list[ChildProcess] = []
        self._idle: list[ChildProcess] = []
        self._living: set[ChildProcess] = set()
        self._numbers: WeakKeyDictionary[PacketIndex, int] = WeakKeyDictionary()
        self._next_number = itertools.count()
        self._lock = threading.Condition()
        self._process = os.getpid()

    def fit(self, video: PlannedVideo) -> bool:
        """Return whether the processes can decode a video: a local file of small frames, without alpha."""
        info = video.index.info
        if has_alpha(info.pixel_format):
            return False
        return video.source.path is not None and info.width * info.height <= self._pixels

    def decode(self, video: PlannedVideo, frames: IntArray) -> ChildDecoding | None:
        """Let a process decode frames; once all have started, wait until one is free."""
        # A forked process cannot use its parent's worker processes.
        if os.getpid() != self._process or not self.fit(video) or (child := self._ready()) is None:
            return None
        try:
            child.request(self._number(video.index), video, frames)
        except BackendError:
            self._end(child)
            return None
        return ChildDecoding(self, child)

    def give_back(self, child: ChildProcess) -> None:
        """Return a process to the pool; one with a pending request is ended, as its results have no reader."""
        if child.busy:
            self._end(child)
        else:
            with self._lock:
                self._idle.append(child)
                self._lock.notify()

    def wait(self) -> None:
        """Start all processes, and return when they are ready."""
        with self._lock:
            while self.count > len(self._living):
                self._start()
            self._collect_ready(None)

    def close(self) -> None:
        """End all idle and starting processes."""
        if os.getpid() != self._process:
            return
        with self._lock:
            ending, self._idle, self._starting = self._idle + self._starting, [], []
        for child in ending:
            child.disconnect()
        for child in ending:
            self._end(child)

    def _number(self, index: PacketIndex) -> int:
        """Return the number that processes know an index by."""
        with self._lock:
            if index not in self._numbers:
                self._numbers[index] = next(self._next_number)
            return self._numbers[index]

    def _ready(self) -> ChildProcess | None:
        """Take an idle process, or start one; None while there is none for a job."""
        with self._lock:
            while True:
                self._collect_ready(0)
                if self._idle:
                    return self._idle.pop()
                if self._jobs_left:
                    self._jobs_left -= 1
                    return None
                if self.count > len(self._living):
                    self._start()
                if self._starting or not self._living:
                    return None
                self._lock.wait()

    def _collect_ready(self, timeout_s: float | None) -> None:
        """Move the processes that have started to the idle ones."""
        for child in list(self._starting):
            try:
                if not child.is_ready(timeout_s):
                    continue
                self._idle.append(child)
            except BackendError as error:
                self._give_up(error.fact)
                self._living.discard(child)
                child.end()
            self._starting.remove(child)

    def _start(self) -> None:
        """Start a process."""
        try:
            child = ChildProcess(self._nice)
        except (OSError, RuntimeError) as error:  # Python starts none while it ends
            self._give_up(str(error))
            return
        self._living.add(child)
        self._starting.append(child)

    def _give_up(self, why: str) -> None:
        """Start no more processes: the next one would most likely fail too."""
        self.count = 0
        _log.warning("worker processes cannot be started, threads decode instead: %s", why)

    def _end(self, child: ChildProcess) -> None:
        """End a process."""
        child.end()
        with self._lock:
            self._living.discard(child)
            self._lock.notify_all()


class ChildDecoding:
    """Frames that a worker process decodes, see :class:`~seqpipe.video.engine.backend.DecodedFrames`."""

    def __init__(self, owner: Children, child: ChildProcess) -> None:
        self._owner, self._child = owner, child
        self._closed = False

    def __iter__(self) -> Iterator[Surface | Lost]:
        """Yield the frames; the process is back in the pool while the last ones are painted."""
        child = self._child
        while not self._closed:
            result = child.receive()
            # All are borrowed at once: only a borrowed buffer is released when the caller stops early.
            items = deque(item if isinstance(item, Lost) else child.surface(item) for item in result.items)
            if result.last:
                self.close()
            while items:
                yield items.popleft()
            if not result.last:
                child.acknowledge()

    def close(self) -> None:
        """Return the process to its pool."""
        if not self._closed:
            self._closed = True
            self._owner.give_back(self._child)
