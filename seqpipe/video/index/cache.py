"""Indexes on disk: one small file per video, written whole or not at all, rebuilt when in doubt.

A file is ``magic, header length, CRC-32 of the header, header (JSON), arrays``. The header alone answers how many
frames a video has, so a data set of ten thousand files starts without touching their packets; how it starts without
opening these files again: :mod:`seqpipe.video.index.register`. Nothing is pickled.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import struct
import tempfile
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import OutputError
from ...param import check_path
from ...whole_file import replacing
from ..packet_index import LEARNED, PacketIndex, PacketTable
from ..probe.facts import Facts, clock_of
from ..probe.info import StreamInfo
from ..source.source import Stamp

__all__ = [
    "INDEX_FORMAT",
    "cache_directory",
    "cache_file",
    "check_writable",
    "load_facts",
    "load_index",
    "load_summary",
    "save_index",
]

INDEX_FORMAT = 7
"""What indexes of other versions do not have; all that is derived from an index and kept is of its format."""

_MAGIC = b"SEQPIPE\x01"
_PREFIX = struct.Struct("<8sII")
_COLUMNS = tuple(field.name for field in fields(PacketTable))
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
    header = _read(_place(directory, stamp), stamp, whole=False)
    return None if header is None else _info(header[0], stamp)


def load_facts(directory: Path, stamp: Stamp) -> Facts | None:
    """What sampling needs to know of an indexed video, from the header alone; None if there is no fresh index."""
    header = _read(_place(directory, stamp), stamp, whole=False)
    if header is None:
        return None
    try:
        # an index that was made before clocks were noted has none
        return Facts.from_header(header[0]["info"], header[0].get("ticks"))
    except (KeyError, ValueError) as error:
        _log.warning("the index of %s cannot be read (%s): it is built anew", stamp[0], error)
        return None


def load_index(directory: Path, stamp: Stamp) -> PacketIndex | None:
    """The index of a video; None if there is none, or it is stale, damaged or of another format."""
    path = cache_file(directory, stamp)
    parts = _read(path, stamp, whole=True)
    if parts is None:
        return None
    header, body = parts
    if zlib.crc32(body) != header["body_crc"]:
        _log.warning("%s is damaged: the index is built anew", path)
        return None
    try:
        return _index(header, body)
    except (KeyError, TypeError, ValueError) as error:  # one that was made before all of this was noted
        _log.warning("the index of %s cannot be read (%r): it is built anew", stamp[0], error)
        return None


def _index(header: dict[str, Any], body: bytes) -> PacketIndex:
    columns, position = {}, 0
    for name, kind, count in header["columns"]:
        columns[name] = np.frombuffer(body, dtype=kind, count=count, offset=position)
        position += columns[name].nbytes
    if len(columns["known"]):
        columns.update({name: columns[name].copy() for name in LEARNED})  # they are added to
    return PacketIndex(
        info=StreamInfo.from_json(header["info"]),
        extradata=base64.b64decode(header["extradata"]),
        codec_tag=header["codec_tag"],
        coded_bits=header["coded_bits"],
        packets=PacketTable(**columns),
        dropped_at_start=header["dropped_at_start"],
        end_s=header["end_s"],
        cut=header["cut"],
        verified=header["verified"],
        set_ups=tuple((number, base64.b64decode(units)) for number, units in header["set_ups"]),
        palettes=tuple((number, base64.b64decode(colors)) for number, colors in header["palettes"]),
    )


def save_index(directory: Path, stamp: Stamp, index: PacketIndex) -> None:
    """Store an index: beside, then renamed.

    Raises:
        OutputError: the cache directory cannot be written.
    """
    path = cache_file(directory, stamp)
    arrays = [np.ascontiguousarray(getattr(index.packets, name)) for name in _COLUMNS]
    body = b"".join(array.tobytes() for array in arrays)
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
        "columns": [[name, a.dtype.str, a.size] for name, a in zip(_COLUMNS, arrays, strict=True)],
        "body_crc": zlib.crc32(body),
    }
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(_PREFIX.pack(_MAGIC, len(text), zlib.crc32(text)) + text + body)
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


def _read(path: str | Path, stamp: Stamp, *, whole: bool) -> tuple[dict[str, Any], bytes] | None:
    """Header and body of a cache file, or None if it is not there, not sound, or not for this content."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  ten thousand of these at start-up
            data = file.read() if whole else file.read(_HEAD_GUESS)
            magic, length, crc = _PREFIX.unpack_from(data) if len(data) >= _PREFIX.size else (b"", 0, 0)
            if not whole and len(data) < _PREFIX.size + length:
                data += file.read(_PREFIX.size + length - len(data))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _log.warning("%s cannot be read (%s): the index is built anew", path, error.strerror)
        return None
    text = data[_PREFIX.size : _PREFIX.size + length]
    if magic != _MAGIC or len(text) != length or zlib.crc32(text) != crc:
        _log.warning("%s is damaged or of another version: the index is built anew", path)
        return None
    header: dict[str, Any] = json.loads(text)
    if header["format"] != INDEX_FORMAT or tuple(header["stamp"]) != stamp:
        _log.debug("%s is stale: the index is built anew", path)
        return None
    return header, data[_PREFIX.size + length :]


def _info(header: dict[str, Any], stamp: Stamp) -> StreamInfo | None:
    try:
        return StreamInfo.from_json(header["info"])
    except (KeyError, ValueError) as error:
        _log.warning("the index of %s cannot be read (%s): it is built anew", stamp[0], error)
        return None
