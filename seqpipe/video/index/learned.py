"""Storage of packet kinds learned during decoding in the cached indexes."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from ...array import BoolArray
from ...errors import OutputError
from ..packet_index import LEARNED, PacketIndex
from ..source.source import Stamp
from .cache import cache_directory, load_index, save_index

__all__ = ["Learned"]

# An index is rewritten once another quarter of its packets is known, and when all are.
_PARTS = 4

_log = logging.getLogger(__name__)


class Learned:
    """Rewrites cached indexes as the kinds of more packets become known.

    Args:
        cache_dir: cache folder, see :func:`seqpipe.video.index.open.open_index`.
    """

    def __init__(self, cache_dir: str | os.PathLike[str] | None) -> None:
        self._cache_dir = cache_dir
        self._saved: WeakKeyDictionary[PacketIndex, tuple[Stamp, int]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def add(self, index: PacketIndex, stamp: Stamp | None) -> None:
        """Track an index that was opened for the content of a stamp."""
        if stamp is not None and not index.packets.whole:
            with self._lock:
                self._saved[index] = stamp, int(np.count_nonzero(index.packets.known))

    def due(self, index: PacketIndex) -> bool:
        """Return whether enough was learned since an index was saved to save it again."""
        saved = self._saved.get(index) if len(index.packets.known) else None
        return saved is not None and _is_due(index.packets.known, saved[1])

    def save(self, index: PacketIndex) -> None:
        """Save an index if it is due; a cache that cannot be written is left as it is."""
        table = index.packets
        with self._lock:
            if (saved := self._saved.get(index)) is None:
                return
            stamp, before = saved
            known = table.known.copy()  # copied first: other threads set it after the other columns
            if not _is_due(known, before):
                return
            count = int(np.count_nonzero(known))
            if count == len(known):
                del self._saved[index]
                known = np.empty(0, dtype=bool)
            else:
                self._saved[index] = stamp, count
            columns = {name: getattr(table, name).copy() for name in LEARNED}
            updated = replace(index, packets=replace(table, **{**columns, "known": known}))
        directory = cache_directory(self._cache_dir)
        cached = load_index(directory, stamp)
        if cached is not None and cached.packets.whole:
            return  # another thread or process has scanned or verified the file
        try:
            save_index(directory, stamp, updated)
        except OutputError as error:
            _log.debug("%s", error)


def _is_due(known: BoolArray, before: int) -> bool:
    """Return whether enough packets are known to save an index that was saved with ``before`` known packets."""
    count = int(np.count_nonzero(known))
    return count > before and (count == len(known) or (count - before) * _PARTS >= len(known))
