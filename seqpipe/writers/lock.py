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

from ..core.interrupts import cleanup_on_exit
from ..errors import OutputError
from .files import output_errors, temporary_path

__all__ = ["ADVICE", "WAIT_S", "Lock", "locked"]

ADVICE: Final = "Wait for it to end, or stop it and continue with --resume"
"""Advice for errors about another running export."""
WAIT_S: Final = 30.0
"""Time limit for locks that are held for milliseconds; a suspended process would hold one for ever."""

_PAUSE_S: Final = 0.005
_UNSUPPORTED: Final = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
"""Error numbers of file systems without locks; exports into these are not protected."""


@contextlib.contextmanager
def locked(path: Path, what: str, *, wait_s: float = 0.0) -> Iterator[None]:
    """Lock a file against other exports while the block runs.

    The lock is a file next to it, locked with ``flock``; the kernel releases the lock of a killed process.
    """
    lock = Lock(temporary_path(path, "lock"))
    with cleanup_on_exit(lock.release):
        try:
            with output_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                taken = lock.acquire(wait_s)
            if not taken:
                raise OutputError(
                    f"another export is writing {what}",
                    source=str(path),
                    advice=ADVICE,
                )
            yield
        finally:
            lock.release()


class Lock:
    """A lock file, which exists only while it is locked.

    Args:
        path: the lock file, in an existing folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, wait_s: float = 0.0) -> bool:
        """Lock the file; False if another process or thread holds it for longer than ``wait_s``."""
        deadline_s = time.monotonic() + wait_s
        while True:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, 0o666)
            # Ignore the umask, so that in shared folders any user can take over the lock file of a killed export.
            with contextlib.suppress(PermissionError):  # another user owns the file, and has set the mode
                os.fchmod(self._descriptor, 0o666)
            if _lock(self._descriptor) and _is_at(self._descriptor, self.path):
                return True
            held_by_another = _is_at(self._descriptor, self.path)
            self._close()
            if time.monotonic() >= deadline_s and held_by_another:
                return False
            time.sleep(_PAUSE_S)

    def release(self) -> None:
        """Remove and unlock the file, if it is locked. May be called again."""
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):
            if _lock(self._descriptor) and _is_at(self._descriptor, self.path):
                self.path.unlink()  # removed before it is unlocked: waiting processes notice, and create a new one
        self._close()

    def _close(self) -> None:
        """Close the file of the lock."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file; return whether that was possible."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return True


def _is_at(descriptor: int, lock: Path) -> bool:
    """Whether a path still names an open file; the former holder of the lock may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False
