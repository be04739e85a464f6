"""Atomic file writes: a temporary file in the same folder, renamed once it is complete."""

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
def replacing(path: Path, temporary: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path to write to; when the block ends without an exception, rename it to ``path``.

    Readers of ``path`` see the older file or the complete new one. If the block raises, the temporary file is deleted;
    only a killed process leaves it behind.
    """
    part = path.with_name(f".{uuid.uuid4().hex}.{path.name}") if temporary is None else temporary
    with cleanup_on_exit(partial(part.unlink, missing_ok=True)):
        try:
            yield part
            part.replace(path)
        except BaseException:
            with suppress(OSError):  # the first exception is the one to report
                part.unlink(missing_ok=True)
            raise


def open_new(path: Path, mode: int = 0o666) -> BinaryIO:
    """Create a file for writing; delete what exists under its name, also a symbolic link from another user."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.fdopen(os.open(path, flags, mode), "wb")


def write_durably(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file atomically, and flush it and its folder to disk, so that it survives a power failure."""
    with replacing(path) as part, open_new(part, mode) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
