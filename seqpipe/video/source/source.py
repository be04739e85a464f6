"""Sources of a video's bytes: local files, memory, file objects, and URLs by fsspec."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import re
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from errno import EACCES, EIO, ELOOP, EPERM
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO, cast
from urllib.parse import unquote

from ...core.finalizers import Finalizer
from ...core.forks import reset_after_fork
from ...errors import (
    ParameterError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
    printable,
)
from .base import Origin, Read, Source, SourceView, Stamp, check_size
from .joined import DashPresentation
from .names import check_content
from .remote import merge_ranges, slice_ranges
from .remote_object import RemoteObject
from .stills import AnimatedWebP, ImagePattern, is_animated_webp, is_pattern

__all__ = ["Origin", "Read", "Source", "Stamp", "digest_of_ends", "open_source"]

# URLs of fsspec, which may be chained, as in simplecache::s3://
_URL = re.compile(r"(?:[a-z][a-z0-9+_.-]*::)*[a-z][a-z0-9+_.-]*://", re.IGNORECASE)
_DIGESTED_END_BYTES = 1 << 16
_HEAD_BYTES = 32
# Reading across a gap of this size costs less than another call, which releases and acquires the GIL.
_LOCAL_GAP_BYTES = 1 << 15


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
        """Return size and times of the file."""
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
        check_size(stat.st_size, self.name)


class _Memory(Source):
    """Video in memory."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.name = f"<{len(data)} bytes>"
        self._data = bytes(data)
        check_content(self._data)
        check_size(len(self._data), self.name)

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
        check_size(self.size(), self.name)

    def stamp(self) -> None:
        return None

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  for slow sources
        return cast("BinaryIO", SourceView(self, lambda offset, size: self.read([(offset, size)])[0]))

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
        """Read from the file's position on, until the size or the end."""
        self._file.seek(offset)
        data = self._file.read(size)
        while 0 < len(data) < size and (more := self._file.read(size - len(data))):
            data += more  # an unbuffered file may return fewer bytes than requested
        return data


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
    """Open a source; one that may be an animated WebP, by its name or its first bytes, is looked into."""
    if isinstance(origin, Source):
        return origin
    if isinstance(origin, (str, os.PathLike)):
        source, name = _open_named(origin, known), os.fspath(origin)
        if not name.lower().endswith(".webp"):
            return source
    elif isinstance(origin, (bytes, bytearray, memoryview)):
        source = _Memory(origin)
    elif hasattr(origin, "read"):
        source = _FileObject(origin)
    else:
        raise ParameterError(
            f"an object of type {type(origin).__name__} cannot be opened",
            allowed="a path, a URL, bytes, or a seekable binary file object",
        )
    return AnimatedWebP(source) if is_animated_webp(source.read([(0, _HEAD_BYTES)])[0]) else source


def _open_named(origin: str | os.PathLike[str], known: tuple[int, str] | None) -> Source:
    """Open a path or URL."""
    name = os.fspath(origin)
    if not name:  # os.path.abspath makes the current folder of it
        raise SourceNotFoundError("the path '' is empty", allowed="a path or a URL")
    if not (_URL.match(name) and isinstance(origin, str)):
        if name.lower().endswith(".mpd"):
            return DashPresentation(name)
        return ImagePattern(name) if is_pattern(name) else _LocalFile(name)
    scheme, _, rest = name.partition("://")
    return _LocalFile(_local_path(rest)) if scheme == "file" else RemoteObject(name, known)


def _yes() -> bool:
    return True


def _local_path(rest: str) -> str:
    """Return the path in a ``file`` URL, which is percent-encoded by the standard, but often is not."""
    rest = rest.removeprefix("localhost")
    return rest if os.path.lexists(rest) else unquote(rest)
