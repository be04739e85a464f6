"""Facts of a stream for an index from tables: from one picture, decoded once for all files that are made alike.

What a picture tells besides its pixels depends on the sample entry, the display matrix and what stands before the first
slice. The clips of a data set mostly share these, so that all but the first are opened without FFmpeg.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

import av
import av.error
import numpy as np

from ..probe.info import StreamInfo
from ..probe.probe import FirstPicture, open_container, stream_info, video_stream
from ..source.source import Source
from .gate import Distrusted, Tables
from .heads import before_first_slice
from .mp4 import Movie, Track, is_long

__all__ = ["StreamFacts", "facts_of", "forget"]

_KEPT: Final = 256
_LEAST_PACKETS = 8
_AFTER_SAMPLE_ENTRY = 82  # of a visual one, from its type on


@dataclass(frozen=True)
class StreamFacts:
    """What an index holds besides its packets.

    Attributes:
        info: the facts of the stream.
        extradata: see :class:`seqpipe.video.packet_index.PacketIndex`.
        codec_tag: likewise.
        coded_bits: likewise.
    """

    info: StreamInfo
    extradata: bytes
    codec_tag: str
    coded_bits: int


_memory: Final[OrderedDict[tuple[object, ...], StreamFacts]] = OrderedDict()
_lock = threading.Lock()


def facts_of(source: Source, movie: Movie, track: Track, tables: Tables) -> StreamFacts:
    """The facts of a track, from those of an equal one if there was one.

    Raises:
        Distrusted: they cannot be had from the first packet alone, or FFmpeg sees something else than the tables.
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    head = source.read([(int(tables.offset[0]), int(tables.size[0]))])[0]
    key = _likeness(movie, track, tables, head)
    with _lock:
        known = _memory.get(key) if key else None
    if known is None:
        known = _decoded(source, track, tables, head)
        if key:
            with _lock:
                _memory[key] = known
                if len(_memory) > _KEPT:
                    _memory.popitem(last=False)
    count = tables.declared
    return replace(
        known, info=replace(known.info, source=source.name, frame_count=count, declared_frames=count)
    )


def forget() -> None:
    """Remember no file any more."""
    with _lock:
        _memory.clear()


def _decoded(source: Source, track: Track, tables: Tables, head: bytes) -> StreamFacts:
    with open_container(source) as container:
        stream = video_stream(source, container)
        time_base = stream.time_base
        if stream.id != track.number or time_base is None or time_base.denominator != track.ticks:
            raise Distrusted("FFmpeg takes another track for the video, or another clock")
        if stream.frames != tables.declared:
            raise Distrusted("FFmpeg counts other packets")
        first = FirstPicture(stream)
        first.packet = head
        with contextlib.suppress(av.error.FFmpegError):
            context = stream.codec_context
            pictures = [*context.decode(av.Packet(head)), *context.decode(None)]
            first.frame = next(iter(pictures), None)
        if first.frame is None:
            raise Distrusted("its first packet cannot be decoded by itself")
        context = stream.codec_context
        return StreamFacts(
            info=stream_info(source, container, stream, first),
            extradata=bytes(context.extradata or b""),
            codec_tag=context.codec_tag,
            coded_bits=context.bits_per_coded_sample,
        )


def _likeness(movie: Movie, track: Track, tables: Tables, head: bytes) -> tuple[object, ...]:
    """What the facts depend on; nothing if that is not known."""
    entry = _without_rate(bytes(track.description))
    told = before_first_slice(entry, head)
    steps = np.diff(tables.pts)
    delta = tables.delta
    if told is None or not delta or len(tables) < _LEAST_PACKETS:
        return ()
    long = is_long(track.header)
    shape = bytes(track.header[:4]) + bytes(track.header[52 if long else 40 :])  # matrix, width, height
    ascending = bool((steps > 0).all())
    return movie.brand, movie.handlers, entry, shape, told, track.ticks, delta, ascending


def _without_rate(entry: bytes) -> bytes:
    """A sample entry without the box that states the bit rate, which differs from clip to clip."""
    at, kept = _AFTER_SAMPLE_ENTRY, [entry[:_AFTER_SAMPLE_ENTRY]]
    while at + 8 <= len(entry):
        size = int.from_bytes(entry[at : at + 4], "big")
        if size < 8:
            break
        if entry[at + 4 : at + 8] != b"btrt":
            kept.append(entry[at : at + size])
        at += size
    return b"".join([*kept, entry[at:]])
