"""Item: a file of the media set, declared. Entry: what is known of it once made, one line of manifest.tsv."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, Protocol

from seqpipe.core.whole_file import replacing

__all__ = [
    "Encode",
    "Entry",
    "Item",
    "State",
    "Step",
    "Toolbox",
    "format_ranges",
    "parse_ranges",
    "read_manifest",
    "write_manifest",
]

State = Literal["sound", "damaged", "mixed", "unreadable", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Encode:
    """Drawn pictures through one of FFmpeg's encoders.

    Attributes:
        encoder: FFmpeg's name of the encoder.
        pix_fmt: pixel format given to it.
        surface: pixel format of the decoded surfaces, where that is another one.
        size: (width, height) in pixels.
        frames: pictures drawn.
        first: number of the first picture.
        rate: pictures per second, as FFmpeg reads it.
        interlaced: rows of two moments in one picture, top field first.
        matrix: color tags to convert by and to write (``bt709``, ``bt2020nc``); "" writes none.
        full: full range instead of limited range.
        params: the encoder's own parameters (x264, x265, SVT-AV1), joined by colons.
        options: further output options of the ffmpeg command.
        inputs: further inputs of the ffmpeg command.
        filters: further video filters, applied last.
        passes: 2 for a first pass that collects statistics.
        muxer: FFmpeg's name of the muxer; "" takes it from the file's extension.
    """

    encoder: str
    pix_fmt: str = "yuv420p"
    surface: str = ""
    size: tuple[int, int] = (128, 96)
    frames: int = 48
    first: int = 0
    rate: str = "25"
    interlaced: bool = False
    matrix: str = ""
    full: bool = False
    params: str = ""
    options: str = ""
    inputs: str = ""
    filters: str = ""
    passes: int = 1
    muxer: str = ""


class Toolbox(Protocol):
    """What a step may ask for."""

    def ffmpeg(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run ffmpeg; returns its standard output."""

    def path(self, name: str) -> Path:
        """The made file of another item."""


class Step(Protocol):
    """Makes a file out of another item's file. Frozen dataclasses: the repr is hashed."""

    def make(self, base: Path, target: Path, tools: Toolbox, /) -> str:
        """Write ``target``, from ``base``; returns a note for the manifest, or ""."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One file of the set, declared.

    Attributes:
        name: unique; the file is ``name.extension``.
        extension: of the file, without the dot.
        quirk: what is special, in words.
        encode: how it is encoded; None for a file that is made from another one.
        base: name of the item that ``step`` reads; "" for a step that needs none.
        also: names of further items that ``step`` reads.
        step: what makes the file, if not ``encode``.
        numbers: frame numbers in presentation order, as ``"0-47,60"``, where they are not just those drawn.
        state: what a reader should find; the lost frames of a ``damaged`` file are found when it is made.
    """

    name: str
    extension: str
    quirk: str
    encode: Encode | None = None
    base: str = ""
    also: tuple[str, ...] = ()
    step: Step | None = None
    numbers: str | None = None
    state: State = "sound"

    @property
    def file(self) -> str:
        """Name of the file."""
        return f"{self.name}.{self.extension}"

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the items it is made from."""
        return (*((self.base,) if self.base else ()), *self.also)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One made file, as the manifest tells it.

    Attributes:
        name: of the item.
        file: its file, relative to the manifest's folder.
        state: ``sound``, ``damaged`` (opens, loses frames), ``mixed`` (surfaces of more than one size),
            ``unreadable`` (no frame at all) or ``skipped``.
        codec: FFmpeg's decoder name; "" where there is no video.
        container: the file's extension.
        pix_fmt: pixel format of the surfaces.
        width: columns of the surfaces in pixels.
        height: rows of the surfaces in pixels.
        first: number of the first picture drawn.
        numbers: numbers of the frames in presentation order; of a damaged file, those of its clean twin.
        lost: numbers that are missing or not bit-identical when FFmpeg decodes the damaged file.
        signs: what libavcodec shows of the damage: ``error`` (raised), ``packet`` (flagged by the demuxer),
            ``flag`` (a frame flagged corrupt), ``missing`` (a frame that never comes); "" where wrong frames
            come in silence.
        twin: name of the undamaged item.
        quirk: what is special, in words.
        note: why it was skipped; where the damage lies.
        digest: of the declaration and of the code that makes it.
    """

    name: str
    file: str
    state: State
    codec: str
    container: str
    pix_fmt: str
    width: int
    height: int
    first: int
    numbers: tuple[int, ...]
    lost: tuple[int, ...]
    signs: str
    twin: str
    quirk: str
    note: str
    digest: str

    @property
    def frames(self) -> int:
        """Number of frames in presentation order."""
        return len(self.numbers)


def read_manifest(path: Path) -> dict[str, Entry]:
    """Entries by name; empty where there is no manifest yet, or one of another form."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        if rows.fieldnames != _COLUMNS:
            return {}
        return {row["name"]: _entry(row) for row in rows}


def write_manifest(path: Path, entries: Iterable[Entry]) -> None:
    """Replace the manifest in one step."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows([_cell(getattr(entry, name)) for name in _COLUMNS] for entry in entries)


def _entry(row: Mapping[str, str]) -> Entry:
    values: dict[str, object] = dict(row)
    values |= {name: int(row[name]) for name in ("width", "height", "first")}
    values |= {name: parse_ranges(row[name]) for name in ("numbers", "lost")}
    return Entry(**values)  # type: ignore[arg-type]  # the columns are the fields


def parse_ranges(text: str) -> tuple[int, ...]:
    """``"0-3,9"`` → (0, 1, 2, 3, 9)."""
    bounds = [[int(end) for end in part.split("-")] for part in text.split(",") if part]
    return tuple(number for bound in bounds for number in range(bound[0], bound[-1] + 1))


def format_ranges(numbers: Iterable[int]) -> str:
    """The inverse of :func:`parse_ranges`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in runs)


def _cell(value: object) -> str:
    text = format_ranges(value) if isinstance(value, tuple) else str(value)
    return " ".join(text.split())


_COLUMNS = [field.name for field in fields(Entry)]
