"""Byte ranges of S3 objects, restricted to one version: requests send the ETag, which those of s3fs do not."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from .http_ranges import ChangedError

__all__ = ["s3_ranges"]

_TRIES = 3


def s3_ranges(fs: Any, path: str, runs: Seq[tuple[int, int]], etag: str) -> list[bytes]:
    """Read ranges of an object concurrently.

    Args:
        fs: s3fs file system.
        path: path of the object in it.
        runs: (begin, end) of each range, within the object.
        etag: ETag of the object.

    Raises:
        ChangedError: the object has been replaced.
        OSError: the object cannot be read; PermissionError if access is denied.
    """
    from fsspec.asyn import sync

    parts: list[bytes] = sync(fs.loop, _ranges, fs, path, runs, etag)
    return parts


async def _ranges(fs: Any, path: str, runs: Seq[tuple[int, int]], etag: str) -> list[bytes]:
    import asyncio  # imported late, as in http_ranges

    return list(await asyncio.gather(*(_range(fs, path, run, etag) for run in runs)))


async def _range(fs: Any, path: str, run: tuple[int, int], etag: str) -> bytes:
    begin, end = run
    if begin == end:
        return b""
    bucket, key, version = fs.split_path(path)
    which = {"Bucket": bucket, "Key": key, **({"VersionId": version} if version else {})}
    data = b""
    for retries in reversed(range(_TRIES)):  # s3fs retries requests, but not incomplete response bodies
        try:
            answer = await fs._call_s3("get_object", Range=f"bytes={begin}-{end - 1}", IfMatch=etag, **which)
        except OSError as error:
            response = getattr(error.__cause__, "response", None) or {}
            if response.get("Error", {}).get("Code") in ("PreconditionFailed", "412"):
                raise ChangedError(f"its ETag is no longer {etag}") from error
            raise
        try:
            data = await answer["Body"].read()
        except Exception as error:  # aiohttp and botocore share no base class
            if not retries:
                raise OSError(f"the response is incomplete ({error})") from error
            continue
        finally:
            answer["Body"].close()
        if len(data) == end - begin:
            break
    return data
