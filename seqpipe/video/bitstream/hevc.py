"""HEVC: NAL unit types, temporal layers, slice types (ITU-T H.265 clauses 7.3.1.2, 7.3.2.3, 7.3.6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .bits import BitReader, BitstreamError, hevc_format, nal_spans, unescape
from .kind import NO_PICTURE, UNKNOWN, Leading, PacketKind, Picture, packet_kind
from .parameter_sets import hevc_has_none

__all__ = ["HevcClassifier", "hevc_highest_layer", "hevc_may_hide"]

_LAST_SUBLAYER_TYPE = 14
"""VCL types up to this one come in pairs: even for sub-layer non-reference pictures, odd for the others."""
_LAST_VCL_TYPE = 31
_FIRST_IRAP, _LAST_RANDOM_ACCESS, _LAST_IRAP = 16, 21, 23
_LASTING_TYPES = frozenset({32, 33, 34, 36, 37})
"""Parameter sets and the ends of sequence and stream: they matter to the pictures that follow."""
_SPS, _PPS = 33, 34
_LEADING = {6: Leading.RADL, 7: Leading.RADL, 8: Leading.RASL, 9: Leading.RASL}
_LETTERS: tuple[Picture, ...] = ("B", "P", "I")
_HEADER_BYTES = 24


@dataclass(frozen=True, slots=True)
class _Pps:
    """Fields of a picture parameter set that are needed to parse a slice's type."""

    output_flag_present: bool
    extra_bits: int


class _Slice(NamedTuple):
    """Fields of one slice segment."""

    kind: int
    layer: int
    letter: Picture | None
    shown: bool


class HevcClassifier:
    """Classifies HEVC packets, each a whole access unit, length-prefixed or Annex B.

    ``reference`` is False for sub-layer non-reference pictures; ``droppable`` considers their temporal layer.
    They do not affect the order count of others (prevTid0Pic excludes them, H.265 clause 8.3.1).
    NAL units of enhancement layers (nuh_layer_id > 0) are skipped.

    Args:
        extradata: hvcC record, Annex B parameter sets, or empty.

    Attributes:
        sets: the picture parameter sets seen so far.
    """

    def __init__(self, extradata: bytes) -> None:
        form = hevc_format(extradata)
        self._length_size = form.length_size
        self.sets: dict[int, _Pps] = {}
        for unit in form.parameter_sets:
            if len(unit) > 2 and unit[0] >> 1 == _PPS:
                self._learn(unit)

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind of a packet; `UNKNOWN` if it cannot be parsed."""
        try:
            return self._read(packet)
        except BitstreamError:
            return UNKNOWN

    def _read(self, packet: bytes | memoryview) -> PacketKind:
        slices: list[_Slice] = []
        lasting = False
        spans = nal_spans(packet, self._length_size)
        for begin, end in spans:
            kind = packet[begin] >> 1 & 63
            if end - begin < 2:
                raise BitstreamError("a NAL unit without a header")
            if packet[begin] & 1 or packet[begin + 1] >> 3:
                continue  # an enhancement layer
            if not packet[begin + 1] & 7:
                raise BitstreamError("nuh_temporal_id_plus1 is 0")
            if kind <= _LAST_VCL_TYPE:
                layer = (packet[begin + 1] & 7) - 1
                slices.append(self._slice(kind, layer, packet[begin + 2 : min(end, begin + _HEADER_BYTES)]))
            elif kind in _LASTING_TYPES:
                lasting = True
                if kind == _PPS:
                    self._learn(packet[begin:end])
        if not slices:
            return NO_PICTURE if all(hevc_has_none(bytes(packet[a:b])) for a, b in spans) else UNKNOWN
        return _summary(slices, lasting)

    def _slice(self, kind: int, layer: int, header: bytes | memoryview) -> _Slice:
        """Parse a slice segment; its letter is None for all but a picture's first one."""
        if len(header) and not header[0] & 0x80:  # first_slice_segment_in_pic_flag
            return _Slice(kind, layer, None, True)
        bits = BitReader(unescape(header))
        bits.skip(2 if _FIRST_IRAP <= kind <= _LAST_IRAP else 1)  # and no_output_of_prior_pics_flag
        pps = self.sets.get(bits.ue())
        if pps is None:
            raise BitstreamError("a slice of an unknown picture parameter set")
        bits.skip(pps.extra_bits)
        slice_type = bits.ue()
        if slice_type > 2:
            raise BitstreamError(f"slice_type {slice_type}")
        shown = bits.flag() if pps.output_flag_present else True
        return _Slice(kind, layer, _LETTERS[slice_type], shown)

    def _learn(self, unit: bytes | memoryview) -> None:
        """Read a picture parameter set, with its NAL header."""
        bits = BitReader(unescape(unit[2:_HEADER_BYTES]))
        number = bits.ue()
        bits.ue()  # pps_seq_parameter_set_id
        bits.skip(1)  # dependent_slice_segments_enabled_flag
        self.sets[number] = _Pps(bits.flag(), bits.u(3))


def hevc_highest_layer(extradata: bytes) -> int:
    """The highest temporal layer that the parameter sets in an extradata allow (sps_max_sub_layers_minus1)."""
    units = hevc_format(extradata).parameter_sets
    return max((unit[2] >> 1 & 7 for unit in units if len(unit) > 2 and unit[0] >> 1 == _SPS), default=0)


def hevc_may_hide(extradata: bytes) -> bool:
    """Return whether slice headers may decide if pictures are shown: output_flag_present_flag, or a missing set."""
    classifier = HevcClassifier(extradata)
    return not classifier.sets or any(pps.output_flag_present for pps in classifier.sets.values())


def _summary(slices: list[_Slice], lasting: bool) -> PacketKind:
    """Return the kind of a packet by its slices; all slices of a picture share their NAL type."""
    kind = slices[0].kind
    letters = {piece.letter for piece in slices}
    picture_type: Picture | None = (
        "B" if "B" in letters else "P" if "P" in letters else "I" if "I" in letters else None
    )
    return packet_kind(
        lasting or any(piece.kind > _LAST_SUBLAYER_TYPE or piece.kind % 2 for piece in slices),
        shown=all(piece.shown for piece in slices),
        temporal_id=max(piece.layer for piece in slices),
        leading=_LEADING.get(kind, Leading.NONE),
        random_access=kind >= _FIRST_IRAP if kind <= _LAST_RANDOM_ACCESS else None,
        picture_type=picture_type,
    )
