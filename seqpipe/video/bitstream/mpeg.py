"""MPEG-1, MPEG-2 and MPEG-4 part 2 video: picture types by start codes.

Sources: ISO/IEC 11172-2 clause 2.4.2, ISO/IEC 13818-2 clause 6.2, ISO/IEC 14496-2 clauses 6.2.3 and 6.2.5.
"""

from __future__ import annotations

from typing import NamedTuple

from .bits import BitReader, BitstreamError
from .kind import NO_PICTURE, UNKNOWN, PacketKind, Picture, packet_kind

__all__ = ["Mpeg4Classifier", "MpegClassifier"]

_START = b"\0\0\1"
_PICTURE = b"\0\0\1\0"
_SEQUENCE = b"\0\0\1\xb3"
_EXTENSION = b"\0\0\1\xb5"
_QUANT_MATRIX = 3
_VOP = b"\0\0\1\xb6"
_LETTERS: dict[int, Picture] = {1: "I", 2: "P", 3: "B", 4: "I"}
_VOP_LETTERS: tuple[Picture, ...] = ("I", "P", "B", "P")


class MpegClassifier:
    """Classifies packets of MPEG-1 and MPEG-2 video, each a picture with the headers before it.

    Nothing is predicted from a B picture. It is held for a reference only if headers that come with it last
    longer: a sequence header, or an extension that loads quantiser matrices.

    Args:
        extradata: not used; the sequence header comes with the pictures.
    """

    def __init__(self, extradata: bytes) -> None:
        del extradata

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """What the packet says of itself; `UNKNOWN` for one that cannot be read."""
        data = bytes(packet)
        letters: set[Picture] = set()
        at = data.find(_PICTURE)
        if at < 0:
            return NO_PICTURE
        lasting = data.find(_SEQUENCE, 0, at) >= 0 or _loads_matrices(data, at)
        while at >= 0:
            if at + 6 > len(data):
                return UNKNOWN
            letter = _LETTERS.get(data[at + 5] >> 3 & 7)  # behind the 10 bits of temporal_reference
            if letter is None:
                return UNKNOWN
            letters.add(letter)
            at = data.find(_PICTURE, at + 4)
        picture_type: Picture = "P" if "P" in letters else "I" if "I" in letters else "B"
        access = None if picture_type == "I" else False
        return packet_kind(lasting or picture_type != "B", random_access=access, picture_type=picture_type)


def _loads_matrices(data: bytes, at: int) -> bool:
    """Whether a quant_matrix_extension stands between a picture header and its first slice."""
    at = data.find(_START, at + 4)
    while at >= 0 and at + 4 < len(data) and not 1 <= data[at + 3] <= 0xAF:
        if data[at : at + 4] == _EXTENSION and data[at + 4] >> 4 == _QUANT_MATRIX:
            return True
        at = data.find(_START, at + 4)
    return False


class _Vop(NamedTuple):
    """The head of a video object plane."""

    letter: Picture
    coded: bool


class Mpeg4Classifier:
    """Classifies packets of MPEG-4 part 2.

    Nothing is predicted from a B-VOP. A packet with several of them (a "packed bitstream", as old AVI files
    have) is held for a reference; the placeholder that follows it then stands for the second picture, and
    is shown. A VOP that is not coded yields no picture otherwise.

    Args:
        extradata: the headers up to the video object layer, or empty.
    """

    def __init__(self, extradata: bytes) -> None:
        self._time_bits: int | None = None
        self._held = False
        try:
            self._learn(extradata)
        except BitstreamError:
            self._time_bits = None

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """What the packet says of itself; `UNKNOWN` for one that cannot be read."""
        data = bytes(packet)
        held, self._held = self._held, False
        try:
            lasting = self._learn(data)
            vops = self._vops(data)
        except BitstreamError:
            return UNKNOWN
        if not vops:
            return NO_PICTURE
        coded = [vop for vop in vops if vop.coded]
        self._held = len(coded) > 1
        if not coded:
            return packet_kind(True, held, random_access=False)
        letter = coded[0].letter
        access = None if letter == "I" else False
        return packet_kind(
            lasting or len(vops) > 1 or letter != "B", random_access=access, picture_type=letter
        )

    def _vops(self, data: bytes) -> list[_Vop]:
        vops: list[_Vop] = []
        at = data.find(_VOP)
        while at >= 0:
            begin = at + 4
            at = data.find(_VOP, begin)
            vops.append(self._vop(BitReader(data[begin : begin + 16])))
        return vops

    def _vop(self, bits: BitReader) -> _Vop:
        letter = _VOP_LETTERS[bits.u(2)]
        if self._time_bits is None:
            return _Vop(letter, True)
        while bits.flag():  # modulo_time_base
            pass
        bits.skip(1 + self._time_bits + 1)
        return _Vop(letter, bits.flag())

    def _learn(self, data: bytes) -> bool:
        """Takes up the last video object layer before the first VOP; says whether there is one.

        Raises:
            BitstreamError: it is cut.
        """
        found = False
        end = data.find(_VOP)
        at = data.find(_START, 0, end if end >= 0 else len(data))
        while at >= 0:
            if at + 3 < len(data) and 0x20 <= data[at + 3] <= 0x2F:
                self._time_bits = _time_bits(BitReader(data[at + 4 : at + 64]))
                found = True
            at = data.find(_START, at + 3, end if end >= 0 else len(data))
        return found


def _time_bits(bits: BitReader) -> int:
    """Reads a video object layer up to vop_time_increment_resolution: the bits of a vop_time_increment."""
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
    if bits.u(2) == 3 and version != 1:  # grayscale
        bits.skip(4)
    bits.skip(1)
    resolution = bits.u(16)
    return max(1, (resolution - 1).bit_length()) if resolution else 1
