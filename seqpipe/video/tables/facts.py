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

import av.error

from ..av_packet import av_packet
from ..probe.info import StreamInfo
from ..probe.probe import FirstPicture, open_container, stream_info, video_stream
from ..source.source import Source
from .gate import Distrusted, Tables

__all__ = ["StreamFacts", "facts_of", "forget"]

_KEPT: Final = 256


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


def facts_of(source: Source, tables: Tables, head: bytes, facts_key: tuple[object, ...]) -> StreamFacts:
    """The facts of a track, from those of an equal one if there was one.

    Args:
        source: the video.
        tables: its packets.
        head: the first one.
        facts_key: what the facts depend on; nothing if that is not known.

    Raises:
        Distrusted: they cannot be had from the first packet alone, or FFmpeg sees something else than the tables.
        UnreadableSourceError: it is not a video that can be decoded.
        SourceError: it cannot be read.
    """
    with _lock:
        known = _memory.get(facts_key) if facts_key else None
    if known is None:
        known = _decoded(source, tables, head)
        if facts_key:
            with _lock:
                _memory[facts_key] = known
                if len(_memory) > _KEPT:
                    _memory.popitem(last=False)
    count = tables.declared or None
    info = replace(known.info, source=source.name, frame_count=count, declared_frames=count)
    return replace(known, info=info)


def forget() -> None:
    """Remember no file any more."""
    with _lock:
        _memory.clear()


def _decoded(source: Source, tables: Tables, head: bytes) -> StreamFacts:
    with open_container(source) as container:
        stream = video_stream(source, container)
        if tables.track not in (0, stream.id) or stream.time_base != tables.tick:
            raise Distrusted("FFmpeg takes another track for the video, or another clock")
        if stream.frames != tables.declared:
            raise Distrusted("FFmpeg counts other packets")
        first = FirstPicture(stream)
        first.packet = head
        with contextlib.suppress(av.error.FFmpegError):
            context = stream.codec_context
            pictures = [*context.decode(av_packet(head)), *context.decode(None)]
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
