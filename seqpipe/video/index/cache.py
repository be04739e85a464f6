"""Indexes on disk: one small file per video, written whole or not at all, rebuilt when in doubt.

A file holds a packed index, see :mod:`seqpipe.video.index.packed`. Its header alone tells what sampling needs, so a
data set of ten thousand files starts without touching their packets; how it starts without opening these files again:
:mod:`seqpipe.video.index.register`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OutputError
from ...param import check_path
from ...whole_file import replacing
from ..packet_index import PacketIndex
from ..probe.facts import Facts
from ..probe.info import StreamInfo
from ..source.source import Stamp
from .packed import INDEX_FORMAT, Damaged, header_size, pack, read_header, unpack

__all__ = [
    "cache_directory",
    "cache_file",
    "check_writable",
    "load_facts",
    "load_index",
    "load_summary",
    "save_index",
]

_HEAD_GUESS = 4096

_log = logging.getLogger(__name__)


def cache_directory(chosen: str | os.PathLike[str] | None = None) -> Path:
    """Where indexes are kept: the argument, else ``SEQPIPE_CACHE_DIR``, else the platform's cache directory."""
    if chosen is not None:
        return Path(check_path("cache_dir", chosen))
    if environment := os.environ.get("SEQPIPE_CACHE_DIR"):
        return Path(environment)
    import platformdirs

    return Path(platformdirs.user_cache_dir("seqpipe")) / "index"


def cache_file(directory: Path, stamp: Stamp) -> Path:
    """The file that holds the index of one video; a name says nothing of whether it is fresh."""
    return Path(_place(directory, stamp))


def load_summary(directory: Path, stamp: Stamp) -> StreamInfo | None:
    """The facts of an indexed video, its frames counted, from the header alone; None if there is no fresh index."""
    found = _read(_place(directory, stamp), stamp, whole=False)
    return None if found is None else _info(found[0], stamp)


def load_facts(directory: Path, stamp: Stamp) -> Facts | None:
    """What sampling needs to know of an indexed video, from the header alone; None if there is no fresh index."""
    found = _read(_place(directory, stamp), stamp, whole=False)
    if found is None:
        return None
    try:
        # an index that was made before clocks were noted has none
        return Facts.from_header(found[0]["info"], found[0].get("ticks"))
    except (KeyError, ValueError) as error:
        _log.warning("the index of %s cannot be read (%s): it is built anew", stamp[0], error)
        return None


def load_index(directory: Path, stamp: Stamp) -> PacketIndex | None:
    """The index of a video; None if there is none, or it is stale, damaged or of another format."""
    path = _place(directory, stamp)
    found = _read(path, stamp, whole=True)
    if found is None:
        return None
    header, data = found
    try:
        return unpack(data, header)
    except Damaged:
        _log.warning("%s is damaged: the index is built anew", path)
    except (KeyError, TypeError, ValueError) as error:  # one that was made before all of this was noted
        _log.warning("the index of %s cannot be read (%r): it is built anew", stamp[0], error)
    return None


def save_index(directory: Path, stamp: Stamp, index: PacketIndex) -> None:
    """Store an index: beside, then renamed.

    Raises:
        OutputError: the cache directory cannot be written.
    """
    path = cache_file(directory, stamp)
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(pack(index, stamp))
    except OSError as error:
        raise _unwritable(directory, error) from error


def check_writable(directory: Path) -> None:
    """Make a cache directory, and try whether a file can be written there.

    Raises:
        OutputError: it cannot be made or written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from error


def _unwritable(directory: Path, error: OSError) -> OutputError:
    return OutputError(
        f"the index cache cannot be written ({error.strerror})",
        source=str(directory),
        advice="Set SEQPIPE_CACHE_DIR or cache_dir to a directory that you may write to",
    )


def _place(directory: Path, stamp: Stamp) -> str:
    """The name of a cache file, as a text: ten thousand of these at start-up."""
    digest = hashlib.sha1(stamp[0].encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    return f"{directory}/{digest[:2]}/{digest[2:]}.idx"


def _read(path: str, stamp: Stamp, *, whole: bool) -> tuple[dict[str, Any], memoryview] | None:
    """Header and bytes of a cache file, or None if it is not there, not sound, or not for this content."""
    try:
        data = _bytes(path, whole=whole)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _log.warning("%s cannot be read (%s): the index is built anew", path, error.strerror)
        return None
    except Damaged:
        data = memoryview(b"")
    try:
        header = read_header(data)
    except Damaged:
        _log.warning("%s is damaged or of another version: the index is built anew", path)
        return None
    if header["format"] != INDEX_FORMAT or tuple(header["stamp"]) != stamp:
        _log.debug("%s is stale: the index is built anew", path)
        return None
    return header, data


def _bytes(path: str, *, whole: bool) -> memoryview:
    """All of a file, in memory of its own that is aligned for any column; or what its header takes, at the least.

    Raises:
        OSError: it cannot be read.
        Damaged: it is no packed index.
    """
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  ten thousand of these at start-up
        if not whole:
            data = file.read(_HEAD_GUESS)
            if len(data) < (size := header_size(data)):
                data += file.read(size - len(data))
            return memoryview(data)
        found = np.empty(os.fstat(file.fileno()).st_size, dtype=np.uint8).data.cast("B")
        filled = 0
        while filled < len(found) and (count := file.readinto(found[filled:])):
            filled += count
        return found[:filled]


def _info(header: dict[str, Any], stamp: Stamp) -> StreamInfo | None:
    try:
        return StreamInfo.from_json(header["info"])
    except (KeyError, ValueError) as error:
        _log.warning("the index of %s cannot be read (%s): it is built anew", stamp[0], error)
        return None
