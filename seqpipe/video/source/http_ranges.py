"""Byte ranges over HTTP, believed only where status, ``Content-Range`` and length say that they are what was asked for.

A server may ignore ranges, and send the whole file with status 200; some proxies send other ranges than asked for. Each
request names the file's ETag, so that no parts of two files are put together where one has replaced the other.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from collections.abc import Sequence as Seq
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

__all__ = ["AnswerError", "ChangedError", "NoRangesError", "RefusedError", "http_ranges", "http_whole"]

_PIECE = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_CONNECT_S, _SILENCE_S = 30, 60


class AnswerError(Exception):
    """A server's answer is not what was asked for; its text says why."""


class RefusedError(AnswerError):
    """The server does not let the user read."""


class ChangedError(Exception):
    """What is there now is not what was opened; its text says how that is known."""


class NoRangesError(Exception):
    """The server sends whole files only."""


def http_ranges(fs: Any, url: str, runs: Seq[tuple[int, int]], size: int, etag: str | None) -> list[bytes]:
    """The bytes of some ranges, asked for at once.

    Args:
        fs: fsspec's file system for HTTP.
        url: what it calls the file.
        runs: (begin, end) of each range, within the file.
        size: of the file in bytes.
        etag: of the file; None if the server gave none.

    Raises:
        NoRangesError: the server sends whole files only.
        ChangedError: the file has been replaced by another one.
        AnswerError: an answer has another status, range or length, or none came in time.
    """
    from fsspec.asyn import sync

    parts: list[bytes] = sync(fs.loop, _ranges, fs, url, runs, size, etag)
    return parts


def http_whole(fs: Any, url: str, file: BinaryIO, limit: float, etag: str | None) -> int:
    """Write a whole file; returns its size in bytes.

    Raises:
        ChangedError: the file has been replaced by another one.
        AnswerError: the server does not send it, or it has more bytes than `limit`.
    """
    from fsspec.asyn import sync

    size: int = sync(fs.loop, _whole, fs, url, file, limit, etag)
    return size


async def _ranges(fs: Any, url: str, runs: Seq[tuple[int, int]], size: int, etag: str | None) -> list[bytes]:
    import asyncio  # here: it takes longer to import than a local file to open

    session = await fs.set_session()
    return list(await asyncio.gather(*(_range(fs, session, url, run, size, etag) for run in runs)))


async def _range(fs: Any, session: Any, url: str, run: tuple[int, int], size: int, etag: str | None) -> bytes:
    begin, end = run
    if begin == end:
        return b""
    headers = {"Range": f"bytes={begin}-{end - 1}"}
    if etag is not None and not etag.startswith("W/"):  # a weak one matches nothing here (RFC 9110, 13.1.1)
        headers["If-Match"] = etag
    async with _answer(fs, session, url, etag, headers) as answer:
        if answer.status == 200 and (begin, end) != (0, size):
            raise NoRangesError
        if answer.status not in (200, 206):
            raise AnswerError(f"the server answers {answer.status} {answer.reason}")
        if answer.status == 206:
            stated = answer.headers.get("Content-Range", "")
            found = _CONTENT_RANGE.fullmatch(stated.strip())
            if not found or found.groups() not in {(str(begin), str(end - 1), t) for t in (str(size), "*")}:
                raise AnswerError(
                    f"bytes {begin}-{end - 1}/{size} were asked for, the server sends {stated or 'an unnamed range'}"
                )
        data: bytes = await answer.read()
    return data


async def _whole(fs: Any, url: str, file: BinaryIO, limit: float, etag: str | None) -> int:
    session = await fs.set_session()
    size = 0
    async with _answer(fs, session, url, etag, {}) as answer:
        if answer.status != 200:
            raise AnswerError(f"the server answers {answer.status} {answer.reason}")
        async for piece in answer.content.iter_chunked(_PIECE):
            size += len(piece)
            if size > limit:
                raise AnswerError(f"it has more than {limit:.0f} bytes")
            file.write(piece)
    return size


@asynccontextmanager
async def _answer(
    fs: Any, session: Any, url: str, etag: str | None, headers: dict[str, str]
) -> AsyncIterator[Any]:
    """The answer to a request for a file, unless it is another file's or none at all.

    Raises:
        ChangedError: the file has been replaced by another one.
        RefusedError: it may not be read, or no longer.
        AnswerError: nothing came in time.
    """
    import asyncio

    try:
        async with session.get(fs.encode_url(url), **_settings(fs, **headers)) as answer:
            now = answer.headers.get("ETag")
            if answer.status == 412 or (answer.status < 300 and None not in (etag, now) and etag != now):
                raise ChangedError(f"its ETag was {etag}, and is {now or 'another one'}")
            if answer.status in (401, 403):
                raise RefusedError(f"the server answers {answer.status} {answer.reason}")
            yield answer
    except asyncio.TimeoutError as error:  # aiohttp's are of this class too
        raise AnswerError(
            f"the server has sent nothing for {_SILENCE_S} s, or not answered within {_CONNECT_S} s"
        ) from error


def _settings(fs: Any, **headers: str) -> dict[str, Any]:
    """What the user has told fsspec of requests, and our headers; a server that falls silent is given up."""
    from aiohttp import ClientTimeout

    timeout = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    given = {"timeout": timeout, **fs.kwargs}
    given["headers"] = {**given.get("headers", {}), "Accept-Encoding": "identity", **headers}
    return given
