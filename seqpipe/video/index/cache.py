"""Disk cache for packet indexes: one file per video, written atomically, rebuilt if stale or damaged.

A file holds a packed index, see :mod:`seqpipe.video.index.packed`. Sampling needs only its header, so a dataset of ten
thousand files starts without reading their packets; :mod:`seqpipe.video.index.register` avoids opening these files.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ...core.param import check_path
from ...core.whole_file import replacing
from ...errors import OutputError
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
    """Return the cache folder: the argument, else ``SEQPIPE_CACHE_DIR``, else the platform's cache directory."""
    if chosen is not None:
        return Path(check_path("cache_dir", chosen))
    if environment := os.environ.get("SEQPIPE_CACHE_DIR"):
        return Path(environment)
    import platformdirs

    return Path(platformdirs.user_cache_dir("seqpipe")) / "index"


def cache_file(directory: Path, stamp: Stamp) -> Path:
    """Return the path of a video's index file, which depends on the video's name, not on its content."""
    return Path(_path(directory, stamp))


def load_summary(directory: Path, stamp: Stamp) -> StreamInfo | None:
    """Return the properties of a video from its index file's header; None if there is no current index."""
    cached = _read(_path(directory, stamp), stamp, whole=False)
    return None if cached is None else _info(cached[0], stamp)


def load_facts(directory: Path, stamp: Stamp) -> Facts | None:
    """Return the facts for sampling from an index file's header; None if there is no current index."""
    cached = _read(_path(directory, stamp), stamp, whole=False)
    if cached is None:
        return None
    try:
        # Indexes of earlier versions have no "ticks".
        return Facts.from_header(cached[0]["info"], cached[0].get("ticks"))
    except (KeyError, ValueError) as error:
        _log.warning("the index of %s cannot be read (%s): it is rebuilt", stamp[0], error)
        return None


def load_index(directory: Path, stamp: Stamp) -> PacketIndex | None:
    """Load the index of a video; None if it does not exist, is stale, damaged or of another format."""
    path = _path(directory, stamp)
    cached = _read(path, stamp, whole=True)
    if cached is None:
        return None
    header, data = cached
    try:
        return unpack(data, header)
    except Damaged:
        _log.warning("%s is damaged: the index is rebuilt", path)
    except (KeyError, TypeError, ValueError) as error:  # an index of an earlier version
        _log.warning("the index of %s cannot be read (%r): it is rebuilt", stamp[0], error)
    return None


def save_index(directory: Path, stamp: Stamp, index: PacketIndex) -> None:
    """Store an index atomically.

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
    """Create a cache directory, and check that files can be written there.

    Raises:
        OutputError: the directory cannot be created or written to.
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


def _path(directory: Path, stamp: Stamp) -> str:
    """Return the path of a cache file as a string: called for each of ten thousand files at start-up."""
    digest = hashlib.sha1(stamp[0].encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    return f"{directory}/{digest[:2]}/{digest[2:]}.idx"


def _read(path: str, stamp: Stamp, *, whole: bool) -> tuple[dict[str, Any], memoryview] | None:
    """Return header and bytes of a cache file, or None if it does not exist, is damaged, or of another content."""
    try:
        data = _bytes(path, whole=whole)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _log.warning("%s cannot be read (%s): the index is rebuilt", path, error.strerror)
        return None
    except Damaged:
        data = memoryview(b"")
    try:
        header = read_header(data)
    except Damaged:
        _log.warning("%s is damaged or of another version: the index is rebuilt", path)
        return None
    if header["format"] != INDEX_FORMAT or tuple(header["stamp"]) != stamp:
        _log.debug("%s is stale: the index is rebuilt", path)
        return None
    return header, data


def _bytes(path: str, *, whole: bool) -> memoryview:
    """Read a file into memory that is aligned for any column; or, unless ``whole``, at least its header.

    Raises:
        OSError: the file cannot be read.
        Damaged: the file is not a packed index.
    """
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  called for each of ten thousand files
        if not whole:
            data = file.read(_HEAD_GUESS)
            if len(data) < (size := header_size(data)):
                data += file.read(size - len(data))
            return memoryview(data)
        content = np.empty(os.fstat(file.fileno()).st_size, dtype=np.uint8).data.cast("B")
        filled = 0
        while filled < len(content) and (count := file.readinto(content[filled:])):
            filled += count
        return content[:filled]


def _info(header: dict[str, Any], stamp: Stamp) -> StreamInfo | None:
    try:
        return StreamInfo.from_json(header["info"])
    except (KeyError, ValueError) as error:
        _log.warning("the index of %s cannot be read (%s): it is rebuilt", stamp[0], error)
        return None
