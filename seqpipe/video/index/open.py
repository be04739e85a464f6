"""From a path to its index: from the cache if it is fresh, else built and stored."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Final

import numpy as np

from ...errors import OutputError, SourceError
from ...limits import check_image_size
from ..packet_index import PacketIndex
from ..probe.info import StreamInfo
from ..probe.probe import with_source
from ..source.source import Origin, Source, Stamp, digest_of_ends, open_source
from .cache import cache_directory, load_index, load_summary, save_index

__all__ = ["index_without_scan", "keep_index", "kept_index", "open_index", "reindexed", "summary"]

_log = logging.getLogger(__name__)
_said: Final[set[str]] = set()
_refuted: Final[set[bytes]] = set()
"""Contents of bytes and file objects, for which no index is cached, whose tables a packet has refuted."""


def open_index(
    origin: Origin,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    whole: bool = False,
    verified: bool = False,
    stream: int | None = None,
    register: str | None = None,
) -> PacketIndex:
    """The index of a video.

    Args:
        origin: a path, a URL, bytes, or a seekable binary file object; the last two are not cached.
        cache_dir: where indexes are kept; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache directory.
        whole: whether every packet must have been read, so that its kind is known; else the container's own tables may
            do, see :mod:`seqpipe.video.tables`.
        verified: whether the video must have been decoded once, see :mod:`seqpipe.video.index.verify`.
        stream: which of its streams, by its number in the container; None for the best video.
        register: the path of a register that is asked where the cache has none, see
            :mod:`seqpipe.video.index.shared`; it holds indexes of best videos.

    Raises:
        SourceNotFoundError: it is not there.
        UnreadableSourceError: it is not a video that can be decoded.
    """
    source = open_source(origin, stream=stream)
    stamp = source.stamp()
    if stamp is None:
        return _built(source, None, whole=whole, verified=verified)
    kept = kept_index(source, stamp, cache_dir=cache_dir)
    if kept is not None and (kept.verified or not verified) and (kept.packets.whole or not whole):
        return kept
    if register is not None:
        found = _registered(source, stamp, register, whole=whole, verified=verified)
        if found is not None:
            return found
    index = _built(source, kept, whole=whole, verified=verified)
    keep_index(stamp, index, cache_dir=cache_dir)
    return index


def index_without_scan(
    source: Source,
    stamp: Stamp,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    register: str | None = None,
) -> PacketIndex | None:
    """The index of a video if it is cached or its container has plain tables; None if its packets must be read.

    Args:
        source: the video.
        stamp: of its content.
        cache_dir: as in :func:`open_index`; an index by tables is kept there.
        register: as in :func:`open_index`.

    Raises:
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    kept = kept_index(source, stamp, cache_dir=cache_dir, register=register)
    if kept is not None or (index := _by_tables(source, through=False)) is None:
        return kept
    keep_index(stamp, index, cache_dir=cache_dir)
    return index


def keep_index(stamp: Stamp, index: PacketIndex, *, cache_dir: str | os.PathLike[str] | None = None) -> None:
    """Store an index in the cache; one that cannot be written costs a warning.

    Args:
        stamp: of the content that it is of, taken before it was read.
        index: the index.
        cache_dir: as in :func:`open_index`.
    """
    try:
        save_index(cache_directory(cache_dir), stamp, index)
    except OutputError as error:
        if (said := str(error)) not in _said:  # of one cache the same for thousands of files
            _said.add(said)
            _log.warning("%s", error)


def kept_index(
    source: Source,
    stamp: Stamp,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    register: str | None = None,
) -> PacketIndex | None:
    """The index of a video that was opened before; None if there is none of its present content.

    Args:
        source: the video.
        stamp: of its content.
        cache_dir: as in :func:`open_index`.
        register: likewise; asked where the cache has none.
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

    found = shared_register(register).index(source, stamp, whole=whole, verified=verified)
    if found is None:
        return None
    check_image_size(found.info.width, found.info.height, source.name)
    return replace(found, info=with_source(found.info, source.name))


def _by_tables(source: Source, *, through: bool = True) -> PacketIndex | None:
    # Imported here: where all videos are indexed already, a program starts without these and what they bring along.
    # tables are read where a file has one track of video; which one of several is meant, the demuxer finds out
    if source.stream is not None:
        return None
    if _refuted and source.stamp() is None and digest_of_ends(source) in _refuted:
        return None
    from .from_tables import index_of_tables

    return index_of_tables(source, through=through)


def _built(source: Source, index: PacketIndex | None, *, whole: bool, verified: bool) -> PacketIndex:
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
    """The index of a video by a scan, in the place of one by tables that a packet has refuted.

    Raises:
        SourceError: frames that may have been given out already have other numbers or times by it.
    """
    found = open_index(source, cache_dir=cache_dir, whole=True)
    if source.stamp() is None:
        _refuted.add(digest_of_ends(source))
    if not np.array_equal(found.timestamps, index.timestamps):
        raise SourceError(
            "its container's tables are wrong, and its frames are others than was said",
            source=source.name,
            advice="Open it again",
        )
    return found


def summary(origin: Origin, *, cache_dir: str | os.PathLike[str] | None = None) -> StreamInfo:
    """The facts of a video with its frames counted; reads no packet if a fresh index is cached.

    Raises:
        SourceNotFoundError: it is not there.
        UnreadableSourceError: it is not a video that can be decoded.
    """
    source = open_source(origin)
    stamp = source.stamp()
    known = None if stamp is None else load_summary(cache_directory(cache_dir), stamp)
    return with_source(known or open_index(source, cache_dir=cache_dir).info, source.name)
