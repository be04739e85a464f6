"""Byte ranges of objects in S3, of one version of each: a request names its ETag, which s3fs's own requests do not."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from .http_ranges import ChangedError

__all__ = ["s3_ranges"]

_TRIES = 3


def s3_ranges(fs: Any, path: str, runs: Seq[tuple[int, int]], etag: str) -> list[bytes]:
    """The bytes of some ranges, asked for at once.

    Args:
        fs: s3fs's file system.
        path: what it calls the object.
        runs: (begin, end) of each range, within the object.
        etag: of the object.

    Raises:
        ChangedError: the object has been replaced by another one.
        OSError: it cannot be read; PermissionError if it may not be, or no longer.
    """
    from fsspec.asyn import sync

    parts: list[bytes] = sync(fs.loop, _ranges, fs, path, runs, etag)
    return parts


async def _ranges(fs: Any, path: str, runs: Seq[tuple[int, int]], etag: str) -> list[bytes]:
    import asyncio  # here, as in http_ranges

    return list(await asyncio.gather(*(_range(fs, path, run, etag) for run in runs)))


async def _range(fs: Any, path: str, run: tuple[int, int], etag: str) -> bytes:
    begin, end = run
    if begin == end:
        return b""
    bucket, key, version = fs.split_path(path)
    which = {"Bucket": bucket, "Key": key, **({"VersionId": version} if version else {})}
    data = b""
    for left in reversed(
        range(_TRIES)
    ):  # s3fs tries requests again, but knows nothing of bodies that break off
        try:
            answer = await fs._call_s3("get_object", Range=f"bytes={begin}-{end - 1}", IfMatch=etag, **which)
        except OSError as error:
            response = getattr(error.__cause__, "response", None) or {}
            if response.get("Error", {}).get("Code") in ("PreconditionFailed", "412"):
                raise ChangedError(f"its ETag is no longer {etag}") from error
            raise
        try:
            data = await answer["Body"].read()
        except Exception as error:  # of aiohttp or botocore
            if not left:
                raise OSError(f"the answer breaks off ({error})") from error
            continue
        finally:
            answer["Body"].close()
        if len(data) == end - begin:
            break
    return data
