"""Opening of indexes: from the cache or a register if they hold one of the current content, else built and cached."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ...core.limits import check_image_size
from ...errors import OutputError, SourceError
from ..packet_index import PacketIndex
from ..probe.info import StreamInfo
from ..probe.probe import with_source
from ..source.source import Origin, Source, Stamp, digest_of_ends, open_source
from .cache import cache_directory, load_index, load_summary, save_index

__all__ = [
    "IndexOptions",
    "cached_index",
    "index_without_scan",
    "open_index",
    "reindexed",
    "store_index",
    "summary",
]

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
) -> PacketIndex:
    """Open the index of a video, building and caching it if needed.

    Args:
        origin: a path, a URL, bytes, or a seekable binary file object; indexes of the last two are not cached.
        cache_dir: cache folder; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache directory.
        whole: whether every packet must have been read, so that its kind is known; otherwise the container's tables
            may suffice, see :mod:`seqpipe.video.tables`.
        verified: whether the video must have been decoded once, see :mod:`seqpipe.video.index.verify`.
        stream: stream to index, by its number in the container; None for the best video stream.
        register: path of a register to use where the cache has no index, see :mod:`seqpipe.video.index.shared`; it
            holds indexes of best video streams only.

    Raises:
        SourceNotFoundError: the file does not exist.
        UnreadableSourceError: the file is not a video that can be decoded.
    """
    source = open_source(origin, stream=stream)
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


def index_without_scan(
    source: Source,
    stamp: Stamp,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    register: str | None = None,
) -> PacketIndex | None:
    """Return the index of a video if it is cached or its container's tables suffice; None if packets must be read.

    Args:
        source: the video.
        stamp: stamp of its content.
        cache_dir: as in :func:`open_index`; an index built from tables is cached there.
        register: as in :func:`open_index`.

    Raises:
        UnreadableSourceError: the file is not a video that can be decoded.
        SourceError: the source cannot be read.
    """
    kept = cached_index(source, stamp, cache_dir=cache_dir, register=register)
    if kept is not None or (index := _by_tables(source, through=False)) is None:
        return kept
    store_index(stamp, index, cache_dir=cache_dir)
    return index


def store_index(stamp: Stamp, index: PacketIndex, *, cache_dir: str | os.PathLike[str] | None = None) -> None:
    """Store an index in the cache; a failure is logged as a warning.

    Args:
        stamp: stamp of the indexed content, taken before it was read.
        index: the index.
        cache_dir: as in :func:`open_index`.
    """
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
    """Return the index of a video's current content from the cache or the register; None if neither has one.

    Args:
        source: the video.
        stamp: stamp of its content.
        cache_dir: as in :func:`open_index`.
        register: as in :func:`open_index`.
    """
    kept = load_index(cache_directory(cache_dir), stamp)
    if kept is None:
        return None if register is None else _registered(source, stamp, register)
    check_image_size(kept.info.width, kept.info.height, source.name)
    return replace(kept, info=with_source(kept.info, source.name))


def _registered(
    source: Source, stamp: Stamp, register: str, *, whole: bool = False, verified: bool = False
) -> PacketIndex | None:
    if source.stream is not None:
        return None
    from .shared import shared_register

    registered = shared_register(register).index(source, stamp, whole=whole, verified=verified)
    if registered is None:
        return None
    check_image_size(registered.info.width, registered.info.height, source.name)
    return replace(registered, info=with_source(registered.info, source.name))


def _by_tables(source: Source, *, through: bool = True) -> PacketIndex | None:
    # The tables of a given stream are not read: only the demuxer knows the numbers of streams.
    if source.stream is not None:
        return None
    if _refuted and source.stamp() is None and digest_of_ends(source) in _refuted:
        return None
    from .from_tables import index_of_tables  # imported late: not needed where all videos are indexed already

    return index_of_tables(source, through=through)


def _build(source: Source, index: PacketIndex | None, *, whole: bool, verified: bool) -> PacketIndex:
    if not (whole or verified or index is not None):
        index = _by_tables(source)
    if index is None or ((whole or verified) and not index.packets.whole):
        from ..tables.read_at import note_pass
        from .build import build_index

        note_pass(source)
        index = build_index(source)
    if not verified:
        return index
    from .verify import verify

    return verify(source, index)


def reindexed(
    source: Source, index: PacketIndex, *, cache_dir: str | os.PathLike[str] | None = None
) -> PacketIndex:
    """Build the index of a video by a scan, in place of one by tables that a packet contradicts.

    Raises:
        SourceError: frame numbers or times differ, while frames may have been delivered already.
    """
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
    """Return the properties of a video with its number of frames; reads no packet if a current index is cached.

    Raises:
        SourceNotFoundError: the file does not exist.
        UnreadableSourceError: the file is not a video that can be decoded.
    """
    source = open_source(origin)
    stamp = source.stamp()
    known = None if stamp is None else load_summary(cache_directory(cache_dir), stamp)
    return with_source(known or open_index(source, cache_dir=cache_dir).info, source.name)
