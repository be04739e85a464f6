"""Disk cache for packet indexes: one file per video, written atomically, rebuilt if stale or damaged.

A file holds a packed index, see :func:`pack`. Sampling needs only its header, so a dataset of ten
thousand files starts without reading their packets; :mod:`seqpipe.video.index.shared` avoids opening these files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import struct
import tempfile
import threading
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...array import BoolArray
from ...core.param import check_path
from ...core.whole_file import replacing
from ...errors import OutputError
from ..packet_index import LEARNED, Facts, PacketIndex, PacketTable, clock_of
from ..probe.info import StreamInfo
from ..source.source import Stamp

__all__ = [
    "INDEX_FORMAT",
    "PREFIX",
    "Damaged",
    "Learned",
    "cache_directory",
    "cache_file",
    "check_writable",
    "header_size",
    "load_facts",
    "load_index",
    "load_summary",
    "pack",
    "read_header",
    "save_index",
    "unpack",
]

INDEX_FORMAT = 10
"""Version of the format; everything that is stored and derived from an index includes it."""

PREFIX = struct.Struct("<8sII")
"""Magic, length of the header, and its CRC-32."""

_MAGIC = b"SEQPIPE\x01"
_ALIGNED = 64
_COLUMNS = tuple(field.name for field in fields(PacketTable))
# Computed from the others, and stored because sorting an hour's timestamps takes as long as reading all the rest.
_ORDER = "frame_packet"


class Damaged(Exception):  # noqa: N818  a reason, not an error: a damaged index is rebuilt
    """The bytes are not a packed index, or not a complete one."""


def pack(index: PacketIndex, stamp: Stamp) -> bytes:
    """Serialize an index."""
    table = index.packets
    arrays = {name: np.ascontiguousarray(getattr(table, name)) for name in _COLUMNS}
    arrays[_ORDER] = table.frame_packet.astype(np.int32)
    columns: list[list[Any]] = []
    stored: list[bytes] = []
    size = 0
    for name, array in arrays.items():
        if array.size and array.dtype == bool and (array == array[0]).all():
            columns.append([name, array.dtype.str, array.size, -1, bool(array[0])])
            continue
        columns.append([name, array.dtype.str, array.size, size, 0])
        stored += [array.tobytes(), bytes(-array.nbytes % _ALIGNED)]
        size += array.nbytes + len(stored[-1])
    body = b"".join(stored)
    header = {
        "format": INDEX_FORMAT,
        "stamp": list(stamp),
        "info": index.info.to_json(),
        "extradata": base64.b64encode(index.extradata).decode("ascii"),
        "codec_tag": index.codec_tag,
        "coded_bits": index.coded_bits,
        "dropped_at_start": index.dropped_at_start,
        "end_s": index.end_s,
        "cut": index.cut,
        "verified": index.verified,
        "set_ups": [(number, base64.b64encode(units).decode("ascii")) for number, units in index.set_ups],
        "palettes": [(number, base64.b64encode(colors).decode("ascii")) for number, colors in index.palettes],
        "ticks": clock_of(index),
        "columns": columns,
        "body_crc": zlib.crc32(body),
    }
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(PREFIX.size + len(text)) % _ALIGNED)
    return PREFIX.pack(_MAGIC, len(text), zlib.crc32(text)) + text + body


def header_size(data: bytes | memoryview) -> int:
    """Return the number of bytes before the columns of a packed index, from its first 16 bytes."""
    if len(data) < PREFIX.size:
        raise Damaged
    magic, length, _ = PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise Damaged
    return PREFIX.size + int(length)


def read_header(data: bytes | memoryview) -> dict[str, Any]:
    """Return the header of a packed index, of which at least the header must be given."""
    size = header_size(data)
    text = data[PREFIX.size : size]
    if len(data) < size or zlib.crc32(text) != PREFIX.unpack_from(data)[2]:
        raise Damaged
    header: dict[str, Any] = json.loads(bytes(text))
    return header


def unpack(data: memoryview, header: dict[str, Any]) -> PacketIndex:
    """Deserialize an index; its columns are views of ``data``, to which learned packet kinds are written."""
    body = data[header_size(data) :]
    if zlib.crc32(body) != header["body_crc"]:
        raise Damaged
    columns = {}
    for name, kind, count, offset, value in header["columns"]:
        if offset < 0:
            columns[name] = np.full(count, value, dtype=kind)
        else:
            columns[name] = np.frombuffer(body, dtype=kind, count=count, offset=offset)
    order = columns.pop(_ORDER)
    table = PacketTable(**columns)
    growing = LEARNED if len(table.known) else ()
    for name, column in columns.items():
        column.flags.writeable = name in growing
    table.__dict__[_ORDER] = order.astype(np.int64)  # as the cached property keeps it
    return PacketIndex(
        info=StreamInfo.from_json(header["info"]),
        extradata=base64.b64decode(header["extradata"]),
        codec_tag=header["codec_tag"],
        coded_bits=header["coded_bits"],
        packets=table,
        dropped_at_start=header["dropped_at_start"],
        end_s=header["end_s"],
        cut=header["cut"],
        verified=header["verified"],
        set_ups=tuple((number, base64.b64decode(units)) for number, units in header["set_ups"]),
        palettes=tuple((number, base64.b64decode(colors)) for number, colors in header["palettes"]),
    )


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
    """Store an index atomically."""
    path = cache_file(directory, stamp)
    try:
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(pack(index, stamp))
    except OSError as error:
        raise _unwritable(directory, error) from error


def check_writable(directory: Path) -> None:
    """Create a cache directory, and check that files can be written there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise _unwritable(directory, error) from error


def _unwritable(directory: Path, error: OSError) -> OutputError:
    """Return the error for a cache that cannot be written."""
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
    """Read a file into memory that is aligned for any column; or, unless ``whole``, at least its header."""
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
    """Return the properties in a header; None if it is of an earlier version."""
    try:
        return StreamInfo.from_json(header["info"])
    except (KeyError, ValueError) as error:
        _log.warning("the index of %s cannot be read (%s): it is rebuilt", stamp[0], error)
        return None


# An index is rewritten once another quarter of its packets is known, and when all are.
_PARTS = 4


class Learned:
    """Rewrites cached indexes as the kinds of more packets become known.

    Args:
        cache_dir: cache folder, see :func:`seqpipe.video.index.open.open_index`.
    """

    def __init__(self, cache_dir: str | os.PathLike[str] | None) -> None:
        self._cache_dir = cache_dir
        self._saved: WeakKeyDictionary[PacketIndex, tuple[Stamp, int]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def add(self, index: PacketIndex, stamp: Stamp | None) -> None:
        """Track an index that was opened for the content of a stamp."""
        if stamp is not None and not index.packets.whole:
            with self._lock:
                self._saved[index] = stamp, int(np.count_nonzero(index.packets.known))

    def should_save(self, index: PacketIndex) -> bool:
        """Return whether enough was learned since an index was saved to save it again."""
        saved = self._saved.get(index) if len(index.packets.known) else None
        return saved is not None and _is_due(index.packets.known, saved[1])

    def save(self, index: PacketIndex) -> None:
        """Save an index if it is due; a cache that cannot be written is left as it is."""
        table = index.packets
        with self._lock:
            if (saved := self._saved.get(index)) is None:
                return
            stamp, before = saved
            known = table.known.copy()  # copied first: other threads set it after the other columns
            if not _is_due(known, before):
                return
            count = int(np.count_nonzero(known))
            if count == len(known):
                del self._saved[index]
                known = np.empty(0, dtype=bool)
            else:
                self._saved[index] = stamp, count
            columns = {name: getattr(table, name).copy() for name in LEARNED}
            updated = replace(index, packets=replace(table, **{**columns, "known": known}))
        directory = cache_directory(self._cache_dir)
        cached = load_index(directory, stamp)
        if cached is not None and cached.packets.whole:
            return  # another thread or process has scanned or verified the file
        try:
            save_index(directory, stamp, updated)
        except OutputError as error:
            _log.debug("%s", error)


def _is_due(known: BoolArray, before: int) -> bool:
    """Return whether enough packets are known to save an index that was saved with ``before`` known packets."""
    count = int(np.count_nonzero(known))
    return count > before and (count == len(known) or (count - before) * _PARTS >= len(known))
