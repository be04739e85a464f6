"""Sources of a video's bytes: local files, memory, file objects, and URLs by fsspec."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import re
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from errno import EACCES, EIO, ELOOP, EPERM
from stat import S_ISDIR, S_ISREG
from typing import Any, BinaryIO, TypeAlias, Union, cast
from urllib.parse import unquote

from ...core.files.file_system import file_system
from ...core.finalizers import Finalizer
from ...core.forks import reset_after_fork
from ...core.limits import DOWNLOAD_GIB
from ...errors import (
    BackendError,
    ParameterError,
    SeqpipeError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
    printable,
)
from .names import check_content
from .remote import (
    ChangedError,
    NoRangesError,
    RefusedError,
    http_download,
    http_ranges,
    is_transient,
    merge_ranges,
    s3_ranges,
    slice_ranges,
    waits_s,
)

__all__ = ["Origin", "Read", "Source", "Stamp", "digest_of_ends", "open_source"]

Origin: TypeAlias = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO, "Source"]
"""Ways in which users specify a video."""

Read: TypeAlias = "Callable[[Seq[tuple[int, int]]], list[bytes]]"
"""Returns the bytes of each (offset, size)."""

Stamp: TypeAlias = tuple[str, int, str]
"""(absolute path or URL, size in bytes, modification time or tag): identity of a content, the key of its index."""

# URLs of fsspec, which may be chained, as in simplecache::s3://
_URL = re.compile(r"(?:[a-z][a-z0-9+_.-]*::)*[a-z][a-z0-9+_.-]*://", re.IGNORECASE)
_BLOCK = 1 << 20
_DIGESTED_END_BYTES = 1 << 16
_REMOTE_GAP_BYTES = 1 << 18
_RECHECK_S = 1.0
# Reading across a gap of this size costs less than another call, which releases and acquires the GIL.
_LOCAL_GAP_BYTES = 1 << 15


class Source(ABC):
    """Bytes that several threads can read at any offset.

    Attributes:
        name: name in messages and results.
        slow: whether each read has the latency of a remote server.
        path: absolute path of a local file; None for other sources.
        stream: stream to decode, by its number in the container; None for the best video stream.
        gap: ranges at most so many bytes apart are read together.
        blocks: the cached blocks of a slow source, while it is being opened.
    """

    name: str
    slow: bool = False
    path: str | None = None
    stream: int | None = None
    gap: int = 0
    blocks: Source | None = None

    @abstractmethod
    def stamp(self) -> Stamp | None:
        """Return the identity of the current content and stream, or None if its index cannot be cached."""

    @abstractmethod
    def size(self) -> int:
        """Return the size in bytes."""

    @abstractmethod
    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:
        """Return the argument of ``av.open``; the caller closes it if it is a file object."""

    @abstractmethod
    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), truncated at the end of the source."""

    def read_sequential(self, offset: int, size: int) -> bytes:
        """Return one range for a reader that goes through the source from its start; truncated at the end."""
        return self.read([(offset, size)])[0]

    def close(self) -> None:
        """Close open files; the next read opens them again."""
        return

    def _key(self, name: str) -> str:
        """Return a name that identifies the stream; paths do not end in a line break, a number sign and a number."""
        return name if self.stream is None else f"{name}\n#{self.stream}"


class _LocalFile(Source):
    """Local file, read by ``pread``: no shared position, no lock."""

    gap = _LOCAL_GAP_BYTES

    def __init__(self, path: str) -> None:
        self.name = path
        # FFmpeg takes the start of a relative path such as "a:b.mp4" for a protocol.
        self.path: str = os.path.abspath(path)  # noqa: PTH100  Path.absolute keeps "..", the key must not
        self._file: Finalizer | None = None
        self._lock = threading.Lock()
        self._check(self._stat())

    def stamp(self) -> Stamp:
        stat = self._stat()
        return self._key(self.path), stat.st_size, str(stat.st_mtime_ns)

    def size(self) -> int:
        return self._stat().st_size

    def for_demuxer(self, read: Read | None = None) -> str:  # noqa: ARG002  for slow sources
        return self.path

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        file = self._open()  # keeps the descriptor open even if another thread closes the source
        (descriptor,) = file.args
        runs = merge_ranges(ranges, self.gap)
        try:
            return slice_ranges(
                ranges, runs, [os.pread(descriptor, end - begin, begin) for begin, end in runs]
            )
        except OSError as error:
            raise SourceError(f"cannot be read ({error.strerror})", source=self.name) from error

    def close(self) -> None:
        with self._lock:
            self._file = None

    def _open(self) -> Finalizer:
        """Return the finalizer that closes the file; its argument is the descriptor."""
        if (file := self._file) is None:
            with self._lock:
                if (file := self._file) is None:
                    try:
                        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                    except OSError as error:
                        raise SourceError(f"cannot be opened ({error.strerror})", source=self.name) from error
                    file = self._file = Finalizer(os.close, descriptor)
        return file

    def _stat(self) -> os.stat_result:
        try:
            return os.stat(self.path)  # noqa: PTH116  called for each of ten thousand files: no Path objects
        except (OSError, ValueError) as error:  # ValueError for a name with a null character
            relative = not os.path.isabs(self.name)  # noqa: PTH117  as above; the working folder may have changed
            path = f"the path, now {printable(self.path)}" if relative else "the path"
            advice = f"Check {path}; a URL needs its scheme, such as s3://"
            reason = error.strerror if isinstance(error, OSError) else error
            if isinstance(error, OSError) and error.errno in (EACCES, EIO, ELOOP, EPERM):
                raise SourceError(f"cannot be opened ({reason})", source=self.name) from error
            if os.path.islink(self.path):  # noqa: PTH114  as above
                advice = "It is a link: restore the file that it leads to, or remove it"
            raise SourceNotFoundError(f"no such file ({reason})", source=self.name, advice=advice) from error

    def _check(self, stat: os.stat_result) -> None:
        if S_ISDIR(stat.st_mode):
            raise UnreadableSourceError(
                "this is a folder",
                source=self.name,
                advice="Give the path of a file, or pass the folder to seqpipe.videos; folders of "
                "frames are read by seqpipe.folders",
            )
        if not S_ISREG(stat.st_mode):
            raise UnreadableSourceError(
                "this is a pipe or a device",
                source=self.name,
                advice="Write its content to a file first, read it by seqpipe.stream, or export it from standard input",
            )
        _check_size(stat.st_size, self.name)


class _Memory(Source):
    """Video in memory."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.name = f"<{len(data)} bytes>"
        self._data = bytes(data)
        check_content(self._data)
        _check_size(len(self._data), self.name)

    def stamp(self) -> None:
        return None

    def size(self) -> int:
        return len(self._data)

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  for slow sources
        return io.BytesIO(self._data)

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        return [self._data[offset : offset + size] for offset, size in ranges]


class _FileObject(Source):
    """Seekable binary file object of the user; reads move its position, one thread at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self.name = f"<{getattr(file, 'name', None) or type(file).__name__}>"
        self._file = file
        self._lock = threading.Lock()
        self._inherited = False
        reset_after_fork(self)
        self._check()
        _check_size(self.size(), self.name)

    def stamp(self) -> None:
        return None

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  for slow sources
        return cast("BinaryIO", _View(self, lambda offset, size: self.read([(offset, size)])[0]))

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        with self._reading():
            return [self._read(offset, size) for offset, size in ranges]

    def size(self) -> int:
        with self._reading():
            self._file.seek(0, os.SEEK_END)  # not every file object returns the new position
            return self._file.tell()

    def after_fork(self) -> None:
        """Mark a file object whose position is shared with the parent process; those in memory are copies."""
        self._lock = threading.Lock()
        self._inherited = not isinstance(self._file, (io.BytesIO, mmap.mmap))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Hold the lock of the file's position."""
        if self._inherited:
            raise SourceError(
                "the file object was opened in a parent process, with which it shares its position",
                source=self.name,
                advice="Open it in this process, or pass a path or its bytes",
            )
        with self._lock:
            try:
                yield
            except (OSError, ValueError) as error:
                raise SourceError(
                    f"the file object cannot be read ({error})",
                    source=self.name,
                    advice="Keep it open as long as frames are read from it",
                ) from error

    def _check(self) -> None:
        """Check that the file object is binary and seekable; without a method ``seekable`` it is assumed to be."""
        fact, advice = "", "Read it into bytes first, or pass a path or URL"
        try:
            if not (hasattr(self._file, "seek") and getattr(self._file, "seekable", _yes)()):
                fact = "the file object cannot seek"
            elif not isinstance(self._file.read(0), bytes):
                fact, advice = "the file object returns text", "Open it with mode 'rb'"
        except (OSError, ValueError) as error:
            fact, advice = f"the file object cannot be read ({error})", "Pass one that is open for reading"
        if fact:
            raise ParameterError(fact, source=self.name, advice=advice)

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(size)
        while 0 < len(data) < size and (more := self._file.read(size - len(data))):
            data += more  # an unbuffered file may return fewer bytes than requested
        return data


class _Remote(Source):
    """Object behind a URL, read by fsspec with concurrent range requests.

    Where an HTTP server does not support ranges, the file is downloaded once, to a temporary file.

    Args:
        url: the URL.
        known: size and tag of the object, from a register. Where requests can be conditional, nothing is asked before
            the first read, which raises if the object has another tag.
    """

    slow = True
    gap = _REMOTE_GAP_BYTES

    def __init__(self, url: str, known: tuple[int, str] | None = None) -> None:
        self.name = url
        self._lock = threading.Lock()
        self._sequential: Callable[[int, int], bytes] | None = None
        self._downloaded: Finalizer | None = None
        self._open_file_system()
        self._registered = known is not None and (self._over_s3 or self._over_http)
        if known is not None and self._registered:
            details: dict[str, Any] = {"size": known[0], "ETag": known[1]}
        else:
            details = self._details()
        self._tag = _tag_of(details)
        self._etag = None if details.get("ETag") is None else str(details["ETag"])
        self._checked_s = time.monotonic()
        size = details.get("size")
        self._size = -1 if size is None else int(size)
        if self._size < 0 or details.get("partial") is False:
            self._download()
        _check_size(self._size, url)

    def stamp(self) -> Stamp | None:
        return None if self._tag is None else (self._key(self.name), self._size, self._tag)

    def size(self) -> int:
        return self._size

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:
        fetch = self._open_blocks(read or self.read)
        return cast("BinaryIO", _View(self, lambda offset, size: fetch(offset, offset + size)))

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        runs = merge_ranges(ranges, self.gap, self._size)
        return slice_ranges(ranges, runs, self._fetch(runs))

    def read_sequential(self, offset: int, size: int) -> bytes:
        # From the blocks that the demuxer has read: a request for every packet would take hours.
        fetch = self._sequential or self._open_blocks(self.read)
        return fetch(offset, min(offset + size, self._size))

    def close(self) -> None:
        self._sequential = None
        with self._lock:
            self._downloaded = None

    def _open_blocks(self, read: Read) -> Callable[[int, int], bytes]:
        """Create a cache of blocks for reading from the start on; returns a function of begin and end."""
        from fsspec.caching import BlockCache

        # Not fsspec's file object: its responses must be checked as all others are.
        blocks = BlockCache(_BLOCK, lambda begin, end: read([(begin, end - begin)])[0], self._size)
        fetch: Callable[[int, int], bytes] = blocks._fetch
        self._sequential = fetch
        return fetch

    def _open_file_system(self) -> None:
        try:
            self._fs, self._path = file_system(self.name)
        except BackendError:
            raise
        except Exception as error:
            # Storage packages have exceptions of their own, such as botocore's, with no common base class.
            raise _unreachable(error, self.name) from error
        protocols = {*_as_tuple(self._fs.protocol)}
        self._over_s3 = bool({"s3", "s3a"} & protocols) and hasattr(self._fs, "_call_s3")
        self._over_http = bool({"http", "https"} & protocols) and self._fs.async_impl
        self._process = os.getpid()

    def _details(self) -> dict[str, Any]:
        """Return the file system's details of the object; a busy server is asked again."""
        url, waits = self.name, waits_s()
        while True:
            try:
                details: dict[str, Any] = self._fs.info(self._path)
            except FileNotFoundError as error:
                # fsspec takes a host that cannot be connected to, or is busy, for a missing file, also where asyncio
                # starts no thread
                reason = error.__cause__
                if is_transient(reason) and (wait_s := next(waits, None)) is not None:
                    time.sleep(wait_s)
                    continue
                failed = isinstance(reason, (OSError, RuntimeError)) or is_transient(reason)
                if isinstance(reason, Exception) and failed and not isinstance(reason, FileNotFoundError):
                    raise _unreachable(reason, url) from error
                raise SourceNotFoundError("no such object", source=url, advice="Check the URL") from error
            except Exception as error:
                raise _unreachable(error, url) from error  # as above, no common base class
            return details

    def _fetch(self, runs: Seq[tuple[int, int]]) -> list[bytes]:
        """Read the bytes of each (begin, end), and check that they are complete."""
        if self._process != os.getpid():  # fsspec's threads do not exist in a forked process
            self._open_file_system()
        try:
            parts = self._parts(runs)
        except SeqpipeError:
            raise
        except ChangedError as error:
            since, remedy = "while it was open", "Open it again"
            if self._registered:
                since, remedy = "after it was registered", "Update the register: seqpipe index"
            raise SourceError(f"it was replaced {since}: {error}", source=self.name, advice=remedy) from error
        except Exception as error:
            refused = isinstance(error, (PermissionError, RefusedError)) or "expired" in str(error).lower()
            advice = "The credentials may have expired: renew them, and open it again" if refused else None
            raise SourceError(f"cannot be read ({_text(error)})", source=self.name, advice=advice) from error
        for (begin, end), part in zip(runs, parts, strict=True):
            if len(part) != end - begin:
                raise SourceError(
                    f"bytes {begin} to {end - 1} were requested, {len(part)} bytes were received",
                    source=self.name,
                    advice="The object may have changed: open it again",
                )
        return parts

    def _parts(self, runs: Seq[tuple[int, int]]) -> list[bytes]:
        file = self._downloaded
        if file is None and self._over_http:
            try:
                return http_ranges(self._fs, self._path, runs, self._size, self._etag)
            except NoRangesError:
                file = self._download()
        if file is not None:
            (descriptor,) = file.args
            return [os.pread(descriptor, end - begin, begin) for begin, end in runs]
        if self._over_s3 and self._etag:
            return s3_ranges(self._fs, self._path, runs, self._etag)
        self._check_unchanged()
        begins, ends = [begin for begin, _ in runs], [end for _, end in runs]
        parts: list[bytes] = self._fs.cat_ranges([self._path] * len(runs), begins, ends, on_error="raise")
        return parts

    def _check_unchanged(self) -> None:
        """Check from time to time that the object was not replaced, for protocols without conditional requests."""
        if self._tag is None or time.monotonic() - self._checked_s < _RECHECK_S:
            return
        self._checked_s = time.monotonic()
        self._fs.invalidate_cache(self._path)
        if (tag := _tag_of(self._fs.info(self._path))) != self._tag:
            raise ChangedError(f"its tag was {self._tag}, and is {tag or 'missing'}")

    def _download(self) -> Finalizer:
        """Download the object to an unlinked temporary file; returns the finalizer of its descriptor."""
        with self._lock:
            if self._downloaded is not None:
                return self._downloaded
            gib = DOWNLOAD_GIB.value()
            try:
                with tempfile.TemporaryFile(prefix="seqpipe-") as file:
                    size = http_download(
                        self._fs, self._path, cast("BinaryIO", file), gib * 2**30, self._etag
                    )
                    file.flush()
                    downloaded = Finalizer(os.close, os.dup(file.fileno()))
            except Exception as error:
                raise SourceError(
                    f"the server does not support byte ranges, and the download failed ({error})",
                    source=self.name,
                    advice=f"Download the file first, or raise {DOWNLOAD_GIB.variable}={gib:g}, the limit of downloads",
                ) from error
            if self._size not in (-1, size):
                raise SourceError(
                    f"the server does not support byte ranges, and sent {size} of {self._size} bytes",
                    source=self.name,
                )
            self._size, self._downloaded = size, downloaded
            return downloaded


class _View:
    """File object with a position of its own over a shared source, for a demuxer."""

    def __init__(self, shared: Source, fetch: Callable[[int, int], bytes]) -> None:
        self._fetch, self._position, self._size = fetch, 0, shared.size()
        self.name = shared.name

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._position)
        if not left:
            return b""
        data = self._fetch(self._position, left if size < 0 else min(size, left))
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the source stays open."""


def _tag_of(details: dict[str, Any]) -> str | None:
    """Return a detail of an object that changes with its content, such as its ETag; None if there is none."""
    names = ("ETag", "LastModified", "Last-Modified", "mtime", "created")
    tag = next((details[name] for name in names if details.get(name)), None)
    return None if tag is None else str(tag)


def _unreachable(error: Exception, url: str) -> SourceError:
    return SourceError(f"cannot be reached ({_text(error)})", source=url, advice="Check URL and credentials")


def _text(error: Exception) -> str:
    """Return an exception's message, or its type if it has none."""
    return str(error) or type(error).__name__


def open_source(origin: Origin, *, stream: int | None = None, known: tuple[int, str] | None = None) -> Source:
    """Open the source given by a path, URL, bytes or file object.

    Args:
        origin: a local path, a URL with a scheme (``s3://…``, ``file://…``), the bytes of a file, or a seekable binary
            file object. Where an HTTP server does not support ranges, the file is downloaded to a temporary file of at
            most :data:`seqpipe.core.limits.DOWNLOAD_GIB`.
        stream: stream to decode, by its number in the container; None for the best video stream.
        known: size and ETag of an object, which is then not asked for them.
    """
    source = _open(origin, known)
    source.stream = source.stream if stream is None else stream
    return source


def digest_of_ends(source: Source) -> bytes:
    """Return the SHA-1 of the first and last 64 KiB of a source, which tells contents of one size apart."""
    import hashlib

    size = source.size()
    length = min(_DIGESTED_END_BYTES, size)
    ends = source.read([(0, length), (size - length, length)])
    return hashlib.sha1(b"".join(ends), usedforsecurity=False).digest()


def _open(origin: Origin, known: tuple[int, str] | None) -> Source:
    if isinstance(origin, Source):
        return origin
    if isinstance(origin, (bytes, bytearray, memoryview)):
        return _Memory(origin)
    if isinstance(origin, (str, os.PathLike)):
        name = os.fspath(origin)
        if not name:  # os.path.abspath makes the current folder of it
            raise SourceNotFoundError("the path '' is empty", allowed="a path or a URL")
        if not (_URL.match(name) and isinstance(origin, str)):
            return _LocalFile(name)
        scheme, _, rest = name.partition("://")
        return _LocalFile(_local_path(rest)) if scheme == "file" else _Remote(name, known)
    if hasattr(origin, "read"):
        return _FileObject(origin)
    raise ParameterError(
        f"an object of type {type(origin).__name__} cannot be opened",
        allowed="a path, a URL, bytes, or a seekable binary file object",
    )


def _yes() -> bool:
    return True


def _as_tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _local_path(rest: str) -> str:
    """Return the path in a ``file`` URL, which is percent-encoded by the standard, but often is not."""
    rest = rest.removeprefix("localhost")
    return rest if os.path.lexists(rest) else unquote(rest)


def _check_size(size: int, name: str) -> None:
    if size == 0:
        raise UnreadableSourceError(
            "the file is empty (0 bytes)", source=name, advice="Fetch or copy it again"
        )
