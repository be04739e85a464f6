"""Display roles of VP9 and AV1 packets, which a decoder that reports only surfaces needs to assign frames to packets.

Sources: VP9 bitstream and decoding process specification 0.6, clause 6.2; AV1 specification, clauses 5.9.2 and 7.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .av1 import av1_shows
from .bits import BitstreamError
from .vp9 import vp9_shows

__all__ = ["AT_KEY", "SHOWS_EARLIER", "SHOWS_LAST", "display_roles"]

SHOWS_LAST: Final = 1
"""The packet shows the last frame that it holds."""
SHOWS_EARLIER: Final = 2
"""The packet shows a frame of an earlier packet (``show_existing_frame``)."""
AT_KEY: Final = 4
"""The packet starts with a key frame."""


def display_roles(codec: str) -> Callable[[bytes], int] | None:
    """Return a function that reads the role of a packet; None for codecs that show each frame once.

    Args:
        codec: FFmpeg's name of the codec.

    Returns:
        A function of a packet's bytes, which returns :data:`SHOWS_LAST`, :data:`SHOWS_EARLIER` or 0, combined with
        :data:`AT_KEY`. A packet that cannot be parsed counts as showing its own frame.
    """
    parse = {"vp9": vp9_shows, "av1": av1_shows}.get(codec)
    if parse is None:
        return None

    def role(packet: bytes) -> int:
        try:
            own, earlier, key = parse(packet)
        except BitstreamError:
            return SHOWS_LAST
        return (SHOWS_EARLIER if earlier else SHOWS_LAST if own else 0) | (AT_KEY if key else 0)

    return role
