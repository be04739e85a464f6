"""File locks between concurrent exports, released by the kernel when a process ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ...errors import OutputError
from ...interrupts import tidied
from ..input.files import temporary_path, told

__all__ = ["ADVICE", "WAIT_S", "Lock", "held"]

ADVICE: Final = "Wait for it to end, or stop it; --resume then goes on from there"
"""What to do about another export."""
WAIT_S: Final = 30.0
"""How long to wait for a lock that others hold for some ms; one that was stopped would hold it for ever."""

_PAUSE_S: Final = 0.005
_WITHOUT_LOCKS: Final = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""What file systems answer that have no locks; exports into them are on their own."""


@contextlib.contextmanager
def held(path: Path, what: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Keep other exports off a file, or off what it stands for, while the block runs.

    The lock is a file beside it, taken with ``flock``: one that a killed process has left is free.

    Args:
        path: the file; it need not be there.
        what: it is, for the message.
        wait_s: how long to wait for another export that holds it; one that was stopped would hold it for ever.

    Raises:
        OutputError: another export holds it still, or the lock cannot be written.
    """
    lock = Lock(temporary_path(path, "lock"))
    with tidied(lock.give_back):
        try:
            with told(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                taken = lock.take(wait_s)
            if not taken:
                raise OutputError(
                    f"another export is writing {what}",
                    source=str(path),
                    advice=ADVICE,
                )
            yield
        finally:
            lock.give_back()


class Lock:
    """A file to be locked, which is there only while it is.

    Args:
        path: its place, in a folder that exists.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def take(self, wait_s: float = 0.0) -> bool:
        """Lock it; False if another process, or another thread, holds it for so long.

        Raises:
            OSError: it cannot be written.
        """
        deadline_s = time.monotonic() + wait_s
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, 0o666)
            # whatever the umask: what a killed export has left in a shared folder is to be of use to all
            with contextlib.suppress(PermissionError):  # it is another user's, who has done so
                os.fchmod(self._descriptor, 0o666)
            if _lock(self._descriptor) and _is_at(self._descriptor, self.path):
                return True
            held_by_another = _is_at(self._descriptor, self.path)
            self._close()
            if time.monotonic() >= deadline_s and held_by_another:
                return False
            time.sleep(_PAUSE_S)

    def give_back(self) -> None:
        """Take the file away, if it is locked, and close it. May be done again."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            if _lock(self._descriptor) and _is_at(self._descriptor, self.path):
                self.path.unlink()  # before it is free: who waits for it sees that, and makes a new one
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
    return True


def _is_at(descriptor: int, lock: Path) -> bool:
    """Whether a file is still at its place: who held its lock may have taken it away."""
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False
