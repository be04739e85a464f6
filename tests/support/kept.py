"""What tests compile or encode is kept between runs, by content, in the user's cache folder: nothing is made twice.

A key covers all that a result depends on, so nothing kept is ever wrong; what no run has asked for in a month goes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

from seqpipe.core.whole_file import replacing

__all__ = ["kept", "kept_folder"]

_LONGEST_S = 30 * 24 * 3600


def kept(kind: str, content: object, suffix: str, make: Callable[[Path], object]) -> Path:
    """The file that is made of a content, made if it is not there. Any process may ask for it at the same time.

    Args:
        kind: the folder that it lies in.
        content: everything that the file depends on, such as the source, options and the compiler's version; values
            that are equal print alike.
        suffix: of the file's name.
        make: writes it to the path given.
    """
    file = _folder(kind) / (_key(content) + suffix)
    try:
        os.utime(file)
    except FileNotFoundError:
        with replacing(file) as part:
            make(part)
    _forget_old(file.parent)
    return file


def kept_folder(kind: str, content: object) -> Path:
    """A folder for what is made of a content; whoever fills it locks it and writes whole files.

    Args:
        kind: the folder that it lies in.
        content: as for :func:`kept`.
    """
    folder = _folder(kind) / _key(content)
    folder.mkdir(exist_ok=True)
    os.utime(folder)
    _forget_old(folder.parent)
    return folder


def _key(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:32]


@functools.cache
def _folder(kind: str) -> Path:
    """A folder of the user's cache; a temporary one where none can be written to."""
    folder = Path(platformdirs.user_cache_dir("seqpipe")) / "tests" / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"seqpipe_{kind}_"))
    return folder


@functools.cache
def _forget_old(folder: Path) -> None:
    """Once in a process, and after what it needs is marked as used: another one may do the same."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            if path.stat().st_mtime < time.time() - _LONGEST_S:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
