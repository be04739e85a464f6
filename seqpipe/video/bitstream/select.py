"""Selection of the packet classifier of a codec."""

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
    """Returns the same kind for all packets: for codecs without inter prediction, and for unsupported ones.

    Args:
        kind: the kind.
    """

    def __init__(self, kind: PacketKind) -> None:
        self.kind = kind

    def classify(self, packet: bytes | memoryview) -> PacketKind:  # noqa: ARG002 - the protocol's signature
        """Return the kind of all packets."""
        return self.kind


def classifier(codec: str, extradata: bytes, coded: Coded | None = None) -> Classifier:
    """Create the classifier for one stream.

    Args:
        codec: the name of FFmpeg's codec or of one of its decoders: ``h264``, ``libdav1d``.
        extradata: the stream's codec configuration as the container holds it; may be empty.
        coded: size and depth of its frames, for codecs whose packets do not state them.

    Returns:
        A classifier for the codec. For a codec that is not read here, every packet is a reference, or none is
        where the codec never predicts one frame from another.
    """
    name, intra_only = _identity(codec)
    if name in _CLASSIFIERS:
        module, make = _CLASSIFIERS[name]
        result: Classifier = getattr(_of(module), make)(extradata)
        return result
    if coded is not None and name in READ_THROUGH:
        return ReplenishedClassifier(name, coded)
    return _UniformClassifier(_KEY_FRAME if intra_only else UNKNOWN)


def classify_all(by: Classifier, packets: Sequence[Buffer]) -> list[PacketKind]:
    """Return the kinds of consecutive packets, read in FFmpeg's memory.

    Args:
        by: the classifier, which has read the packets before them.
        packets: FFmpeg's packets.
    """
    if isinstance(by, _UniformClassifier):
        return [by.kind] * len(packets)
    all_of = getattr(by, "classify_all", None)
    kinds: list[PacketKind] = all_of(packets) if all_of else [by.classify(bytes(some)) for some in packets]
    return kinds


def chroma_location(codec: str, extradata: bytes, first_packet: bytes) -> int:
    """Return the chroma sample location stated by the bitstream or fixed by its standard.

    Args:
        codec: the name of FFmpeg's codec or of one of its decoders.
        extradata: the stream's codec configuration as the container holds it; may be empty.
        first_packet: the stream's first packet, parsed if the extradata does not state it; may be empty.

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
