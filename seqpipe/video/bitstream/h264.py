"""H.264: NAL types, nal_ref_idc, slice types, frame numbers, recovery points (ITU-T H.264, 7.3, 7.4.3, D.1)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .bits import BitReader, BitstreamError, avc_format, nal_spans, unescape
from .kind import NO_PICTURE, UNKNOWN, PacketKind, Picture, packet_kind
from .parameter_sets import h264_has_none, sei_number
from .sps import H264Sequence, h264_sequence

if TYPE_CHECKING:
    from av.buffer import Buffer

__all__ = ["H264Classifier"]

_SLICE_TYPES = frozenset({1, 2, 5})
"""Slice, data partition A, slice of an IDR picture. Partitions B and C repeat the nal_ref_idc of their A."""
_LASTING_TYPES = frozenset({7, 8, 10, 11, 13, 15})
"""Parameter sets and the ends of sequence and stream: they matter to the pictures that follow."""
_SEI, _SPS, _PPS = 6, 7, 8
_IDR = 5
_RECOVERY_POINT = 6
_HEADER_BYTES = 16
"""Enough for first_mb_in_slice and slice_type, 63 bits at most, with emulation prevention."""
_LETTERS: tuple[Picture, ...] = ("P", "B", "I", "P", "I")
"""By slice_type modulo 5: P, B, I, SP, SI."""
_SETS = 256
# Flags of a result of h264.c, and of its argument that describes a sequence's frame numbers.
_REFERENCE, _CONTRADICTS, _ACCESS, _ACCESS_UNKNOWN, _LETTER = 1, 2, 4, 8, 16
_NUMBER_BITS, _PLANES_APART, _FRAMES_ONLY, _GAPS, _LEFT = 31, 32, 64, 128, -1


class H264Classifier:
    """Classifies H.264 packets, each a whole access unit, length-prefixed or Annex B.

    A packet is no reference if nal_ref_idc is 0 in all of its slices and it holds no parameter sets. Such
    pictures take no part in deriving any other picture's order count, frame number or reference lists.

    References are numbered consecutively, and non-references have the number of the next reference. A picture with
    another number contradicts: where packets are missing, repeated or moved, libavcodec silently conceals the gap with
    made-up references, and the picture then depends on all packets before it.

    Args:
        extradata: avcC record, Annex B parameter sets, or empty.
    """

    def __init__(self, extradata: bytes) -> None:
        form = avc_format(extradata)
        self._length_size = form.length_size
        self._sequences: dict[int, H264Sequence] = {}
        self._sequence_of: dict[int, int] = {}
        self._number: int | None = None  # of the last reference
        for unit in form.parameter_sets:
            self._learn(unit)

    def classify(self, packet: bytes | memoryview) -> PacketKind:
        """Return the kind of a packet; `UNKNOWN` if it cannot be parsed."""
        try:
            return self._read(packet)
        except BitstreamError:
            self._number = None
            return UNKNOWN

    def classify_all(self, packets: Sequence[Buffer]) -> list[PacketKind]:
        """Return the kinds of consecutive packets; ``h264.c``, where it is compiled, takes a tenth of the time."""
        native = _native()
        if native is None:
            return [self.classify(bytes(packet)) for packet in packets]
        from ...core.native import buffer_of

        addresses = np.array([packet.buffer_ptr for packet in packets], np.uint64)
        sizes = np.array([packet.buffer_size for packet in packets], np.int64)
        state, answers = np.zeros(2, np.int64), np.empty(len(packets), np.uint8)
        kinds: list[PacketKind] = []
        while len(kinds) < len(packets):
            state[1] = -1 if self._number is None else self._number
            columns = map(buffer_of, (addresses, sizes))
            counts = len(packets), self._length_size
            native.seqpipe_h264(*columns, *counts, *map(buffer_of, (self._numbering(), state, answers)))
            self._number = int(state[1]) if state[1] >= 0 else None
            kinds += map(_kind_of, answers[len(kinds) : state[0]].tolist())
            if len(kinds) < len(packets):  # a packet that h264.c does not support
                kinds.append(self.classify(bytes(packets[len(kinds)])))
                state[0] += 1
        return kinds

    def _numbering(self) -> npt.NDArray[np.int32]:
        """Return the frame numbering of each picture parameter set's sequence, for ``h264.c``."""
        numbering = np.zeros(_SETS, np.int32)
        for picture, number in self._sequence_of.items():
            sequence = self._sequences.get(number)
            if sequence is not None and picture < _SETS:
                flags = (
                    _PLANES_APART * sequence.planes_apart
                    | _FRAMES_ONLY * sequence.frames_only
                    | _GAPS * sequence.gaps
                )
                numbering[picture] = (
                    flags | sequence.number_bits if sequence.number_bits <= _NUMBER_BITS else _LEFT
                )
        return numbering

    def _read(self, packet: bytes | memoryview) -> PacketKind:
        reference = idr = recovery = False
        letters: set[Picture] = set()
        first: bytes | memoryview = b""
        spans = nal_spans(packet, self._length_size)
        for begin, end in spans:
            header = packet[begin]
            kind = header & 31
            if kind in _SLICE_TYPES:
                reference = reference or header & 0x60 != 0
                idr = idr or kind == _IDR
                piece = packet[begin + 1 : min(end, begin + _HEADER_BYTES)]
                letters.add(_slice_letter(piece))
                first = first or piece
            elif kind == _SEI:
                recovery = recovery or _recovers_at_once(unescape(packet[begin + 1 : end]))
            elif kind in _LASTING_TYPES:
                reference = True
                if kind in (_SPS, _PPS):
                    self._learn(packet[begin:end])
        if not letters:
            return NO_PICTURE if all(h264_has_none(bytes(packet[a:b])) for a, b in spans) else UNKNOWN
        picture_type: Picture = "B" if "B" in letters else "P" if "P" in letters else "I"
        access = idr or (True if recovery and picture_type == "I" else None if picture_type == "I" else False)
        contradicts = self._contradicts(first, reference=reference, checked=picture_type != "I")
        return packet_kind(
            reference or recovery, random_access=access, picture_type=picture_type, contradicts=contradicts
        )

    def _contradicts(self, header: bytes | memoryview, *, reference: bool, checked: bool) -> bool:
        """Return whether the frame number of a picture's first slice is inconsistent with the pictures before it."""
        bits = BitReader(unescape(header))
        bits.ue()  # first_mb_in_slice
        bits.ue()  # slice_type
        sequence = self._sequences.get(self._sequence_of.get(bits.ue(), -1))
        if sequence is None:
            return False
        number, before = bits.u(2 * sequence.planes_apart + sequence.number_bits), self._number
        number &= (1 << sequence.number_bits) - 1
        if reference:
            self._number = number
        if before is None or not checked:
            return False
        step = (number - before) % (1 << sequence.number_bits)
        return reference and sequence.frames_only if step == 0 else step != 1 and not sequence.gaps

    def _learn(self, unit: bytes | memoryview) -> None:
        """Read a parameter set, with its NAL header; without it, frame numbers are not checked."""
        with contextlib.suppress(BitstreamError):
            if unit[0] & 31 == _SPS:
                sequence = _sequence(bytes(unit))
                self._sequences[sequence.number] = sequence
            elif unit[0] & 31 == _PPS:
                bits = BitReader(unescape(unit[1:_HEADER_BYTES]))
                picture = bits.ue()
                self._sequence_of[picture] = bits.ue()


@lru_cache(maxsize=64)
def _sequence(unit: bytes) -> H264Sequence:
    """Parse a sequence parameter set, memoized: the files of a dataset mostly share theirs."""
    return h264_sequence(BitReader(unescape(unit[1:])))


@cache
def _native() -> Any:
    """Load ``h264.c``; None without a C compiler."""
    from ...core.native import load_functions  # imported late: most videos are read packet by packet

    count, pointer = ctypes.c_int64, ctypes.c_void_p
    return load_functions(
        __package__, "h264.c", {"h264": (pointer, pointer, count, count, pointer, pointer, pointer)}
    )


@cache
def _kind_of(answer: int) -> PacketKind:
    """Convert a result of ``h264.c``."""
    return packet_kind(
        bool(answer & _REFERENCE),
        random_access=None if answer & _ACCESS_UNKNOWN else bool(answer & _ACCESS),
        picture_type=("I", "P", "B")[answer // _LETTER],
        contradicts=bool(answer & _CONTRADICTS),
    )


def _slice_letter(header: bytes | memoryview) -> Picture:
    """Return the slice type from the first bytes after a slice's NAL header."""
    if len(header) and header[0] & 0x80:  # the picture's first slice: slice_type is in the other 7 bits
        letter = _FIRST_BYTE[header[0] & 0x7F]
        if letter is not None:
            return letter
    bits = BitReader(unescape(header))
    bits.ue()
    slice_type = bits.ue()
    if slice_type > 9:
        raise BitstreamError(f"slice_type {slice_type}")
    return _LETTERS[slice_type % 5]


def _recovers_at_once(payload: bytes) -> bool:
    """Return whether an SEI unit holds a recovery point with recovery_frame_cnt 0.

    With a larger count (gradual refresh) only later frames are exact.
    """
    at = 0
    while at + 2 < len(payload):
        kind, at = sei_number(payload, at)
        size, at = sei_number(payload, at)
        if kind == _RECOVERY_POINT:
            return BitReader(payload[at : at + size]).ue() == 0
        at += size
    return False


def _first_byte_table() -> tuple[Picture | None, ...]:
    letters: list[Picture | None] = []
    for seven in range(128):
        zeros = 7 - seven.bit_length()
        value = (seven >> (6 - 2 * zeros)) - 1 if zeros <= 3 else 10
        letters.append(_LETTERS[value % 5] if value <= 9 else None)
    return tuple(letters)


_FIRST_BYTE = _first_byte_table()
