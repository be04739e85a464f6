"""What tests compile is kept between runs, by content, in the user's cache folder: the same is never compiled twice.

A key covers all that a result depends on, so nothing kept is ever wrong; what no run has asked for in a month goes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

from seqpipe.whole_file import replacing

__all__ = ["kept"]

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
    file = _folder(kind) / (hashlib.sha256(repr(content).encode()).hexdigest()[:32] + suffix)
    try:
        os.utime(file)
    except FileNotFoundError:
        with replacing(file) as part:
            make(part)
    return file


@functools.cache
def _folder(kind: str) -> Path:
    """A folder of the user's cache, without what has grown old; a temporary one where none can be written to."""
    folder = Path(platformdirs.user_cache_dir("seqpipe")) / "tests" / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        return Path(tempfile.mkdtemp(prefix=f"seqpipe_{kind}_"))
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has removed it
            if file.stat().st_mtime < time.time() - _LONGEST_S:
                file.unlink()
    return folder
