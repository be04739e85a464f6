"""Selection of the packet classifier of a codec."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import av
import av.codec

from .kind import UNKNOWN, Classifier, PacketKind, packet_kind

if TYPE_CHECKING:
    from av.buffer import Buffer

__all__ = [
    "REPLENISHED",
    "UNPARSED_CODECS",
    "chroma_location",
    "classifier",
    "classify_all",
    "highest_temporal_layer",
]

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
