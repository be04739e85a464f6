"""FFmpeg's own index of a file, which it builds from the container's tables without reading packets.

FFmpeg has rules for edit lists, negative composition offsets and the chunks of AVI files. Its index holds offset,
decode time, size and flags of every packet by these rules, but no presentation times. The first packets are demuxed as
well: they must agree with the index, and the offset between index and presentation times is taken from them.
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
from .gate import Tables, UnusableTablesError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

__all__ = ["Entries", "FirstPacket", "check_first", "read_entries", "track_of"]

_FIRST = 16


@dataclass(frozen=True)
class FirstPacket:
    """One of the first packets, as demuxed by FFmpeg.

    Attributes:
        pts: presentation time in ticks, or None.
        dts: decode time in ticks, or None.
        duration: duration in ticks.
        position: file offset by FFmpeg.
        size: size in bytes.
        key: whether it is a key packet.
        shown: whether its frame is shown.
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
    """FFmpeg's index of the video in decode order, one array entry per packet.

    Attributes:
        track: ``stream.id``.
        tick: time base in seconds.
        declared: number of packets stated by the container; 0 if it states none.
        dts: decode time in ticks.
        size: size in bytes.
        position: file offset.
        key: whether decoding can start at the packet.
        shown: whether its frame is shown.
        first: the first packets.
        last_duration: duration of the last shown packet in ticks; 0 if it was not read, or is unknown.
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


def read_entries(source: Source, *, ask_last: bool = False) -> Entries:
    """Return FFmpeg's index of a video."""
    with open_container(source) as container:
        stream = video_stream(source, container)
        rows = np.array(
            [(e.timestamp, e.size, e.pos, e.is_keyframe, not e.is_discard) for e in stream.index_entries],
            np.int64,
        ).reshape(-1, 5)
        if stream.time_base is None or not rows[:, 4].any():
            raise UnusableTablesError("FFmpeg's index holds no packet")
        entries = Entries(
            track=stream.id,
            tick=Fraction(stream.time_base),
            declared=stream.frames,
            dts=rows[:, 0].copy(),
            size=rows[:, 1].copy(),
            position=rows[:, 2].copy(),
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
                at_position = [p for p in _packets(container, stream, len(rows)) if p.position == position]
                if not at_position:
                    raise UnusableTablesError("FFmpeg does not find its last packet")
                duration = at_position[0].duration
        except av.error.FFmpegError as error:
            raise unreadable(source, error) from error
    return replace(entries, first=first, last_duration=duration)


def _packets(container: InputContainer, stream: VideoStream, most: int) -> tuple[FirstPacket, ...]:
    """Demux the next packets."""
    packets: list[FirstPacket] = []
    for packet in container.demux(stream):
        if not packet.size:
            continue
        if side_data(packet) or packet.pos is None:
            raise UnusableTablesError("its packets have side data")
        packets.append(
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
        if len(packets) == most:
            break
    return tuple(packets)


def _check_first(entries: Entries, first: tuple[FirstPacket, ...]) -> None:
    """Check FFmpeg's index by the first packets."""
    columns = (entries.dts, entries.size, entries.position, entries.key, entries.shown)
    for number, packet in enumerate(first):
        row = (packet.dts, packet.size, packet.position, packet.key, packet.shown)
        if number >= len(entries.dts) or tuple(column[number] for column in columns) != row:
            raise UnusableTablesError("FFmpeg's index contradicts its packets")
    if not first:
        raise UnusableTablesError("FFmpeg demuxes no packet")


def _hold(source: Source, entries: Entries, last: int) -> None:
    """Cache the blocks from a key packet to a packet: a demuxer sees only cached blocks of a slow source."""
    if source.slow:
        key = int(np.flatnonzero(entries.key[: last + 1])[-1]) if entries.key[: last + 1].any() else 0
        positions = entries.position[key : last + 1]
        begin = int(positions.min())
        source.read([(begin, int((positions + entries.size[key : last + 1]).max()) - begin)])


def check_first(source: Source, tables: Tables) -> None:
    """Check that tables agree with the first packets that FFmpeg demuxes."""
    with open_container(source) as container:
        stream = video_stream(source, container)
        try:
            first = _packets(container, stream, _FIRST)
        except av.error.FFmpegError as error:
            raise unreadable(source, error) from error
    if not first:
        raise UnusableTablesError("FFmpeg demuxes no packet")
    columns = (tables.pts, tables.size, tables.offset, tables.key, tables.shown)
    for number, packet in enumerate(first):
        row = (packet.pts, packet.size, packet.position, packet.key, packet.shown)
        if number >= len(tables) or tuple(column[number] for column in columns) != row:
            raise UnusableTablesError(f"packet {number} of FFmpeg differs")


def track_of(source: Source) -> int:
    """Return the ``stream.id`` of the stream that FFmpeg selects as the video."""
    with open_container(source) as container:
        return video_stream(source, container).id
