"""Objects of registers: fetched into the cache by ranges, and replaced on the condition that nobody else did."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from ...core.whole_file import open_new, replacing
from ...errors import OutputError, SourceNotFoundError
from ..source.source import Source, open_source
from .cache import cache_directory

__all__ = ["cached_copy", "fetch_current", "put_if_current"]

_RANGE_BYTES: Final = 8 << 20
_RANGES: Final = 8
_LOST: Final = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


def cached_copy(url: str) -> str:
    """Return the path of a local copy of a register's current version; fetched by ranges if the cache has none."""
    source = open_source(url)
    folder, version = (
        hashlib.sha1(repr(identity).encode(), usedforsecurity=False).hexdigest()
        for identity in (url, source.stamp())
    )
    path = cache_directory(None) / "stored" / folder / f"{version}.register"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            _fetch(source, part)
        for other in path.parent.glob("*.register"):
            if other != path:  # an earlier version
                other.unlink(missing_ok=True)
    return str(path)


def _fetch(source: Source, path: Path) -> None:
    """Copy a source to a file by concurrent ranges."""
    size = source.size()
    starts = range(0, size, _RANGE_BYTES)
    with open_new(path) as file:
        for first in range(0, len(starts), _RANGES):
            for data in source.read([(at, _RANGE_BYTES) for at in starts[first : first + _RANGES]]):
                file.write(data)


def fetch_current(url: str, path: Path) -> str | None:
    """Fetch the current version, and return its tag; None if there is none."""
    try:
        source = open_source(url)
    except SourceNotFoundError:
        return None
    stamp = source.stamp()
    _fetch(source, path)
    return None if stamp is None else stamp[2]


def put_if_current(system: Any, object_path: str, path: Path, tag: str | None, url: str) -> bool:
    """Store a file in place of the version with a tag; False if there is another version by now."""
    condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
    bucket, _, key = object_path.partition("/")
    try:
        with path.open("rb") as file:
            system.call_s3("put_object", Bucket=bucket, Key=key, Body=file, **condition)
    except Exception as error:  # botocore's and s3fs's share no base class
        response = getattr(error.__cause__, "response", None) or getattr(error, "response", None) or {}
        if isinstance(error, FileExistsError) or response.get("Error", {}).get("Code") in _LOST:
            return False
        raise OutputError(
            f"the register cannot be stored ({error or type(error).__name__})",
            source=url,
            advice="Check the rights and the credentials, which may have expired",
        ) from error
    return True
