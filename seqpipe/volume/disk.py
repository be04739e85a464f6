"""Volumes on disk as they are after they were inflated, turned and cast: chunks of LZ4, read faster than gzip.

Kept by what was read and what was made of it, so that a stale entry is never found. Written whole or not at all. Under
a budget: entries that were not used for longest go.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import BackendError
from ..sequence import Sequence
from ..whole_file import replacing
from .source import AnyArray

__all__ = ["DiskCache"]

_VERSION: Final = 1
_ENDING: Final = ".b2nd"
_CHUNK: Final = 64

_log = logging.getLogger(__name__)


class DiskCache:
    """A folder of volumes.

    Args:
        folder: where; made if it is not there.
        budget: bytes that its files may hold together.

    Raises:
        BackendError: blosc2 is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str], budget: int) -> None:
        try:
            import blosc2
        except ImportError as error:
            raise BackendError(
                "blosc2 is not installed", advice="Install it: pip install 'seqpipe[blosc2]'"
            ) from error
        self._blosc2: Any = blosc2
        self._folder, self._budget = Path(folder), budget

    def get(self, stamp: object, make: Callable[[], Sequence]) -> Sequence:
        """A volume from the folder, or made and put there.

        Args:
            stamp: what it depends on, as plain values: the identity of its files, and what is made of them; None for
                what has no identity, and is made every time.
            make: makes it.
        """
        if stamp is None:
            return make()
        digest = hashlib.blake2b(json.dumps([_VERSION, stamp]).encode(), digest_size=16).hexdigest()
        path = self._folder / f"{digest}{_ENDING}"
        found = self._read(path)
        if found is None:
            found = make()
            self._write(path, found)
        return found

    def _read(self, path: Path) -> Sequence | None:
        """What is in a file; None where there is none, or it is damaged."""
        if not path.exists():
            return None
        try:
            stored = self._blosc2.open(str(path), mode="r")
            facts = stored.schunk.vlmeta["seqpipe"]
            data: AnyArray = stored[:]
            affine = None if facts["affine"] is None else np.array(facts["affine"])
            path.touch()  # used now
            return Sequence(data, facts["layout"], facts["source"], affine=affine)
        except Exception as error:
            # whatever blosc2 makes of a damaged file: it is made anew
            _log.info("%s cannot be read, and is made anew (%s)", path, error)
            return None

    def _write(self, path: Path, sequence: Sequence) -> None:
        """Put a volume there; a full disk is no reason to stop."""
        blosc2 = self._blosc2
        affine = None if sequence.affine is None else np.asarray(sequence.affine).tolist()
        facts = {"layout": sequence.layout, "source": sequence.source, "affine": affine}
        data = np.ascontiguousarray(sequence.data)
        depth = sequence.layout.index("D")
        chunks = [min(_CHUNK, n) if depth <= a < depth + 3 else n for a, n in enumerate(data.shape)]
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                made = blosc2.asarray(
                    data,
                    urlpath=str(part),
                    mode="w",
                    chunks=tuple(chunks),
                    cparams={"codec": blosc2.Codec.LZ4, "clevel": 5, "filters": [blosc2.Filter.SHUFFLE]},
                )
                made.schunk.vlmeta["seqpipe"] = facts
                del made
            self._drop_oldest(path)
        except OSError as error:
            _log.warning("%s is not kept (%s)", sequence.source, error.strerror)

    def _drop_oldest(self, newest: Path) -> None:
        entries = sorted(
            (p.stat().st_mtime_ns, p.stat().st_size, p) for p in self._folder.glob(f"*{_ENDING}")
        )
        held = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if held <= self._budget:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                held -= size
