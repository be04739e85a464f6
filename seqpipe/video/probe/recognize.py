"""Recognition of what a source is that cannot be decoded: encrypted media, manifests, other files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import SourceError, UnreadableSourceError
from ..source.source import Source
from .extent import element

if TYPE_CHECKING:
    from av.container import InputContainer

__all__ = ["Recognized", "check_scrambled", "encrypted", "recognize"]

_SCRAMBLED_HEAD: Final = 1 << 16
"""Bytes at the start of a file in which scrambled packets are looked for."""

_HEAD: Final = 4096
_DECRYPT: Final = "Decrypt it first, with its key and a tool for its scheme"
_TS_PACKETS: Final = (
    (188, 0),
    (192, 4),
    (204, 0),
)  # size, begin of the first: plain, M2TS, with error correction
_TS_TABLES: Final = 32  # numbers below belong to tables, which are never scrambled
_TS_NULL: Final = 0x1FFF
_SECTOR, _PACK, _VIDEO_PES = 2048, b"\0\0\1\xba", b"\0\0\1\xe0"
_FEW: Final = 4
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
    """Return the error for encrypted media.

    Args:
        source: the source.
        how: what says that it is encrypted.
    """
    return UnreadableSourceError(f"the video is encrypted ({how})", source=source.name, advice=_DECRYPT)


def check_scrambled(source: Source, container: InputContainer) -> None:
    """Check that the packets of a container that flags encryption in its own structure are not encrypted.

    Raises:
        UnreadableSourceError: they are encrypted.
    """
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
        animated = head[12:16] == b"VP8X" and len(head) > 20 and bool(head[20] & 2)
        return Recognized(
            f"this is {'an animated WebP' if animated else 'a WebP picture'}, which the FFmpeg of PyAV does not decode",
            "Convert it with Pillow: Image.open(path).save('clip.png', save_all=True) writes an APNG, which can be "
            "opened",
        )
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1024]
    for mark, what in _TEXTS:
        if mark.search(text):
            return what
    return None


_TEXTS: Final = (
    (
        re.compile(rb"<(?:\w+:)?MPD[\s>]"),
        Recognized(
            "this is a DASH manifest (MPD), which lists the files of a video",
            "Open one of the files that it lists, or join them: ffmpeg -i FILE.mpd -c copy clip.mp4",
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
    try:
        return source.read([(0, size)])[0]
    except SourceError:  # the caller's error says more
        return b""


def _is_scrambled(head: bytes) -> bool:
    """Return whether most packets of a transport stream with payload are scrambled."""
    for size, begin in _TS_PACKETS:
        packets = [head[at : at + 4] for at in range(begin, len(head) - 3, size)]
        if len(packets) < _FEW or any(packet[0] != 0x47 for packet in packets[:_FEW]):
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
