"""VP8: the frame tag (RFC 6386 clause 9.1)."""

from __future__ import annotations

from .kind import NO_PICTURE, PacketKind, packet_kind

__all__ = ["Vp8Classifier"]


class Vp8Classifier:
    """Classifies VP8 packets, each one frame.

    Every frame counts as a reference: one that refreshes no buffer can still save its probabilities for the next
    (refresh_entropy_probs), and both flags are in the arithmetic-coded header.

    Args:
        extradata: not used; VP8 has none.
    """

    def __init__(self, extradata: bytes) -> None:
        del extradata

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind by the frame tag; a packet without one holds no frame."""
        if len(packet) < 3:
            return NO_PICTURE
        key = not packet[0] & 1
        shown = bool(packet[0] & 0x10)
        return packet_kind(True, shown, random_access=key and shown, picture_type="I" if key else "P")
