"""Files that appear under their names once they are whole: written beside their places, then renamed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from .interrupts import tidied

__all__ = ["replacing"]


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
    with tidied(partial(part.unlink, missing_ok=True)):
        try:
            yield part
            part.replace(path)
        except BaseException:
            with suppress(OSError):  # what went wrong first is what is told
                part.unlink(missing_ok=True)
            raise
