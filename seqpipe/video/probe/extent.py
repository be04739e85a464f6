"""File size and index position as stated by the first bytes of a file, for the detection of truncated files."""

from __future__ import annotations

import math

__all__ = ["HEAD", "data_before_index", "declared_size", "element"]

HEAD = 4096
"""Number of bytes at the start of a file that the functions of this module need."""

_EBML = 0x1A45DFA3
_SEGMENT = 0x18538067
_BOXES_BEFORE = {b"ftyp", b"free", b"skip", b"wide", b"pnot", b"uuid"}


def declared_size(head: bytes) -> int | None:
    """Return the minimum size in bytes of a complete file; None if its container does not state it.

    Matroska and WebM state the size of their segment (RFC 8794, RFC 9559), AVI that of its RIFF chunk. Live recordings
    have no size.

    Args:
        head: the first bytes of the file, up to ``HEAD``.
    """
    if head[:4] == b"RIFF" and len(head) >= 8:
        return 8 + int.from_bytes(head[4:8], "little") if head[4:8].strip(b"\x00\xff") else None
    position = 0
    while found := element(head, position):
        identity, start, size = found
        if size is None or identity not in (_EBML, _SEGMENT):
            return None
        if identity == _SEGMENT:
            return start + size
        position = start + size
    return None


def data_before_index(head: bytes) -> float:
    """Return the bytes of data before the index (``moov``) of an MP4 or QuickTime file; 0 if the index is first.

    Reading such a file requires seeking back to the data after the index.

    Args:
        head: the first bytes of the file, up to ``HEAD``.

    Returns:
        Infinity if the size of the data is not stated; 0 for other containers.
    """
    position = 0
    while (kind := head[position + 4 : position + 8]) in _BOXES_BEFORE or kind == b"mdat":
        size = int.from_bytes(head[position : position + 4], "big")
        if size == 1:  # a 64-bit size follows the type
            size = int.from_bytes(head[position + 8 : position + 16], "big")
        if kind == b"mdat":
            return size or math.inf
        if size < 8:
            return 0
        position += size
    return 0


def element(head: bytes, position: int) -> tuple[int, int, int | None] | None:
    """Return ID, start and size (None if unknown) of an EBML element's data; None if its header is incomplete."""
    identity = _number(head, position, keep_marker=True)
    size = None if identity is None else _number(head, position + identity[1], keep_marker=False)
    if identity is None or size is None:
        return None
    value, width = size
    unknown = value == (1 << 7 * width) - 1
    return identity[0], position + identity[1] + width, None if unknown else value


def _number(head: bytes, position: int, *, keep_marker: bool) -> tuple[int, int] | None:
    """Return an EBML variable-length number and its width in bytes."""
    if position >= len(head) or head[position] == 0:
        return None
    width = 9 - head[position].bit_length()
    if position + width > len(head):
        return None
    value = int.from_bytes(head[position : position + width], "big")
    return (value if keep_marker else value & ((1 << 7 * width) - 1)), width
