"""Standard input: the file that it is redirected from, a stream, or a temporary file with a stream's content."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import stat
import sys
import tempfile
from typing import BinaryIO, Final

from ..core.files.content import HEAD, volume_kind

__all__ = ["NAME", "StandardInput", "file_behind", "standard_input"]

NAME: Final = "stdin"
"""Name of standard input in the names of output files."""

_PIECE: Final = 1 << 20


def file_behind() -> str | None:
    """Return the path of the file that standard input is redirected from; None for a pipe or an unknown path."""
    with contextlib.suppress(OSError, ValueError):  # there is no such descriptor, or no /proc
        number = sys.stdin.fileno()
        status = os.fstat(number)
        if stat.S_ISREG(status.st_mode) and os.lseek(number, 0, os.SEEK_CUR) == 0:
            path = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115  names are texts here
            if os.path.samestat(os.stat(path), status):  # noqa: PTH116
                return path
    return None


def standard_input() -> StandardInput:
    """The program's standard input, always the same object."""
    return _over(sys.stdin.buffer)


@functools.lru_cache(maxsize=1)
def _over(stream: BinaryIO) -> StandardInput:
    """Return the standard input of a stream, the same for each call."""
    return StandardInput(stream)


class StandardInput:
    """A stream of bytes whose beginning can be inspected before it is read.

    Args:
        stream: the bytes.

    Attributes:
        name: name for messages.
    """

    name = "standard input"

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._looked, self._copy = b"", ""

    @property
    def is_volume(self) -> bool:
        """Whether the stream is a volume, not a video; must be accessed before reading."""
        self._looked += self._stream.read(HEAD - len(self._looked))
        return volume_kind(self._looked) is not None

    @property
    def is_empty(self) -> bool:
        """Whether the stream ends before its first byte; waits for that byte."""
        self._looked = self._looked or self._read_some(1)
        return not self._looked

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes, as soon as some are available; b"" at the end."""
        data = self._looked[:size]
        self._looked = self._looked[len(data) :]
        return data or self._read_some(size)

    def copied(self) -> str:
        """Write the stream to a temporary file, kept until the program ends, and return its path."""
        if self._copy:
            return self._copy
        file = tempfile.NamedTemporaryFile(prefix="seqpipe-stdin-")  # noqa: SIM115  open until the program ends
        atexit.register(file.close)
        file.write(self._looked)
        shutil.copyfileobj(self._stream, file, _PIECE)
        file.flush()
        self._copy = file.name
        return self._copy

    def _read_some(self, size: int) -> bytes:
        """Read some bytes as soon as they are there."""
        read1 = getattr(self._stream, "read1", self._stream.read)
        data: bytes = read1(size)
        return data
