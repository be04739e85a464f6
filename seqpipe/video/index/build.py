"""Building an index: one pass over the packets, without decoding them."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import av.error
import numpy as np

from ...array import BoolArray, IntArray
from ..bitstream import (
    UNREAD,
    Coded,
    Leading,
    PacketKind,
    ParameterSets,
    classifier,
    classify_all,
    droppable,
)
from ..decode.kinds import in_doubt, read_kind
from ..packet_index import PacketIndex, PacketTable
from ..probe.extent import HEAD, declared_size
from ..probe.info import StreamInfo
from ..probe.probe import (
    FirstPicture,
    no_packets,
    open_container,
    side_data,
    stream_info,
    unreadable,
    video_stream,
)
from ..source.parsing import parsing
from ..source.source import Source
from .assemble import DEFAULT_RATE, finish
from .order import drop_head, order_by_decoding

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = ["Scan", "build_index"]

_HEADER_BEFORE_DATA = 64
_PACKETS_AT_ONCE, _BYTES_AT_ONCE = 256, 4 << 20
_MPEGTS_SECOND = 90_000
_LAST_TICK = 1 << 62
# where the container has no flags for them, libavformat says that every packet of these is a key frame
_KEYS_UNTOLD = frozenset({"cavs", "h261", "h263"}) | UNREAD
# B pictures of these are shown before the last picture that was decoded and is none; nothing is predicted from them
_B_BEFORE_REFERENCE = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})
_USER_DATA, _VOP = b"\0\0\1\xb2", b"\0\0\1\xb6"


@dataclass
class _Collected:
    """What one pass over the packets collects; one entry a packet."""

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
    error: str = ""


def build_index(source: Source) -> PacketIndex:
    """Read a video's packets once and note what decoding will need.

    Raises:
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    with parsing(source), open_container(source) as container:
        return Scan(source, container).index()


class Scan:
    """One pass over a video's packets, of which its index is made.

    Args:
        source: the video.
        container: the demuxer over it.

    Attributes:
        stream: the video's.
        first: its first packet and picture, once they have gone by.
        ended: whether all packets have gone by, or no more can be read.
        whole: whether all packets have gone by.
    """

    def __init__(self, source: Source, container: InputContainer) -> None:
        self._source, self._container = source, container
        self.stream = video_stream(source, container)
        self.first = FirstPicture(self.stream)
        self.ended = self.whole = False
        self._collected, self._some = _Collected(), _Some(source, container, self.stream)
        self._packets = self._demuxed()

    def packets(self) -> Iterator[av.Packet[Any]]:
        """The packets that have not gone by yet.

        Raises:
            UnreadableSourceError: the first one cannot be read; a later one ends the pass.
        """
        return self._packets

    def info(self) -> StreamInfo:
        """The facts of the stream as far as they are known."""
        return stream_info(self._source, self._container, self.stream, self.first)

    def described(self, packets: PacketTable) -> PacketIndex:
        """An index with the facts of the stream and some packets, nothing counted."""
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
        """The index of the video.

        Args:
            rest: whether the packets that have not gone by are read; else it is as if the file ended here.

        Raises:
            UnreadableSourceError: there is no packet.
            SourceError: the source cannot be read.
        """
        source, scan = self._source, self._collected
        for _ in self._packets if rest else ():
            pass
        self._some.note(scan)
        if not scan.size:
            raise no_packets(source)
        info = self.info()
        index = replace(
            self.described(_table(scan, info)),
            cut=_cut(scan, info, source, _promised(self.stream)) if self.ended else "",
            set_ups=self._some.sets.set_ups,
            palettes=tuple(scan.palettes),
        )
        if _may_reorder(scan, info) and (not _has_pts(scan, info) or _pts_are_dts(scan, info)):
            index = order_by_decoding(source, index)
        index = drop_head(source, index, _head(scan), refreshed=_refreshed(scan))
        frames = index.packets.frame_packet
        return finish(index, scan.duration[int(frames[-1])] if frames.size else 0)

    def _demuxed(self) -> Iterator[av.Packet[Any]]:
        scan, first, some, size = self._collected, self.first, self._some, 0
        try:
            for packet in self._container.demux(self.stream):
                if not first.done:
                    first.offer(packet)
                if packet.size:
                    some.packets.append(packet)
                    size += packet.size
                    if len(some.packets) == _PACKETS_AT_ONCE or size >= _BYTES_AT_ONCE:
                        some.note(scan)
                        size = 0
                    yield packet
                elif packet.dts is not None:
                    scan.empty += 1
        except av.error.FFmpegError as error:
            if not scan.size and not some.packets:
                raise unreadable(self._source, error) from error
            scan.error = error.strerror or str(error)
        self.ended, self.whole = True, not scan.error


def _set_up(codec: str, extradata: bytes, first_packet: bytes) -> bytes:
    """The set-up bytes, with MPEG-4's user data: who starts at a later picture must know the encoder's habits too."""
    if codec != "mpeg4":
        return extradata
    head = first_packet[: max(0, first_packet.find(_VOP))]
    user_data = head[head.find(_USER_DATA) :] if _USER_DATA in head else b""
    return extradata if user_data in extradata else extradata + user_data


class _Some:
    """Packets in a row, which are looked at together where they lie in FFmpeg's memory.

    Attributes:
        packets: those that were not looked at yet.
        sets: the parameter sets up to here.
    """

    def __init__(self, source: Source, container: InputContainer, stream: VideoStream) -> None:
        context = stream.codec_context
        self._source, self._codec = source, context.codec.canonical_name
        # there something is beside most packets, which costs time to look at and tells nothing
        self._scattered = container.format.name == "mpegts"
        extradata = bytes(context.extradata or b"")
        coded = Coded(context.width, context.height, context.bits_per_coded_sample)
        self._classifier = classifier(self._codec, extradata, coded)
        self.sets = ParameterSets(self._codec, extradata)
        self.packets: list[av.Packet[Any]] = []

    def note(self, scan: _Collected) -> None:
        """Look at the packets, and forget them."""
        packets, begin = self.packets, len(scan.size)
        scan.pts += [packet.pts for packet in packets]
        scan.dts += [packet.dts for packet in packets]
        scan.duration += [packet.duration or 0 for packet in packets]
        scan.size += [packet.size for packet in packets]
        scan.key += [packet.is_keyframe for packet in packets]
        scan.discard += [packet.is_discard for packet in packets]
        scan.damaged += [packet.is_corrupt for packet in packets]
        scan.checksum += map(zlib.crc32, packets)
        beside = [[]] * len(packets) if self._scattered else list(map(side_data, packets))
        # An offset is believed only if exactly these bytes are found there; one failure and the demuxer reads them all.
        sound = not self._scattered and (not scan.offset or scan.offset[-1] >= 0)
        for packet, kinds in zip(packets, beside, strict=True):
            scan.offset.append(_locate(self._source, packet) if sound and not kinds else -1)
            sound = scan.offset[-1] >= 0
        at = 0
        for place, (packet, kinds) in enumerate(zip(packets, beside, strict=True)):
            before = b""
            if "new_extradata" in kinds:
                before = self.sets.replace(begin + place, bytes(packet.get_sidedata("new_extradata")))
            if "palette" in kinds:
                _note_palette(scan, begin + place, bytes(packet.get_sidedata("palette")))
            if packet.is_keyframe:
                self.sets.look(begin + place, bytes(packet))
            if before:
                self._classify(packets[at:place], scan)
                kind = self._classifier.classify(before + bytes(packet))
                scan.kind.append(read_kind(kind, memoryview(packet), self._codec))
                at = place + 1
        self._classify(packets[at:], scan)
        packets.clear()

    def _classify(self, packets: Seq[av.Packet[Any]], scan: _Collected) -> None:
        kinds = classify_all(self._classifier, packets)
        scan.kind += [read_kind(k, memoryview(p), self._codec) for k, p in zip(kinds, packets, strict=True)]


def _note_palette(scan: _Collected, number: int, colors: bytes) -> None:
    """AVI changes palettes on the way; QuickTime has one, beside the first packet."""
    if not scan.palettes or scan.palettes[-1][1] != colors:
        scan.palettes.append((number, colors))


def _locate(source: Source, packet: av.Packet[Any]) -> int:
    """Where in the file a packet's bytes lie; -1 if not in one piece just behind the demuxer's position."""
    position = packet.pos
    if position is None or position < 0:
        return -1
    near = source.read_sequential(position, packet.size + _HEADER_BEFORE_DATA)
    found = near.find(memoryview(packet))
    return position + found if found >= 0 else -1


def _table(scan: _Collected, info: StreamInfo) -> PacketTable:
    by_offset = bool(scan.offset) and scan.offset[-1] >= 0
    count = len(scan.size)
    kinds = scan.kind
    key = np.array(
        [k and kind.random_access is not False for k, kind in zip(scan.key, kinds, strict=True)], dtype=bool
    )
    if not key.any():
        # Nowhere a whole picture: what a gradual refresh has completed comes of decoding from the start.
        key[:1] = True
    if info.codec in _KEYS_UNTOLD and key.all():
        key[1:] = False
    gaps = _gaps(scan, info)
    return PacketTable(
        pts=_clock(scan, info),
        size=np.array(scan.size, dtype=np.int32),
        offset=np.array(scan.offset if by_offset else [-1] * count, dtype=np.int64),
        checksum=np.array([] if by_offset else scan.checksum, dtype=np.uint32),
        key=key,
        # A key packet that nothing refers to still is where decoding starts.
        reference=~np.array(droppable(kinds), dtype=bool) | in_doubt(kinds, key) | key | gaps,
        shown=np.array([kind.shown for kind in kinds], dtype=bool) & ~np.array(scan.discard, dtype=bool),
        damaged=gaps if info.container == "mpegts" else np.array(scan.damaged, dtype=bool),
        undecodable=np.array([kind.leading is Leading.RASL for kind in kinds], dtype=bool),
        self_contained=np.array([kind.leading is Leading.RADL for kind in kinds], dtype=bool),
    )


def _gaps(scan: _Collected, info: StreamInfo) -> BoolArray:
    """The packets of a transport stream that parts are missing from, or packets just before them.

    libavformat's flag stands at the packet before: its parser gives a picture out when it sees the next one. Whole
    packets may be missing too, references among them, so such a packet takes all with it up to the next key frame.
    """
    gaps: BoolArray = np.zeros(len(scan.size), dtype=bool)
    if info.container == "mpegts":
        for before in np.flatnonzero(scan.damaged).tolist():
            if not _another_begins(scan, before + 2):
                gaps[min(before + 1, len(gaps) - 1)] = True
    return gaps


def _another_begins(scan: _Collected, number: int) -> bool:
    """Whether a recording was joined on here: the gap is between the two then, and nothing is missing."""
    if number >= len(scan.key) or not scan.key[number]:
        return False
    before, here = scan.dts[number - 1], scan.dts[number]
    return before is None or here is None or not 0 < here - before <= _MPEGTS_SECOND


def _clock(scan: _Collected, info: StreamInfo) -> IntArray:
    """The pts in decode order; where some are missing, a clock in decode order from the dts or the rate."""
    if _has_pts(scan, info):
        head = _head(scan)
        first, step = scan.pts[head.start - 1] or 0, max(1, scan.duration[head.start - 1])
        before = [first - step * (head.stop - i) for i in range(head.stop)]
        pts = [known if known is not None else before[i] for i, known in enumerate(scan.pts)]
        return _one_clock(np.array(pts, dtype=np.int64), np.array(scan.key))
    if None not in scan.dts:
        dts = np.array(scan.dts, dtype=np.int64)
        if (np.diff(dts) > 0).all():
            return dts
    tick = 1 / ((info.average_rate or info.real_rate or DEFAULT_RATE) * info.time_base)
    return np.array([round(i * tick) for i in range(len(scan.size))], dtype=np.int64)


def _head(scan: _Collected) -> range:
    """The packets right behind the first key packet that a cut has robbed of their pts: leading pictures."""
    start = scan.key.index(True) if True in scan.key else 0
    end = next((i for i in range(start + 1, len(scan.pts)) if scan.pts[i] is not None), start + 1)
    return range(start + 1, end if scan.pts[start] is not None else start + 1)


def _one_clock(pts: IntArray, key: BoolArray) -> IntArray:
    """Let a clock that starts again, as where two recordings were joined, go on from where it was."""
    keys = np.flatnonzero(key)
    for before, restart in itertools.pairwise(keys):
        if pts[restart] <= pts[before]:
            last, one_before = np.sort(pts[:restart])[[-1, -2]].tolist()
            shift = 2 * last - one_before - int(pts[restart])
            if abs(shift) + int(np.abs(pts[restart:]).max()) > _LAST_TICK:
                raise ValueError("its clock goes beyond 64 bits")  # of its source, as all that is parsed
            pts[restart:] += shift
    return pts


def _refreshed(scan: _Collected) -> int:
    """How many packets it takes until pictures are whole where none is by itself: some refresh picture by picture.

    Such a stream is cut anywhere, so the first refresh may have begun before it; the second one is whole.
    """
    if any(k and kind.random_access is not False for k, kind in zip(scan.key, scan.kind, strict=True)):
        return 0
    points = np.flatnonzero(scan.key)
    return int(points[2]) if points.size > 2 else len(scan.key)


def _has_pts(scan: _Collected, info: StreamInfo) -> bool:
    # AVI has no place for pts; what libavformat gives for them is the dts, moved by a guess.
    begin = _head(scan).stop
    return info.container != "avi" and not any(
        pts is None and kind.shown and not discard
        for pts, kind, discard in zip(scan.pts[begin:], scan.kind[begin:], scan.discard[begin:], strict=True)
    )


def _pts_are_dts(scan: _Collected, info: StreamInfo) -> bool:
    """Whether pts contradict B pictures: all of them, or some, were copied from what has only dts."""
    pts = [known for known, kind in zip(scan.pts, scan.kind, strict=True) if kind.shown and known is not None]
    reordered = any(kind.picture_type == "B" for kind in scan.kind) and info.has_b_frames
    if not reordered:
        return False
    return all(before < here for before, here in itertools.pairwise(pts)) or _some_pts_are_dts(scan, info)


def _some_pts_are_dts(scan: _Collected, info: StreamInfo) -> bool:
    """Whether a picture with its dts for a pts is to be shown before the B pictures that lie between it and another."""
    if info.codec not in _B_BEFORE_REFERENCE:
        return False
    copied: int | None = None
    for pts, dts, kind in zip(scan.pts, scan.dts, scan.kind, strict=True):
        if kind.picture_type != "B":
            copied = pts if pts == dts else None
        elif copied is not None and pts is not None and pts > copied:
            return True
    return False


def _may_reorder(scan: _Collected, info: StreamInfo) -> bool:
    kinds = [kind.picture_type for kind in scan.kind if kind.shown]
    if info.codec in ("vp8", "vp9", "av1"):
        return False
    return None in kinds or "B" in kinds


def _promised(stream: VideoStream) -> int:
    """How many packets the demuxer is to give by a table of all; none that an edit list leaves out is in it."""
    return min(stream.frames, len(stream.index_entries) or stream.frames)


def _cut(scan: _Collected, info: StreamInfo, source: Source, promised: int) -> str:
    """Why the file holds less than it promises, or nothing."""
    stated, held = declared_size(source.read([(0, HEAD)])[0]), source.size()
    if stated is not None and stated > held:
        return f"the file is cut: its header promises {stated} bytes, it has {held}"
    seen, declared = len(scan.size) + scan.empty, info.declared_frames or 0
    if info.container.startswith("mov") and promised > seen:
        return f"the file is cut: its header promises {promised} frames, {seen} are in it"
    if info.container == "avi" and (counted := _counted(scan)) and declared > counted:
        return f"the file is cut or damaged: its header promises {declared} frames, {counted} are in it"
    if scan.error:
        return f"the file is cut or damaged after {seen} packets ({scan.error})"
    cut = bool(scan.damaged) and scan.damaged[-1] and info.container != "mpegts"
    return "the file is cut in the middle of its last frame" if cut else ""


def _counted(scan: _Collected) -> int:
    """Frames of an AVI file by its dts, which counts chunks, the empty ones of dropped frames too; 0 if untold.

    A chunk that is overwritten is passed by. Where each frame has several chunks' time, so has the last.
    """
    before, last = [0, 0, *scan.dts][-2:]
    return 0 if last is None else last + max(1, last - (before or 0))
