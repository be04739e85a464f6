"""Packet kinds: what packet headers tell, which packets can therefore be left out, and the classifier of each codec."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import av
import av.codec

if TYPE_CHECKING:
    from av.buffer import Buffer

__all__ = [
    "NO_PICTURE",
    "REPLENISHED",
    "UNKNOWN",
    "UNPARSED_CODECS",
    "Classifier",
    "Leading",
    "PacketKind",
    "Picture",
    "chroma_location",
    "classifier",
    "classify_all",
    "droppable",
    "highest_temporal_layer",
    "packet_kind",
]

Picture = Literal["I", "P", "B"]


class Leading(IntEnum):
    """Kind of leading picture: decoded after its key frame, but shown before it."""

    NONE = 0
    """Not a leading picture, or the bitstream does not say."""
    RADL = 1
    """Decodable when decoding starts at its key frame."""
    RASL = 2
    """Predicted from frames before its key frame: not decodable when decoding starts there."""


@dataclass(frozen=True, slots=True)
class PacketKind:
    """Properties read from one packet; :func:`droppable` decides whether it can be left out.

    Attributes:
        reference: False if no frame of the same or of a lower temporal layer is predicted from this packet.
        shown: False if it yields no picture: a hidden frame, or parameter sets only.
        temporal_id: HEVC's temporal layer; 0 for the other codecs.
        leading: HEVC's leading pictures.
        random_access: True if decoding can start here and every following frame that is not leading is exact;
            False if certainly not; None if the bitstream does not say, and the container's key flag decides.
        picture_type: "B" if a slice may be predicted from two frames, else "P" if one is
            predicted or repeated, else "I"; None if unknown. In MPEG-1, 2 and 4 "B" means reordering.
        leaves_state: it leaves more behind than reference frames (VP9: motion vectors, probabilities, …).
        takes_state: it reads what a packet with ``leaves_state`` just before it left behind.
        contradicts: it is inconsistent with the packets before it, some of which are missing, damaged or misplaced.
    """

    reference: bool
    shown: bool = True
    temporal_id: int = 0
    leading: Leading = Leading.NONE
    random_access: bool | None = None
    picture_type: Picture | None = None
    leaves_state: bool = False
    takes_state: bool = False
    contradicts: bool = False


packet_kind = lru_cache(maxsize=1024)(PacketKind)
"""Creates a PacketKind, memoized: a file has few kinds and many packets."""

UNKNOWN = PacketKind(reference=True)
"""Conservative kind of a packet that cannot be parsed."""

NO_PICTURE = PacketKind(reference=True, shown=False, random_access=False)
"""A packet without a picture, which may hold parameters for others."""


class Classifier(Protocol):
    """Parses all packets of one stream in decode order: some codecs' headers depend on earlier ones."""

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind of a packet. Never raises for damaged bytes: these count as references."""
        ...


def droppable(kinds: Sequence[PacketKind], highest: int | None = None) -> list[bool]:
    """Return for each packet of a stream whether leaving it out changes no other frame.

    Returns:
        True for a packet from which no frame is predicted: not within its own temporal layer, not in a higher
        one (an HEVC sub-layer non-reference picture may be used there, so only the highest layer's count),
        and which leaves no state that the next packet takes up.
    """
    if highest is None:
        highest = max((kind.temporal_id for kind in kinds), default=0)
    answer = [not kind.reference and kind.temporal_id == highest for kind in kinds]
    for index, (kind, following) in enumerate(pairwise(kinds)):
        if kind.leaves_state and following.takes_state:
            answer[index] = False
    return answer


_NOT_QUITE_INTRA = frozenset({"png"})
"""FFmpeg lists PNG as intra-only, but adds the previous picture to a QuickTime PNG that is no key frame."""


def _never(_packet: bytes) -> bool:
    return False


def _is_flv1_key(packet: bytes) -> bool:
    """Sorenson H.263: the frame type follows start code, number and size."""
    bits = int.from_bytes(packet[:9].ljust(9, b"\0"), "big")
    behind = {0: 16, 1: 32}.get(bits >> 72 - 33 & 7, 0)
    return not bits >> 72 - 35 - behind & 3


_REPLENISHED_KEYS: Final[dict[str, Callable[[bytes], bool]]] = {
    **dict.fromkeys(("cinepak", "flashsv", "qtrle", "rpza", "smc"), _never),
    "flv1": _is_flv1_key,
    **dict.fromkeys(("msmpeg4v2", "msmpeg4v3", "wmv1"), lambda packet: not packet[0] >> 6),
    "svq1": lambda packet: not packet[3] & 3,
    "wmv2": lambda packet: not packet[0] >> 7,
    "zmbv": lambda packet: bool(packet[0] & 1),
}
"""By codec that updates the changed parts of the previous frame: whether a packet codes all pixels.

Containers often mark all packets of these codecs as key frames. Where the frame type is not in the first bits, decoding
starts at the first packet alone. Sources: libavcodec's decoders, which are the only specifications of these codecs.
"""

UNPARSED_CODECS: Final = frozenset(
    {"cscd", "flashsv2", "flic", "msrle", "msvideo1", "snow", "svq3", "tscc", "tscc2", "vmnc"}
)
"""Other such codecs, whose key flags are used unless every packet has one."""

REPLENISHED: Final = frozenset(_REPLENISHED_KEYS) | UNPARSED_CODECS
"""All such codecs: their decoders keep the last frame across a flush, and a first packet may refer to a blank one."""

_KEY_FRAME = PacketKind(reference=False, random_access=True, picture_type="I")


class _UniformClassifier:
    """Returns the same kind for all packets: for codecs without inter prediction, and for unsupported ones.

    Args:
        kind: the kind.
    """

    def __init__(self, kind: PacketKind) -> None:
        self.kind = kind

    def classify(self, packet: bytes | memoryview) -> PacketKind:  # noqa: ARG002 - the protocol's signature
        """Return the kind of all packets."""
        return self.kind


class _ReplenishedClassifier:
    """Finds the packets of a stream at which decoding can start: the first one, and those that code all pixels."""

    def __init__(self, codec: str) -> None:
        self._is_key, self._first = _REPLENISHED_KEYS[codec], True

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return whether decoding can start at a packet; a truncated packet does not code all pixels."""
        first, self._first = self._first, False
        try:
            whole = first or self._is_key(bytes(packet))
        except IndexError:
            whole = False
        return packet_kind(True, random_access=whole)


def classifier(codec: str, extradata: bytes, *, from_start: bool = False) -> Classifier:
    """Create the classifier for one stream.

    Returns:
        A classifier for the codec. For a codec that is not read here, every packet is a reference, or none is
        where the codec never predicts one frame from another.
    """
    name, intra_only = _identity(codec)
    if name in _CLASSIFIERS:
        module, make = _CLASSIFIERS[name]
        result: Classifier = getattr(_of(module), make)(extradata)
        return result
    if from_start and name in _REPLENISHED_KEYS:
        return _ReplenishedClassifier(name)
    return _UniformClassifier(_KEY_FRAME if intra_only else UNKNOWN)


def classify_all(by: Classifier, packets: Sequence[Buffer]) -> list[PacketKind]:
    """Return the kinds of consecutive packets, read in FFmpeg's memory."""
    if isinstance(by, _UniformClassifier):
        return [by.kind] * len(packets)
    all_of = getattr(by, "classify_all", None)
    kinds: list[PacketKind] = all_of(packets) if all_of else [by.classify(bytes(some)) for some in packets]
    return kinds


def chroma_location(codec: str, extradata: bytes, first_packet: bytes) -> int:
    """Return the chroma sample location stated by the bitstream or fixed by its standard.

    Returns:
        FFmpeg's number of the location of H.273: 1 left, 2 center, 3 top left, 4 top, 5 bottom left, 6 bottom; 0 if not
        stated.
    """
    return int(_of("sps").stream_chroma_location(_identity(codec)[0], extradata, first_packet))


def highest_temporal_layer(codec: str, extradata: bytes) -> int:
    """Return the highest temporal layer that a stream may have; 0 for codecs without temporal layers in their packets.

    Args:
        codec: the name of FFmpeg's codec or of one of its decoders.
        extradata: the stream's codec configuration as the container holds it; may be empty.
    """
    return int(_of("hevc").hevc_highest_layer(extradata)) if codec == "hevc" else 0


def _of(module: str) -> Any:
    """Import a module of this package when a stream needs it: most programs read one codec."""
    return importlib.import_module(f".{module}", __package__)


def _identity(codec: str) -> tuple[str, bool]:
    """Return the codec's canonical name, and whether it has no inter prediction."""
    if codec in _CLASSIFIERS:
        return codec, False
    try:
        known = av.codec.Codec(codec, "r")
    except av.codec.codec.UnknownCodecError:
        return codec, False
    return known.canonical_name, known.intra_only and known.canonical_name not in _NOT_QUITE_INTRA


_CLASSIFIERS = {
    "av1": ("av1", "Av1Classifier"),
    "h264": ("h264", "H264Classifier"),
    "hevc": ("hevc", "HevcClassifier"),
    "mpeg1video": ("mpeg", "MpegClassifier"),
    "mpeg2video": ("mpeg", "MpegClassifier"),
    "mpeg4": ("mpeg", "Mpeg4Classifier"),
    "vp8": ("vpx", "Vp8Classifier"),
    "vp9": ("vpx", "Vp9Classifier"),
}
"""Module and class of the classifier of each supported codec."""
