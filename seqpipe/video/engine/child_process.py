"""Parent's side of a worker process for decoding."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any, Final

from ...array import IntArray
from ...errors import BackendError
from ..convert.surface import Surface
from ..plan.jobs import PlannedVideo
from .child import (
    Answer,
    ChildFrame,
    ChildResult,
    DecodeRequest,
    Failed,
    IndexedFile,
    LruCache,
    ReleasedBuffers,
)
from .child_memory import FrameMemory
from .processes import PROCESSES

__all__ = ["ChildProcess"]

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
        """Wait for the message that the process has started; call it again only after False.

        Raises:
            BackendError: the process has ended.
        """
        try:
            return self._connection.poll(timeout_s) and self._connection.recv() is None
        except (EOFError, OSError) as error:
            raise self._exit_error() from error

    def request(self, number: int, video: PlannedVideo, frames: IntArray) -> None:
        """Request frames of a video; ``number`` identifies the video in all requests.

        Raises:
            BackendError: the process has ended.
        """
        if number in self._files:
            self._files.use(number)
            file = None
        else:
            self._files.add(number, None)
            file = IndexedFile(str(video.source.path), video.index.plain())
        self._send(DecodeRequest(number, file, frames, self._memory.released()))
        self.busy = True

    def receive(self) -> ChildResult:
        """Wait for the next message of results.

        Raises:
            SeqpipeError: the source cannot be read, or there is no decoder for it.
            BackendError: the process has ended.
        """
        try:
            answer: Answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._exit_error() from error
        self.busy = isinstance(answer, ChildResult) and not answer.last
        if isinstance(answer, Failed):
            raise answer.error
        return answer

    def acknowledge(self) -> None:
        """Acknowledge a message of results other than the last, so that the process continues.

        Raises:
            BackendError: the process has ended.
        """
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
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._exit_error() from error

    def _exit_error(self) -> BackendError:
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
