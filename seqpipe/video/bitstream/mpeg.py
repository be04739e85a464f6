"""MPEG-1, MPEG-2 and MPEG-4 part 2 video: picture types by start codes.

Sources: ISO/IEC 11172-2 clause 2.4.2, ISO/IEC 13818-2 clause 6.2, ISO/IEC 14496-2 clauses 6.2.3 and 6.2.5.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from .bits import BitReader, BitstreamError
from .kind import NO_PICTURE, UNKNOWN, PacketKind, Picture, packet_kind

__all__ = ["Mpeg4Classifier", "MpegClassifier", "frame_size", "mpeg4_interlaced"]

_START = b"\0\0\1"
_PICTURE = b"\0\0\1\0"
_SEQUENCE = b"\0\0\1\xb3"
_EXTENSION = b"\0\0\1\xb5"
_QUANT_MATRIX = 3
_VOP = b"\0\0\1\xb6"
_VISUAL_SEQUENCE = b"\0\0\1\xb0"
_LETTERS: dict[int, Picture] = {1: "I", 2: "P", 3: "B", 4: "I"}
_VOP_LETTERS: tuple[Picture, ...] = ("I", "P", "B", "P")


class MpegClassifier:
    """Classifies packets of MPEG-1 and MPEG-2 video, each a picture with the headers before it.

    Nothing is predicted from a B picture. It counts as a reference only if headers with it affect later pictures:
    a sequence header, or an extension that loads quantizer matrices.

    Args:
        extradata: not used; the sequence header comes with the pictures.
    """

    def __init__(self, extradata: bytes) -> None:
        del extradata

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind of a packet; `UNKNOWN` if it cannot be parsed."""
        data = bytes(packet)
        letters: set[Picture] = set()
        at = data.find(_PICTURE)
        if at < 0:
            return NO_PICTURE
        lasting = data.find(_SEQUENCE, 0, at) >= 0 or _loads_matrices(data, at)
        while at >= 0:
            if at + 6 > len(data):
                return UNKNOWN
            letter = _LETTERS.get(data[at + 5] >> 3 & 7)  # after the 10 bits of temporal_reference
            if letter is None:
                return UNKNOWN
            letters.add(letter)
            at = data.find(_PICTURE, at + 4)
        picture_type: Picture = "P" if "P" in letters else "I" if "I" in letters else "B"
        access = None if picture_type == "I" else False
        return packet_kind(lasting or picture_type != "B", random_access=access, picture_type=picture_type)


def _loads_matrices(data: bytes, at: int) -> bool:
    """Return whether there is a quant_matrix_extension between a picture header and its first slice."""
    at = data.find(_START, at + 4)
    while at >= 0 and at + 4 < len(data) and not 1 <= data[at + 3] <= 0xAF:
        if data[at : at + 4] == _EXTENSION and data[at + 4] >> 4 == _QUANT_MATRIX:
            return True
        at = data.find(_START, at + 4)
    return False


class _Layer(NamedTuple):
    """Fields of a video object layer's header."""

    time_bits: int
    interlaced: bool
    size: tuple[int, int] | None


class _Vop(NamedTuple):
    """Fields of a video object plane's header."""

    letter: Picture
    coded: bool


class Mpeg4Classifier:
    """Classifies packets of MPEG-4 part 2.

    Nothing is predicted from a B-VOP. A packet with several VOPs (a "packed bitstream", as in old AVI files) counts as
    a reference: decoders output its second VOP with the next packet, whose own VOP is delayed in turn, and which yields
    a frame even if it is only a placeholder. Otherwise a VOP that is not coded yields no frame.

    Args:
        extradata: the headers up to the video object layer, or empty.
    """

    def __init__(self, extradata: bytes) -> None:
        self._layer: _Layer | None = None
        self._waiting: _Vop | None = None
        self._first_b = True
        with contextlib.suppress(BitstreamError):
            self._learn(extradata)

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind of a packet; `UNKNOWN` if it cannot be parsed."""
        data = bytes(packet)
        waiting, self._waiting = self._waiting, None
        try:
            lasting = self._learn(data)
            vops = self._vops(data)
        except BitstreamError:
            return UNKNOWN
        if not vops:
            return NO_PICTURE
        if waiting is not None and data.find(_START) != data.find(_VISUAL_SEQUENCE):
            # Decoders drop the placeholder after a packed VOP, and any other P-VOP there.
            self._waiting = vops[0] if vops[0].coded and vops[0].letter != "P" else None
            return packet_kind(True, random_access=False, picture_type=waiting.letter)
        coded = [vop for vop in vops if vop.coded]
        if not coded:
            return packet_kind(True, shown=False, random_access=False)
        self._waiting = coded[1] if len(coded) > 1 else None
        letter = coded[0].letter
        access = None if letter == "I" else False
        needed = self._sets_frame_time(letter) or lasting or len(vops) > 1 or letter != "B"
        return packet_kind(needed, random_access=access, picture_type=letter)

    @property
    def interlaced(self) -> bool:
        """Whether the stream is interlaced, so that fields may be predicted separately."""
        return self._layer is not None and self._layer.interlaced

    @property
    def size(self) -> tuple[int, int] | None:
        """(width, height) of a rectangular layer; None if not known."""
        return None if self._layer is None else self._layer.size

    def _sets_frame_time(self, letter: Picture) -> bool:
        """Return whether later B-VOPs depend on this one's time: an interlaced layer's first one sets the period.

        So does the first one after a key frame, where the layer's header may be repeated and decoding may start.
        """
        first = self._first_b and letter == "B"
        self._first_b = letter == "I" or (self._first_b and not first)
        return first and self.interlaced

    def _vops(self, data: bytes) -> list[_Vop]:
        """Parse the headers of all VOPs of a packet."""
        vops: list[_Vop] = []
        at = data.find(_VOP)
        while at >= 0:
            begin = at + 4
            at = data.find(_VOP, begin)
            vops.append(self._vop(BitReader(data[begin : begin + 16])))
        return vops

    def _vop(self, bits: BitReader) -> _Vop:
        """Parse a VOP's type, and whether it is coded."""
        letter = _VOP_LETTERS[bits.u(2)]
        if self._layer is None:
            return _Vop(letter, True)
        while bits.flag():  # modulo_time_base
            pass
        bits.skip(1 + self._layer.time_bits + 1)
        return _Vop(letter, bits.flag())

    def _learn(self, data: bytes) -> bool:
        """Read the last video object layer before the first VOP; returns whether there is one."""
        learned = False
        end = data.find(_VOP)
        at = data.find(_START, 0, end if end >= 0 else len(data))
        while at >= 0:
            if at + 3 < len(data) and 0x20 <= data[at + 3] <= 0x2F:
                self._layer = _layer(BitReader(data[at + 4 : at + 64]))
                learned = True
            at = data.find(_START, at + 3, end if end >= 0 else len(data))
        return learned


def frame_size(codec: str, packet: bytes) -> tuple[int, int] | None:
    """Return the (width, height) of the following frames from headers in a packet."""
    if codec == "mpeg4":
        return Mpeg4Classifier(packet).size
    at = packet.find(_SEQUENCE)
    sides = packet[at + 4 : at + 7]
    if at < 0 or len(sides) < 3:
        return None
    return sides[0] << 4 | sides[1] >> 4, (sides[1] & 0x0F) << 8 | sides[2]


def mpeg4_interlaced(extradata: bytes) -> bool:
    """Return whether the headers of an MPEG-4 stream mark it as interlaced."""
    return Mpeg4Classifier(extradata).interlaced


def _layer(bits: BitReader) -> _Layer:
    """Parse a video object layer up to its interlaced flag."""
    bits.skip(9)  # random_accessible_vol, video_object_type_indication
    version = 1
    if bits.flag():
        version = bits.u(4)
        bits.skip(3)
    if bits.u(4) == 15:  # extended_PAR
        bits.skip(16)
    if bits.flag():  # vol_control_parameters
        bits.skip(3)  # chroma_format, low_delay
        if bits.flag():
            bits.skip(79)  # vbv_parameters
    shape = bits.u(2)
    if shape == 3 and version != 1:  # grayscale
        bits.skip(4)
    bits.skip(1)
    resolution = bits.u(16)
    time_bits = max(1, (resolution - 1).bit_length()) if resolution else 1
    bits.skip(1)
    if bits.flag():  # fixed_vop_rate
        bits.skip(time_bits)
    size = None
    if shape == 0:  # rectangular
        bits.skip(1)
        width = bits.u(13)
        bits.skip(1)
        size = width, bits.u(13)
        bits.skip(1)
    return _Layer(time_bits, shape != 2 and bits.flag(), size)
