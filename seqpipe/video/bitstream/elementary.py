"""Elementary streams for a hardware parser: start codes instead of lengths, and parameter sets before the first packet.

Sources: ISO/IEC 14496-15 (length-prefixed units), H.264 and H.265 Annex B (start codes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...errors import BackendError
from .av1 import av1_shows
from .bits import BitstreamError, NalFormat, avc_format, hevc_format, nal_spans
from .vpx import vp9_shows

__all__ = ["AT_KEY", "SHOWS_EARLIER", "SHOWS_LAST", "ElementaryStream", "display_roles"]

SHOWS_LAST: Final = 1
"""The packet shows the last frame that it holds."""
SHOWS_EARLIER: Final = 2
"""The packet shows a frame of an earlier packet (``show_existing_frame``)."""
AT_KEY: Final = 4
"""The packet starts with a key frame."""


def display_roles(codec: str) -> Callable[[bytes], int] | None:
    """Return a function that reads the role of a packet; None for codecs that show each frame once.

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


_START = b"\0\0\0\1"
_NAL_FORMATS = {"h264": avc_format, "hevc": hevc_format}
# Codecs whose extradata is a header that packets may lack.
_HEADED = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})


class ElementaryStream:
    """Converts the packets of one stream to its elementary stream.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: the codec's configuration as stored in the container.

    Attributes:
        lengths: size in bytes of the length before each unit of a packet; 0 for start codes, or without units.
        header: bytes that precede the first packet.
    """

    def __init__(self, codec: str, extradata: bytes) -> None:
        reads = _NAL_FORMATS.get(codec)
        self._format = reads(extradata) if reads else NalFormat(0)
        self.lengths = self._format.length_size
        self.header = b"".join(_START + unit for unit in self._format.parameter_sets)
        if codec in _HEADED:
            self.header = extradata
        self._codec, self._role = codec, display_roles(codec)

    def roles(self, packets: Sequence[bytes]) -> bytes:
        """Return the display role of each packet, see :func:`display_roles`; 0 for other codecs."""
        if self._role is None:
            return bytes(len(packets))
        roles = bytes(map(self._role, packets))
        if self._codec == "vp9" and any(role & SHOWS_EARLIER for role in roles):
            raise BackendError(
                "NVDEC does not deliver frames of VP9 that show an earlier frame again (show_existing_frame)",
                advice="Use decode='auto' or 'cpu' for this file",
            )
        return roles

    def packet(self, data: bytes, *, first: bool) -> bytes:
        """Convert a packet."""
        if self.lengths == len(_START) and (converted := _with_start_codes(data)):
            units = converted
        elif self.lengths:
            spans = nal_spans(data, self.lengths)
            units = b"".join([_START + data[begin:end] for begin, end in spans])
        else:
            units = data
        return self.header + units if first else units


def _with_start_codes(data: bytes) -> bytes:
    """Replace 4-byte lengths by start codes; returns b"" if the lengths do not add up or are 0."""
    end = len(data)
    if end > 4 and int.from_bytes(data[:4], "big") == end - 4:
        return _START + data[4:]  # a single unit, the usual case
    converted, begin = bytearray(data), 0
    while begin < end:
        size = int.from_bytes(data[begin : begin + 4], "big")
        converted[begin : begin + 4] = _START
        begin += 4 + size if size else end + 1
    return bytes(converted) if begin == end else b""
