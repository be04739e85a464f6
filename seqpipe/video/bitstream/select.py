"""Which classifier reads which codec."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import av
import av.codec

from .kind import UNKNOWN, Classifier, PacketKind
from .replenishment import READ_THROUGH, Coded, ReplenishedClassifier

if TYPE_CHECKING:
    from av.buffer import Buffer

__all__ = ["chroma_location", "classifier", "classify_all", "highest_temporal_layer"]

_NOT_QUITE_INTRA = frozenset({"png"})
"""FFmpeg lists PNG as intra-only, but adds the previous picture to a QuickTime PNG that is no key frame."""
_KEY_FRAME = PacketKind(reference=False, random_access=True, picture_type="I")


class _UniformClassifier:
    """Gives every packet the same answer: for codecs without prediction between frames, and for unknown ones.

    Args:
        kind: the answer.
    """

    def __init__(self, kind: PacketKind) -> None:
        self.kind = kind

    def classify(self, packet: bytes | memoryview) -> PacketKind:  # noqa: ARG002 - the protocol's signature
        """The answer that all packets of the stream share."""
        return self.kind


def classifier(codec: str, extradata: bytes, coded: Coded | None = None) -> Classifier:
    """The classifier for one stream.

    Args:
        codec: the name of FFmpeg's codec or of one of its decoders: ``h264``, ``libdav1d``.
        extradata: the stream's codec configuration as the container holds it; may be empty.
        coded: what its pictures are, for codecs whose packets do not say.

    Returns:
        A classifier for the codec. For a codec that is not read here, every packet is a reference, or none is
        where the codec never predicts one frame from another.
    """
    name, intra_only = _identity(codec)
    if name in _CLASSIFIERS:
        module, make = _CLASSIFIERS[name]
        found: Classifier = getattr(_of(module), make)(extradata)
        return found
    if coded is not None and name in READ_THROUGH:
        return ReplenishedClassifier(name, coded)
    return _UniformClassifier(_KEY_FRAME if intra_only else UNKNOWN)


def classify_all(by: Classifier, packets: Sequence[Buffer]) -> list[PacketKind]:
    """What packets in a row say of themselves, as they lie in a demuxer's memory.

    Args:
        by: the classifier, which has read the packets before them.
        packets: FFmpeg's packets.
    """
    if isinstance(by, _UniformClassifier):
        return [by.kind] * len(packets)
    all_of = getattr(by, "classify_all", None)
    found: list[PacketKind] = all_of(packets) if all_of else [by.classify(bytes(some)) for some in packets]
    return found


def chroma_location(codec: str, extradata: bytes, first_packet: bytes) -> int:
    """The chroma sample location that the bitstream states, or its standard fixes.

    Args:
        codec: the name of FFmpeg's codec or of one of its decoders.
        extradata: the stream's codec configuration as the container holds it; may be empty.
        first_packet: the stream's first packet, read where the extradata says nothing; may be empty.

    Returns:
        The location by H.273 as FFmpeg numbers it: 1 left, 2 center, 3 top left, 4 top, 5 bottom left,
        6 bottom; 0 if nothing states it.
    """
    return int(_of("chroma").stream_chroma_location(_identity(codec)[0], extradata, first_packet))


def highest_temporal_layer(codec: str, extradata: bytes) -> int:
    """The highest temporal layer that a packet of a stream may be in; 0 for codecs whose packets do not say.

    Args:
        codec: the name of FFmpeg's codec or of one of its decoders.
        extradata: the stream's codec configuration as the container holds it; may be empty.
    """
    return int(_of("hevc").hevc_highest_layer(extradata)) if codec == "hevc" else 0


def _of(module: str) -> Any:
    """A module of this package, imported when a stream needs it: most programs read one codec."""
    return importlib.import_module(f".{module}", __package__)


def _identity(codec: str) -> tuple[str, bool]:
    """The codec's canonical name, and whether it never predicts between frames."""
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
    "vp8": ("vp8", "Vp8Classifier"),
    "vp9": ("vp9", "Vp9Classifier"),
}
"""Of each codec that is read here, the module of its classifier and its class."""
