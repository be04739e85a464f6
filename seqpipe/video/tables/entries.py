"""What FFmpeg itself makes of a container's tables: its index, which needs no packet to be read.

Edit lists, negative composition offsets and the chunks of AVI files each need rules that FFmpeg has. Its index holds
place, decoding time, size and flags of every packet by these rules, and no presentation time. The first packets are
read as well: what FFmpeg says of them must be what its index says, and what is added to times is learned from them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import av.error
import numpy as np

from ...array import BoolArray, IntArray
from ..probe.probe import open_container, side_data, unreadable, video_stream
from ..source.source import Source
from .gate import Distrusted, Tables

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = ["Entries", "FirstPacket", "check_first", "read_entries", "track_of"]

_FIRST = 16


@dataclass(frozen=True)
class FirstPacket:
    """One of the first packets, as FFmpeg gives it.

    Attributes:
        pts: presentation time in ticks; None if it has none.
        dts: likewise for decoding.
        duration: in ticks.
        position: where FFmpeg says that it lies.
        size: bytes.
        key: whether it is a key packet.
        shown: whether it is to be shown.
    """

    pts: int | None
    dts: int | None
    duration: int
    position: int
    size: int
    key: bool
    shown: bool


@dataclass(frozen=True, eq=False)
class Entries:
    """FFmpeg's index of the video, one entry a packet, in decode order.

    Attributes:
        track: ``stream.id``.
        tick: of its clock, in seconds.
        declared: packets that the container promises; 0 if it promises none.
        dts: decoding time in ticks.
        size: bytes.
        position: where the container keeps it.
        key: whether decoding can start there.
        shown: whether it is to be shown.
        first: the first packets.
        last_duration: of the last packet that is shown, in ticks; 0 if it was not asked for, or is untold.
    """

    track: int
    tick: Fraction
    declared: int
    dts: IntArray
    size: IntArray
    position: IntArray
    key: BoolArray
    shown: BoolArray
    first: tuple[FirstPacket, ...] = ()
    last_duration: int = 0


def read_entries(source: Source, *, before_data: int = 0, ask_last: bool = False) -> Entries:
    """FFmpeg's index of the video.

    Args:
        source: the video.
        before_data: bytes of a packet's header that the container keeps before its data, and FFmpeg counts in.
        ask_last: whether the last packet that is shown must be read, for its duration.

    Raises:
        Distrusted: there is none, or the first packets contradict it.
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    with open_container(source) as container:
        stream = video_stream(source, container)
        rows = np.array(
            [(e.timestamp, e.size, e.pos, e.is_keyframe, not e.is_discard) for e in stream.index_entries],
            np.int64,
        ).reshape(-1, 5)
        if stream.time_base is None or not rows[:, 4].any():
            raise Distrusted("FFmpeg's index holds no packet")
        entries = Entries(
            track=stream.id,
            tick=Fraction(stream.time_base),
            declared=stream.frames,
            dts=rows[:, 0].copy(),
            size=rows[:, 1].copy(),
            position=rows[:, 2] + before_data,
            key=rows[:, 3].astype(bool),
            shown=rows[:, 4].astype(bool),
        )
        try:
            first = _packets(container, stream, _FIRST)
            _check_first(entries, first)
            last = int(np.flatnonzero(entries.shown)[-1])
            position, duration = int(entries.position[last]), 0
            if ask_last:
                _hold(source, entries, last)
                container.seek(int(entries.dts[last]), stream=stream, backward=True)
                found = [p for p in _packets(container, stream, len(rows)) if p.position == position]
                if not found:
                    raise Distrusted("FFmpeg does not find its last packet")
                duration = found[0].duration
        except av.error.FFmpegError as error:
            raise unreadable(source, error) from error
    return replace(entries, first=first, last_duration=duration)


def _packets(container: InputContainer, stream: VideoStream, most: int) -> tuple[FirstPacket, ...]:
    """The next packets."""
    found: list[FirstPacket] = []
    for packet in container.demux(stream):
        if not packet.size:
            continue
        if side_data(packet) or packet.pos is None:
            raise Distrusted("things are kept beside its packets")
        found.append(
            FirstPacket(
                pts=packet.pts,
                dts=packet.dts,
                duration=packet.duration or 0,
                position=packet.pos,
                size=packet.size,
                key=packet.is_keyframe,
                shown=not packet.is_discard,
            )
        )
        if len(found) == most:
            break
    return tuple(found)


def _check_first(entries: Entries, first: tuple[FirstPacket, ...]) -> None:
    columns = (entries.dts, entries.size, entries.position, entries.key, entries.shown)
    for number, packet in enumerate(first):
        found = (packet.dts, packet.size, packet.position, packet.key, packet.shown)
        if number >= len(entries.dts) or tuple(column[number] for column in columns) != found:
            raise Distrusted("FFmpeg's index is not of the packets that it gives")
    if not first:
        raise Distrusted("FFmpeg gives no packet")


def _hold(source: Source, entries: Entries, last: int) -> None:
    """Read what lies between a packet and its key packet: of a source that answers slowly, a demuxer sees no more."""
    if source.slow:
        key = int(np.flatnonzero(entries.key[: last + 1])[-1]) if entries.key[: last + 1].any() else 0
        places = entries.position[key : last + 1]
        begin = int(places.min())
        source.read([(begin, int((places + entries.size[key : last + 1]).max()) - begin)])


def check_first(source: Source, tables: Tables) -> None:
    """See that FFmpeg says of the first packets what tables say of them.

    Raises:
        Distrusted: it does not.
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    with open_container(source) as container:
        stream = video_stream(source, container)
        try:
            first = _packets(container, stream, _FIRST)
        except av.error.FFmpegError as error:
            raise unreadable(source, error) from error
    if not first:
        raise Distrusted("FFmpeg gives no packet")
    columns = (tables.pts, tables.size, tables.offset, tables.key, tables.shown)
    for number, packet in enumerate(first):
        found = (packet.pts, packet.size, packet.position, packet.key, packet.shown)
        if number >= len(tables) or tuple(column[number] for column in columns) != found:
            raise Distrusted(f"FFmpeg says something else of packet {number}")


def track_of(source: Source) -> int:
    """The ``stream.id`` of the stream that FFmpeg takes for the video.

    Raises:
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    with open_container(source) as container:
        return video_stream(source, container).id
