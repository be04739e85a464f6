"""Sources whose packets are still images: numbered image files, and animated WebP, which Pillow decodes."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Sequence as Seq
from fractions import Fraction
from itertools import accumulate
from typing import Any, BinaryIO, Final

from ...core.lazy import import_optional
from ...errors import SourceError, SourceNotFoundError, UnreadableSourceError
from .base import Read, Source, Stamp, Stills
from .joined import JoinedFiles

__all__ = ["AnimatedWebP", "ImagePattern", "is_animated_webp", "is_pattern"]

_PATTERN: Final = re.compile(
    r"(?P<before>[^%]*)%(?:0(?P<width>\d+))?d(?P<after>[^%]*\.(?:bmp|dpx|exr|jp2|jpe?g|p[abgpn]m|png|qoi|tga|tiff?|webp))",
    re.IGNORECASE,
)
_RATE: Final = 25
"""Images per second of a pattern, as FFmpeg's ``image2`` has by default."""

_NAMED: Final = 5
_MS_PER_S: Final = 1000
_WEBP_HEADER, _CHUNK_HEADER = 12, 8
_IS_ANIMATED: Final = 2
_RGBA_BYTES: Final = 4


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern of numbered images, such as ``img%03d.png``, and no file has this name."""
    name = os.path.basename(path)  # noqa: PTH119  called for each of ten thousand files: no Path objects
    return "%" in name and _PATTERN.fullmatch(name) is not None and not os.path.lexists(path)


class ImagePattern(JoinedFiles):
    """Numbered images as one video of 25 frames/s.

    Args:
        path: the pattern, with ``%d`` or ``%0Nd`` for the number; the lowest number found is the first frame.

    Raises:
        SourceNotFoundError: no file has such a name.
        UnreadableSourceError: numbers are missing between the first and the last.
    """

    def __init__(self, path: str) -> None:
        self._pattern, self.name = os.path.abspath(path), path  # noqa: PTH100  as other sources do
        super().__init__(path, self._find())
        count = len(self.paths)
        self.stills = Stills(self.sizes, 0, range(count), count, Fraction(1, _RATE))

    def for_demuxer(self, read: Read | None = None) -> str:  # noqa: ARG002  for slow sources
        """Return the path of the first image."""
        return self.paths[0]

    def _find(self) -> list[str]:
        """Return the paths of the images, by ascending number."""
        folder, name = os.path.split(self._pattern)
        match = _PATTERN.fullmatch(name)
        assert match is not None
        width = int(match["width"] or 1)
        digits = rf"(\d{{{width}}}|[1-9]\d{{{width},}})"
        numbered = re.compile(re.escape(match["before"]) + digits + re.escape(match["after"]))
        try:
            found = {
                int(hit[1]): entry.path
                for entry in os.scandir(folder)
                if (hit := numbered.fullmatch(entry.name))
            }
        except OSError as error:
            raise SourceNotFoundError(f"no such folder ({error.strerror})", source=self.name) from error
        if not found:
            raise SourceNotFoundError(
                "no file has a name of this pattern",
                source=self.name,
                advice="Write %d for the number, or %04d if it has leading zeros and 4 digits",
            )
        first, last = min(found), max(found)
        if len(found) <= last - first:
            missing = [number for number in range(first, last) if number not in found]
            named = ", ".join(map(str, missing[:_NAMED])) + ", …" * (len(missing) > _NAMED)
            raise UnreadableSourceError(
                f"{len(missing)} of the images {first} to {last} are missing: {named}",
                source=self.name,
                advice="Add them, or read the folder of images by seqpipe.folders, which needs no numbers",
            )
        return [found[number] for number in range(first, last + 1)]


def is_animated_webp(head: bytes) -> bool:
    """Return whether a file is an animated WebP by its first bytes."""
    return (
        head[:4] == b"RIFF"
        and head[8:16] == b"WEBPVP8X"
        and len(head) > _WEBP_HEADER + _CHUNK_HEADER
        and bool(head[20] & _IS_ANIMATED)
    )


class AnimatedWebP(Source):
    """Animated WebP: the file, followed by its frames as RGBA, which are decoded when they are read.

    Frames are decoded by libwebp through Pillow, one after the other; an earlier one starts again at the first.

    Args:
        file: the source of the file.

    Raises:
        BackendError: Pillow is not installed.
        UnreadableSourceError: the file is damaged.
    """

    def __init__(self, file: Source) -> None:
        self._file = file
        self.name, self.slow, self.stream, self.gap = file.name, file.slow, file.stream, file.gap
        (self._data,) = file.read([(0, file.size())])
        width, height = (int.from_bytes(self._data[at : at + 3], "little") + 1 for at in (24, 27))
        durations = _durations_ms(self._data)
        if not durations or int.from_bytes(self._data[4:8], "little") + _CHUNK_HEADER > len(self._data):
            raise UnreadableSourceError(
                f"the animated WebP is truncated: it has {len(durations)} whole frames",
                source=self.name,
                advice="Fetch it again",
            )
        times = [0, *accumulate(durations)]
        self._frame_bytes = width * height * _RGBA_BYTES
        sizes = [self._frame_bytes] * len(durations)
        self.stills = Stills(
            sizes, len(self._data), times[:-1], times[-1], Fraction(1, _MS_PER_S), (width, height)
        )
        self._lock = threading.Lock()
        self._image: Any = None
        self._decoded: tuple[int, bytes] = -1, b""

    def stamp(self) -> Stamp | None:
        """Return the identity of the file."""
        return self._file.stamp()

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return len(self._data)

    def for_demuxer(self, read: Read | None = None) -> BinaryIO:  # noqa: ARG002  all bytes are held
        """Return the file's bytes as a file object."""
        return io.BytesIO(self._data)

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), of the file or of the frames behind it."""
        return [self._read(offset, size) for offset, size in ranges]

    def close(self) -> None:
        """Close the image; the next read opens it again."""
        with self._lock:
            self._image = None
        self._file.close()

    def _read(self, offset: int, size: int) -> bytes:
        """Return a range of the file, or of one of the frames behind it."""
        if offset < len(self._data):
            return self._data[offset : offset + size]
        number, begin = divmod(offset - len(self._data), self._frame_bytes)
        with self._lock:
            if self._decoded[0] != number:
                self._decoded = number, self._frame(number)
            return self._decoded[1][begin : begin + size]

    def _frame(self, number: int) -> bytes:
        """Decode a frame."""
        if self._image is None:
            self._image = import_optional("PIL.Image", "webp", self.name).open(io.BytesIO(self._data))
        try:
            self._image.seek(number)
            pixels: bytes = self._image.convert("RGBA").tobytes()
        except (EOFError, OSError, SyntaxError, ValueError) as error:
            self._image = None
            raise SourceError(
                f"frame {number} cannot be decoded by Pillow ({error})",
                source=self.name,
                advice="The file may be damaged: fetch it again",
            ) from error
        return pixels


def _durations_ms(data: bytes) -> list[int]:
    """Return the duration of each frame, by the headers of a WebP file's chunks (RFC 9649, 2.7.1.1)."""
    durations, at = [], _WEBP_HEADER
    while at + _CHUNK_HEADER <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"ANMF" and at + _CHUNK_HEADER + size <= len(data):
            durations.append(int.from_bytes(data[at + 20 : at + 23], "little"))
        at += _CHUNK_HEADER + size + (size & 1)
    return durations
