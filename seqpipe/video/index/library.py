"""Library: the videos that were used last, open, and the indexes of many more."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable

from ..packet_index import PacketIndex
from ..plan.jobs import PlannedVideo
from ..source.source import Origin, Source, open_source
from .learned import Learned
from .open import open_index, reindexed

__all__ = ["Library"]

_OPEN_VIDEOS = 64
_INDEX_BYTES = 128 << 20
# what an index comes to with what it works out from its columns
_BYTES_OF_A_PACKET = 80
_BYTES_OF_AN_INDEX = 4096


class Library:
    """Opens videos once for all threads.

    A file is closed when it was not used for long; its index is kept for longer, since reading it from its cache takes
    as long as decoding some frames. When it is opened again, an index is used only if the file has not changed.

    Args:
        cache_dir: where indexes are kept on disk, see :func:`seqpipe.video.index.open.open_index`.
        stream: which stream of each is meant; None for the best video.
        register: the path of a register of their indexes, if there is one.
    """

    def __init__(
        self,
        cache_dir: str | os.PathLike[str] | None,
        stream: int | None = None,
        register: str | None = None,
    ) -> None:
        self._cache_dir, self._stream, self._register = cache_dir, stream, register
        # the origin stays with its video, so that no other object can come to have its id
        self._videos: OrderedDict[Hashable, tuple[Origin, PlannedVideo]] = OrderedDict()
        self._indexes: OrderedDict[Hashable, PacketIndex] = OrderedDict()
        self._bytes = 0
        self._learned = Learned(cache_dir)
        self._lock = threading.Lock()

    def video(self, origin: Origin) -> PlannedVideo:
        """The open video.

        Raises:
            SourceNotFoundError: it is not there.
            UnreadableSourceError: it is not a video that can be decoded.
        """
        key = os.fspath(origin) if isinstance(origin, (str, os.PathLike)) else id(origin)
        with self._lock:
            if key in self._videos:
                self._videos.move_to_end(key)
                return self._videos[key][1]
        source = open_source(origin, stream=self._stream)
        video = PlannedVideo(source, self._index(source))
        with self._lock:
            _, video = self._videos.setdefault(key, (origin, video))
            while len(self._videos) > _OPEN_VIDEOS:
                self._videos.popitem(last=False)
        return video

    def reindexed(self, video: PlannedVideo) -> PlannedVideo:
        """A video by a scan, in the place of one whose tables were refuted.

        Raises:
            SourceError: its frames have other numbers or times by that.
        """
        found = PlannedVideo(video.source, reindexed(video.source, video.index, cache_dir=self._cache_dir))
        with self._lock:
            for key in [key for key, (_, known) in self._videos.items() if known is video]:
                del self._videos[key]
            for place in [place for place, known in self._indexes.items() if known is video.index]:
                self._bytes -= _bytes(self._indexes.pop(place))
        return found

    def due(self, video: PlannedVideo) -> bool:
        """Whether much was learned of a video's packets that is not on disk yet."""
        return self._learned.due(video.index)

    def keep(self, video: PlannedVideo) -> None:
        """Keep on disk what was learned of a video's packets, if it is much. Takes milliseconds of waiting."""
        self._learned.keep(video.index)

    def clear(self) -> None:
        """Keep what was learned, and forget all; what is in use stays open until it is not."""
        with self._lock:
            videos = [video for _, video in self._videos.values()]
        for video in videos:
            self.keep(video)
        with self._lock:
            self._videos.clear()
            self._indexes.clear()
            self._bytes = 0

    def _index(self, source: Source) -> PacketIndex:
        stamp = source.stamp()
        if stamp is None:
            return open_index(source, cache_dir=self._cache_dir)
        key = source.name, stamp
        with self._lock:
            if key in self._indexes:
                self._indexes.move_to_end(key)
                return self._indexes[key]
        index = open_index(source, cache_dir=self._cache_dir, register=self._register)
        self._learned.note(index, stamp)
        with self._lock:
            if key not in self._indexes:
                self._indexes[key] = index
                self._bytes += _bytes(index)
                while self._bytes > _INDEX_BYTES:
                    self._bytes -= _bytes(self._indexes.popitem(last=False)[1])
        return index


def _bytes(index: PacketIndex) -> int:
    return _BYTES_OF_AN_INDEX + _BYTES_OF_A_PACKET * len(index.packets)
