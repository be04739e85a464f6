"""Packets as a hardware parser wants them: start codes instead of lengths, and the parameter sets before the first one.

Sources: ISO/IEC 14496-15 (length-prefixed units), H.264 and H.265 Annex B (start codes).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BackendError
from .display import SHOWS_EARLIER, display_roles
from .nal import NalFormat, avc_format, hevc_format, nal_spans

__all__ = ["ElementaryStream"]

_START = b"\0\0\0\1"
_NAL_FORMATS = {"h264": avc_format, "hevc": hevc_format}
# their extradata is a header that may be missing from the packets
_HEADED = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})


class ElementaryStream:
    """Turns the packets of one stream into its elementary stream.

    Args:
        codec: FFmpeg's name of the codec.
        extradata: the codec's set-up bytes, as the container has them.

    Attributes:
        lengths: bytes of the length before each unit of a packet; 0 where start codes stand there, or there are none.
        header: what decoding starts with.
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
        """What each packet shows; see :mod:`seqpipe.video.bitstream.display`; 0 where it does not matter.

        Raises:
            BackendError: a packet of VP9 shows an earlier frame again, for which NVDEC's parser never calls back
                (seen on an H200, driver 580).
        """
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
        """One packet.

        Args:
            data: its bytes as the container has them.
            first: whether decoding starts with it; then the header comes before it.

        Raises:
            BitstreamError: a length points behind the packet's end.
        """
        if self.lengths == len(_START) and (marked := _marked(data)):
            units = marked
        elif self.lengths:
            spans = nal_spans(data, self.lengths)
            units = b"".join([_START + data[begin:end] for begin, end in spans])
        else:
            units = data
        return self.header + units if first else units


def _marked(data: bytes) -> bytes:
    """A packet whose lengths are as long as start codes, with these in their place; empty if it is not a plain one."""
    end = len(data)
    if end > 4 and int.from_bytes(data[:4], "big") == end - 4:
        return _START + data[4:]  # one unit, as most packets of most encoders are
    marked, begin = bytearray(data), 0
    while begin < end:
        size = int.from_bytes(data[begin : begin + 4], "big")
        marked[begin : begin + 4] = _START
        begin += 4 + size if size else end + 1
    return bytes(marked) if begin == end else b""
