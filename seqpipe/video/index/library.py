"""Library of open videos and loaded indexes, shared by threads; the least recently used are dropped."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

from ..packet_index import PacketIndex
from ..plan.jobs import PlannedVideo
from ..source.source import Origin, Source, open_source
from .learned import Learned
from .open import IndexOptions, open_index, reindexed

__all__ = ["Library"]

_OPEN_VIDEOS = 64
_INDEX_BYTES = 128 << 20
# Approximate memory of an index with the arrays computed from its columns.
_BYTES_PER_PACKET = 80
_BYTES_PER_INDEX = 4096


class Library:
    """Opens videos once for all threads.

    Few files stay open; indexes stay loaded longer, since loading one takes as long as decoding some frames. When a
    file is opened again, its loaded index is used only if the file has not changed.

    Args:
        options: options that indexes are opened with.
    """

    def __init__(self, options: IndexOptions) -> None:
        self._options = options
        # The origin is referenced with its video, so that no other object gets its id.
        self._videos: OrderedDict[Hashable, tuple[Origin, PlannedVideo]] = OrderedDict()
        self._indexes: OrderedDict[Hashable, PacketIndex] = OrderedDict()
        self._bytes = 0
        self._learned = Learned(options.cache_dir)
        self._lock = threading.Lock()

    def video(self, origin: Origin) -> PlannedVideo:
        """Return an open video.

        Raises:
            SourceNotFoundError: the file does not exist.
            UnreadableSourceError: the file is not a video that can be decoded.
        """
        key = os.fspath(origin) if isinstance(origin, (str, os.PathLike)) else id(origin)
        with self._lock:
            if key in self._videos:
                self._videos.move_to_end(key)
                return self._videos[key][1]
        source = open_source(origin, stream=self._options.stream)
        video = PlannedVideo(source, self._index(source))
        with self._lock:
            _, video = self._videos.setdefault(key, (origin, video))
            while len(self._videos) > _OPEN_VIDEOS:
                self._videos.popitem(last=False)
        return video

    def reindexed(self, video: PlannedVideo) -> PlannedVideo:
        """Index a video by a scan, in place of one by tables that a packet contradicts.

        Raises:
            SourceError: numbers or times of its frames differ.
        """
        planned = PlannedVideo(
            video.source, reindexed(video.source, video.index, cache_dir=self._options.cache_dir)
        )
        with self._lock:
            for key in [key for key, (_, known) in self._videos.items() if known is video]:
                del self._videos[key]
            for name in [name for name, known in self._indexes.items() if known is video.index]:
                self._bytes -= _bytes(self._indexes.pop(name))
        return planned

    def due(self, video: PlannedVideo) -> bool:
        """Return whether enough packet kinds were learned to save a video's index."""
        return self._learned.due(video.index)

    def save(self, video: PlannedVideo) -> None:
        """Save the packet kinds learned of a video, if they are due; takes milliseconds."""
        self._learned.save(video.index)

    def clear(self) -> None:
        """Save what was learned and drop all videos; those in use stay open until they are not."""
        with self._lock:
            videos = [video for _, video in self._videos.values()]
        for video in videos:
            self.save(video)
        with self._lock:
            self._videos.clear()
            self._indexes.clear()
            self._bytes = 0

    def _index(self, source: Source) -> PacketIndex:
        stamp = source.stamp()
        if stamp is None:
            return open_index(source, **self._options._asdict())
        key = source.name, stamp
        with self._lock:
            if key in self._indexes:
                self._indexes.move_to_end(key)
                return self._indexes[key]
        index = open_index(source, **self._options._asdict())
        self._learned.add(index, stamp)
        with self._lock:
            if key not in self._indexes:
                self._indexes[key] = index
                self._bytes += _bytes(index)
                while self._bytes > _INDEX_BYTES:
                    self._bytes -= _bytes(self._indexes.popitem(last=False)[1])
        return index


def _bytes(index: PacketIndex) -> int:
    return _BYTES_PER_INDEX + _BYTES_PER_PACKET * len(index.packets)
