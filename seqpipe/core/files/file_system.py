"""The fsspec file system of a URL."""

from __future__ import annotations

import os
from typing import Any

from ...errors import BackendError

__all__ = ["file_system", "is_folder"]


def file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the object's path in it."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        extra = url.partition("://")[0].rpartition("::")[2]
        raise BackendError(
            f"no package for {extra}:// is installed ({error})",
            source=url,
            advice=f"Install it: pip install 'seqpipe[{extra}]', or the fsspec package for this protocol",
        ) from error
    return system, path


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder; one that the system refuses, as a name that is too long, is none."""
    return os.path.isdir(path)  # noqa: PTH112  Path.is_dir raises for such a name
