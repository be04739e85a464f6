"""Building of an index from a container's tables, where these are reliable, see :mod:`seqpipe.video.tables`.

A remote Matroska file can be accessed by time without a pass over all of it. The number of a frame is known only once
the headers of all blocks before it were read, which are spread over the file. The cues lead from a time to the key
frame before it. The packets from there to the next key frame form an index of their own, whose frames have times but no
frame numbers in the file.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np

from ...array import IntArray
from ...core.limits import check_image_size
from ...sampling.clock import frames_at
from ..bitstream.kind import classifier, droppable
from ..bitstream.parameter_sets import with_version
from ..decode.packets import (
    HeldPackets,
    IndexMismatchError,
    learn,
    open_packets,
    read_kind,
    split_reads,
    store_kinds,
)
from ..packet_index import PacketIndex, PacketTable
from ..plan import PlannedVideo
from ..probe.info import StreamInfo
from ..source.blocks import Blocks
from ..source.source import Source
from ..tables import matroska, mp4
from ..tables.entries import check_first, read_entries, track_of
from ..tables.facts import (
    HIDDEN_FRAME_CODECS,
    ONE_FRAME_CODECS,
    StreamFacts,
    check_keys,
    check_stream,
    facts_of,
)
from ..tables.fragments import read_fragments
from ..tables.gate import Tables, UnusableTablesError, check, note_pass
from .order import drop_head, finish

__all__ = ["CuedVideo", "index_of", "index_of_tables", "open_by_cues"]

_log = logging.getLogger(__name__)
_PACKETS_OF_HEAD, _BYTES_OF_HEAD = 4, 1 << 20
_TINY_PACKET_BYTES = 32
_MAX_TINY_PACKETS = 256
_TO_FIRST_REFERENCE = 64


def index_of_tables(source: Source, *, through: bool = True) -> PacketIndex | None:
    """Build a video's index from its container's tables; None if they are not reliable."""
    try:
        return _index(Blocks.of(source) if source.slow else source, through=through)
    except (UnusableTablesError, IndexMismatchError) as reason:
        _log.debug("%s: the container's tables are not used, because %s", source.name, reason)
        return None
    finally:
        source.blocks = None


def _index(source: Source, *, through: bool) -> PacketIndex:
    tables, facts = _read(source, through=through)
    return index_of(source, tables, facts)


def index_of(source: Source, tables: Tables, facts: StreamFacts) -> PacketIndex:
    """Build the index of the packets of checked tables."""
    codec, extradata = facts.info.codec, facts.extradata
    check_image_size(facts.info.width, facts.info.height, source.name)
    check_stream(codec, extradata)
    if codec in HIDDEN_FRAME_CODECS:
        if tables.track and not tables.delta:
            raise UnusableTablesError("FFmpeg gives packets a duration of its own")
        packets = _read_through(source, tables, codec, extradata)
    elif codec in ONE_FRAME_CODECS:
        packets = _unknown(tables)
        store_kinds(
            packets, 0, [classifier(codec, extradata).classify(b"")] * len(tables), [False] * len(tables)
        )
    else:
        if facts.info.has_b_frames and (np.diff(tables.pts) > 0).all():
            raise UnusableTablesError("frames may be reordered, and the tables have no times for that")
        keys = np.flatnonzero(tables.key)
        if source.slow:
            keys = keys[:1]  # the others are checked when they are read for decoding
        else:
            _check_tiny(source, tables, codec, extradata)
        check_keys(source, tables, keys, codec, extradata)
        packets = _unknown(tables)
    index = PacketIndex(
        info=facts.info,
        extradata=extradata,
        codec_tag=facts.codec_tag,
        coded_bits=facts.coded_bits,
        packets=packets,
        dropped_at_start=0,
        end_s=0.0,
        set_ups=with_version((), facts.version),
    )
    if not packets.whole:
        _learn_head(source, index)
    return finish(drop_head(source, index, ()), tables.duration)


def _read(source: Source, *, through: bool) -> tuple[Tables, StreamFacts]:
    """Read the container's tables, and the properties of the stream with its first packet."""
    begin = bytes(source.read([(0, 12)])[0])
    if begin[4:8] in mp4.FIRST_BOXES:
        return _read_movie(source)
    if begin[:4] == matroska.MAGIC:
        header = matroska.read_header(source)
        tables = _blocks_of(source, header, through=through)
        check(tables, source.size())
        head = _head(source, tables)
        return tables, facts_of(source, tables, head, matroska.facts_key(header, tables, head))
    raise UnusableTablesError("its container's tables are not supported")


def _blocks_of(source: Source, header: matroska.MatroskaHeader, *, through: bool) -> Tables:
    """Read the packets of a Matroska file; a remote one is read as a whole, without caching its blocks."""
    if not isinstance(source, Blocks):
        return matroska.read_tables(source, header)
    if not through or header.codec in matroska.HIDDEN_FRAME_CODEC_IDS:
        raise UnusableTablesError("the whole file must be read, which a scan does only once")
    note_pass(source.wrapped)
    return matroska.read_tables(source.wrapped, header)


def _read_movie(source: Source) -> tuple[Tables, StreamFacts]:
    """Read the tables of an MP4 or QuickTime file."""
    movie = mp4.read_movie(source)
    track = movie.tracks[0] if len(movie.tracks) == 1 else None
    if track is None:
        chosen = track_of(source)
        track = next((track for track in movie.tracks if track.number == chosen), None)
    if track is None:
        raise UnusableTablesError("it has no video track")
    try:
        tables = read_fragments(source, movie, track) if movie.extends else mp4.read_tables(movie, track)
    except mp4.InterpretedError:
        if movie.extends:
            raise
        tables = mp4.as_interpreted(track, read_entries(source, ask_last=b"ctts" not in track.boxes))
    check(tables, source.size())
    head = _head(source, tables)
    plain = len(movie.tracks) == 1 and not movie.extends
    alike = mp4.facts_key(movie, track, tables, head) if plain else ()
    if movie.extends:
        check_first(source, tables)
    return tables, facts_of(source, tables, head, alike)


def _head(source: Source, tables: Tables) -> bytes:
    """Read the first packet; from a slow source with a few more, which are needed later."""
    begin, size = int(tables.offset[0]), int(tables.size[0])
    last = min(_PACKETS_OF_HEAD, len(tables)) - 1
    end = int(tables.offset[last] + tables.size[last])
    if source.slow and begin < end <= begin + _BYTES_OF_HEAD:
        source.read([(begin, end - begin)])
    return source.read([(begin, size)])[0]


def _read_through(source: Source, tables: Tables, codec: str, extradata: bytes) -> PacketTable:
    """Return the table of a stream after reading all of its packets."""
    classify = classifier(codec, extradata).classify
    kinds = []
    for group in split_reads(np.arange(len(tables)), tables.size):
        ranges = list(zip(tables.offset[group].tolist(), tables.size[group].tolist(), strict=True))
        for data in source.read(ranges):
            if not any(data):
                raise UnusableTablesError("a packet holds only zeros")
            kinds.append(read_kind(classify(data), data, codec))
    table = _unknown(tables)
    key = table.key & np.array([kind.random_access is not False for kind in kinds])
    if not key[0]:
        raise UnusableTablesError("decoding cannot start at the first packet")
    table.shown[:] &= [kind.shown for kind in kinds]
    table = replace(table, key=key)
    store_kinds(table, 0, kinds, droppable(kinds))
    return table


def _unknown(tables: Tables) -> PacketTable:
    """Return the table of packets whose kinds are not known."""
    count = len(tables)
    return PacketTable(
        pts=tables.pts,
        size=tables.size.astype(np.int32),
        offset=tables.offset,
        checksum=np.empty(0, dtype=np.uint32),
        key=tables.key,
        reference=np.ones(count, dtype=bool),
        shown=tables.shown.copy(),
        damaged=np.zeros(count, dtype=bool),
        undecodable=np.zeros(count, dtype=bool),
        self_contained=np.zeros(count, dtype=bool),
        known=np.zeros(count, dtype=bool),
    )


def _learn_head(source: Source, index: PacketIndex) -> None:
    """Learn the kinds of the packets after the first key packet up to the first reference frame.

    They determine which leading pictures of the first key frame cannot be decoded.
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
            raise UnusableTablesError("the first packets hold no reference frame")
    finally:
        reader.close()


def _check_tiny(source: Source, tables: Tables, codec: str, extradata: bytes) -> None:
    """Check that the smallest packets hold frames, not only parameter sets or messages."""
    tiny = np.flatnonzero(tables.size < _TINY_PACKET_BYTES)
    if codec == "av1" or not len(tiny):
        return
    tiny = np.sort(tiny[np.argsort(tables.size[tiny], kind="stable")[:_MAX_TINY_PACKETS]])
    read = classifier(codec, extradata).classify
    ranges = list(zip(tables.offset[tiny].tolist(), tables.size[tiny].tolist(), strict=True))
    for number, data in zip(tiny.tolist(), source.read(ranges), strict=True):
        if not read_kind(read(data), data, codec).shown:
            raise UnusableTablesError(f"packet {number} holds no frame")


_MOST_PARTS = 4


def open_by_cues(source: Source) -> CuedVideo | None:
    """Return access by cues, if the source is a remote Matroska file with usable cues; else None."""
    if not source.slow or source.stream is not None:
        return None
    blocks = Blocks.of(source)
    if blocks.read([(0, len(matroska.MAGIC))]) != [matroska.MAGIC]:
        return None
    try:
        header = matroska.read_header(blocks)
        return CuedVideo(source, blocks, header, matroska.read_cues(blocks, header))
    except (UnusableTablesError, IndexMismatchError) as reason:
        _log.debug("%s is not read by its cues, because %s", source.name, reason)
        return None


class CuedVideo:
    """Video whose frames are accessed by time.

    Args:
        source: the video.
        blocks: cached blocks of the source.
        header: headers before the first cluster.
        cues: the cues.

    Attributes:
        info: properties of the stream, without a frame count.

    Raises:
        UnusableTablesError, IndexMismatchError: the file's structure is not supported.
        SourceError: the source cannot be read.
    """

    def __init__(
        self, source: Source, blocks: Blocks, header: matroska.MatroskaHeader, cues: matroska.Cues
    ) -> None:
        self._source, self._header, self._cues = source, header, cues
        self._tick_s = header.scale / 1e9
        first = matroska.read_part(blocks, header, cues, 0, 0)
        check(first, blocks.size())
        head = blocks.read([(int(first.offset[0]), int(first.size[0]))])[0]
        self._facts: StreamFacts = facts_of(blocks, first, head, ())
        self.info: StreamInfo = replace(self._facts.info, frame_count=None, source=source.name)
        self._parts: OrderedDict[int, PlannedVideo] = OrderedDict()

    def parts(self, seconds: Seq[float]) -> Iterator[tuple[PlannedVideo, IntArray, IntArray]]:
        """Yield the parts that hold the frames displayed at the given times.

        Yields:
            A part in memory, with an index of its own, whose frames are numbered from 0; the positions in ``seconds``
            of the times in it; and the numbers of their frames in it.
        """
        times = np.asarray(seconds, np.float64)
        cues = frames_at(np.multiply(self._cues.times, self._tick_s, dtype=np.float64), times)
        if len(cues) and cues.min() < 0:
            raise UnusableTablesError("a time is before the first cue")
        for cue in np.unique(cues).tolist():
            video, positions = self._part(cue), np.flatnonzero(cues == cue)
            stamps = video.index.timestamps
            numbers = frames_at(stamps, times[positions])
            if numbers.min() < 0 or times[positions].max() >= video.index.end_s:
                raise UnusableTablesError("a time is outside of the video")
            yield video, positions, numbers

    def _part(self, cue: int) -> PlannedVideo:
        """Return the packets of a cue as a video in memory, the last few of which are kept."""
        if cue not in self._parts:
            blocks = Blocks(self._source)
            tables = matroska.read_part(blocks, self._header, self._cues, cue, cue + 1)
            check(tables, blocks.size())
            tables = replace(
                tables, shown=tables.pts >= tables.pts[0]
            )  # leading pictures belong to the part before
            self._parts[cue] = PlannedVideo(blocks, index_of(blocks, tables, self._facts))
            while len(self._parts) > _MOST_PARTS:
                self._parts.popitem(last=False)
        self._parts.move_to_end(cue)
        return self._parts[cue]
