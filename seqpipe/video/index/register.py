"""Register: the facts of all files of a list in one file of the cache, beside their indexes.

Ten thousand heads of indexes take a second to open; one register and a look at each file's size and time of change a
tenth of that. A register is never needed: whatever it does not tell is found in the indexes.
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

from ...whole_file import replacing
from ..probe.facts import Facts
from ..source.source import Stamp
from .packed import INDEX_FORMAT

__all__ = ["Register"]

_MAGIC = b"SEQREG\x00\x03"
_PREFIX = struct.Struct("<8s20sI")
# One row a file. A size of 0, which no video has, says that nothing is known of it.
_ROW = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("facts", "<i8")])
_UNKNOWN = (0, 0, 0)
# Behind them the facts, once each: most files of a dataset have much in common.
_FACTS = np.dtype([(name, "?" if name == "flipped" else "<i8") for name in Facts._fields])
_TIMES = range(-(1 << 63), 1 << 63)
# For fewer files the indexes are as quick.
_FEWEST_FILES = 256
_KEPT, _KEPT_BYTES = 64, 256 << 20

_log = logging.getLogger(__name__)


class Register:
    """What was found of the files of a list, in whatever order they are listed.

    What is known of a file counts only while the file has the size and the time of change that it had then, by the
    same rule as its index; making a register asks the file system for both, of every file.

    Args:
        directory: where indexes are kept.
        paths: the absolute paths of local files.
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
        """The identity of a file's content; None for what is no video that could be read."""
        found = self._stamps.get(path)
        return None if found is None else (path, found[0], str(found[1]))

    def load(self) -> dict[str, Facts]:
        """What is known of files that have not changed since."""
        rows, facts = self._read()
        return {
            path: facts[number]
            for path, (size, mtime_ns, number) in zip(self._paths, rows, strict=False)
            if self._stamps.get(path) == (size, mtime_ns)
        }

    def save(self, found: Mapping[str, Facts]) -> None:
        """Keep what was found, for the next time; where the cache cannot be written, it is found anew then."""
        if self._file is None:
            return
        numbers: dict[Facts, int] = {}
        rows = [
            (*self._stamps[path], numbers.setdefault(found[path], len(numbers)))
            if path in found and path in self._stamps
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
        """The rows of the register on disk and the facts they name; none if there is none, or it is damaged."""
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
            os.utime(self._file)  # those that were used last are kept
        rows: list[tuple[int, int, int]] = np.frombuffer(body, _ROW, len(self._paths)).tolist()
        return rows, [
            Facts(*row) for row in np.frombuffer(body, _FACTS, offset=len(rows) * _ROW.itemsize).tolist()
        ]

    def _prefix(self, body: bytes) -> bytes:
        """What stands before the rows of these files."""
        return _PREFIX.pack(_MAGIC, self._digest, zlib.crc32(self._digest + body))


def _stamp(path: str) -> tuple[int, int] | None:
    """Size and time of change of a file, if it may be a video; why it may not, whoever opens it will say."""
    try:
        stat = os.stat(path)  # noqa: PTH116  ten thousand of these at start-up: no Path objects
    except (OSError, ValueError):
        return None
    if stat.st_size and S_ISREG(stat.st_mode) and stat.st_mtime_ns in _TIMES:
        return stat.st_size, stat.st_mtime_ns
    return None


def _remove_old(folder: Path) -> None:
    """Keep the registers that were used last."""
    with os.scandir(folder) as found:
        files = sorted(
            ((item.stat().st_mtime_ns, item.stat().st_size, item.path) for item in found), reverse=True
        )
    total = 0
    for number, (_, size, path) in enumerate(files):
        total += size
        if number and (number >= _KEPT or total > _KEPT_BYTES):
            Path(path).unlink(missing_ok=True)
