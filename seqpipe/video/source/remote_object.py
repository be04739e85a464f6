"""Objects behind URLs, read by fsspec."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, BinaryIO, Final, cast

from ...core.files.file_system import file_system
from ...core.finalizers import Finalizer
from ...core.limits import DOWNLOAD_GIB
from ...errors import BackendError, SeqpipeError, SourceError, SourceNotFoundError
from .base import Read, Source, SourceView, Stamp, check_size
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

__all__ = ["RemoteObject"]

_BLOCK: Final = 1 << 20
_GAP_BYTES: Final = 1 << 18
_RECHECK_S = 1.0


class RemoteObject(Source):
    """Object behind a URL, read by fsspec with concurrent range requests.

    Where an HTTP server does not support ranges, the file is downloaded once, to a temporary file.

    Args:
        url: the URL.
        known: size and tag of the object, from a register. Where requests can be conditional, nothing is asked before
            the first read, which raises if the object has another tag.
    """

    slow = True
    gap = _GAP_BYTES

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
        check_size(self._size, url)

    def stamp(self) -> Stamp | None:
        """Return the identity of the object by its tag; None if the store has none."""
        return None if self._tag is None else (self._key(self.name), self._size, self._tag)

    def size(self) -> int:
        """Return the size in bytes."""
        return self._size

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:
        """Return a file object over blocks that are fetched once."""
        fetch = self._open_blocks(read or self.read)
        return cast("BinaryIO", SourceView(self, lambda offset, size: fetch(offset, offset + size)))

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), fetched concurrently."""
        runs = merge_ranges(ranges, self.gap, self._size)
        return slice_ranges(ranges, runs, self._fetch(runs))

    def read_sequential(self, offset: int, size: int) -> bytes:
        """Return one range from the demuxer's blocks."""
        # From the blocks that the demuxer has read: a request for every packet would take hours.
        fetch = self._sequential or self._open_blocks(self.read)
        return fetch(offset, min(offset + size, self._size))

    def close(self) -> None:
        """Drop the blocks and the downloaded file."""
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
        """Open fsspec's file system, and note its protocol."""
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
            pieces = self._parts(runs)
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
        for (begin, end), piece in zip(runs, pieces, strict=True):
            if len(piece) != end - begin:
                raise SourceError(
                    f"bytes {begin} to {end - 1} were requested, {len(piece)} bytes were received",
                    source=self.name,
                    advice="The object may have changed: open it again",
                )
        return pieces

    def _parts(self, runs: Seq[tuple[int, int]]) -> list[bytes]:
        """Fetch runs of bytes, on the condition that the object has not changed."""
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
        pieces: list[bytes] = self._fs.cat_ranges([self._path] * len(runs), begins, ends, on_error="raise")
        return pieces

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


def _as_tuple(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
