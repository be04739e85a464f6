"""Checksums of files, and whether they are verified.

An environment variable turns verification off, for files that are known to be wrong: the data are used as they are.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["VERIFY", "crc32c", "masked_crc32c", "verifies"]

VERIFY: Final = "SEQPIPE_VERIFY"
"""The environment variable; 0 uses data whose checksum is wrong, and images whose decoder reports damage."""

_POLYNOMIAL: Final = 0x82F63B78
_BLOCK: Final = 512
"""Bytes of a block; its table takes half a MiB, which a processor's cache holds."""
_MAX_BYTEWISE: Final = 16
_BLOCKS_AT_ONCE: Final = 256


def verifies() -> bool:
    """Return whether checksums are verified."""
    return os.environ.get(VERIFY, "1") != "0"


def masked_crc32c(data: Any) -> int:
    """Return TFRecord's checksum of bytes: CRC-32C, rotated, plus a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: Any) -> int:
    """Return the CRC-32C (Castagnoli) of bytes.

    A CRC is linear: that of a block is the XOR of what each of its bytes contributes, by its position. The CRC so far
    joins the first four bytes of the next block.
    """
    raw = np.frombuffer(data, np.uint8)
    bytewise, contributions, joined = _tables()
    crc, first = 0xFFFFFFFF, len(raw) % _BLOCK
    if first < _MAX_BYTEWISE:
        for byte in raw[:first].tolist():
            crc = bytewise[(crc ^ byte) & 0xFF] ^ crc >> 8
    else:
        head = raw[None, :first].copy()
        head[:, :4] ^= 0xFF
        (crc,) = _of_blocks(head, contributions[-first:])
    blocks = raw[first:].reshape(-1, _BLOCK)
    low, second, third, high = joined
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        for own in _of_blocks(blocks[start : start + _BLOCKS_AT_ONCE], contributions):
            crc = low[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ high[crc >> 24] ^ own
    return crc ^ 0xFFFFFFFF


def _of_blocks(blocks: npt.NDArray[np.uint8], contributions: npt.NDArray[np.uint32]) -> list[int]:
    """Return what the bytes of each block contribute."""
    entries = np.arange(0, contributions.size, 256) + blocks
    result: list[int] = np.bitwise_xor.reduce(contributions.reshape(-1).take(entries), axis=1).tolist()
    return result


@cache
def _tables() -> tuple[list[int], npt.NDArray[np.uint32], list[list[int]]]:
    """Return the table of a byte, those of the bytes of a block, and those of its first four as lists."""
    bytewise = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        bytewise = np.where(bytewise & 1, bytewise >> 1 ^ _POLYNOMIAL, bytewise >> 1).astype(np.uint32)
    contributions = np.empty((_BLOCK, 256), np.uint32)
    contributions[-1] = bytewise
    for position in range(_BLOCK - 2, -1, -1):
        after = contributions[position + 1]
        contributions[position] = bytewise[after & 0xFF] ^ after >> np.uint32(8)
    return bytewise.tolist(), contributions, contributions[:4].tolist()
