"""Byte ranges of HTTP and S3 objects: several requests at a time up to a limit, and failed ones again."""

from __future__ import annotations

import bisect
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from weakref import WeakKeyDictionary

from ...core.limits import REQUESTS

if TYPE_CHECKING:
    import asyncio

__all__ = [
    "AnswerError",
    "ChangedError",
    "NoRangesError",
    "RefusedError",
    "http_download",
    "http_ranges",
    "is_transient",
    "merge_ranges",
    "s3_ranges",
    "slice_ranges",
    "waits_s",
]


def merge_ranges(ranges: Seq[tuple[int, int]], gap: int, end: int = sys.maxsize) -> list[tuple[int, int]]:
    """Return ascending (begin, end) runs that cover all (offset, size) ranges, across gaps of at most ``gap`` bytes."""
    runs: list[tuple[int, int]] = []
    begin = stop = -1
    for offset, size in sorted(ranges):
        last = offset + size
        if begin >= 0 and offset <= stop + gap:
            if last > stop:
                stop = last
        else:
            if begin >= 0:
                runs.append((begin, stop))
            begin, stop = offset, last
    if begin >= 0:
        runs.append((begin, stop))
    return [(min(begin, end), min(stop, end)) for begin, stop in runs]


def slice_ranges(ranges: Seq[tuple[int, int]], runs: Seq[tuple[int, int]], pieces: Seq[bytes]) -> list[bytes]:
    """Return the bytes of each range from the bytes of the runs that cover them."""
    if len(runs) == 1:  # the usual case, which takes half the time this way
        ((begin, _),) = runs
        data = pieces[0]
        return [data[offset - begin : offset - begin + size] for offset, size in ranges]
    begins = [begin for begin, _ in runs]
    slices = []
    for offset, size in ranges:
        run = bisect.bisect_right(begins, offset) - 1
        begin = offset - begins[run]
        slices.append(pieces[run][begin : begin + size])
    return slices


_PIECE = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_CONNECT_S, _SILENCE_S = 30, 60


class AnswerError(Exception):
    """The server's response does not match the request."""


class RefusedError(AnswerError):
    """The server denies access."""


class _BusyError(AnswerError):
    """The server did not give a complete response, which another attempt may give."""


class ChangedError(Exception):
    """The object differs from the one that was opened."""


class NoRangesError(Exception):
    """The server does not support byte ranges."""


_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_ATTEMPTS: Final = 4
_WAIT_S = 0.2

_under_way: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def waits_s() -> Iterator[float]:
    """Yield the seconds to wait before each repetition: they double, and vary so that clients do not ask together."""
    for attempt in range(_ATTEMPTS - 1):
        yield _WAIT_S * 2**attempt * (0.5 + time.monotonic_ns() % 1000 / 1000)


def is_transient(error: BaseException | None) -> bool:
    """Return whether an HTTP error is one of a busy server."""
    return getattr(error, "status", None) in _TRANSIENT


async def _all_ranges(read: Callable[[Any], Awaitable[bytes]], runs: Seq[tuple[int, int]]) -> list[bytes]:
    """Read ranges concurrently, with at most :data:`REQUESTS` requests of this process under way."""
    import asyncio  # imported late: the import takes longer than opening a local file

    loop = asyncio.get_running_loop()
    limit = _under_way.setdefault(loop, asyncio.Semaphore(max(1, int(REQUESTS.value()))))
    tasks = [asyncio.ensure_future(_persistent(read, run, limit)) for run in runs]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:  # those that an error of another one has left
            task.cancel()


async def _persistent(
    read: Callable[[Any], Awaitable[bytes]], run: tuple[int, int], limit: asyncio.Semaphore
) -> bytes:
    """Read a range, and repeat what failed for the moment after a pause."""
    import asyncio

    if run[0] == run[1]:
        return b""
    waits = waits_s()
    while True:
        try:
            async with limit:
                return await read(run)
        except _BusyError as error:
            if (wait_s := next(waits, None)) is None:
                raise _BusyError(f"{error}; {_ATTEMPTS} attempts") from error
        await asyncio.sleep(wait_s)


def http_ranges(fs: Any, url: str, runs: Seq[tuple[int, int]], size: int, etag: str | None) -> list[bytes]:
    """Read ranges of a file concurrently."""
    from fsspec.asyn import sync

    pieces: list[bytes] = sync(fs.loop, _ranges, fs, url, runs, size, etag)
    return pieces


def http_download(fs: Any, url: str, file: BinaryIO, limit: float, etag: str | None) -> int:
    """Download a file; returns its size in bytes."""
    from fsspec.asyn import sync

    size: int = sync(fs.loop, _download, fs, url, file, limit, etag)
    return size


async def _ranges(fs: Any, url: str, runs: Seq[tuple[int, int]], size: int, etag: str | None) -> list[bytes]:
    session = await fs.set_session()
    return await _all_ranges(partial(_range, fs, session, url, size, etag), runs)


async def _range(fs: Any, session: Any, url: str, size: int, etag: str | None, run: tuple[int, int]) -> bytes:
    begin, end = run
    headers = {"Range": f"bytes={begin}-{end - 1}"}
    if etag is not None and not etag.startswith("W/"):  # If-Match never matches a weak one (RFC 9110, 13.1.1)
        headers["If-Match"] = etag
    async with _answer(fs, session, url, etag, headers) as answer:
        if answer.status == 200 and (begin, end) != (0, size):
            raise NoRangesError
        if answer.status in _TRANSIENT:
            raise _BusyError(f"the server answers {answer.status} {answer.reason}")
        if answer.status not in (200, 206):
            raise AnswerError(f"the server answers {answer.status} {answer.reason}")
        if answer.status == 206:
            stated = answer.headers.get("Content-Range", "")
            found = _CONTENT_RANGE.fullmatch(stated.strip())
            if not found or found.groups() not in {(str(begin), str(end - 1), t) for t in (str(size), "*")}:
                raise AnswerError(
                    f"bytes {begin}-{end - 1}/{size} were requested, the server sends {stated or 'an unnamed range'}"
                )
        data: bytes = await answer.read()
    return data


async def _download(fs: Any, url: str, file: BinaryIO, limit: float, etag: str | None) -> int:
    session = await fs.set_session()
    size = 0
    async with _answer(fs, session, url, etag, {}) as answer:
        if answer.status != 200:
            raise AnswerError(f"the server answers {answer.status} {answer.reason}")
        async for piece in answer.content.iter_chunked(_PIECE):
            size += len(piece)
            if size > limit:
                raise AnswerError(f"the file is larger than {limit:.0f} bytes")
            file.write(piece)
    return size


@asynccontextmanager
async def _answer(
    fs: Any, session: Any, url: str, etag: str | None, headers: dict[str, str]
) -> AsyncIterator[Any]:
    """Send a GET request and check that the response is the file's."""
    import asyncio

    from aiohttp import ClientConnectionError, ClientPayloadError

    try:
        async with session.get(fs.encode_url(url), **_settings(fs, **headers)) as answer:
            now = answer.headers.get("ETag")
            if answer.status == 412 or (answer.status < 300 and None not in (etag, now) and etag != now):
                raise ChangedError(f"its ETag was {etag}, and is {now or 'another one'}")
            if answer.status in (401, 403):
                raise RefusedError(f"the server answers {answer.status} {answer.reason}")
            yield answer
    except asyncio.TimeoutError as error:  # the base class of aiohttp's timeouts
        raise _BusyError(
            f"the server sent nothing for {_SILENCE_S} s, or did not answer within {_CONNECT_S} s"
        ) from error
    except (ClientConnectionError, ClientPayloadError) as error:
        raise _BusyError(f"the connection broke: {error}") from error


def _settings(fs: Any, **headers: str) -> dict[str, Any]:
    """Return the arguments of a request: the user's fsspec settings, a timeout, and the headers."""
    from aiohttp import ClientTimeout

    timeout = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    settings = {"timeout": timeout, **fs.kwargs}
    settings["headers"] = {**settings.get("headers", {}), "Accept-Encoding": "identity", **headers}
    return settings


def s3_ranges(fs: Any, path: str, runs: Seq[tuple[int, int]], etag: str) -> list[bytes]:
    """Read ranges of an object concurrently."""
    from fsspec.asyn import sync

    pieces: list[bytes] = sync(fs.loop, _all_ranges, partial(_object_range, fs, path, etag), runs)
    return pieces


async def _object_range(fs: Any, path: str, etag: str, run: tuple[int, int]) -> bytes:
    begin, end = run
    bucket, key, version = fs.split_path(path)
    which = {"Bucket": bucket, "Key": key, **({"VersionId": version} if version else {})}
    try:  # s3fs repeats requests that fail, but not those whose body is incomplete
        answer = await fs._call_s3("get_object", Range=f"bytes={begin}-{end - 1}", IfMatch=etag, **which)
    except OSError as error:
        response = getattr(error.__cause__, "response", None) or {}
        if response.get("Error", {}).get("Code") in ("PreconditionFailed", "412"):
            raise ChangedError(f"its ETag is no longer {etag}") from error
        raise
    try:
        data: bytes = await answer["Body"].read()
    except Exception as error:  # aiohttp and botocore share no base class
        raise _BusyError(f"the response is incomplete ({error})") from error
    finally:
        answer["Body"].close()
    if len(data) != end - begin:
        raise _BusyError(f"bytes {begin} to {end - 1} were requested, {len(data)} bytes were received")
    return data
