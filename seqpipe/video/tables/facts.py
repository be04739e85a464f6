"""Properties of a stream for an index from tables, from one frame that is decoded once for all files of the same kind.

The properties of a decoded frame depend on the sample entry, the display matrix and the units before the first slice.
The clips of a dataset mostly share these, so that all but the first are opened without FFmpeg.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import av.error

from ...array import IntArray
from ..bitstream.bits import avc_format, hevc_format, unescape
from ..bitstream.hevc import hevc_may_hide
from ..bitstream.kind import classifier
from ..bitstream.parameter_sets import ParameterSets, encoder_version
from ..probe.info import StreamInfo
from ..probe.probe import FirstPicture, av_packet, open_container, stream_info, video_stream
from ..source.source import Source
from .gate import Tables, UnusableTablesError

__all__ = [
    "HIDDEN_FRAME_CODECS",
    "ONE_FRAME_CODECS",
    "StreamFacts",
    "before_first_slice",
    "check_keys",
    "check_stream",
    "facts_of",
    "forget",
]

_MOST_CACHED_FACTS: Final = 256


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
    """Return the properties of a track, from a cached track with the same key if there is one."""
    with _lock:
        known = _memory.get(facts_key) if facts_key else None
    if known is None:
        known = _decoded(source, tables, head)
        if facts_key:
            with _lock:
                _memory[facts_key] = known
                if len(_memory) > _MOST_CACHED_FACTS:
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
    """Return the properties of a stream by decoding its first frame."""
    with open_container(source) as container:
        stream = video_stream(source, container)
        if tables.track not in (0, stream.id) or stream.time_base != tables.tick:
            raise UnusableTablesError("FFmpeg selects another track, or another time base")
        if stream.frames != tables.declared:
            raise UnusableTablesError("FFmpeg counts another number of packets")
        first = FirstPicture(stream)
        first.packet = head
        with contextlib.suppress(av.error.FFmpegError):
            context = stream.codec_context
            pictures = [*context.decode(av_packet(head)), *context.decode(None)]
            first.frame = next(iter(pictures), None)
        if first.frame is None:
            raise UnusableTablesError("its first packet cannot be decoded by itself")
        context, extradata = stream.codec_context, bytes(stream.codec_context.extradata or b"")
        return StreamFacts(
            info=stream_info(source, container, stream, first),
            extradata=extradata,
            codec_tag=context.codec_tag,
            coded_bits=context.bits_per_coded_sample,
        )


HIDDEN_FRAME_CODECS = frozenset({"vp8", "vp9"})
"""Codecs with hidden frames, all of whose packets are read."""

ONE_FRAME_CODECS = frozenset({"dnxhd", "ffv1", "ffvhuff", "huffyuv", "mjpeg", "prores"})
"""Codecs whose packets each hold one frame, and have the same kind."""

_READ_CODECS = frozenset({"h264", "hevc", "av1"}) | HIDDEN_FRAME_CODECS | ONE_FRAME_CODECS

_HEAD = 2048
_FORMATS = {"h264": avc_format, "hevc": hevc_format}
_IDR_OF_H264 = 5
_LAST_SLICE = {"h264": 5, "hevc": 31}
_MESSAGES = {"h264": {6}, "hevc": {39, 40}}
_NAL_HEADER = {"h264": 1, "hevc": 2}
_SLICE_HEAD = 32
_NO_KIND = 63
# SEI messages that change stream properties: frame packing, orientation, mastering display, light level, transfer; -1
# for messages that cannot be parsed.
_RELEVANT_SEI = {45, 47, 137, 144, 147, -1}


def check_stream(codec: str, extradata: bytes) -> None:
    """Check that a stream's packets each show one frame, or state in their headers whether they do."""
    if codec not in _READ_CODECS:
        raise UnusableTablesError(f"packets of {codec} do not all show a frame")
    if codec == "hevc" and hevc_may_hide(extradata):
        raise UnusableTablesError("slice headers decide which frames are shown")


def check_keys(source: Source, tables: Tables, keys: IntArray, codec: str, extradata: bytes) -> None:
    """Check that decoding can start at key packets with the parameter sets of the extradata."""
    sets = ParameterSets(codec, extradata)
    classify = classifier(codec, extradata).classify
    seen: set[bytes] = set()
    heads = _heads(source, tables, keys, codec, extradata)
    for number, (head, identity) in zip(keys.tolist(), heads, strict=True):
        if identity in seen:
            continue
        seen.add(identity)
        kind = classify(head)
        if kind.random_access is False or not kind.shown or not any(head):
            raise UnusableTablesError(f"decoding cannot start at packet {number}")
        sets.look(number, head)
        if sets.set_ups:
            raise UnusableTablesError("its parameter sets change")


def before_first_slice(codec: str, extradata: bytes, packet: bytes) -> bytes | None:
    """Return the units of a packet before its first slice; None if messages change the stream's properties."""
    length_size = _FORMATS[codec](extradata).length_size
    if not length_size:
        return None
    kept: list[bytes] = []
    for begin, end in _units(packet, length_size):
        kind = _kind(packet[begin], codec)
        if kind in _MESSAGES[codec]:
            # Messages that change the orientation or the color are left to the decoder.
            if _RELEVANT_SEI & _message_kinds(packet[begin + _NAL_HEADER[codec] : end]):
                return None
        elif kind <= _LAST_SLICE[codec]:
            return b"".join(kept)
        else:
            kept.append(packet[begin:end])
    return None


def _heads(
    source: Source, tables: Tables, keys: IntArray, codec: str, extradata: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Yield for each packet the bytes that classify it, and the part of them that identifies its kind.

    The bytes end after the first slice's header where that determines the type of all slices.
    """
    form = _FORMATS.get(codec)
    length_size = form(extradata).length_size if form else 0
    offsets, sizes = tables.offset[keys].tolist(), tables.size[keys].tolist()
    limit = _HEAD if length_size else 1 << 31
    heads = source.read([(at, min(size, limit)) for at, size in zip(offsets, sizes, strict=True)])
    for at, size, head in zip(offsets, sizes, heads, strict=True):
        short = _shortened(head, size, length_size, codec) if length_size else None
        if short is not None:
            yield short
            continue
        whole = head if len(head) == size else source.read([(at, size)])[0]
        yield whole, whole


def _shortened(head: bytes, size: int, length_size: int, codec: str) -> tuple[bytes, bytes] | None:
    """Return a packet of the units before the first slice and that slice's start; None if this does not suffice.

    The slices of a frame share their type in HEVC, and in H.264 those of an IDR picture do.
    """
    for begin, end in _units(head, length_size):
        if end > size:
            raise UnusableTablesError("a unit is longer than its packet")
        kind = _kind(head[begin], codec) if begin < len(head) else _NO_KIND
        if kind <= _LAST_SLICE[codec]:
            if codec == "h264" and kind != _IDR_OF_H264:
                return None
            at = begin - length_size
            unit = head[begin : min(end, begin + _SLICE_HEAD)]
            return head[:at] + len(unit).to_bytes(length_size, "big") + unit, head[:at] + unit[:2]
        if end > len(head):
            return None
    return None


def _units(packet: bytes, length_size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the units of a packet; the last one may end beyond the given bytes."""
    at = 0
    while at + length_size < len(packet):
        begin = at + length_size
        at = begin + int.from_bytes(packet[at:begin], "big")
        if at > begin:
            yield begin, at


def _kind(header: int, codec: str) -> int:
    return header & 31 if codec == "h264" else header >> 1 & 63


def _message_kinds(unit: bytes) -> set[int]:
    """Return the types of the SEI messages in a unit after its header; -1 if it is truncated."""
    payload, at = unescape(unit), 0
    kinds: set[int] = set()
    while at + 2 < len(payload):
        numbers = []
        for _ in range(2):
            value = 0
            while at < len(payload) and payload[at] == 255:
                value, at = value + 255, at + 1
            if at == len(payload):
                return kinds | {-1}
            numbers.append(value + payload[at])
            at += 1
        kinds.add(numbers[0])
        at += numbers[1]
    return kinds
