"""Fixed-length and exponential-Golomb codes, read from the first bytes of a packet."""

from __future__ import annotations

__all__ = ["BitReader", "BitstreamError", "unescape"]


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
        """Read an unsigned integer of a fixed number of bits.

        Raises:
            BitstreamError: fewer bits are left.
        """
        left = self._left - bits
        if left < 0:
            raise BitstreamError(f"{bits} bits requested, {self._left} left")
        self._left = left
        return (self._value >> left) & ((1 << bits) - 1)

    def flag(self) -> bool:
        """Read one bit.

        Raises:
            BitstreamError: none is left.
        """
        return self.u(1) == 1

    def skip(self, bits: int) -> None:
        """Skip bits.

        Raises:
            BitstreamError: fewer bits are left.
        """
        if bits > self._left:
            raise BitstreamError(f"{bits} bits to skip, {self._left} left")
        self._left -= bits

    def ue(self) -> int:
        """Read an unsigned exponential-Golomb code (H.264 clause 9.1), at most 2^32 - 2.

        Raises:
            BitstreamError: the code is cut, or longer than 32 leading zeros.
        """
        rest = self._value & ((1 << self._left) - 1)
        zeros = self._left - rest.bit_length()
        if zeros > 32:
            raise BitstreamError("an exponential-Golomb code of more than 32 leading zeros")
        self.skip(zeros)
        return self.u(zeros + 1) - 1

    def se(self) -> int:
        """Read a signed exponential-Golomb code: 0, 1, -1, 2, -2, ….

        Raises:
            BitstreamError: as :meth:`ue`.
        """
        code = self.ue()
        return (code + 1) // 2 if code % 2 else -(code // 2)


def unescape(data: bytes | memoryview) -> bytes:
    """Return a NAL unit's payload without emulation prevention bytes (00 00 03 → 00 00)."""
    return bytes(data).replace(b"\0\0\3", b"\0\0")
