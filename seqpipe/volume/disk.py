"""Volumes on disk as they are after they were inflated and turned: mapped into memory, or as chunks of LZ4.

Kept by what was read and what was made of it, so that a stale entry is never found. Written whole or not at all. Under
a budget: entries that were not used for longest go.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ..errors import BackendError
from ..param import choice
from ..sequence import Sequence
from ..whole_file import open_new, replacing

__all__ = ["CACHE_COMPRESSION", "CacheCompression", "DiskCache"]

CacheCompression: TypeAlias = Literal["none", "lz4"]
CACHE_COMPRESSION: Final = choice(
    "cache_compression", "How the folder of read volumes holds them", ("none", "lz4")
)

_VERSION: Final = 3
_ENDINGS: Final = {"none": ".npy", "lz4": ".b2nd"}
_CHUNK: Final = 64
_LENGTH: Final = 8  # bytes at the end that tell how long the facts before them are

_log = logging.getLogger(__name__)


class DiskCache:
    """A folder of volumes.

    Args:
        folder: where; made if it is not there.
        budget: bytes that its files may hold together.
        compression: ``"none"``: arrays are mapped, and a window costs no more than the pages it lies in, which all
            processes of a machine share; ``"lz4"``: about a third of the bytes, inflated as a whole.

    Raises:
        BackendError: blosc2 is not installed, which compresses.
    """

    def __init__(
        self, folder: str | os.PathLike[str], budget: int, compression: CacheCompression = "none"
    ) -> None:
        self._folder, self._budget = Path(folder), budget
        self._ending = _ENDINGS[compression]
        self._load, self._store = (_load_lz4, _store_lz4) if compression == "lz4" else (_load, _store)
        if compression == "lz4":
            _blosc2()

    def get(self, stamp: object, make: Callable[[], Sequence]) -> Sequence:
        """A volume from the folder, or made and put there; its array may be read-only.

        Args:
            stamp: what it depends on, as plain values: the identity of its files, and what is made of them; None for
                what has no identity, and is made every time.
            make: makes it.
        """
        if stamp is None:
            return make()
        digest = hashlib.blake2b(json.dumps([_VERSION, stamp]).encode(), digest_size=16).hexdigest()
        path = self._folder / f"{digest}{self._ending}"
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
            data, facts = self._load(path)
            with suppress(OSError):  # of a folder that may only be read
                path.touch()  # used now
            affine = None if facts["affine"] is None else np.array(facts["affine"])
            scale = None if facts["scale"] is None else tuple(facts["scale"])
            return Sequence(data, facts["layout"], facts["source"], affine=affine, scale=scale)
        except Exception as error:
            # whatever NumPy, JSON and blosc2 make of a damaged file: it is made anew
            _log.info("%s cannot be read, and is made anew (%s)", path, error)
            return None

    def _write(self, path: Path, sequence: Sequence) -> None:
        """Put a volume there; a full disk is no reason to stop."""
        affine = None if sequence.affine is None else np.asarray(sequence.affine).tolist()
        facts = {
            "layout": sequence.layout,
            "source": sequence.source,
            "affine": affine,
            "scale": sequence.scale,
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                self._store(part, np.ascontiguousarray(sequence.data), facts)
            self._drop_oldest(path)
        except OSError as error:
            _log.warning("%s is not kept (%s)", sequence.source, error.strerror)

    def _drop_oldest(self, newest: Path) -> None:
        entries = []
        for path in (p for ending in _ENDINGS.values() for p in self._folder.glob(f"*{ending}")):
            with suppress(FileNotFoundError):  # another process drops entries, too
                stat = path.stat()
                entries.append((stat.st_mtime_ns, stat.st_size, path))
        entries.sort()
        held = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if held <= self._budget:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                held -= size


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    """An array, mapped, and its facts, which lie behind it."""
    data = np.lib.format.open_memmap(path, mode="r")
    with path.open("rb") as file:
        end = file.seek(-_LENGTH, os.SEEK_END)
        length = int.from_bytes(file.read(_LENGTH), "little")
        if data.offset + data.nbytes + length != end:
            raise ValueError("its length is not that of its array and facts")
        file.seek(end - length)
        facts: dict[str, Any] = json.loads(file.read(length))
    return np.asarray(data), facts


def _store(path: Path, data: Any, facts: dict[str, Any]) -> None:
    told = json.dumps(facts).encode()
    with open_new(path) as file:
        np.lib.format.write_array(file, data, allow_pickle=False)
        file.write(told + len(told).to_bytes(_LENGTH, "little"))


def _blosc2() -> Any:
    try:
        import blosc2
    except ImportError as error:
        raise BackendError(
            "blosc2 is not installed",
            allowed="cache_compression='none'",
            advice="Install it: pip install 'seqpipe[blosc2]'",
        ) from error
    return blosc2


def _load_lz4(path: Path) -> tuple[Any, dict[str, Any]]:
    stored = _blosc2().open(str(path), mode="r")
    return stored[:], stored.schunk.vlmeta["seqpipe"]


def _store_lz4(path: Path, data: Any, facts: dict[str, Any]) -> None:
    blosc2 = _blosc2()
    depth = facts["layout"].index("D")
    chunks = [min(_CHUNK, n) if depth <= a < depth + 3 else n for a, n in enumerate(data.shape)]
    made = blosc2.asarray(
        data,
        urlpath=str(path),
        mode="w",
        chunks=tuple(chunks),
        cparams={"codec": blosc2.Codec.LZ4, "clevel": 5, "filters": [blosc2.Filter.SHUFFLE]},
    )
    made.schunk.vlmeta["seqpipe"] = facts
    del made
