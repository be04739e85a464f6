"""An index from a container's tables, where they are plain, see :mod:`seqpipe.video.tables`."""

from __future__ import annotations

import logging

import numpy as np

from ..bitstream import classifier
from ..decode.kinds import HeldPackets, learn, read_kind
from ..decode.packets import open_packets
from ..packet_index import PacketIndex, PacketTable
from ..source.source import Source
from ..tables import mp4
from ..tables.facts import facts_of
from ..tables.gate import Distrusted, Tables, check
from ..tables.heads import check_keys, check_stream
from .assemble import finish
from .order import drop_head

__all__ = ["index_of_tables"]

_log = logging.getLogger(__name__)
_TINY = 32
_MOST_TINY = 256
_TO_FIRST_REFERENCE = 64


def index_of_tables(source: Source) -> PacketIndex | None:
    """A video's index by its container's tables; None if they are not believed.

    Raises:
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    try:
        return _index(source)
    except Distrusted as reason:
        _log.debug("%s: the container's tables are passed over, because %s", source.name, reason)
        return None


def _index(source: Source) -> PacketIndex:
    if bytes(source.read([(0, 8)])[0][4:8]) not in mp4.FIRST_BOXES:
        raise Distrusted("its container has none that are read here")
    movie = mp4.read_movie(source)
    if len(movie.tracks) != 1:
        raise Distrusted("it has not one track of video")
    (track,) = movie.tracks
    tables = mp4.read_tables(movie, track)
    check(tables, source.size())
    facts = facts_of(source, movie, track, tables)
    codec, extradata = facts.info.codec, facts.extradata
    check_stream(codec, extradata)
    if facts.info.has_b_frames and (np.diff(tables.pts) > 0).all():
        raise Distrusted("pictures may be reordered, and no time tells")
    _check_tiny(source, tables, codec, extradata)
    check_keys(source, tables, np.flatnonzero(tables.key), codec, extradata)
    index = PacketIndex(
        info=facts.info,
        extradata=extradata,
        codec_tag=facts.codec_tag,
        coded_bits=facts.coded_bits,
        packets=_table(tables),
        dropped_at_start=0,
        end_s=0.0,
    )
    return finish(_without_head(source, index), tables.duration)


def _table(tables: Tables) -> PacketTable:
    count = len(tables)
    return PacketTable(
        pts=tables.pts,
        size=tables.size.astype(np.int32),
        offset=tables.offset,
        checksum=np.empty(0, dtype=np.uint32),
        key=tables.key,
        reference=np.ones(count, dtype=bool),
        shown=np.ones(count, dtype=bool),
        damaged=np.zeros(count, dtype=bool),
        undecodable=np.zeros(count, dtype=bool),
        self_contained=np.zeros(count, dtype=bool),
        known=np.zeros(count, dtype=bool),
    )


def _without_head(source: Source, index: PacketIndex) -> PacketIndex:
    """The index without the leading pictures of the first key frame that cannot be decoded.

    Which these are depends on the packets up to the first one that others refer to, which are read here.
    """
    table = index.packets
    reader = HeldPackets(open_packets(source, index))
    try:
        for last in range(1, _TO_FIRST_REFERENCE):
            if last == len(table) or table.key[last]:
                break
            learn(index, reader, np.array([last]))
            if table.reference[last]:
                break
        else:
            raise Distrusted("nothing refers to the first packets")
    finally:
        reader.close()
    return drop_head(source, index, ())


def _check_tiny(source: Source, tables: Tables, codec: str, extradata: bytes) -> None:
    """See that the smallest packets hold pictures, and not parameters or messages alone.

    Raises:
        Distrusted: one does not.
    """
    tiny = np.flatnonzero(tables.size < _TINY)
    if codec == "av1" or not len(tiny):
        return
    tiny = np.sort(tiny[np.argsort(tables.size[tiny], kind="stable")[:_MOST_TINY]])
    read = classifier(codec, extradata).classify
    ranges = list(zip(tables.offset[tiny].tolist(), tables.size[tiny].tolist(), strict=True))
    for number, data in zip(tiny.tolist(), source.read(ranges), strict=True):
        if not read_kind(read(data), data, codec).shown:
            raise Distrusted(f"packet {number} holds no picture")
