"""ChildProcess: the parent's side of a worker process."""

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
from .child import Answer, ChildFrame, ChildResult, DecodeRequest, Failed, File, Recent, ReleasedBuffers
from .child_memory import SharedFrames
from .processes import PROCESSES

__all__ = ["ChildProcess"]

_RUN: Final = "import sys; sys.path.append(sys.argv[1]); from seqpipe.video.engine.child import main; main()"
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_ENDING_S: Final = 5.0


class ChildProcess:
    """A process that decodes.

    Args:
        nice: how far it stands back behind others that want a core, as ``nice`` counts.

    Attributes:
        asked: whether it has still to say something.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, nice: int = 0) -> None:
        self.asked = False
        self._pictures, self._files = SharedFrames(), Recent[None]()
        here, there = socketpair()
        with there:
            given = there.fileno(), self._pictures.descriptor
            command = [sys.executable, "-c", _RUN, _ROOT, str(nice), *map(str, given)]
            try:
                with _deaf_to_ctrl_c():
                    self._process = subprocess.Popen(command, pass_fds=given, stdin=subprocess.DEVNULL)
            except OSError:
                here.close()
                raise
            finally:
                self._pictures.close()
        self._connection = Connection(here.detach())

    def is_ready(self, timeout_s: float | None) -> bool:
        """Whether it has said so; asked until it has.

        Raises:
            BackendError: it has ended.
        """
        try:
            return self._connection.poll(timeout_s) and self._connection.recv() is None
        except (EOFError, OSError) as error:
            raise self._ended() from error

    def ask(self, number: int, video: PlannedVideo, frames: IntArray) -> None:
        """Ask for frames of a video, whose number stands for it from now on.

        Raises:
            BackendError: it has ended.
        """
        if number in self._files:
            self._files.use(number)
            file = None
        else:
            self._files.add(number, None)
            file = File(str(video.source.path), video.index.plain())
        self._send(DecodeRequest(number, file, frames, self._pictures.used()))
        self.asked = True

    def hear(self) -> ChildResult:
        """Its next message.

        Raises:
            SeqpipeError: the source cannot be read, or there is no decoder for it.
            BackendError: the process has ended.
        """
        try:
            answer: Answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._ended() from error
        self.asked = isinstance(answer, ChildResult) and not answer.last
        if isinstance(answer, Failed):
            raise answer.error
        return answer

    def acknowledge(self) -> None:
        """Tell it that its message was used, unless it was the last.

        Raises:
            BackendError: the process has ended.
        """
        self._send(ReleasedBuffers(self._pictures.used()))

    def surface(self, told: ChildFrame) -> Surface:
        """A frame that it told of."""
        picture = told.picture
        if isinstance(picture, Surface):
            return picture
        return Surface(told.number, self._pictures.borrow(picture), picture.layout.format)

    def leave(self) -> None:
        """Let it end."""
        self._connection.close()

    def end(self) -> None:
        """Wait until it has ended, if it still has something to do not for long."""
        busy, self.asked = self.asked, False
        self.leave()
        if busy:
            self._process.kill()
        try:
            self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._ended() from error

    def _ended(self) -> BackendError:
        self.asked = True  # so that nobody uses it again
        try:
            code: int | None = self._process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            code = None
        how = "does not answer" if code is None else f"has ended with {code}"
        return BackendError(
            f"the process that decoded it {how}",
            advice=f"It may have been short of memory; {PROCESSES.name}=0 decodes in this process instead",
        )


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Let processes that this thread starts be without it from their first line on: a terminal sends it to all."""
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
