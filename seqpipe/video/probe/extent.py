"""How long a file says it is: containers that state their length in their first bytes, so that a cut shows."""

from __future__ import annotations

__all__ = ["HEAD", "declared_size"]

HEAD = 4096
"""Bytes of the file's start that :func:`declared_size` wants to see."""

_EBML = 0x1A45DFA3
_SEGMENT = 0x18538067


def declared_size(head: bytes) -> int | None:
    """The size in bytes that the file should have at least; None where its container does not say.

    Matroska and WebM state the size of their segment (RFC 8794, RFC 9559), AVI that of its RIFF chunk. Live recordings
    leave it open.

    Args:
        head: the first bytes of the file, up to ``HEAD``.
    """
    if head[:4] == b"RIFF" and len(head) >= 8:
        return 8 + int.from_bytes(head[4:8], "little") if head[4:8].strip(b"\x00\xff") else None
    position = 0
    while element := _element(head, position):
        identity, start, size = element
        if size is None or identity not in (_EBML, _SEGMENT):
            return None
        if identity == _SEGMENT:
            return start + size
        position = start + size
    return None


def _element(head: bytes, position: int) -> tuple[int, int, int | None] | None:
    """Identity, start and size of the data (None if left open) of an EBML element; None if it is not all here."""
    identity = _number(head, position, keep_marker=True)
    size = None if identity is None else _number(head, position + identity[1], keep_marker=False)
    if identity is None or size is None:
        return None
    value, width = size
    unknown = value == (1 << 7 * width) - 1
    return identity[0], position + identity[1] + width, None if unknown else value


def _number(head: bytes, position: int, *, keep_marker: bool) -> tuple[int, int] | None:
    """An EBML variable-length number and its width in bytes."""
    if position >= len(head) or head[position] == 0:
        return None
    width = 9 - head[position].bit_length()
    if position + width > len(head):
        return None
    value = int.from_bytes(head[position : position + width], "big")
    return (value if keep_marker else value & ((1 << 7 * width) - 1)), width
