"""Bit surgery on H.264 sequence parameter sets (ITU-T H.264, 7.3.2.1.1)."""

from __future__ import annotations

import re

__all__ = ["vui_removed"]

_HIGH_PROFILES = {100, 110, 122, 244, 44, 83, 86, 118, 128}


class _Bits:
    """A reader of single bits and Exp-Golomb numbers."""

    def __init__(self, data: bytes) -> None:
        self.bits = "".join(f"{byte:08b}" for byte in data)
        self.position = 0

    def take(self, count: int) -> int:
        self.position += count
        return int(self.bits[self.position - count : self.position] or "0", 2)

    def golomb(self) -> int:
        zeros = self.bits.index("1", self.position) - self.position
        self.position += zeros
        return self.take(zeros + 1) - 1


def vui_removed(configuration: bytes) -> bytes:
    """An avcC record (ISO/IEC 14496-15, 5.3.3.1) whose parameter set ends before its usability information.

    Raises:
        ValueError: the parameter set uses scaling matrices or an order count of type 1; x264 writes neither.
    """
    length = int.from_bytes(configuration[6:8], "big")
    unit = _sps_without_vui(configuration[8 : 8 + length])
    return configuration[:6] + len(unit).to_bytes(2, "big") + unit + configuration[8 + length :]


def _sps_without_vui(unit: bytes) -> bytes:
    bits = _Bits(unit[1:].replace(b"\x00\x00\x03", b"\x00\x00"))
    profile = bits.take(8)
    bits.take(16)
    bits.golomb()
    if profile in _HIGH_PROFILES:
        _skip_high(bits)
    bits.golomb()
    order = bits.golomb()
    if order == 0:
        bits.golomb()
    elif order == 1:
        raise ValueError("picture order count of type 1 is not supported here")
    for part in (bits.golomb, lambda: bits.take(1), bits.golomb, bits.golomb):
        part()
    if not bits.take(1):
        bits.take(1)
    bits.take(1)
    if bits.take(1):
        for _ in range(4):
            bits.golomb()
    kept = bits.bits[: bits.position] + "0" + "1"
    kept += "0" * (-len(kept) % 8)
    payload = bytes(int(kept[start : start + 8], 2) for start in range(0, len(kept), 8))
    return unit[:1] + re.sub(rb"\x00\x00(?=[\x00-\x03])", b"\x00\x00\x03", payload)


def _skip_high(bits: _Bits) -> None:
    chroma = bits.golomb()
    if chroma == 3:
        bits.take(1)
    bits.golomb()
    bits.golomb()
    bits.take(1)
    if bits.take(1):
        raise ValueError("scaling matrices are not supported here")
