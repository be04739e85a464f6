"""Checksums of files, and whether they are verified.

An environment variable turns verification off, for files that are known to be wrong: the data are used as they are.
"""

from __future__ import annotations

import os
from typing import Final

__all__ = ["VERIFY", "masked_crc32c", "verifies"]

VERIFY: Final = "SEQPIPE_VERIFY"
"""The environment variable; 0 uses data whose checksum is wrong, and images whose decoder reports damage."""


def verifies() -> bool:
    """Return whether checksums are verified."""
    return os.environ.get(VERIFY, "1") != "0"


def masked_crc32c(data: bytes | memoryview) -> int:
    """Return TFRecord's checksum of bytes: CRC-32C, rotated, plus a constant."""
    import google_crc32c

    crc: int = google_crc32c.value(bytes(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
