"""What was learned of packets while runs of them were decoded, kept in the indexes on disk for the next time."""

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

# An index is written anew once so much of it has become known since the last time, and when all of it is.
_PARTS = 4

_log = logging.getLogger(__name__)


class Learned:
    """Writes indexes anew as more of them becomes known.

    Args:
        cache_dir: where indexes are kept on disk, see :func:`seqpipe.video.index.open.open_index`.
    """

    def __init__(self, cache_dir: str | os.PathLike[str] | None) -> None:
        self._cache_dir = cache_dir
        self._kept: WeakKeyDictionary[PacketIndex, tuple[Stamp, int]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def note(self, index: PacketIndex, stamp: Stamp | None) -> None:
        """Note what is known of an index that was opened for a content."""
        if stamp is not None and not index.packets.whole:
            with self._lock:
                self._kept[index] = stamp, int(np.count_nonzero(index.packets.known))

    def due(self, index: PacketIndex) -> bool:
        """Whether so much was learned of an index since it was written that it is worth writing anew."""
        noted = self._kept.get(index) if len(index.packets.known) else None
        return noted is not None and _is_much(index.packets.known, noted[1])

    def keep(self, index: PacketIndex) -> None:
        """Write an index if it is due; a cache that cannot be written is left as it is."""
        table = index.packets
        with self._lock:
            if (noted := self._kept.get(index)) is None:
                return
            stamp, before = noted
            known = table.known.copy()  # first of all: other threads set it after what they have learned
            if not _is_much(known, before):
                return
            count = int(np.count_nonzero(known))
            if count == len(known):
                del self._kept[index]
                known = np.empty(0, dtype=bool)
            else:
                self._kept[index] = stamp, count
            columns = {name: getattr(table, name).copy() for name in LEARNED}
            found = replace(index, packets=replace(table, **{**columns, "known": known}))
        directory = cache_directory(self._cache_dir)
        kept = load_index(directory, stamp)
        if kept is not None and kept.packets.whole:
            return  # someone has read it through, or verified it
        try:
            save_index(directory, stamp, found)
        except OutputError as error:
            _log.debug("%s", error)


def _is_much(known: BoolArray, before: int) -> bool:
    """Whether so many packets are known, after `before` of them the last time, that an index is written anew."""
    count = int(np.count_nonzero(known))
    return count > before and (count == len(known) or (count - before) * _PARTS >= len(known))
