"""Note of the options that files in an output folder were made with; ``--resume`` compares its options.

``DIR/.seqpipe-export.json`` has an entry for each source. A manifest tells which frame a file holds, but not how its
pixels were made, and there need not be one. It is a file, for folders are classes to those who train on images.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..input.files import told, write_whole
from ..plan.request import ExportRequest
from .lock import WAIT_S, held

__all__ = ["NOTE", "NoteEntry", "OptionDigests", "note", "own_path", "read_entries", "source_key"]

_OWN = ".seqpipe-"
NOTE = "export.json"


@dataclass(frozen=True)
class OptionDigests:
    """Digests of the options that decide what a file of some name holds.

    Attributes:
        pixels: of those that make a picture of a frame.
        frames: of those that choose the frames and name the files.
    """

    pixels: str
    frames: str

    @classmethod
    def of(cls, request: ExportRequest) -> OptionDigests:
        """Those of an export."""
        encoder = request.encoder
        others: list[Any] = [encoder.settings] if encoder.settings else []
        # no entry without a stream, so that an export made before streams could be chosen resumes
        others += [] if request.options.stream is None else [request.options.stream]
        return cls.by(
            (request.output, encoder.name, encoder.quality if encoder.lossy else None, *others),
            (request.selection, request.pattern.text),
        )

    @classmethod
    def by(cls, pixels: tuple[Any, ...], frames: tuple[Any, ...]) -> OptionDigests:
        """Those of what makes a picture of a frame, and of what chooses the frames and names the files."""
        return cls(_digest(*pixels), _digest(*frames))


@dataclass(frozen=True)
class NoteEntry:
    """What the files of one source were made with.

    Attributes:
        pixels: as :class:`OptionDigests` has it.
        frames: the same.
        since_ns: when the first export with these options began, by the clock of the file system; what is older is
            another export's.
    """

    pixels: str
    frames: str
    since_ns: int

    def is_of(self, settings: OptionDigests) -> bool:
        """Whether these options made them."""
        return (self.pixels, self.frames) == (settings.pixels, settings.frames)


def own_path(folder: Path, name: str) -> Path:
    """A file of seqpipe's own in an output folder."""
    return folder / f"{_OWN}{name}"


def source_key(source: str) -> str:
    """The name of a source in the note, from wherever it was named."""
    return source if "://" in source else os.path.abspath(source)  # noqa: PTH100  text, no lookup


def read_entries(folder: Path) -> dict[str, NoteEntry]:
    """The entries by source; none where there is no note, or none that can be read: then nothing is known."""
    try:
        found = json.loads(own_path(folder, NOTE).read_bytes())
        return {source: NoteEntry(**values) for source, values in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def note(folder: Path, sources: Iterable[str], settings: OptionDigests, *, anew: bool) -> None:
    """Note the options of an export before its first file is written.

    Args:
        folder: the output folder, which is made if it is not there.
        sources: of this export.
        settings: its options.
        anew: whether files that are there are replaced, though they were made with the same options.

    Raises:
        OutputError: it cannot be written, and so nothing else could.
    """
    place = own_path(folder, NOTE)
    with held(place, "the note of what is in this folder", wait_s=WAIT_S):
        entries = read_entries(folder)
        since_ns = _now_ns(place)
        for key in map(source_key, sources):
            if anew or key not in entries or not entries[key].is_of(settings):
                entries[key] = NoteEntry(settings.pixels, settings.frames, since_ns)
        _write(place, entries)


def _write(place: Path, entries: Mapping[str, NoteEntry]) -> None:
    text = json.dumps({source: asdict(entry) for source, entry in entries.items()}, indent=0)
    write_whole(place, lambda file: file.write(text.encode("ascii")))


def _now_ns(place: Path) -> int:
    """The time by the file system, which need not have this machine's clock."""
    with told(place), tempfile.TemporaryFile(dir=place.parent) as file:
        return os.fstat(file.fileno()).st_mtime_ns


def _digest(*values: Any) -> str:
    text = repr(values).encode("utf-8", "surrogateescape")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()[:16]
