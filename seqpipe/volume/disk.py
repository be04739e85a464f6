"""Disk cache of volumes after decompression and reorientation: memory-mapped arrays, or LZ4 chunks.

Keys include the identity of the files and all settings, so that stale entries are never found. Entries are written
atomically. If the budget is exceeded, the least recently used entries are removed.
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

from ..core.lazy import import_optional
from ..core.param import choice
from ..core.whole_file import open_new, replacing
from ..sequence import Sequence

__all__ = ["CACHE_COMPRESSION", "CacheCompression", "DiskCache"]

CacheCompression: TypeAlias = Literal["none", "lz4"]
CACHE_COMPRESSION: Final = choice("compression", "Compression of cached volumes", ("none", "lz4"))

_VERSION: Final = 4
_ENDINGS: Final = {"none": ".npy", "lz4": ".b2nd"}
_CHUNK: Final = 64
_STORED_FACTS: Final = ("frames", "timestamps", "header")
_LENGTH: Final = 8  # bytes at the end with the length of the metadata before them

_log = logging.getLogger(__name__)


class DiskCache:
    """Folder of cached volumes.

    Args:
        folder: the folder; created if it does not exist.
        budget: most bytes of all files.
        compression: ``"none"``: arrays are memory-mapped, and a window reads only its pages, which all processes of a
            machine share; ``"lz4"``: about a third of the size, decompressed as a whole.

    Raises:
        BackendError: blosc2, which compresses, is not installed.
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
        """Return a volume from the cache, or create and cache it; its array may be read-only.

        Args:
            stamp: identity of the files and the settings as plain values; None for volumes without identity, which are
                created every time.
            make: creates the volume.
        """
        if stamp is None:
            return make()
        digest = hashlib.blake2b(json.dumps([_VERSION, stamp]).encode(), digest_size=16).hexdigest()
        path = self._folder / f"{digest}{self._ending}"
        entry = self._read(path)
        if entry is None:
            entry = make()
            self._write(path, entry)
        return entry

    def _read(self, path: Path) -> Sequence | None:
        """Return a cached volume; None if there is none, or it is damaged."""
        if not path.exists():
            return None
        try:
            data, facts = self._load(path)
            with suppress(OSError):  # the folder may be read-only
                path.touch()  # marks it as recently used
            affine = None if facts["affine"] is None else np.array(facts["affine"])
            scale = None if facts["scale"] is None else tuple(facts["scale"])
            kept = {name: facts[name] for name in _STORED_FACTS}
            return Sequence(data, facts["layout"], facts["source"], affine=affine, scale=scale, **kept)
        except Exception as error:
            # NumPy, JSON and blosc2 raise various errors for damaged files
            _log.info("%s cannot be read, and is created again (%s)", path, error)
            return None

    def _write(self, path: Path, sequence: Sequence) -> None:
        """Cache a volume; a failure, such as a full disk, is only logged."""
        affine = None if sequence.affine is None else np.asarray(sequence.affine).tolist()
        facts = {
            "layout": sequence.layout,
            "source": sequence.source,
            "affine": affine,
            "scale": sequence.scale,
            "frames": None if sequence.frames is None else sequence.frames.tolist(),
            "timestamps": None if sequence.timestamps is None else sequence.timestamps.tolist(),
            "header": dict(sequence.header),
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                self._store(part, np.ascontiguousarray(sequence.data), facts)
            self._drop_oldest(path)
        except OSError as error:
            _log.warning("%s is not cached (%s)", sequence.source, error.strerror)

    def _drop_oldest(self, newest: Path) -> None:
        """Remove the least recently used entries but the newest."""
        entries = []
        for path in (p for ending in _ENDINGS.values() for p in self._folder.glob(f"*{ending}")):
            with suppress(FileNotFoundError):  # other processes remove entries, too
                stat = path.stat()
                entries.append((stat.st_mtime_ns, stat.st_size, path))
        entries.sort()
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self._budget:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                total -= size


def _load(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return a memory-mapped array, and its metadata, which follow it in the file."""
    data = np.lib.format.open_memmap(path, mode="r")
    with path.open("rb") as file:
        end = file.seek(-_LENGTH, os.SEEK_END)
        length = int.from_bytes(file.read(_LENGTH), "little")
        if data.offset + data.nbytes + length != end:
            raise ValueError("the length is not that of the array and the metadata")
        file.seek(end - length)
        facts: dict[str, Any] = json.loads(file.read(length))
    return np.asarray(data), facts


def _store(path: Path, data: Any, facts: dict[str, Any]) -> None:
    """Write an entry under its name once it is complete."""
    text = json.dumps(facts).encode()
    with open_new(path) as file:
        np.lib.format.write_array(file, data, allow_pickle=False)
        file.write(text + len(text).to_bytes(_LENGTH, "little"))


def _blosc2() -> Any:
    """Return the library blosc2."""
    return import_optional("blosc2", "blosc2", allowed="cache_compression='none'")


def _load_lz4(path: Path) -> tuple[Any, dict[str, Any]]:
    """Read a compressed entry."""
    stored = _blosc2().open(str(path), mode="r")
    return stored[:], stored.schunk.vlmeta["seqpipe"]


def _store_lz4(path: Path, data: Any, facts: dict[str, Any]) -> None:
    """Write a compressed entry."""
    blosc2 = _blosc2()
    depth = facts["layout"].index("D")
    chunks = [min(_CHUNK, n) if depth <= a < depth + 3 else n for a, n in enumerate(data.shape)]
    stored = blosc2.asarray(
        data,
        urlpath=str(path),
        mode="w",
        chunks=tuple(chunks),
        cparams={"codec": blosc2.Codec.LZ4, "clevel": 5, "filters": [blosc2.Filter.SHUFFLE]},
    )
    stored.schunk.vlmeta["seqpipe"] = facts
    del stored
