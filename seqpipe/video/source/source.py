"""Where a video's bytes come from: a local file, memory, a file object, or anything that fsspec can open."""

from __future__ import annotations

import io
import mmap
import os
import re
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Seq
from stat import S_ISDIR, S_ISREG
from typing import Any, BinaryIO, TypeAlias, Union, cast
from urllib.parse import unquote

from ...errors import (
    BackendError,
    ParameterError,
    SeqpipeError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
)
from ...forks import reset_after_fork
from ...limits import DOWNLOAD_GIB
from ..finalizers import Afterwards
from .byte_ranges import cut_out, merged
from .http_ranges import ChangedError, NoRangesError, RefusedError, http_ranges, http_whole
from .s3_ranges import s3_ranges

__all__ = ["Origin", "Read", "Source", "Stamp", "digest_of_ends", "open_source"]

Origin: TypeAlias = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO, "Source"]
"""What the user may name a video by."""

Read: TypeAlias = "Callable[[Seq[tuple[int, int]]], list[bytes]]"
"""Gives the bytes of each (offset, size)."""

Stamp: TypeAlias = tuple[str, int, str]
"""(absolute path or URL, size in bytes, modification time or tag): the identity an index is cached under."""

# of fsspec, which may name several to be gone through, as in simplecache::s3://
_URL = re.compile(r"(?:[a-z][a-z0-9+_.-]*::)*[a-z][a-z0-9+_.-]*://", re.IGNORECASE)
_BLOCK = 1 << 20
_END = 1 << 16
_WORTH_A_REQUEST = 1 << 18
_LOOK_AGAIN_S = 1.0
# Reading on over a gap costs less than another call, after which this thread may have to wait for its turn in Python.
_WORTH_A_CALL = 1 << 15


class Source(ABC):
    """Bytes that can be read at any offset by several threads.

    Attributes:
        name: how messages and results call it.
        slow: whether every read waits for an answer from far away.
        path: where the local file system has it, absolute; None if it is nowhere there.
        stream: which of its streams is meant, by its number in the container; None for the best video.
        gap: ranges no farther apart than so many bytes are read together.
        held: the blocks that were read of a slow source, while it is opened.
    """

    name: str
    slow: bool = False
    path: str | None = None
    stream: int | None = None
    gap: int = 0
    held: Source | None = None

    @abstractmethod
    def stamp(self) -> Stamp | None:
        """The identity of the present content of its stream, or None if an index of it cannot be kept."""

    @abstractmethod
    def size(self) -> int:
        """Its length in bytes."""

    @abstractmethod
    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:
        """What ``av.open`` takes; the caller closes it if it is a file object.

        Args:
            read: reads ranges for it where every read is an answer from far away; :meth:`read` unless given.
        """

    @abstractmethod
    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, size), short where the source ends.

        Raises:
            SourceError: it cannot be read.
        """

    def read_on(self, offset: int, size: int) -> bytes:
        """One range, by a reader that goes through the source from its start; short where the source ends.

        Raises:
            SourceError: it cannot be read.
        """
        return self.read([(offset, size)])[0]

    def close(self) -> None:
        """Give back what is held open; reading opens it again."""
        return

    def _key(self, name: str) -> str:
        """A name that no other stream's index has; no path has a line break and a number sign behind its ending."""
        return name if self.stream is None else f"{name}\n#{self.stream}"


class _LocalFile(Source):
    """A file of the local file system, read by ``pread``: no shared position, no lock."""

    gap = _WORTH_A_CALL

    def __init__(self, path: str) -> None:
        self.name = path
        # An absolute path cannot be mistaken for a protocol ("a:b.mp4") by FFmpeg.
        self.path: str = os.path.abspath(path)  # noqa: PTH100  Path.absolute keeps "..", the key must not
        self._descriptor = -1
        self._closing: Afterwards | None = None
        self._lock = threading.Lock()
        self._check(self._stat())

    def stamp(self) -> Stamp:
        stat = self._stat()
        return self._key(self.path), stat.st_size, str(stat.st_mtime_ns)

    def size(self) -> int:
        return self._stat().st_size

    def for_demuxer(self, read: Read | None = None) -> str:  # noqa: ARG002  of sources far away
        return self.path

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        descriptor = self._open()
        runs = merged(ranges, self.gap)
        try:
            return cut_out(ranges, runs, [os.pread(descriptor, end - begin, begin) for begin, end in runs])
        except OSError as error:
            raise SourceError(f"cannot be read ({error.strerror})", source=self.name) from error

    def close(self) -> None:
        with self._lock:
            self._descriptor, self._closing = -1, None

    def _open(self) -> int:
        if self._descriptor < 0:
            with self._lock:
                if self._descriptor < 0:
                    try:
                        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                    except OSError as error:
                        raise SourceError(f"cannot be opened ({error.strerror})", source=self.name) from error
                    self._closing = Afterwards(os.close, descriptor)
                    self._descriptor = descriptor
        return self._descriptor

    def _stat(self) -> os.stat_result:
        try:
            return os.stat(self.path)  # noqa: PTH116  ten thousand of these at start-up: no Path objects
        except (OSError, ValueError) as error:  # the latter of a name that no file can have
            advice = "Check the path; a URL needs its scheme, such as s3://"
            reason = error.strerror if isinstance(error, OSError) else error
            raise SourceNotFoundError(f"no such file ({reason})", source=self.name, advice=advice) from error

    def _check(self, stat: os.stat_result) -> None:
        if S_ISDIR(stat.st_mode):
            raise UnreadableSourceError(
                "this is a folder",
                source=self.name,
                advice="Name a file, or give the folder to readers.Video(file_root=…)",
            )
        if not S_ISREG(stat.st_mode):
            raise UnreadableSourceError(
                "this is a pipe or a device",
                source=self.name,
                advice="Write what it gives to a file first, or give its bytes",
            )
        _check_size(stat.st_size, self.name)


class _Memory(Source):
    """A video held in memory."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.name = f"<{len(data)} bytes>"
        self._data = bytes(data)
        _check_size(len(self._data), self.name)

    def stamp(self) -> None:
        return None

    def size(self) -> int:
        return len(self._data)

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  of sources far away
        return io.BytesIO(self._data)

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        return [self._data[offset : offset + size] for offset, size in ranges]


class _FileObject(Source):
    """A seekable binary file object of the user; its position is moved, one reader at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self.name = f"<{getattr(file, 'name', None) or type(file).__name__}>"
        self._file = file
        self._lock = threading.Lock()
        self._elsewhere = False
        reset_after_fork(self)
        self._check()
        _check_size(self.size(), self.name)

    def stamp(self) -> None:
        return None

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  of sources far away
        return cast("BinaryIO", _View(self, lambda offset, size: self.read([(offset, size)])[0]))

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        if self._elsewhere:
            raise SourceError(
                "the file object was opened in another process, whose position in it is the same",
                source=self.name,
                advice="Open it in this process, or give a path or its bytes",
            )
        with self._lock:
            try:
                return [self._read(offset, size) for offset, size in ranges]
            except (OSError, ValueError) as error:
                raise SourceError(
                    f"the file object cannot be read ({error})",
                    source=self.name,
                    advice="Leave it open as long as frames of it are asked for",
                ) from error

    def size(self) -> int:
        with self._lock:
            self._file.seek(0, os.SEEK_END)  # not every file object says where that leads
            return self._file.tell()

    def after_fork(self) -> None:
        """Know of a file whose position a forked process moves too; those in memory have been copied."""
        self._lock = threading.Lock()
        self._elsewhere = not isinstance(self._file, (io.BytesIO, mmap.mmap))

    def _check(self) -> None:
        """See that it is one; what does not say whether it can seek is tried.

        Raises:
            ParameterError: it is not.
        """
        fact, advice = "", "Read it into bytes first, or give a path or URL"
        try:
            if not (hasattr(self._file, "seek") and getattr(self._file, "seekable", _yes)()):
                fact = "the file object cannot seek"
            elif not isinstance(self._file.read(0), bytes):
                fact, advice = "the file object gives text", "Open it with mode 'rb'"
        except (OSError, ValueError) as error:
            fact, advice = f"the file object cannot be read ({error})", "Give one that is open for reading"
        if fact:
            raise ParameterError(fact, source=self.name, advice=advice)

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(size)
        while 0 < len(data) < size and (more := self._file.read(size - len(data))):
            data += more  # one without a buffer may give less than it has
        return data


class _Remote(Source):
    """An object behind a URL, by fsspec; ranges are fetched together.

    What an HTTP server does not give in ranges is read once, whole, into a temporary file.
    """

    slow = True
    gap = _WORTH_A_REQUEST

    def __init__(self, url: str) -> None:
        self.name = url
        self._lock = threading.Lock()
        self._passing: Callable[[int, int], bytes] | None = None
        self._whole: int | None = None
        self._closing: Afterwards | None = None
        details = self._connect()
        self._tag = _tag_of(details)
        self._etag = None if details.get("ETag") is None else str(details["ETag"])
        self._looked_s = time.monotonic()
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
        from fsspec.caching import BlockCache

        # Not fsspec's own file: its answers must be checked as all others are.
        read = read or self.read
        blocks = BlockCache(_BLOCK, lambda begin, end: read([(begin, end - begin)])[0], self._size)
        self._passing = blocks._fetch
        return cast("BinaryIO", _View(self, lambda offset, size: blocks._fetch(offset, offset + size)))

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        runs = merged(ranges, self.gap, self._size)
        return cut_out(ranges, runs, self._fetch(runs))

    def read_on(self, offset: int, size: int) -> bytes:
        # The blocks that the demuxer beside it has read: a request for every packet would take hours.
        if self._passing is None:
            self.for_demuxer()
        assert self._passing is not None
        return self._passing(offset, min(offset + size, self._size))

    def close(self) -> None:
        self._passing = None
        with self._lock:
            self._whole, self._closing = None, None

    def _connect(self) -> dict[str, Any]:
        """Find the file system, and what it says of the object."""
        import fsspec

        url = self.name
        try:
            self._fs, self._path = fsspec.core.url_to_fs(url)
            details: dict[str, Any] = self._fs.info(self._path)
        except (ImportError, ValueError) as error:
            extra = url.partition("://")[0].rpartition("::")[2]
            raise BackendError(
                f"no package for {extra}:// is installed ({error})",
                source=url,
                advice=f"Install it: pip install 'seqpipe[{extra}]', or the fsspec package for this protocol",
            ) from error
        except FileNotFoundError as error:
            raise SourceNotFoundError("no such object", source=url, advice="Check the URL") from error
        except Exception as error:
            # Every storage package has errors of its own (botocore's are no OSError); all of them end here.
            raise SourceError(
                f"cannot be reached ({_said(error)})", source=url, advice="Check URL and credentials"
            ) from error
        protocols = {*_as_tuple(self._fs.protocol)}
        self._over_s3 = bool({"s3", "s3a"} & protocols) and hasattr(self._fs, "_call_s3")
        self._over_http = bool({"http", "https"} & protocols) and self._fs.async_impl
        self._process = os.getpid()
        return details

    def _fetch(self, runs: Seq[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (begin, end), all of them.

        Raises:
            SourceError: they cannot be had.
        """
        if self._process != os.getpid():  # fsspec's threads are another process's
            self._connect()
        whole = self._whole
        try:
            if whole is None and self._over_http:
                try:
                    parts = http_ranges(self._fs, self._path, runs, self._size, self._etag)
                except NoRangesError:
                    whole = self._download()
            elif whole is None and self._over_s3 and self._etag:
                parts = s3_ranges(self._fs, self._path, runs, self._etag)
            elif whole is None:
                self._look_again()
                begins, ends = [begin for begin, _ in runs], [end for _, end in runs]
                parts = self._fs.cat_ranges([self._path] * len(runs), begins, ends, on_error="raise")
            if whole is not None:
                parts = [os.pread(whole, end - begin, begin) for begin, end in runs]
        except SeqpipeError:
            raise
        except ChangedError as error:
            raise SourceError(
                f"it was replaced while it was open: {error}", source=self.name, advice="Open it again"
            ) from error
        except Exception as error:
            refused = isinstance(error, (PermissionError, RefusedError)) or "expired" in str(error).lower()
            advice = "The credentials may have expired: renew them, and open it again" if refused else None
            raise SourceError(f"cannot be read ({_said(error)})", source=self.name, advice=advice) from error
        for (begin, end), part in zip(runs, parts, strict=True):
            if len(part) != end - begin:
                raise SourceError(
                    f"bytes {begin} to {end - 1} were asked for, {len(part)} bytes came",
                    source=self.name,
                    advice="The object may have changed: open it again",
                )
        return parts

    def _look_again(self) -> None:
        """See now and then that the object is the one that was opened, where requests cannot say which one is meant.

        Raises:
            ChangedError: it is not.
        """
        if self._tag is None or time.monotonic() - self._looked_s < _LOOK_AGAIN_S:
            return
        self._looked_s = time.monotonic()
        self._fs.invalidate_cache(self._path)
        if (tag := _tag_of(self._fs.info(self._path))) != self._tag:
            raise ChangedError(f"it was of {self._tag}, and is of {tag or 'another time'}")

    def _download(self) -> int:
        """Read all of it into a temporary file, which goes when nothing refers to it; returns its descriptor.

        Raises:
            SourceError: it is too large, or does not arrive whole.
        """
        with self._lock:
            if self._whole is not None:
                return self._whole
            gib = DOWNLOAD_GIB.value()
            try:
                with tempfile.TemporaryFile(prefix="seqpipe-") as file:
                    size = http_whole(self._fs, self._path, cast("BinaryIO", file), gib * 2**30, self._etag)
                    file.flush()
                    whole = os.dup(file.fileno())
                closing = Afterwards(os.close, whole)
            except Exception as error:
                raise SourceError(
                    f"the server has no byte ranges, and sending all of it failed ({error})",
                    source=self.name,
                    advice=f"Download the file first; {DOWNLOAD_GIB.variable}={gib:g} bounds what is kept meanwhile",
                ) from error
            if self._size not in (-1, size):
                raise SourceError(
                    f"the server has no byte ranges, and sent {size} of {self._size} bytes", source=self.name
                )
            self._size, self._closing, self._whole = size, closing, whole
            return whole


class _View:
    """A position of its own over a shared source: the demuxer and packet reads do not disturb each other."""

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
        """What is shared stays open."""


def _tag_of(details: dict[str, Any]) -> str | None:
    """What a file system says of an object that is another for another content; None if it says nothing of that."""
    names = ("ETag", "LastModified", "Last-Modified", "mtime", "created")
    tag = next((details[name] for name in names if details.get(name)), None)
    return None if tag is None else str(tag)


def _said(error: Exception) -> str:
    """An error's words; some have none."""
    return str(error) or type(error).__name__


def open_source(origin: Origin, *, stream: int | None = None) -> Source:
    """The source that a path, URL, bytes or file object names.

    Args:
        origin: a local path, a URL with a scheme (``s3://…``, ``file://…``), the bytes of a file, or a seekable binary
            file object. What an HTTP server does not send in ranges is read once, into a temporary file of at most
            :data:`seqpipe.limits.DOWNLOAD_GIB`.
        stream: which of its streams is meant, by its number in the container; None for the best video.

    Raises:
        SourceNotFoundError: nothing is there.
        UnreadableSourceError: it is a folder, or empty.
        BackendError: the URL's scheme needs a package that is not installed.
        ParameterError: it is none of these.
    """
    source = _opened(origin)
    if stream is not None:
        source.stream = stream
    return source


def digest_of_ends(source: Source) -> bytes:
    """Return the SHA-1 of the first and last 64 KiB of a source, which tells contents of one size apart.

    Raises:
        SourceError: the source cannot be read.
    """
    import hashlib

    size = source.size()
    ranges = [(0, min(_END, size)), (max(0, size - _END), min(_END, size))]
    return hashlib.sha1(b"".join(source.read(ranges)), usedforsecurity=False).digest()


def _opened(origin: Origin) -> Source:
    if isinstance(origin, Source):
        return origin
    if isinstance(origin, (bytes, bytearray, memoryview)):
        return _Memory(origin)
    if isinstance(origin, (str, os.PathLike)):
        name = os.fspath(origin)
        if not name:  # which the file system takes for the current folder
            raise SourceNotFoundError("the path '' is empty", allowed="a path or a URL")
        if not (_URL.match(name) and isinstance(origin, str)):
            return _LocalFile(name)
        scheme, _, rest = name.partition("://")
        return _LocalFile(_local_path(rest)) if scheme == "file" else _Remote(name)
    if hasattr(origin, "read"):
        return _FileObject(origin)
    raise ParameterError(
        f"a {type(origin).__name__} cannot be opened",
        allowed="a path, a URL, bytes, or a seekable binary file object",
    )


def _yes() -> bool:
    return True


def _as_tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _local_path(rest: str) -> str:
    """The path that stands in a ``file`` URL: escaped, as it should be, or as it is, as it often is."""
    rest = rest.removeprefix("localhost")
    return rest if os.path.lexists(rest) else unquote(rest)


def _check_size(size: int, name: str) -> None:
    if size == 0:
        raise UnreadableSourceError(
            "the file is empty (0 bytes)", source=name, advice="Fetch or copy it again"
        )
