"""Packet kinds: properties read from packet headers, and which packets can therefore be left out of decoding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Literal, Protocol

__all__ = [
    "NO_PICTURE",
    "UNKNOWN",
    "Classifier",
    "Leading",
    "PacketKind",
    "Picture",
    "droppable",
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
