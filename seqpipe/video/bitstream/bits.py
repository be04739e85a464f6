"""Bit readers, and the NAL units of H.264 and HEVC."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

__all__ = ["BitReader", "BitstreamError", "NalFormat", "avc_format", "hevc_format", "nal_spans", "unescape"]


class BitstreamError(Exception):
    """The bytes end too early, or violate the codec's syntax. Never leaves this package."""


class BitReader:
    """Reads bits from the most significant one on.

    The bytes are held as one integer, which is fast for short headers.

    Args:
        data: the bytes to read, without emulation prevention.
    """

    __slots__ = ("_left", "_value")

    def __init__(self, data: bytes | memoryview) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    @property
    def left(self) -> int:
        """Number of bits that were not read yet."""
        return self._left

    def u(self, bits: int) -> int:
        """Read an unsigned integer of a fixed number of bits."""
        left = self._left - bits
        if left < 0:
            raise BitstreamError(f"{bits} bits requested, {self._left} left")
        self._left = left
        return (self._value >> left) & ((1 << bits) - 1)

    def flag(self) -> bool:
        """Read one bit."""
        return self.u(1) == 1

    def skip(self, bits: int) -> None:
        """Skip bits."""
        if bits > self._left:
            raise BitstreamError(f"{bits} bits to skip, {self._left} left")
        self._left -= bits

    def ue(self) -> int:
        """Read an unsigned exponential-Golomb code (H.264 clause 9.1), at most 2^32 - 2."""
        rest = self._value & ((1 << self._left) - 1)
        zeros = self._left - rest.bit_length()
        if zeros > 32:
            raise BitstreamError("an exponential-Golomb code of more than 32 leading zeros")
        self.skip(zeros)
        return self.u(zeros + 1) - 1

    def se(self) -> int:
        """Read a signed exponential-Golomb code: 0, 1, -1, 2, -2, …."""
        code = self.ue()
        return (code + 1) // 2 if code % 2 else -(code // 2)


def unescape(data: bytes | memoryview) -> bytes:
    """Return a NAL unit's payload without emulation prevention bytes (00 00 03 → 00 00)."""
    return bytes(data).replace(b"\0\0\3", b"\0\0")


_START = b"\0\0\1"


@dataclass(frozen=True, slots=True)
class NalFormat:
    """Framing of NAL units in a stream's packets.

    Attributes:
        length_size: bytes of the length before each unit; 0 for start codes (Annex B).
        parameter_sets: the NAL units found in the extradata, with their headers.
    """

    length_size: int
    parameter_sets: tuple[bytes, ...] = ()


@lru_cache(maxsize=64)  # called several times for a file; the files of a dataset share their extradata
def avc_format(extradata: bytes) -> NalFormat:
    """The format of an H.264 stream: length-prefixed if the extradata is an avcC record, else Annex B.

    A record that is cut short gives the parameter sets before the cut.
    """
    if extradata[:1] != b"\1" or len(extradata) < 7:
        return NalFormat(0, _annex_b_units(extradata))
    units: list[bytes] = []
    at = _counted_units(extradata, 6, extradata[5] & 31, units)
    if at < len(extradata):
        _counted_units(extradata, at + 1, extradata[at], units)
    return NalFormat((extradata[4] & 3) + 1, tuple(units))


@lru_cache(maxsize=64)
def hevc_format(extradata: bytes) -> NalFormat:
    """The format of an HEVC stream: length-prefixed if the extradata is an hvcC record, else Annex B.

    A record that is cut short gives the parameter sets before the cut.
    """
    if len(extradata) < 23 or extradata[:3] in (b"\0\0\0", _START):
        return NalFormat(0, _annex_b_units(extradata))
    units: list[bytes] = []
    at = 23
    for _ in range(extradata[22]):
        count = int.from_bytes(extradata[at + 1 : at + 3], "big")
        at = _counted_units(extradata, at + 3, count, units)
    return NalFormat((extradata[21] & 3) + 1, tuple(units))


def nal_spans(packet: bytes | memoryview, length_size: int) -> list[tuple[int, int]]:
    """Return begin and end of each NAL unit in a packet, without start codes and lengths; empty units are skipped.

    A stream that declares lengths but has start codes is parsed by its start codes, as decoders do.
    """
    if not length_size:
        return _start_code_spans(bytes(packet))
    spans: list[tuple[int, int]] = []
    at, size = 0, len(packet)
    while at < size:
        begin = at + length_size
        at = begin + int.from_bytes(packet[at:begin], "big")
        if at > size:
            if bytes(packet[:4]) == b"\0" + _START or bytes(packet[:3]) == _START:
                return _start_code_spans(bytes(packet))
            raise BitstreamError("a NAL unit is longer than its packet")
        if at > begin:
            spans.append((begin, at))
    return spans


def _start_code_spans(data: bytes) -> list[tuple[int, int]]:
    """Return begin and end of the units between start codes."""
    spans: list[tuple[int, int]] = []
    code = data.find(_START)
    if code < 0:
        raise BitstreamError("no start code")
    while code >= 0:
        begin = code + 3
        code = data.find(_START, begin)
        end = code if code >= 0 else len(data)
        if end > begin:
            spans.append((begin, end))
    return spans


def _annex_b_units(extradata: bytes) -> tuple[bytes, ...]:
    if _START not in extradata:
        return ()
    return tuple(extradata[begin:end] for begin, end in _start_code_spans(extradata))


def _counted_units(record: bytes, at: int, count: int, units: list[bytes]) -> int:
    """Appends `count` units with 16-bit lengths; returns where they end, or the record's length."""
    for _ in range(count):
        begin = at + 2
        at = begin + int.from_bytes(record[at:begin], "big")
        if at > len(record) or begin >= len(record):
            return len(record)
        units.append(record[begin:at])
    return at
