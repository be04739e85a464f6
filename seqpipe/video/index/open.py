"""Opening of indexes: from the cache or a register if they hold one of the current content, else built and cached."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from ...array import IntArray
from ...core.limits import check_image_size
from ...errors import OutputError, SourceError
from ..decode.cpu import DecoderPool
from ..decode.packets import open_packets
from ..decode.run import Decoding, Lost
from ..packet_index import PacketIndex
from ..plan import PlannedVideo, damaged_by
from ..probe.info import StreamInfo
from ..probe.probe import with_source
from ..probe.recognize import parsing
from ..source.source import Origin, Source, Stamp, digest_of_ends, open_source
from .alpha import may_have_alpha, with_alpha
from .cache import Learned, cache_directory, load_index, load_summary, save_index

__all__ = [
    "IndexOptions",
    "Library",
    "cached_index",
    "index_without_scan",
    "lost_frames",
    "open_index",
    "reindexed",
    "store_index",
    "summary",
    "verify",
]


def verify(source: Source, index: PacketIndex) -> PacketIndex:
    """Return the index with the packets marked of all frames that the CPU decoder loses."""
    table = index.packets
    damaged = table.damaged.copy()
    with parsing(source), contextlib.closing(open_packets(source, index)) as packets:
        decoding = Decoding(index, packets, DecoderPool(idle=1), np.arange(len(index)))
        lost = [item.number for item in decoding if isinstance(item, Lost)]
    damaged[table.frame_packet[lost]] = True
    return replace(index, packets=replace(table, damaged=damaged), verified=True)


def lost_frames(index: PacketIndex) -> IntArray:
    """Return the frames that depend on damaged packets, ascending."""
    table = index.packets
    packets = [damaged_by(table, packet) for packet in np.flatnonzero(table.damaged).tolist()]
    frames = table.packet_frame[np.concatenate(packets)] if packets else np.empty(0, dtype=np.int64)
    result: IntArray = np.unique(frames[frames >= 0])
    return result


_log = logging.getLogger(__name__)
_warned: Final[set[str]] = set()
_refuted: Final[set[bytes]] = set()
"""Digests of bytes and file objects, whose indexes are not cached, with tables that a packet contradicts."""


class IndexOptions(NamedTuple):
    """Options that indexes of many videos are opened with; see :func:`open_index`.

    Attributes:
        cache_dir: cache folder; None for the default one.
        stream: number of the stream in the container; None for the best video stream.
        register: path of a shared register of indexes, or None.
    """

    cache_dir: str | os.PathLike[str] | None = None
    stream: int | None = None
    register: str | None = None


def open_index(
    origin: Origin,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    whole: bool = False,
    verified: bool = False,
    stream: int | None = None,
    register: str | None = None,
    alpha: bool = False,
) -> PacketIndex:
    """Open the index of a video, building and caching it if needed.

    Args:
        origin: a path, a URL, bytes, or a seekable binary file object; indexes of the last two are not cached.
        cache_dir: cache folder; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache directory.
        whole: whether every packet must have been read, so that its kind is known; otherwise the container's tables
            may suffice, see :mod:`seqpipe.video.tables`.
        verified: whether the video must have been decoded once, see :func:`verify`.
        stream: stream to index, by its number in the container; None for the best video stream.
        register: path of a register to use where the cache has no index, see :mod:`seqpipe.video.index.shared`; it
            holds indexes of best video streams only.
        alpha: whether packets are read with the alpha that their container stores beside them.
    """
    source = _opened(origin, stream, register)
    if alpha:
        opened = partial(open_index, source, cache_dir=cache_dir, verified=verified, register=register)
        index = opened(whole=whole)
        return with_alpha(source, opened(whole=True) if may_have_alpha(index) else index)
    stamp = source.stamp()
    if stamp is None:
        return _build(source, None, whole=whole, verified=verified)
    kept = cached_index(source, stamp, cache_dir=cache_dir)
    if kept is not None and (kept.verified or not verified) and (kept.packets.whole or not whole):
        return kept
    if register is not None:
        registered = _registered(source, stamp, register, whole=whole, verified=verified)
        if registered is not None:
            return registered
    index = _build(source, kept, whole=whole, verified=verified)
    store_index(stamp, index, cache_dir=cache_dir)
    return index


def _opened(origin: Origin, stream: int | None, register: str | None) -> Source:
    """Open a source; the size and tag of an object are those of the register, if that has it."""
    if register is None or stream is not None or not isinstance(origin, str) or "://" not in origin:
        return open_source(origin, stream=stream)
    from .shared import shared_register

    return open_source(origin, known=shared_register(register).known(origin))


def index_without_scan(
    source: Source,
    stamp: Stamp,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    register: str | None = None,
) -> PacketIndex | None:
    """Return the index of a video if it is cached or its container's tables suffice; None if packets must be read."""
    kept = cached_index(source, stamp, cache_dir=cache_dir, register=register)
    if kept is not None or (index := _by_tables(source, through=False)) is None:
        return kept
    store_index(stamp, index, cache_dir=cache_dir)
    return index


def store_index(stamp: Stamp, index: PacketIndex, *, cache_dir: str | os.PathLike[str] | None = None) -> None:
    """Store an index in the cache; a failure is logged as a warning."""
    try:
        save_index(cache_directory(cache_dir), stamp, index)
    except OutputError as error:
        if (message := str(error)) not in _warned:  # the same message for thousands of files
            _warned.add(message)
            _log.warning("%s", message)


def cached_index(
    source: Source,
    stamp: Stamp,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    register: str | None = None,
) -> PacketIndex | None:
    """Return the index of a video's current content from the cache or the register; None if neither has one."""
    kept = load_index(cache_directory(cache_dir), stamp)
    if kept is None:
        return None if register is None else _registered(source, stamp, register)
    check_image_size(kept.info.width, kept.info.height, source.name)
    return replace(kept, info=with_source(kept.info, source.name))


def _registered(
    source: Source, stamp: Stamp, register: str, *, whole: bool = False, verified: bool = False
) -> PacketIndex | None:
    """Return the index of a source from a shared register, or None."""
    if source.stream is not None:
        return None
    from .shared import shared_register

    registered = shared_register(register).index(source, stamp, whole=whole, verified=verified)
    if registered is None:
        return None
    check_image_size(registered.info.width, registered.info.height, source.name)
    return replace(registered, info=with_source(registered.info, source.name))


def _by_tables(source: Source, *, through: bool = True) -> PacketIndex | None:
    """Return the index by a container's tables, or of still images; None if packets must be read."""
    if source.stills is not None:
        from .build import index_of_stills

        return index_of_stills(source)
    # The tables of a given stream are not read: only the demuxer knows the numbers of streams.
    if source.stream is not None:
        return None
    if _refuted and source.stamp() is None and digest_of_ends(source) in _refuted:
        return None
    from .from_tables import index_of_tables  # imported late: not needed where all videos are indexed already

    return index_of_tables(source, through=through)


def _build(source: Source, index: PacketIndex | None, *, whole: bool, verified: bool) -> PacketIndex:
    """Build an index, or complete one by reading all packets."""
    if index is None and (source.stills is not None or not (whole or verified)):
        index = _by_tables(source)
    if index is None or ((whole or verified) and not index.packets.whole):
        from ..tables.gate import note_pass
        from .build import build_index

        note_pass(source)
        index = build_index(source)
    if not verified:
        return index

    return verify(source, index)


def reindexed(
    source: Source, index: PacketIndex, *, cache_dir: str | os.PathLike[str] | None = None
) -> PacketIndex:
    """Build the index of a video by a scan, in place of one by tables that a packet contradicts."""
    scanned = open_index(source, cache_dir=cache_dir, whole=True)
    if source.stamp() is None:
        _refuted.add(digest_of_ends(source))
    if not np.array_equal(scanned.timestamps, index.timestamps):
        raise SourceError(
            "its container's tables are wrong: numbers or times of its frames differ from those returned so far",
            source=source.name,
            advice="Open it again",
        )
    return scanned


def summary(origin: Origin, *, cache_dir: str | os.PathLike[str] | None = None) -> StreamInfo:
    """Return the properties of a video with its number of frames; reads no packet if a current index is cached."""
    source = open_source(origin)
    stamp = source.stamp()
    known = None if stamp is None else load_summary(cache_directory(cache_dir), stamp)
    return with_source(known or open_index(source, cache_dir=cache_dir).info, source.name)


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

    def video(self, origin: Origin, *, alpha: bool = False) -> PlannedVideo:
        """Return an open video, with the alpha of its packets if requested."""
        key = os.fspath(origin) if isinstance(origin, (str, os.PathLike)) else id(origin), alpha
        with self._lock:
            if key in self._videos:
                self._videos.move_to_end(key)
                return self._videos[key][1]
        source = _opened(origin, self._options.stream, self._options.register)
        video = PlannedVideo(source, self._index(source, alpha=alpha))
        with self._lock:
            _, video = self._videos.setdefault(key, (origin, video))
            while len(self._videos) > _OPEN_VIDEOS:
                self._videos.popitem(last=False)
        return video

    def reindexed(self, video: PlannedVideo) -> PlannedVideo:
        """Index a video by a scan, in place of one by tables that a packet contradicts."""
        planned = PlannedVideo(
            video.source, reindexed(video.source, video.index, cache_dir=self._options.cache_dir)
        )
        with self._lock:
            for key in [key for key, (_, known) in self._videos.items() if known is video]:
                del self._videos[key]
            for name in [name for name, known in self._indexes.items() if known is video.index]:
                self._bytes -= _bytes(self._indexes.pop(name))
        return planned

    def should_save(self, video: PlannedVideo) -> bool:
        """Return whether enough packet kinds were learned to save a video's index."""
        return self._learned.should_save(video.index)

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

    def _index(self, source: Source, *, alpha: bool) -> PacketIndex:
        """Return the index of an opened source, from memory if its content is the same."""
        stamp = source.stamp()
        if stamp is None:
            return open_index(source, alpha=alpha, **self._options._asdict())
        key = source.name, stamp, alpha
        with self._lock:
            if key in self._indexes:
                self._indexes.move_to_end(key)
                return self._indexes[key]
        index = open_index(source, alpha=alpha, **self._options._asdict())
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
