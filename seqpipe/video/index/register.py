"""Register of a list of files: the facts of all of them in one file of the cache.

Opening the headers of ten thousand indexes takes a second; reading one register and each file's size and modification
time takes a tenth of that. A register is optional: facts that it lacks are read from the indexes.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from stat import S_ISREG

import numpy as np

from ...core.whole_file import replacing
from ..probe.facts import Facts
from ..source.source import Stamp
from .packed import INDEX_FORMAT

__all__ = ["Register"]

_MAGIC = b"SEQREG\x00\x03"
_PREFIX = struct.Struct("<8s20sI")
# One row per file; size 0, which no video has, marks an unknown file.
_ROW = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("facts", "<i8")])
_UNKNOWN = (0, 0, 0)
# Distinct facts follow the rows: many files of a dataset share them.
_FACTS = np.dtype([(name, "?" if name == "flipped" else "<i8") for name in Facts._fields])
_TIMES = range(-(1 << 63), 1 << 63)
# With fewer files the indexes are as fast.
_FEWEST_FILES = 256
_KEPT, _KEPT_BYTES = 64, 256 << 20

_log = logging.getLogger(__name__)


class Register:
    """Facts of the files of a list, independent of the order of the list.

    As with indexes, facts are valid only while the file has the same size and modification time; the constructor reads
    both of every file.

    Args:
        directory: cache folder of indexes.
        paths: absolute paths of local files.
    """

    def __init__(self, directory: Path, paths: Iterable[str]) -> None:
        self._paths = sorted(set(paths))
        self._stamps = {path: stamp for path in self._paths if (stamp := _stamp(path))}
        self._digest, self._file = b"", None
        if len(self._paths) >= _FEWEST_FILES:
            listed = "\0".join((f"{INDEX_FORMAT}", *self._paths)).encode("utf-8", "surrogatepass")
            self._digest = hashlib.sha1(_MAGIC + listed, usedforsecurity=False).digest()
            self._file = directory / "registers" / f"{self._digest.hex()}.reg"

    def stamp(self, path: str) -> Stamp | None:
        """Return the identity of a file's content; None for a file that cannot be read as a video."""
        stamp = self._stamps.get(path)
        return None if stamp is None else (path, stamp[0], str(stamp[1]))

    def load(self) -> dict[str, Facts]:
        """Return the facts of files that have not changed since they were saved."""
        rows, facts = self._read()
        return {
            path: facts[number]
            for path, (size, mtime_ns, number) in zip(self._paths, rows, strict=False)
            if self._stamps.get(path) == (size, mtime_ns)
        }

    def save(self, facts: Mapping[str, Facts]) -> None:
        """Store facts for the next time; a cache that cannot be written is ignored."""
        if self._file is None:
            return
        numbers: dict[Facts, int] = {}
        rows = [
            (*self._stamps[path], numbers.setdefault(facts[path], len(numbers)))
            if path in facts and path in self._stamps
            else _UNKNOWN
            for path in self._paths
        ]
        body = np.array(rows, dtype=_ROW).tobytes() + np.array(list(numbers), dtype=_FACTS).tobytes()
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file) as part:
                part.write_bytes(self._prefix(body) + body)
            _remove_old(self._file.parent)
        except OSError as error:
            _log.info("%s cannot be written (%s)", self._file, error.strerror)

    def _read(self) -> tuple[list[tuple[int, int, int]], list[Facts]]:
        """Return the rows of the file and its distinct facts; both empty if it does not exist or is damaged."""
        if self._file is None:
            return [], []
        try:
            data = self._file.read_bytes()
        except FileNotFoundError:
            return [], []
        except OSError as error:
            _log.warning("%s cannot be read (%s): indexes are opened instead", self._file, error.strerror)
            return [], []
        body = data[_PREFIX.size :]
        if data[: _PREFIX.size] != self._prefix(body):
            _log.warning("%s is damaged: indexes are opened instead", self._file)
            return [], []
        with contextlib.suppress(OSError):  # a cache may be read-only
            os.utime(self._file)  # the least recently used registers are removed
        rows: list[tuple[int, int, int]] = np.frombuffer(body, _ROW, len(self._paths)).tolist()
        return rows, [
            Facts(*row) for row in np.frombuffer(body, _FACTS, offset=len(rows) * _ROW.itemsize).tolist()
        ]

    def _prefix(self, body: bytes) -> bytes:
        """Return the file header of these files' register."""
        return _PREFIX.pack(_MAGIC, self._digest, zlib.crc32(self._digest + body))


def _stamp(path: str) -> tuple[int, int] | None:
    """Return size and modification time of a file; None for other files, whose error is raised when they are opened."""
    try:
        stat = os.stat(path)  # noqa: PTH116  called for each of ten thousand files: no Path objects
    except (OSError, ValueError):
        return None
    if stat.st_size and S_ISREG(stat.st_mode) and stat.st_mtime_ns in _TIMES:
        return stat.st_size, stat.st_mtime_ns
    return None


def _remove_old(folder: Path) -> None:
    """Remove the least recently used registers beyond the limits."""
    with os.scandir(folder) as entries:
        files = sorted(
            ((item.stat().st_mtime_ns, item.stat().st_size, item.path) for item in entries), reverse=True
        )
    total = 0
    for number, (_, size, path) in enumerate(files):
        total += size
        if number and (number >= _KEPT or total > _KEPT_BYTES):
            Path(path).unlink(missing_ok=True)
