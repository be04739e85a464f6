"""One item of the media set into one file and one line of the manifest."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import av

from data_scripts.media_encode import ENCODERS, FFmpegError, encode, run_ffmpeg
from data_scripts.media_item import Encode, Entry, Item, parse_ranges
from seqpipe.core.whole_file import replacing

__all__ = ["Maker", "digest"]

_CODE = ("frame_code.py", "media_bits.py", "media_encode.py", "media_make.py", "media_steps.py")


class Maker:
    """Makes items in a folder. The bases of an item must have been made before it."""

    def __init__(self, out: Path, items: Mapping[str, Item]) -> None:
        self._out = out
        self._items = items

    def ffmpeg(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run ffmpeg; returns its standard output."""
        return run_ffmpeg(*arguments, stdin=stdin)

    def path(self, name: str) -> Path:
        """The file of an item."""
        return self._out / self._items[name].file

    def entry(self, item: Item) -> Entry:
        """Make one file, whole or not at all; what cannot be made here is skipped, with the reason."""
        note = ""
        try:
            with replacing(self.path(item.name)) as part:
                if item.encode is not None:
                    encode(item.encode, part)
                elif item.step is not None:
                    note = item.step.make(self.path(item.base) if item.base else part, part, self)
        except (FFmpegError, FileNotFoundError) as error:
            return self._told(item, str(error), skipped=True)
        return self._told(item, note)

    def _told(self, item: Item, note: str, *, skipped: bool = False) -> Entry:
        spec = None if item.state == "unreadable" else _origin(item, self._items)
        numbers = _numbers(item, self._items)
        damaged = item.state == "damaged" and not skipped
        lost, signs = _compare(self.path(item.name), self.path(item.base), numbers) if damaged else ((), "")
        return Entry(
            name=item.name,
            file=item.file,
            state="skipped" if skipped else item.state,
            codec=_codec(spec),
            container=item.extension,
            pix_fmt=(spec.surface or spec.pix_fmt) if spec and numbers else "",
            width=spec.size[0] if spec else 0,
            height=spec.size[1] if spec else 0,
            first=spec.first if spec else 0,
            numbers=numbers,
            lost=lost,
            signs=signs,
            twin=item.base if item.state == "damaged" else "",
            quirk=item.quirk,
            note=note,
            digest=digest(item, self._items),
        )


def digest(item: Item, items: Mapping[str, Item]) -> str:
    """Of the declaration, of those it is made from, and of the code that makes it."""
    parts = [repr(item), _code_digest(), *(digest(items[name], items) for name in item.sources)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def _code_digest() -> str:
    folder = Path(__file__).parent
    return hashlib.sha256(b"\0".join((folder / name).read_bytes() for name in _CODE)).hexdigest()


def _origin(item: Item, items: Mapping[str, Item]) -> Encode | None:
    """The encoding that an item comes from in the end; None for a file without pictures."""
    if item.encode is not None or not item.base:
        return item.encode
    return _origin(items[item.base], items)


def _numbers(item: Item, items: Mapping[str, Item]) -> tuple[int, ...]:
    if item.state == "unreadable":
        return ()
    if item.numbers is not None:
        return parse_ranges(item.numbers)
    if item.encode is not None:
        return tuple(range(item.encode.first, item.encode.first + item.encode.frames))
    return _numbers(items[item.base], items) if item.base else ()


def _codec(spec: Encode | None) -> str:
    if spec is None:
        return ""
    return ENCODERS[spec.encoder].codec if spec.encoder in ENCODERS else spec.encoder


def _compare(damaged: Path, twin: Path, numbers: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """Numbers of the twin's frames whose like, at the same pts, is not given; and the signs of the damage."""
    clean, _ = _frames(twin)
    found, signs = _frames(damaged)
    pairs = list(zip(numbers, clean.items(), strict=True))
    if any(pts not in found for pts in clean):
        signs.add("missing")
    return tuple(number for number, (pts, frame) in pairs if found.get(pts) != frame), " ".join(sorted(signs))


def _frames(path: Path) -> tuple[dict[int | None, str], set[str]]:
    """A digest of each frame that libavcodec gives, by pts, in the order it gives; signs of damage."""
    frames: dict[int | None, str] = {}
    signs: set[str] = set()
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        for packet in container.demux(stream):
            signs |= {"packet"} if packet.is_corrupt else set()
            try:
                decoded = packet.decode()
            except av.error.FFmpegError:
                signs.add("error")
                continue
            for frame in decoded:
                signs |= {"flag"} if frame.is_corrupt else set()
                frames[frame.pts] = hashlib.sha256(b"".join(bytes(p) for p in frame.planes)).hexdigest()
    return frames, signs
