"""Files that appear under their names once they are whole: written beside their places, then renamed."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from .interrupts import cleanup_on_exit

__all__ = ["open_new", "replacing", "write_durably"]


@contextmanager
def replacing(path: Path, beside: Path | None = None) -> Iterator[Path]:
    """The place to write a file at, which moves to its own place when the block ends well.

    Whoever opens `path` finds the older file or the whole new one. Nothing is left behind when the block raises, but a
    killed process leaves what it had written.

    Args:
        path: the file's place, in a folder that exists. A file there is replaced.
        beside: where to write, on the same file system; by default a name next to `path`, with its suffix, that no
            other thread or process takes.

    Raises:
        OSError: the file cannot be moved; FileNotFoundError if the block wrote none.
    """
    part = path.with_name(f".{uuid.uuid4().hex}.{path.name}") if beside is None else beside
    with cleanup_on_exit(partial(part.unlink, missing_ok=True)):
        try:
            yield part
            part.replace(path)
        except BaseException:
            with suppress(OSError):  # what went wrong first is what is told
                part.unlink(missing_ok=True)
            raise


def open_new(path: Path, mode: int = 0o666) -> BinaryIO:
    """Open a file for writing that this call makes: what has its name, a link that another user put there too, goes.

    Args:
        path: the file's place.
        mode: its permissions, before the umask.

    Raises:
        OSError: it cannot be made.
    """
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.fdopen(os.open(path, flags, mode), "wb")


def write_durably(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file whole or not at all, so that a power cut after this leaves it whole.

    Raises:
        OSError: it cannot be written.
    """
    with replacing(path) as part, open_new(part, mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
