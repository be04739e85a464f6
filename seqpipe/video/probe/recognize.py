"""Recognition of what a source is that cannot be decoded: encrypted media, manifests, other files."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import SeqpipeError, SourceError, UnreadableSourceError
from ..source.source import Source
from ..source.stills import is_animated_webp

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = [
    "COMMON_ENCRYPTION",
    "HEAD",
    "Recognized",
    "check_scrambled",
    "data_before_index",
    "declared_size",
    "element",
    "encrypted",
    "parsing",
    "recognize",
]

HEAD = 4096
"""Number of bytes at the start of a file that the functions of this module need."""

_EBML = 0x1A45DFA3
_SEGMENT = 0x18538067
_BOXES_BEFORE = {b"ftyp", b"free", b"skip", b"wide", b"pnot", b"uuid"}


def declared_size(head: bytes) -> int | None:
    """Return the minimum size in bytes of a complete file; None if its container does not state it.

    Matroska and WebM state the size of their segment (RFC 8794, RFC 9559), AVI that of its RIFF chunk. Live recordings
    have no size.
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


@contextlib.contextmanager
def parsing(source: Source) -> Iterator[None]:
    """Convert exceptions raised while a source is parsed to :class:`UnreadableSourceError`, chained to their cause.

    Damaged bytes make parsers, including FFmpeg and PyAV, raise any exception; one broken file must not end the
    processing of a dataset. A plain MemoryError propagates; PyAV's subclass of it does not, as a damaged size causes
    it.
    """
    try:
        yield
    except SeqpipeError:
        raise
    except Exception as error:
        if type(error) is MemoryError:
            raise
        reason = getattr(error, "strerror", None) or str(error) or "no reason given"
        raise UnreadableSourceError(
            f"its structure cannot be read ({type(error).__name__}: {reason})",
            source=source.name,
            advice="The file may be damaged: fetch it again, or leave it out with on_error='skip'",
        ) from error


_SCRAMBLED_HEAD: Final = 1 << 16
"""Bytes at the start of a file in which scrambled packets are looked for."""

_HEAD: Final = 4096
_MOST_BOXES: Final = 1000
_LARGEST_MOOV: Final = 64 << 20
COMMON_ENCRYPTION: Final = "Common Encryption, ISO/IEC 23001-7"
_DECRYPT: Final = "Decrypt it first, with its key and a tool for its scheme"
_TS_PACKETS: Final = (
    (188, 0),
    (192, 4),
    (204, 0),
)  # size, begin of the first: plain, M2TS, with error correction
_TS_TABLES: Final = 32  # numbers below belong to tables, which are never scrambled
_TS_NULL: Final = 0x1FFF
_SECTOR, _PACK, _VIDEO_PES = 2048, b"\0\0\1\xba", b"\0\0\1\xe0"
_FEWEST_PACKETS: Final = 4
_ASF_ENCRYPTION: Final = tuple(
    map(
        bytes.fromhex,
        (
            "fbb3112223bdd211b4b700a0c955fc6e",
            "14e68a292226174cb935dae07ee9289c",
            "b68505438169e6499b74ad12cb86d58c",
        ),
    )
)
_TO_ENCRYPTION: Final = 0x18538067, 0x1654AE6B, 0xAE, 0x6D80, 0x6240, 0x5035
"""Matroska: segment, tracks, track entry, content encodings, one of them, its encryption."""


class Recognized(NamedTuple):
    """What a source is, and what to do with it."""

    fact: str
    advice: str


def encrypted(source: Source, how: str) -> UnreadableSourceError:
    """Return the error for encrypted media."""
    return UnreadableSourceError(f"the video is encrypted ({how})", source=source.name, advice=_DECRYPT)


def check_scrambled(source: Source, container: InputContainer) -> None:
    """Check that the packets of a container that flags encryption in its own structure are not encrypted."""
    name = container.format.name
    if name not in ("mpegts", "mpeg", "asf", "matroska,webm"):
        return
    head = _head(source, _HEAD if source.slow else _SCRAMBLED_HEAD)  # what a remote source has read already
    if name == "mpegts" and _is_scrambled(head):
        raise encrypted(source, "its transport stream packets are scrambled")
    if name == "mpeg" and _is_scrambled_program(head):
        raise encrypted(source, "its program stream packets are scrambled, as on a DVD")
    if name == "asf" and any(guid in head for guid in _ASF_ENCRYPTION):
        raise encrypted(source, "Windows Media DRM")
    if name == "matroska,webm" and _holds(head, 0, len(head), _TO_ENCRYPTION):
        raise encrypted(source, "ContentEncryption of Matroska")


def recognize(source: Source) -> Recognized | None:
    """Return what a source that cannot be decoded is; None if it is not recognized."""
    head = _head(source, _HEAD)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        if is_animated_webp(head):
            return Recognized(
                "this is an animated WebP, which is read from a file whose name ends in .webp, or from its bytes",
                "Rename it, and open it by seqpipe.open or seqpipe.videos",
            )
        return Recognized("this is a damaged WebP image", "Fetch it again")
    if head[4:8] == b"ftyp" and _declares_encryption(source):
        return Recognized(f"the video is encrypted ({COMMON_ENCRYPTION})", _DECRYPT)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1024]
    for mark, what in _TEXTS:
        if mark.search(text):
            return what
    return None


def _declares_encryption(source: Source) -> bool:
    """Return whether the tables of an MP4 file have an encrypted sample entry."""
    at = 0
    for _ in range(_MOST_BOXES):
        header = _read(source, at, 16)
        if len(header) < 16:
            return False
        size, kind = int.from_bytes(header[:4], "big"), header[4:8]
        size = int.from_bytes(header[8:], "big") if size == 1 else size
        if kind == b"moov":
            tables = _read(source, at, min(size or _LARGEST_MOOV, _LARGEST_MOOV))
            return b"encv" in tables and b"sinf" in tables
        if not size:  # the box ends with the file
            return False
        at += max(size, 8)
    return False


_TEXTS: Final = (
    (
        re.compile(rb"<(?:\w+:)?MPD[\s>]"),
        Recognized(
            "this is a DASH manifest (MPD), which lists the files of a video",
            "Pass its path, which ends in .mpd, next to the files that it lists",
        ),
    ),
    (
        re.compile(rb"<SmoothStreamingMedia[\s>]"),
        Recognized(
            "this is a Smooth Streaming manifest, which lists the files of a video",
            "Open a file that it lists",
        ),
    ),
    (
        re.compile(rb"^#EXTM3U(?s:.)*#EXT-X-(?:SESSION-)?KEY:METHOD=(?!NONE)"),
        Recognized("this is an HLS playlist of encrypted files, which cannot be opened here", _DECRYPT),
    ),
    (
        re.compile(rb"^#EXTM3U"),
        Recognized(
            "this is an HLS playlist, which lists the files of a video; it, or a file of it, cannot be opened here",
            "Pass its path, next to the files that it lists, or join them: ffmpeg -i FILE.m3u8 -c copy clip.mp4",
        ),
    ),
    (
        re.compile(rb"^(?:<!doctype html|<html)", re.IGNORECASE),
        Recognized("this is a web page (HTML)", "Fetch the video itself: its address leads to a page"),
    ),
    (
        re.compile(rb"^version https://git-lfs"),
        Recognized("this is a pointer of Git LFS, not the file itself", "Fetch the file: git lfs pull"),
    ),
)


def _head(source: Source, size: int) -> bytes:
    return _read(source, 0, size)


def _read(source: Source, at: int, size: int) -> bytes:
    """Return bytes of a source; none if it cannot be read."""
    try:
        return source.read([(at, size)])[0]
    except SourceError:  # the caller's error says more
        return b""


def _is_scrambled(head: bytes) -> bool:
    """Return whether most packets of a transport stream with payload are scrambled."""
    for size, begin in _TS_PACKETS:
        packets = [head[at : at + 4] for at in range(begin, len(head) - 3, size)]
        if len(packets) < _FEWEST_PACKETS or any(packet[0] != 0x47 for packet in packets[:_FEWEST_PACKETS]):
            continue
        flags = [
            bool(packet[3] & 0xC0)
            for packet in packets
            if packet[0] == 0x47
            and packet[3] & 0x10
            and _TS_TABLES <= (packet[1] << 8 | packet[2]) & _TS_NULL < _TS_NULL
        ]
        return sum(flags) * 2 > len(flags)
    return False


def _is_scrambled_program(head: bytes) -> bool:
    """Return whether a video packet of a program stream in sectors, as on a DVD, is scrambled."""
    for at in range(0, len(head) - 32, _SECTOR):
        if head[at : at + 4] != _PACK:
            return False
        packet = at + 14 + (head[at + 13] & 7)
        if head[packet : packet + 4] == _VIDEO_PES and head[packet + 6] & 0xF0 in (0x90, 0xA0, 0xB0):
            return True
    return False


def _holds(head: bytes, at: int, end: int, path: tuple[int, ...]) -> bool:
    """Return whether there is an EBML element below elements of the given IDs, the last of which is its own."""
    while at < end and (found := element(head, at)) is not None:
        identity, start, size = found
        at = end if size is None else min(end, start + size)
        if identity == path[0] and (len(path) == 1 or _holds(head, start, at, path[1:])):
            return True
    return False
