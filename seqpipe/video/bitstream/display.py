"""What a packet of VP9 or AV1 shows: a decoder that is told of surfaces alone has to know it beforehand.

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
"""It shows the last picture that it holds."""
SHOWS_EARLIER: Final = 2
"""It shows a picture of a packet before it (``show_existing_frame``)."""
AT_KEY: Final = 4
"""It begins with a key frame."""


def display_roles(codec: str) -> Callable[[bytes], int] | None:
    """What tells the role of each packet; None for codecs whose pictures are shown once each.

    Args:
        codec: FFmpeg's name of it.

    Returns:
        A function of a packet's bytes: :data:`SHOWS_LAST`, :data:`SHOWS_EARLIER` or neither, with :data:`AT_KEY` or
        without it. A packet that cannot be read is taken for one that shows its own picture.
    """
    reads = {"vp9": vp9_shows, "av1": av1_shows}.get(codec)
    if reads is None:
        return None

    def role(packet: bytes) -> int:
        try:
            own, earlier, anew = reads(packet)
        except BitstreamError:
            return SHOWS_LAST
        return (SHOWS_EARLIER if earlier else SHOWS_LAST if own else 0) | (AT_KEY if anew else 0)

    return role
