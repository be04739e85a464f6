"""Heads of key packets: whether decoding can start there, as the container says, and with which parameter sets."""

from __future__ import annotations

from collections.abc import Iterator

from ...array import IntArray
from ..bitstream import ParameterSets, classifier, hevc_may_hide
from ..bitstream.bits import unescape
from ..bitstream.nal import avc_format, hevc_format
from ..source.source import Source
from .gate import Distrusted, Tables

__all__ = ["ALIKE", "READ_THROUGH", "before_first_slice", "check_keys", "check_stream"]

READ_THROUGH = frozenset({"vp8", "vp9"})
"""Codecs whose packets may be hidden: each is looked at."""

ALIKE = frozenset({"dnxhd", "ffv1", "ffvhuff", "huffyuv", "mjpeg", "prores"})
"""Codecs whose packets each hold one picture, and say nothing else that matters."""

_READ_CODECS = frozenset({"h264", "hevc", "av1"}) | READ_THROUGH | ALIKE

_HEAD = 2048
_FORMATS = {"h264": avc_format, "hevc": hevc_format}
_IDR_OF_H264 = 5
_LAST_SLICE = {"h264": 5, "hevc": 31}
_MESSAGES = {"h264": {6}, "hevc": {39, 40}}
_NAL_HEADER = {"h264": 1, "hevc": 2}
_SLICE_HEAD = 32
_NO_KIND = 63
# frame packing, orientation, mastering display, light level, transfer, and what cannot be read
_TELLING = {45, 47, 137, 144, 147, -1}


def check_stream(codec: str, extradata: bytes) -> None:
    """See that a stream's packets each hold one picture that is shown, or say themselves if they do.

    Raises:
        Distrusted: they may not.
    """
    if codec not in _READ_CODECS:
        raise Distrusted(f"packets of {codec} do not all show a picture")
    if codec == "hevc" and hevc_may_hide(extradata):
        raise Distrusted("its slices say themselves whether they are shown")


def check_keys(source: Source, tables: Tables, keys: IntArray, codec: str, extradata: bytes) -> None:
    """See that decoding can start at key packets, with the parameter sets of the extradata.

    Args:
        source: the video.
        tables: what the container says.
        keys: the packets to look at.
        codec: the codec's canonical name.
        extradata: the stream's configuration.

    Raises:
        Distrusted: at one of them it cannot, or others hold from there on.
        SourceError: the source cannot be read.
    """
    sets = ParameterSets(codec, extradata)
    classify = classifier(codec, extradata).classify
    seen: set[bytes] = set()
    for number, (head, told) in zip(
        keys.tolist(), _heads(source, tables, keys, codec, extradata), strict=True
    ):
        if told in seen:
            continue
        seen.add(told)
        kind = classify(head)
        if kind.random_access is False or not kind.shown or not any(head):
            raise Distrusted(f"decoding cannot start at packet {number}")
        sets.look(number, head)
        if sets.set_ups:
            raise Distrusted("its parameter sets change on the way")


def before_first_slice(codec: str, extradata: bytes, packet: bytes) -> bytes | None:
    """What a packet says of the stream before its first slice; None if that is not known.

    Args:
        codec: the codec's canonical name.
        extradata: the stream's configuration; what follows it does not matter.
        packet: a key packet.
    """
    length_size = _FORMATS[codec](extradata).length_size
    if not length_size:
        return None
    kept: list[bytes] = []
    for begin, end in _units(packet, length_size):
        kind = _kind(packet[begin], codec)
        if kind in _MESSAGES[codec]:
            # messages that turn the picture, or change what its colours mean, are left to the decoder
            if _TELLING & _message_kinds(packet[begin + _NAL_HEADER[codec] : end]):
                return None
        elif kind <= _LAST_SLICE[codec]:
            return b"".join(kept)
        else:
            kept.append(packet[begin:end])
    return None


def _heads(
    source: Source, tables: Tables, keys: IntArray, codec: str, extradata: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """The packets, each as far as it must be read, and of that what tells it from others.

    That is to the first slice's header, where this tells what all slices are.
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
    """The units before a packet's first slice and the slice's beginning, as a packet; None if that does not tell all.

    The slices of a picture share their type in HEVC, and of H.264 those of an IDR picture do. Of the slice, only its
    type matters.
    """
    for begin, end in _units(head, length_size):
        if end > size:
            raise Distrusted("a unit is longer than its packet")
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
    """Begin and end of the units of a packet, of which the last ones may lie beyond what is there."""
    at = 0
    while at + length_size < len(packet):
        begin = at + length_size
        at = begin + int.from_bytes(packet[at:begin], "big")
        if at > begin:
            yield begin, at


def _kind(header: int, codec: str) -> int:
    return header & 31 if codec == "h264" else header >> 1 & 63


def _message_kinds(unit: bytes) -> set[int]:
    """The kinds of the messages in a unit of them, behind its header; an unknown one stands for what is cut."""
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
