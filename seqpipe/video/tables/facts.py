"""Properties of a stream for an index from tables, from one frame that is decoded once for all files of the same kind.

The properties of a decoded frame depend on the sample entry, the display matrix and the units before the first slice.
The clips of a dataset mostly share these, so that all but the first are opened without FFmpeg.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

import av.error

from ..av_packet import av_packet
from ..bitstream import encoder_version
from ..probe.info import StreamInfo
from ..probe.probe import FirstPicture, open_container, stream_info, video_stream
from ..source.source import Source
from .gate import Distrusted, Tables

__all__ = ["StreamFacts", "facts_of", "forget"]

_KEPT: Final = 256


@dataclass(frozen=True)
class StreamFacts:
    """Contents of an index besides its packets, see :class:`seqpipe.video.packet_index.PacketIndex`.

    Attributes:
        info: properties of the stream.
        extradata: the codec's configuration.
        codec_tag: the container's four characters for the codec.
        coded_bits: the container's bits per coded pixel.
        version: unit of the encoder's version, which each decoder needs, or b"".
    """

    info: StreamInfo
    extradata: bytes
    codec_tag: str
    coded_bits: int
    version: bytes = b""


_memory: Final[OrderedDict[tuple[object, ...], StreamFacts]] = OrderedDict()
_lock = threading.Lock()


def facts_of(source: Source, tables: Tables, head: bytes, facts_key: tuple[object, ...]) -> StreamFacts:
    """Return the properties of a track, from a cached track with the same key if there is one.

    Args:
        source: the video.
        tables: its tables.
        head: the first packet.
        facts_key: values that determine the properties; empty if these are not known.

    Raises:
        Distrusted: the first packet alone does not suffice, or FFmpeg contradicts the tables.
        UnreadableSourceError: the file is not a video that can be decoded.
        SourceError: the source cannot be read.
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
    version = encoder_version(info.codec, known.extradata, head, info.chroma)
    return replace(known, info=info, version=version)


def forget() -> None:
    """Clear the cache."""
    with _lock:
        _memory.clear()


def _decoded(source: Source, tables: Tables, head: bytes) -> StreamFacts:
    with open_container(source) as container:
        stream = video_stream(source, container)
        if tables.track not in (0, stream.id) or stream.time_base != tables.tick:
            raise Distrusted("FFmpeg selects another track, or another time base")
        if stream.frames != tables.declared:
            raise Distrusted("FFmpeg counts another number of packets")
        first = FirstPicture(stream)
        first.packet = head
        with contextlib.suppress(av.error.FFmpegError):
            context = stream.codec_context
            pictures = [*context.decode(av_packet(head)), *context.decode(None)]
            first.frame = next(iter(pictures), None)
        if first.frame is None:
            raise Distrusted("its first packet cannot be decoded by itself")
        context, extradata = stream.codec_context, bytes(stream.codec_context.extradata or b"")
        return StreamFacts(
            info=stream_info(source, container, stream, first),
            extradata=extradata,
            codec_tag=context.codec_tag,
            coded_bits=context.bits_per_coded_sample,
        )
