"""Building of an index by one pass over the packets, without decoding them."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av.error
import numpy as np

from ...array import BoolArray, IntArray
from ..bitstream.kind import UNPARSED_CODECS, Leading, PacketKind, classifier, classify_all, droppable
from ..bitstream.parameter_sets import ParameterSets, encoder_version, with_version
from ..decode.packets import read_kind, suspect_packets
from ..packet_index import PacketIndex, PacketTable
from ..probe.info import StreamInfo
from ..probe.probe import (
    FirstPicture,
    encrypted_packets,
    is_encrypted,
    locate,
    no_packets,
    nothing_decodable,
    open_container,
    probe,
    side_data,
    stores_pts,
    stream_info,
    unreadable,
    video_stream,
)
from ..probe.recognize import HEAD, declared_size, parsing
from ..source.source import Source
from .order import (
    DEFAULT_RATE,
    drop_head,
    fill_missing,
    finish,
    frame_step,
    one_clock,
    order_by_decoding,
    place,
)

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = ["Scan", "build_index", "index_of_stills"]

_BATCH_PACKETS, _BATCH_BYTES = 256, 4 << 20
_MPEGTS_SECOND = 90_000
# Codecs for which libavformat marks every packet as a key frame where the container has no flags.
_KEYS_UNRELIABLE = frozenset({"cavs", "h261", "h263"}) | UNPARSED_CODECS
# Codecs whose B-frames are shown before the preceding reference frame in decode order, and are not references.
_B_BEFORE_REFERENCE = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})
_USER_DATA, _VOP = b"\0\0\1\xb2", b"\0\0\1\xb6"


@dataclass
class _Collected:
    """Columns collected during the pass, one entry per packet."""

    pts: list[int | None] = field(default_factory=list)
    dts: list[int | None] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    checksum: list[int] = field(default_factory=list)
    key: list[bool] = field(default_factory=list)
    discard: list[bool] = field(default_factory=list)
    damaged: list[bool] = field(default_factory=list)
    kind: list[PacketKind] = field(default_factory=list)
    palettes: list[tuple[int, bytes]] = field(default_factory=list)
    empty: int = 0
    encrypted: bool = False
    error: str = ""


def build_index(source: Source) -> PacketIndex:
    """Build the index of a video by reading its packets once."""
    with parsing(source), open_container(source) as container:
        return Scan(source, container).index()


def index_of_stills(source: Source) -> PacketIndex:
    """Return the index of a source of still images; the first of them determines the properties of the stream.

    Raises:
        UnreadableSourceError: the first image cannot be decoded, or is a video.
    """
    stills = source.stills
    assert stills is not None
    count = len(stills.sizes)
    sizes = np.array(stills.sizes, np.int32)
    ends = np.array(list(itertools.accumulate(stills.sizes)), np.int64)
    yes, no = np.ones(count, bool), np.zeros(count, bool)
    packets = PacketTable(
        pts=np.array(stills.times, np.int64),
        size=sizes,
        offset=stills.offset + ends - sizes,
        checksum=np.empty(0, np.uint32),
        key=yes,
        reference=yes.copy(),
        shown=yes.copy(),
        damaged=no,
        undecodable=no.copy(),
        self_contained=no.copy(),
    )
    index = PacketIndex(probe(source), b"", "\0\0\0\0", 0, packets, dropped_at_start=0, end_s=0.0)
    return finish(index, stills.end - stills.times[-1])


class Scan:
    """One pass over a video's packets, from which its index is built.

    Args:
        source: the video.
        container: the demuxer of the source.

    Attributes:
        stream: the video stream.
        first: its first packet and frame, once they were read.
        ended: whether the pass has ended, at the last packet or by an error.
        whole: whether all packets were read.
    """

    def __init__(self, source: Source, container: InputContainer) -> None:
        self._source, self._container = source, container
        self.stream = video_stream(source, container)
        self.first = FirstPicture(self.stream)
        self.ended = self.whole = False
        self._collected, self._unread = _Collected(), _UnreadPackets(source, container, self.stream)
        self._packets = self._demuxed()

    def packets(self) -> Iterator[av.Packet[Any]]:
        """Return an iterator over the packets that were not read yet."""
        return self._packets

    def info(self) -> StreamInfo:
        """Return the properties of the stream that are known so far."""
        return stream_info(self._source, self._container, self.stream, self.first)

    def described(self, packets: PacketTable) -> PacketIndex:
        """Return an index with the properties of the stream and the given packets, before frames are counted."""
        info, context = self.info(), self.stream.codec_context
        return PacketIndex(
            info=info,
            extradata=_set_up(info.codec, bytes(context.extradata or b""), self.first.packet),
            codec_tag=context.codec_tag,
            coded_bits=context.bits_per_coded_sample,
            packets=packets,
            dropped_at_start=0,
            end_s=0.0,
        )

    def index(self, *, rest: bool = True) -> PacketIndex:
        """Return the index of the video."""
        source, scan = self._source, self._collected
        for _ in self._packets if rest else ():
            pass
        self._unread.collect(scan)
        if not scan.size:
            raise no_packets(source)
        if scan.encrypted:
            raise encrypted_packets(source)
        info = self.info()
        described = self.described(_table(scan, info))
        version = encoder_version(info.codec, described.extradata, self.first.packet, info.chroma)
        index = replace(
            described,
            cut=_cut(scan, info, source, _promised(self.stream)) if self.ended else "",
            set_ups=with_version(self._unread.sets.set_ups, version),
            palettes=tuple(scan.palettes),
        )
        reorders = _may_reorder(scan, info)
        if reorders and (not _has_pts(scan, info) or _pts_are_dts(scan, info)):
            index = order_by_decoding(source, index)
        else:
            missing = _missing(scan, info)
            step, may_reorder = _step(scan, info, missing), reorders or bool(info.has_b_frames)
            suspect = _with_dts_as_pts(scan) if info.has_b_frames else []
            index = place(source, index, missing, step, reorders=may_reorder, suspect=suspect)
        index = drop_head(source, index, _head(scan), refreshed=_refreshed(scan))
        frames = index.packets.frame_packet
        if self.ended and not frames.size and described.packets.shown.any():
            raise nothing_decodable(source, len(scan.size))
        return finish(index, scan.duration[int(frames[-1])] if frames.size else 0)

    def _demuxed(self) -> Iterator[av.Packet[Any]]:
        """Yield packets, and collect their properties in batches."""
        scan, first, unread, size = self._collected, self.first, self._unread, 0
        try:
            for packet in self._container.demux(self.stream):
                if not first.done:
                    first.offer(packet)
                if packet.size:
                    unread.packets.append(packet)
                    size += packet.size
                    if len(unread.packets) == _BATCH_PACKETS or size >= _BATCH_BYTES:
                        unread.collect(scan)
                        size = 0
                    yield packet
                elif packet.dts is not None:
                    scan.empty += 1
        except av.error.FFmpegError as error:
            if not scan.size and not unread.packets:
                raise unreadable(self._source, error) from error
            scan.error = error.strerror or str(error)
        self.ended, self.whole = True, not scan.error


def _set_up(codec: str, extradata: bytes, first_packet: bytes) -> bytes:
    """Return the extradata, with MPEG-4's user data: a decoder needs it at any start frame for bugs of encoders."""
    if codec != "mpeg4":
        return extradata
    head = first_packet[: max(0, first_packet.find(_VOP))]
    user_data = head[head.find(_USER_DATA) :] if _USER_DATA in head else b""
    return extradata if user_data in extradata else extradata + user_data


class _UnreadPackets:
    """Batch of consecutive packets, which are parsed together in FFmpeg's memory.

    Attributes:
        packets: packets that were not parsed yet.
        sets: parameter sets found so far.
    """

    def __init__(self, source: Source, container: InputContainer, stream: VideoStream) -> None:
        context = stream.codec_context
        self._source, self._codec = source, context.codec.canonical_name
        # Most packets of a transport stream have side data without relevance, which takes time to read.
        self._scattered = container.format.name == "mpegts"
        extradata = bytes(context.extradata or b"")
        self._classifier = classifier(self._codec, extradata, from_start=True)
        self.sets = ParameterSets(self._codec, extradata)
        self.packets: list[av.Packet[Any]] = []

    def collect(self, scan: _Collected) -> None:
        """Parse the packets, append them to the columns, and drop them."""
        packets, begin = self.packets, len(scan.size)
        scan.pts += [packet.pts for packet in packets]
        scan.dts += [packet.dts for packet in packets]
        scan.duration += [packet.duration or 0 for packet in packets]
        scan.size += [packet.size for packet in packets]
        scan.key += [packet.is_keyframe for packet in packets]
        scan.discard += [packet.is_discard for packet in packets]
        scan.damaged += [packet.is_corrupt for packet in packets]
        scan.checksum += map(zlib.crc32, packets)
        scan.encrypted |= not self._scattered and any(map(is_encrypted, packets))
        extra = [[]] * len(packets) if self._scattered else list(map(side_data, packets))
        # An offset is used only if the file has exactly these bytes there; after one failure the demuxer reads all.
        located = not self._scattered and (not scan.offset or scan.offset[-1] >= 0)
        for packet, kinds in zip(packets, extra, strict=True):
            scan.offset.append(locate(self._source, packet) if located and not kinds else -1)
            located = scan.offset[-1] >= 0
        at = 0
        for i, (packet, kinds) in enumerate(zip(packets, extra, strict=True)):
            before = b""
            if "new_extradata" in kinds:
                before = self.sets.replace(begin + i, bytes(packet.get_sidedata("new_extradata")))
            if "palette" in kinds:
                _add_palette(scan, begin + i, bytes(packet.get_sidedata("palette")))
            if packet.is_keyframe:
                self.sets.look(begin + i, bytes(packet))
            if before:
                self._classify(packets[at:i], scan)
                kind = self._classifier.classify(before + bytes(packet))
                scan.kind.append(read_kind(kind, memoryview(packet), self._codec))
                at = i + 1
        self._classify(packets[at:], scan)
        packets.clear()

    def _classify(self, packets: Seq[av.Packet[Any]], scan: _Collected) -> None:
        kinds = classify_all(self._classifier, packets)
        scan.kind += [read_kind(k, memoryview(p), self._codec) for k, p in zip(kinds, packets, strict=True)]


def _add_palette(scan: _Collected, number: int, colors: bytes) -> None:
    """Add a palette if it differs from the last one: AVI may change palettes, QuickTime has a single one."""
    if not scan.palettes or scan.palettes[-1][1] != colors:
        scan.palettes.append((number, colors))


def _table(scan: _Collected, info: StreamInfo) -> PacketTable:
    """Return the packets of a scan as a table."""
    by_offset = bool(scan.offset) and scan.offset[-1] >= 0
    count = len(scan.size)
    kinds = scan.kind
    key = np.array(
        [k and kind.random_access is not False for k, kind in zip(scan.key, kinds, strict=True)], dtype=bool
    )
    if not key.any():
        # No key frame at all: a gradual refresh is decoded from the start.
        key[:1] = True
    if info.codec in _KEYS_UNRELIABLE and key.all():
        key[1:] = False
    gaps = _gaps(scan, info)
    return PacketTable(
        pts=_clock(scan, info),
        size=np.array(scan.size, dtype=np.int32),
        offset=np.array(scan.offset if by_offset else [-1] * count, dtype=np.int64),
        checksum=np.array([] if by_offset else scan.checksum, dtype=np.uint32),
        key=key,
        # Decoding starts at key packets, even if no frame refers to them.
        reference=~np.array(droppable(kinds), dtype=bool) | suspect_packets(kinds, key) | key | gaps,
        shown=np.array([kind.shown for kind in kinds], dtype=bool) & ~np.array(scan.discard, dtype=bool),
        damaged=gaps if info.container == "mpegts" else np.array(scan.damaged, dtype=bool),
        undecodable=np.array([kind.leading is Leading.RASL for kind in kinds], dtype=bool),
        self_contained=np.array([kind.leading is Leading.RADL for kind in kinds], dtype=bool),
    )


def _gaps(scan: _Collected, info: StreamInfo) -> BoolArray:
    """Return a mask of the packets of a transport stream that are incomplete, or follow missing packets.

    libavformat flags the packet before: its parser outputs a frame when it sees the next one. Whole packets may be
    missing too, references among them, so such a packet counts as a reference that damages all frames up to the next
    key frame.
    """
    gaps: BoolArray = np.zeros(len(scan.size), dtype=bool)
    if info.container == "mpegts":
        for before in np.flatnonzero(scan.damaged).tolist():
            if not _another_begins(scan, before + 2):
                gaps[min(before + 1, len(gaps) - 1)] = True
    return gaps


def _another_begins(scan: _Collected, number: int) -> bool:
    """Return whether another recording starts here: then the gap is between the two, and no packet is missing."""
    if number >= len(scan.key) or not scan.key[number]:
        return False
    before, here = scan.dts[number - 1], scan.dts[number]
    return before is None or here is None or not 0 < here - before <= _MPEGTS_SECOND


def _clock(scan: _Collected, info: StreamInfo) -> IntArray:
    """Return the pts in decode order; without any, ascending times from the dts or the frame rate.

    For packets without pts these are estimates, until :func:`place` has found the places of their frames.
    """
    if _has_pts(scan, info):
        known = np.array([pts is not None for pts in scan.pts])
        before = np.maximum.accumulate(np.where(known, np.arange(len(known)), int(np.argmax(known))))
        pts = np.array([known or 0 for known in scan.pts], dtype=np.int64)[before]
        pts = one_clock(pts, np.array(scan.key), known, step=max(1, round(_tick(info))))
        return pts if known.all() else fill_missing(pts, known, _step(scan, info, ~known))
    if None not in scan.dts:
        dts = np.array(scan.dts, dtype=np.int64)
        if (np.diff(dts) > 0).all():
            return dts if stores_pts(info) or info.container == "avi" else dts - dts[0]
    tick = _tick(info)
    return np.array([round(i * tick) for i in range(len(scan.size))], dtype=np.int64)


def _tick(info: StreamInfo) -> Fraction:
    """Return the ticks from one frame to the next by the stream's frame rate."""
    return 1 / ((info.average_rate or info.real_rate or DEFAULT_RATE) * info.time_base)


def _step(scan: _Collected, info: StreamInfo, missing: BoolArray) -> Fraction:
    """Return the ticks from one frame to the next where times are missing."""
    return frame_step(scan.duration[int(np.argmax(missing))], _tick(info))


def _missing(scan: _Collected, info: StreamInfo) -> BoolArray:
    """Return a mask of the packets whose frames have no time; none of them if the container stores no pts."""
    if not _has_pts(scan, info):
        return np.zeros(len(scan.size), dtype=bool)
    return np.array(
        [
            pts is None and kind.shown and not discard
            for pts, kind, discard in zip(scan.pts, scan.kind, scan.discard, strict=True)
        ]
    )


def _head(scan: _Collected) -> range:
    """Return the packets after the first key packet that have no pts: leading pictures of a stream cut there."""
    start = scan.key.index(True) if True in scan.key else 0
    end = next((i for i in range(start + 1, len(scan.pts)) if scan.pts[i] is not None), start + 1)
    return range(start + 1, end if scan.pts[start] is not None else start + 1)


def _refreshed(scan: _Collected) -> int:
    """Return the number of packets until frames are complete in a stream with gradual refresh; 0 with key frames.

    Such a stream may start anywhere, so its first refresh may be incomplete; the second one is complete.
    """
    if any(k and kind.random_access is not False for k, kind in zip(scan.key, scan.kind, strict=True)):
        return 0
    points = np.flatnonzero(scan.key)
    # A container without a table of key packets flags all of them.
    return int(points[2]) if 2 < points.size < len(scan.key) else len(scan.key)


def _has_pts(scan: _Collected, info: StreamInfo) -> bool:
    """Return whether the container has presentation times of shown frames."""
    return stores_pts(info) and any(
        pts is not None and kind.shown and not discard
        for pts, kind, discard in zip(scan.pts, scan.kind, scan.discard, strict=True)
    )


def _pts_are_dts(scan: _Collected, info: StreamInfo) -> bool:
    """Return whether pts contradict B-frames: some or all of them were copied from a file with dts only."""
    pts = [known for known, kind in zip(scan.pts, scan.kind, strict=True) if kind.shown]
    reordered = any(kind.picture_type == "B" for kind in scan.kind) and info.has_b_frames
    if not reordered:
        return False
    ascending = None not in pts and all(before < here for before, here in itertools.pairwise(pts))  # type: ignore[operator]
    return ascending or _some_pts_are_dts(scan, info)


def _some_pts_are_dts(scan: _Collected, info: StreamInfo) -> bool:
    """Return whether a reference frame whose pts is its dts would be shown before the B-frames that follow it."""
    return info.codec in _B_BEFORE_REFERENCE and bool(_with_dts_as_pts(scan))


def _with_dts_as_pts(scan: _Collected) -> list[int]:
    """Return the B-frames with a later pts than the frame before them that is none, whose pts is its dts."""
    found: list[int] = []
    copied: int | None = None
    for number, (pts, dts, kind) in enumerate(zip(scan.pts, scan.dts, scan.kind, strict=True)):
        if kind.picture_type != "B":
            copied = pts if pts == dts else None
        elif copied is not None and pts is not None and pts > copied:
            found.append(number)
    return found


def _may_reorder(scan: _Collected, info: StreamInfo) -> bool:
    """Return whether the kinds of frames allow another presentation order than decode order."""
    kinds = [kind.picture_type for kind in scan.kind if kind.shown]
    if info.codec in ("vp8", "vp9", "av1"):
        return False
    return None in kinds or "B" in kinds


def _promised(stream: VideoStream) -> int:
    """Return the number of packets by the container's sample table, without those that an edit list leaves out."""
    return min(stream.frames, len(stream.index_entries) or stream.frames)


def _cut(scan: _Collected, info: StreamInfo, source: Source, promised: int) -> str:
    """Return why the file holds less than its header states, or ""."""
    stated, actual = declared_size(source.read([(0, HEAD)])[0]), source.size()
    if stated is not None and stated > actual:
        return f"the file is truncated: its header states {stated} bytes, it has {actual}"
    seen, declared = len(scan.size) + scan.empty, info.declared_frames or 0
    if info.container.startswith("mov") and promised > seen:
        return f"the file is truncated: its header states {promised} frames, it has {seen}"
    if info.container == "avi" and (counted := _counted(scan)) and declared > counted:
        return f"the file is truncated or damaged: its header states {declared} frames, it has {counted}"
    if scan.error:
        return f"the file is truncated or damaged after {seen} packets ({scan.error})"
    cut = bool(scan.damaged) and scan.damaged[-1] and info.container != "mpegts"
    return "the file is truncated in its last frame" if cut else ""


def _counted(scan: _Collected) -> int:
    """Return the number of frames of an AVI file by its dts, which count chunks including empty ones; 0 if unknown.

    A damaged chunk is skipped. If each frame lasts several chunks, the last one does, too.
    """
    before, last = [0, 0, *scan.dts][-2:]
    return 0 if last is None else last + max(1, last - (before or 0))
