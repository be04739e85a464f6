"""Shared registers: the indexes of a dataset in one file next to it, created once for a team or a cluster.

A register is a SQLite database with one row per file: its path relative to the register's folder (or its URL), the
identity of its content, its facts and its packed index. It stays valid when the folder is moved, mounted elsewhere or
copied. Several processes may add to it; one that is interrupted loses what it added in the last second. An entry is
valid for a file of the same size with the same modification time or, for copies, the same first and last 64 KiB.
Damaged entries are not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import struct
import threading
import time
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...core.closing import Closing
from ...core.param import check_path
from ...core.whole_file import replacing
from ...errors import BackendError, OutputError, SourceNotFoundError, UnreadableSourceError
from ..packet_index import Facts, PacketIndex
from ..source.source import Source, Stamp, digest_of_ends
from .cache import INDEX_FORMAT, Damaged, pack, read_header, unpack
from .register_objects import cached_copy, fetch_current, put_if_current

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "REGISTER_NAME",
    "Register",
    "SharedRegister",
    "find_register",
    "shared_register",
    "stored_register",
]

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
_MOST_REGISTERS, _MOST_REGISTER_BYTES = 64, 256 << 20
_TURN_S, _TURN_PAUSE_S = 60.0, 0.02  # a suspended process must not stop the others for ever

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

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait while another process of this host is in such a block for the same files, so that one does the work."""
        if self._file is None:
            yield
            return
        with contextlib.ExitStack() as stack:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context(self._file.with_suffix(".lock").open("ab"))
                until_s = time.monotonic() + _TURN_S
                while not _locked(lock.fileno()) and time.monotonic() < until_s:
                    time.sleep(_TURN_PAUSE_S)
                # those who wait find the facts saved, and so do those who come later and make a new file
                stack.callback(self._file.with_suffix(".lock").unlink, missing_ok=True)
            except OSError as error:  # a cache that cannot be written, or a file system without locks
                _log.info("%s cannot be locked (%s)", self._file, error.strerror)
            yield

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
            with replacing(self._file) as temporary:
                temporary.write_bytes(self._prefix(body) + body)
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


def _locked(descriptor: int) -> bool:
    """Lock a file until it is closed; False if another process has locked it."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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
        if number and (number >= _MOST_REGISTERS or total > _MOST_REGISTER_BYTES):
            Path(path).unlink(missing_ok=True)


REGISTER_NAME: Final = "seqpipe.register"
"""Name of a register that readers find automatically in their ``file_root``."""

_WAIT_S, _COMMIT_S = 60.0, 1.0
_PUT_ATTEMPTS, _PAGE_ROWS = 20, 10_000
_TABLE = (
    "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, size INTEGER, tag TEXT, ends BLOB, facts TEXT, "
    "checksum INTEGER, whole INTEGER, verified INTEGER)",
    "CREATE TABLE IF NOT EXISTS indexes (path TEXT PRIMARY KEY, packed BLOB)",
)

_open: dict[tuple[str, int], SharedRegister] = {}


def find_register(
    register: str | os.PathLike[str] | None, file_root: str | os.PathLike[str] | None
) -> str | None:
    """Return a dataset's register: the given path or URL, else :data:`REGISTER_NAME` in its folder if it exists."""
    if isinstance(register, str) and "://" in register:
        shared_register(register)
        return register
    if register is not None:
        path = os.path.abspath(check_path("register", register))  # noqa: PTH100  as sources do
        if not Path(path).is_file():
            raise SourceNotFoundError(
                "no such register", source=path, advice="Create one: seqpipe index --register FILE PATH..."
            )
        return path
    if file_root is None:
        return None
    candidate = Path(os.path.abspath(check_path("file_root", file_root))) / REGISTER_NAME  # noqa: PTH100  as sources do
    return str(candidate) if candidate.is_file() else None


def shared_register(path: str) -> SharedRegister:
    """Return the register at a path or URL for reading; each process opens it once."""
    # No lock, which a fork could leave held: a second register created concurrently is not opened yet, and is dropped.
    key = path, os.getpid()
    return _open.get(key) or _open.setdefault(key, SharedRegister(path))


class SharedRegister(Closing):
    """Register that is read and, if requested, added to; thread-safe.

    Args:
        path: path or URL of the register; of the latter, a copy in the cache is read.
        add: whether entries will be added; the register, then a local file, is created if it does not exist.

    Raises:
        OutputError: entries will be added, and the file cannot be written or is not a register.
        SourceNotFoundError: there is no object of this URL.
    """

    def __init__(self, path: str, *, add: bool = False) -> None:
        if "://" in path:
            path = cached_copy(path)
        self.path = os.path.abspath(path)  # noqa: PTH100  as sources do
        self._folder = os.path.dirname(self.path)  # noqa: PTH120
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._waiting: list[tuple[tuple[Any, ...], tuple[str, bytes]]] = []
        self._written_s = time.monotonic()
        self._add = add
        if add:
            self._connect()

    def close(self) -> None:
        """Write pending entries and close the database."""
        with self._lock:
            self._write()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def known(self, url: str) -> tuple[int, str] | None:
        """Return the size and ETag of an object; None if it is not registered, or was without an ETag."""
        rows = self._rows("SELECT size, tag, facts, checksum FROM files WHERE path = ?", (url,))
        if not rows or rows[0][3] != _checksum(url, *rows[0][:3]) or not _is_etag(rows[0][1]):
            return None
        size, tag = rows[0][:2]
        return size, tag

    def facts(self, stamps: Iterable[Stamp], urls: Container[str] = ()) -> dict[str, Facts]:
        """Return facts by name: of the contents with these stamps, and of objects that readers compare by ETag."""
        wanted = {self._key(stamp[0]): stamp for stamp in stamps}
        result: dict[str, Facts] = {}
        parsed: dict[str, Facts] = {}  # many files have the same
        for key, size, tag, facts, checksum in self._files():
            stamp = (key, size, tag) if key in urls and _is_etag(tag) else wanted.get(key)
            if (
                stamp is not None
                and (size, tag) == stamp[1:]
                and checksum == _checksum(key, size, tag, facts)
            ):
                if facts not in parsed:
                    parsed[facts] = Facts(*json.loads(facts))
                result[stamp[0]] = parsed[facts]
        return result

    def _files(self) -> Iterator[tuple[Any, ...]]:
        """Yield path, size, tag, facts and checksum of all files, a page at a time: there may be millions."""
        columns, last = "rowid, path, size, tag, facts, checksum", 0
        while page := self._rows(
            f"SELECT {columns} FROM files WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE_ROWS}", (last,)
        ):
            yield from (row[1:] for row in page)
            last = page[-1][0]

    def index(
        self, source: Source, stamp: Stamp, *, whole: bool = False, verified: bool = False
    ) -> PacketIndex | None:
        """Return the index of a source's current content; None if the register has none with these properties."""
        key = self._key(stamp[0])
        condition = "path = ? AND size = ? AND whole >= ? AND verified >= ?"
        rows = self._rows(f"SELECT tag, ends FROM files WHERE {condition}", (key, stamp[1], whole, verified))
        if not rows or (rows[0][0] != stamp[2] and rows[0][1] != digest_of_ends(source)):
            return None
        packed = self._rows("SELECT packed FROM indexes WHERE path = ?", (key,))
        try:
            data = memoryview(bytearray(zlib.decompress(packed[0][0])))
            header = read_header(data)
            if header["format"] != INDEX_FORMAT or tuple(header["stamp"]) != (key, stamp[1], rows[0][0]):
                return None
            return unpack(data, header)
        except (Damaged, IndexError, KeyError, TypeError, ValueError, zlib.error) as error:
            _log.warning("the index of %s in %s is damaged (%r): it is not used", stamp[0], self.path, error)
            return None

    def add(self, source: Source, stamp: Stamp, index: PacketIndex) -> None:
        """Add or replace an index; pending entries are written every second, and on closing."""
        key, facts = self._key(stamp[0]), json.dumps(Facts.of(index))
        packed = zlib.compress(pack(index, (key, *stamp[1:])), 1)
        checksum = _checksum(key, stamp[1], stamp[2], facts)
        row = (key, *stamp[1:], digest_of_ends(source), facts, checksum, index.packets.whole, index.verified)
        with self._lock:
            self._waiting.append((row, (key, packed)))
            if time.monotonic() - self._written_s >= _COMMIT_S:
                self._write()

    def add_from(self, path: str) -> int:
        """Add the entries of another register that this one does not have as complete; returns their number."""
        with SharedRegister(find_register(path, None) or "") as other:
            columns = "path, size, tag, ends, facts, checksum, whole, verified"
            rows = other._rows(f"SELECT {columns}, packed FROM files JOIN indexes USING (path)")
            if not rows and not other._rows("SELECT name FROM sqlite_master WHERE name = 'files'"):
                raise UnreadableSourceError(
                    "it is not a register",
                    source=path,
                    advice="Give files that seqpipe index --register wrote",
                )
            before = {
                row[0]: row[1:] for row in self._rows("SELECT path, size, tag, whole, verified FROM files")
            }
            added = 0
            for row in rows:
                key = self._key(other._name(row[0]))
                size, tag, whole, verified = before.get(key, (None, None, 0, 0))
                if (size, tag) != row[1:3] or (whole, verified) < row[6:8]:
                    self._add_row(key, row, path)
                    added += 1
        with self._lock:
            self._write()
        return added

    def _add_row(self, key: str, row: tuple[Any, ...], path: str) -> None:
        """Add an entry of another register under the key that it has in this one."""
        name, size, tag, ends, facts, _, whole, verified, packed = row
        try:
            data = memoryview(bytearray(zlib.decompress(packed)))
            header = read_header(data)
            if tuple(header["stamp"]) != (name, size, tag) or row[5] != _checksum(name, size, tag, facts):
                raise Damaged("its parts do not belong together")
            if key != name:
                packed = zlib.compress(pack(unpack(data, header), (key, size, tag)), 1)
        except (Damaged, KeyError, TypeError, ValueError, zlib.error) as error:
            raise UnreadableSourceError(
                f"the entry of {name} is damaged or of another version ({error})",
                source=path,
                advice="Build it again: seqpipe index --register FILE PATH...",
            ) from error
        own = (key, size, tag, ends, facts, _checksum(key, size, tag, facts), whole, verified)
        with self._lock:
            self._waiting.append((own, (key, packed)))

    def _write(self) -> None:
        """Write pending entries in one transaction."""
        import sqlite3

        if not self._waiting or self._connection is None:
            return
        try:
            with self._connection:
                self._connection.executemany(
                    "REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [row for row, _ in self._waiting]
                )
                self._connection.executemany(
                    "REPLACE INTO indexes VALUES (?, ?)", [packed for _, packed in self._waiting]
                )
        except sqlite3.Error as error:
            raise self._unwritable(error) from error
        self._waiting, self._written_s = [], time.monotonic()

    def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none if the file is not a register, or is damaged."""
        import sqlite3

        with self._lock:
            try:
                try:
                    return self._connect().execute(query, values).fetchall()
                except sqlite3.OperationalError as error:
                    # A killed writer leaves a journal, which only a writable connection can roll back.
                    if self._add or "readonly" not in str(error):
                        raise
                    self._roll_back()
                    return self._connect().execute(query, values).fetchall()
            except sqlite3.Error as error:
                _log.warning("%s cannot be used (%s): indexes are opened or built instead", self.path, error)
                return []

    def _roll_back(self) -> None:
        """Undo the transaction that a killed writer left unfinished."""
        import sqlite3

        with closing(sqlite3.connect(self._address("rw"), timeout=_WAIT_S, uri=True)) as connection:
            connection.execute("SELECT count(*) FROM files").fetchone()

    def _address(self, mode: str) -> str:
        return f"{Path(self.path).as_uri()}?mode={mode}"

    def _connect(self) -> sqlite3.Connection:
        """Return the connection to the database, which is opened once."""
        try:
            import sqlite3
        except ImportError as error:
            raise BackendError(
                f"registers need sqlite3, which this Python was built without ({error})", source=self.path
            ) from error
        if self._connection is not None:
            return self._connection
        address = self._address("rwc" if self._add else "ro")
        try:
            connection = sqlite3.connect(address, timeout=_WAIT_S, uri=True, check_same_thread=False)
            if self._add:
                with connection:
                    for statement in _TABLE:
                        connection.execute(statement)
        except sqlite3.Error as error:
            if self._add:
                raise self._unwritable(error) from error
            raise
        self._connection = connection
        return connection

    def _unwritable(self, error: Exception) -> OutputError:
        """Return the error for a register that cannot be written."""
        return OutputError(
            f"the register cannot be written ({error})",
            source=self.path,
            advice="Name a register, or a new file in a folder that you may write to",
        )

    def _name(self, key: str) -> str:
        """Return the path or URL of a key."""
        return key if "://" in key else os.path.normpath(os.path.join(self._folder, key))  # noqa: PTH118  text

    def _key(self, name: str) -> str:
        """Return the key of a file in the register."""
        if "://" in name:
            return name
        inside = self._folder.rstrip(os.sep) + os.sep  # called for each of a million files
        return (
            name[len(inside) :]
            if name.startswith(inside)
            else Path(os.path.relpath(name, self._folder)).as_posix()
        )


@contextmanager
def stored_register(url: str) -> Iterator[SharedRegister]:
    """Add to a register in object storage, or create it; it is stored at the end of the block.

    Entries that others have stored meanwhile are kept.

    Raises:
        OutputError: it cannot be stored, or its store has no conditional requests.
    """
    import tempfile

    from ...core.files.file_system import file_system

    system, object_path = file_system(url)
    if not hasattr(system, "call_s3"):
        raise OutputError(
            "a register is stored on a condition, which this protocol lacks",
            source=url,
            allowed="s3://",
            advice="Write a local register, and copy it",
        )
    with tempfile.TemporaryDirectory(prefix="seqpipe-") as folder:
        own, tag = Path(folder, "own"), fetch_current(url, Path(folder, "own"))
        before = own.read_bytes() if tag else b""
        with SharedRegister(str(own), add=True) as register:
            yield register
        if own.read_bytes() == before:
            return
        for attempt in range(_PUT_ATTEMPTS):
            if put_if_current(system, object_path, own, tag, url):
                return
            newer = Path(folder, f"newer{attempt}")
            tag = fetch_current(url, newer)
            with SharedRegister(str(newer), add=True) as register:
                register.add_from(str(own))
            own = newer
    raise OutputError(
        f"the register was replaced by others {_PUT_ATTEMPTS} times while it was stored",
        source=url,
        advice="Give each job a register of its own, and join them: seqpipe index --merge",
    )


def _is_etag(tag: str) -> bool:
    """Return whether a tag is an ETag of HTTP, on which requests can be conditional."""
    return tag.startswith('"')


def _checksum(*values: Any) -> int:
    return zlib.crc32(json.dumps([INDEX_FORMAT, *values]).encode())
