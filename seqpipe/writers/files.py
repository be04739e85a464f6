"""Atomic output files: only complete files become visible under their names."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from ..core.whole_file import open_new, replacing
from ..errors import OutputError, SeqpipeError, printable

__all__ = ["output_errors", "temporary_path", "write_whole", "writing"]


def temporary_path(path: Path, ending: str) -> Path:
    """The hidden file of some ending next to a path. Its name is a digest, so it is never too long."""
    digest = hashlib.sha1(os.fsencode(path.name), usedforsecurity=False).hexdigest()
    return path.with_name(f".{digest}.{ending}")


@contextlib.contextmanager
def output_errors(path: Path) -> Iterator[None]:
    """Convert an ``OSError`` of the block into an error that names the file."""
    try:
        yield
    except SeqpipeError:
        raise
    except OSError as error:
        # NumPy's short writes have no error number: "400 requested and 200 written"
        reason = error.strerror or f"the disk is full or cannot be written: {error}"
        advice = "Free space or choose a writable folder; --resume then continues from here"
        if error.errno == errno.ENAMETOOLONG:
            advice = "Use shorter names, by --out or --pattern"
        elif error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR) and (taken := _file_above(path)):
            reason, advice = f"{printable(str(taken))} is a file, not a folder", "Choose another --out"
        raise OutputError(f"cannot write {printable(str(path))} ({reason})", advice=advice) from error


def _file_above(path: Path) -> Path | None:
    """The file that stands where a path needs a folder, if any."""
    return next((folder for folder in (path, *path.parents) if folder.is_file()), None)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file next to a path, which takes the path's place at the end of the block."""
    partial = temporary_path(path, "part")  # --resume replaces the temporary file of a killed run
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, temporary=partial), open_new(partial) as file:
            yield file


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> int:
    """Write a file that is whole or absent, and return its size in bytes."""
    with writing(path) as file:
        write(file)
        return file.tell()
