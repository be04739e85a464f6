"""Sources that are several local files, read as one: numbered images, and the segments of a DASH presentation."""

from __future__ import annotations

import bisect
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final, cast
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

from ...errors import SeqpipeError, SourceError, SourceNotFoundError, UnreadableSourceError
from .base import Read, Source, SourceView, Stamp

__all__ = ["DashPresentation", "JoinedFiles"]


class JoinedFiles(Source):
    """Concatenation of local files.

    Args:
        path: path of the whole, which names it.
        paths: paths of the files, in order.

    Raises:
        SourceNotFoundError: a file does not exist.
    """

    def __init__(self, path: str, paths: Seq[str]) -> None:
        self.name, self.paths = path, paths
        self._identity = os.path.abspath(path)  # noqa: PTH100  as other sources do
        self.sizes = [stat.st_size for stat in self._stats()]
        self._begins = [0, *accumulate(self.sizes)]

    def stamp(self) -> Stamp:
        """Return the path, the total size, and a checksum of the files' names and modification times."""
        facts = [(path, stat.st_mtime_ns) for path, stat in zip(self.paths, self._stats(), strict=True)]
        return self._key(self._identity), self.size(), f"{zlib.crc32(repr(facts).encode()):08x}"

    def size(self) -> int:
        """Return the total size in bytes."""
        return self._begins[-1]

    def for_demuxer(self, read: Read | None = None) -> str | BinaryIO:  # noqa: ARG002  for slow sources
        """Return a file object over the whole."""
        return cast("BinaryIO", SourceView(self, self._read))

    def read(self, ranges: Seq[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each (offset, size), truncated at the end of the last file."""
        return [self._read(offset, size) for offset, size in ranges]

    def _read(self, offset: int, size: int) -> bytes:
        """Return a range, which may span files."""
        pieces: list[bytes] = []
        end = min(offset + size, self.size())
        while offset < end:
            number = bisect.bisect_right(self._begins, offset) - 1
            try:
                with Path(self.paths[number]).open("rb") as file:
                    file.seek(offset - self._begins[number])
                    piece = file.read(min(self._begins[number + 1], end) - offset)
            except OSError as error:
                raise SourceError(
                    f"{self.paths[number]} cannot be read ({error.strerror})", source=self.name
                ) from error
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)

    def _stats(self) -> Iterator[os.stat_result]:
        """Yield size and modification time of each file."""
        for path in self.paths:
            try:
                yield os.stat(path)  # noqa: PTH116  of very many
            except OSError as error:
                raise SourceNotFoundError(
                    f"the file {path} is missing ({error.strerror})",
                    source=self.name,
                    advice="Put it back next to the others",
                ) from error


_NAMESPACE: Final = "{urn:mpeg:dash:schema:mpd:2011}"
_DURATION: Final = re.compile(r"PT(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>[\d.]+)S)?")
_FIELD: Final = re.compile(r"\$(?P<name>RepresentationID|Number|Time|Bandwidth)(?:%0(?P<width>\d+)d)?\$|\$\$")


class DashPresentation(JoinedFiles):
    """The largest video of a DASH manifest (ISO/IEC 23009-1) with local segments, joined to one fragmented MP4 or WebM.

    Args:
        path: of the manifest: static, with a single period.

    Raises:
        SourceNotFoundError: a segment is missing.
        UnreadableSourceError: the manifest is damaged, live, encrypted, or has several periods or no video.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            root = ElementTree.parse(path).getroot()
            super().__init__(path, list(self._segments(root)))
        except SeqpipeError:
            raise
        except FileNotFoundError as error:
            raise SourceNotFoundError(f"no such file ({error.strerror})", source=path) from error
        except (OSError, ElementTree.ParseError, LookupError, ValueError, ZeroDivisionError) as error:
            raise self._refused(f"it cannot be read ({error})") from error

    def _refused(self, fact: str) -> UnreadableSourceError:
        """Return the error for a manifest that cannot be opened."""
        return UnreadableSourceError(
            f"the DASH manifest: {fact}",
            source=self.name,
            allowed="a static one with one period, whose segments are local files",
            advice="Join them by ffmpeg: ffmpeg -i FILE.mpd -c copy clip.mp4",
        )

    def _segments(self, root: ElementTree.Element) -> Iterator[str]:
        """Yield the paths of the initialization segment and of the media segments."""
        periods = root.findall(f"{_NAMESPACE}Period")
        if root.tag != f"{_NAMESPACE}MPD" or root.get("type", "static") != "static" or len(periods) != 1:
            raise self._refused(f"it is {root.get('type', 'static')}, with {len(periods)} periods")
        videos = [
            (representation, adaptation)
            for adaptation in periods[0].findall(f"{_NAMESPACE}AdaptationSet")
            for representation in adaptation.findall(f"{_NAMESPACE}Representation")
            if "video" in (adaptation.get("contentType", ""), *_mime(representation, adaptation))
        ]
        if not videos:
            raise self._refused("it has no video")
        chosen, adaptation = max(videos, key=lambda video: _size(*video))
        levels = (chosen, adaptation, periods[0], root)
        if any(level.find(f"{_NAMESPACE}ContentProtection") is not None for level in levels[:2]):
            raise self._refused("the video is encrypted")
        folder = os.path.dirname(os.path.abspath(self.name))  # noqa: PTH100, PTH120  as other sources do
        for level in reversed(levels):
            if base := level.findtext(f"{_NAMESPACE}BaseURL"):
                folder = self._path(folder, base.strip())
        template = _first(levels, "SegmentTemplate")
        listed = _first(levels, "SegmentList")
        if template:
            duration = periods[0].get("duration") or root.get("mediaPresentationDuration")
            names = _names(template, chosen, duration)
        else:
            names = _listed(listed[0]) if listed else iter(())
        paths = [self._path(folder, name) for name in names]
        yield from paths or [folder]  # without names, BaseURL is the file

    def _path(self, folder: str, name: str) -> str:
        """Return the path of a URL in the manifest."""
        if urlsplit(name).scheme not in ("", "file"):
            raise self._refused(f"{name} is not a local file")
        return os.path.join(folder, unquote(urlsplit(name).path))  # noqa: PTH118  text


def _mime(*levels: ElementTree.Element) -> list[str]:
    """Return the first words of MIME types."""
    return [level.get("mimeType", "").partition("/")[0] for level in levels]


def _size(representation: ElementTree.Element, adaptation: ElementTree.Element) -> tuple[int, int]:
    """Return pixels and bits per second, of which the largest is chosen."""
    width, height = (
        int(representation.get(name) or adaptation.get(name) or 0) for name in ("width", "height")
    )
    return width * height, int(representation.get("bandwidth") or 0)


def _first(levels: Seq[ElementTree.Element], name: str) -> list[ElementTree.Element]:
    """Return the elements of a name, from the most specific level on, whose attributes override those after it."""
    return [found for level in levels if (found := level.find(_NAMESPACE + name)) is not None]


def _names(
    templates: Seq[ElementTree.Element], representation: ElementTree.Element, duration: str | None
) -> Iterator[str]:
    """Yield the names of the segments of a template (5.3.9.4)."""
    facts: dict[str, str] = {}
    for template in reversed(templates):
        facts |= template.attrib
    values = {
        "RepresentationID": representation.get("id", ""),
        "Bandwidth": representation.get("bandwidth", ""),
    }
    if "initialization" in facts:
        yield _filled(facts["initialization"], values)
    number, ticks_per_s = int(facts.get("startNumber", 1)), int(facts.get("timescale", 1))
    timeline = _first(templates, "SegmentTimeline")
    if timeline:
        times = _times(timeline[0], duration, ticks_per_s)
    else:
        times = iter(range(0, round(_seconds(duration) * ticks_per_s), int(facts.get("duration", 0))))
    for position, time in enumerate(times):
        yield _filled(facts["media"], values | {"Number": str(number + position), "Time": str(time)})


def _times(timeline: ElementTree.Element, whole: str | None, ticks_per_s: int) -> Iterator[int]:
    """Yield the start of each segment of a timeline (5.3.9.6)."""
    time = 0
    entries = timeline.findall(f"{_NAMESPACE}S")
    for position, entry in enumerate(entries):
        time, duration, repeats = int(entry.get("t", time)), int(entry.get("d", 0)), int(entry.get("r", 0))
        if repeats < 0:  # up to the next entry, or the end
            after = entries[position + 1].get("t") if position + 1 < len(entries) else None
            until = round(_seconds(whole) * ticks_per_s) if after is None else int(after)
            repeats = -(-(until - time) // duration) - 1
        for _ in range(repeats + 1):
            yield time
            time += duration


def _filled(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its fields replaced."""

    def value(field: re.Match[str]) -> str:
        return "$" if field["name"] is None else values[field["name"]].zfill(int(field["width"] or 0))

    return _FIELD.sub(value, template)


def _listed(listing: ElementTree.Element) -> Iterator[str]:
    """Yield the names of a list of segments (5.3.9.3)."""
    first = listing.find(f"{_NAMESPACE}Initialization")
    if first is not None and first.get("sourceURL"):
        yield first.get("sourceURL", "")
    for segment in listing.findall(f"{_NAMESPACE}SegmentURL"):
        if media := segment.get("media"):  # else ranges of one file
            yield media


def _seconds(text: str | None) -> float:
    """Return a duration such as ``PT1M2.5S`` in seconds."""
    match = _DURATION.fullmatch(text or "")
    if match is None:
        raise ValueError(f"its duration is {text!r}")
    return int(match["h"] or 0) * 3600 + int(match["m"] or 0) * 60 + float(match["s"] or 0)
