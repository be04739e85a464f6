"""Export plan of a source: which frames go into which files, without decoding."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import FloatArray, IntArray
from ..errors import FrameRangeError, OutputError, SeqpipeError, printable
from ..sampling.clock import clock_text
from ..video.packet_index import NO_PACKETS, PacketIndex
from ..writers.pattern import Pattern
from .inputs import InputFile
from .manifest import ManifestRow
from .request import ExportRequest, Options
from .selection import MotionArray, TimeRange

if TYPE_CHECKING:
    from ..readers.frame_content import ContentArray
    from ..video.index.open import IndexOptions
    from ..video.probe.info import StreamInfo

_MOST_FRAMES, _MARGIN, _EXTRA_FRAMES = 1 << 20, 1.1, 64
_UNDECLARED_FRAMES = 1 << 15
_PRINTF = re.compile(r"%(\d*d)")
"""A number in the patterns of ffmpeg."""

__all__ = [
    "SourcePlan",
    "check_collisions",
    "check_told_apart",
    "first_existing",
    "make_plan",
    "provisional_plan",
    "single_frame",
]


@dataclass(frozen=True, eq=False)
class SourcePlan:
    """The files of one source.

    Attributes:
        input: the source.
        pattern: pattern of the file names.
        ending: extension of the files.
        frames: the frame numbers that each file holds, ``(files, frames in a file)``, ascending within a
            file; -1 behind them in files that hold fewer.
        sequence: the sequence that each file belongs to, or None where frames are exported.
        position: the first frame's number within its sequence.
        pts: presentation time of each file's first frame in ticks.
        timestamps: the same in seconds.
        start_s: the first frame's timestamp in seconds; users' times count from it.
        width: columns of the exported frames.
        height: rows of the exported frames.
        facts: one line about the source, for the contact sheet.
        cut: the reason why the source holds fewer frames than its header states, or "".
        between: 1 where a file holds what lies between frames (flow), one item fewer than frames; else 0.
        first: number of the first file of the plan among those of its source; 0 where the plan has all of them.
        drafts: files that are written already under other names, by number.
    """

    input: InputFile
    pattern: Pattern
    ending: str
    frames: IntArray
    sequence: IntArray | None
    position: IntArray
    pts: IntArray
    timestamps: FloatArray
    start_s: float
    width: int
    height: int
    facts: str
    cut: str
    between: int = 0
    first: int = 0
    drafts: Mapping[int, Path] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of files."""
        return len(self.frames)

    @property
    def source(self) -> str:
        """The path or URL, as on the command line."""
        return self.input.path

    def name(self, file: int) -> str:
        """A file's name, relative to the output folder."""
        return self.pattern.name(self._values(file), self.source)

    def _values(self, file: int) -> dict[str, str | int]:
        """The fields of the pattern for a file."""
        return {
            "name": self.input.name,
            "stem": self.input.stem,
            "parent": self.input.parent,
            "ext": self.ending,
            "index": self.first + file,
            "frame": int(self.frames[file, 0]),
            "pts_ms": round(self.timestamps[file] * 1000),
            "sequence": 0 if self.sequence is None else int(self.sequence[file]),
            "position": int(self.position[file]),
            "volume": 0,
        }

    def numbers(self, file: int) -> IntArray:
        """The numbers of a file's frames."""
        row: IntArray = self.frames[file]
        return row[row >= 0]

    def names(self) -> Iterator[str]:
        """The names of all files in order."""
        return map(self.name, range(len(self)))

    def row(self, file: int, **outcome: Any) -> ManifestRow:
        """The manifest's row for a file."""
        return ManifestRow(
            source=self.source,
            output=self.name(file),
            sequence=None if self.sequence is None else int(self.sequence[file]),
            frame=int(self.frames[file, 0]),
            length=len(self.numbers(file)) - self.between,
            pts=int(self.pts[file]),
            pts_s=float(self.timestamps[file]),
            width=self.width,
            height=self.height,
            **outcome,
        )


def make_plan(file: InputFile, index: PacketIndex, request: ExportRequest) -> SourcePlan:
    """Plan the export of one source."""
    height, width = request.output.placement(index.info).shape
    width, height = request.encoder.shape(width, height)
    request.encoder.check_size(width, height, file.path)
    selected = request.selection.of(index, _Measured(file.path, request))
    frames, sequence, position = _files_of(selected, request, file.path)
    firsts = frames[:, 0]
    return SourcePlan(
        input=file,
        pattern=request.pattern,
        ending=request.encoder.name,
        frames=frames,
        sequence=sequence,
        position=position,
        pts=index.packets.pts[index.packets.frame_packet[firsts]],
        timestamps=index.timestamps[firsts],
        start_s=float(index.timestamps[0]),
        width=width,
        height=height,
        facts=_facts(index),
        cut=index.cut,
        between=int(request.encoder.pairs),
    )


def provisional_plan(item: InputFile, info: StreamInfo, request: ExportRequest) -> SourcePlan:
    """A plan for the most frames that a video may have according to its header, with placeholders for the times."""
    rate, seconds = info.average_rate or info.real_rate, info.duration_s
    declared = info.declared_frames or (0 if rate is None or seconds is None else int(rate * seconds))
    count = min(_MOST_FRAMES, int(declared * _MARGIN) + _EXTRA_FRAMES if declared else _UNDECLARED_FRAMES)
    rule = request.selection
    if rule.sequence_length is not None:  # as many as are quickly named, and one at least
        length, stride = rule.sequence_length, rule.stride or 1
        count = min(count, _MOST_FRAMES // length * (rule.step or length * stride))
        count = max(count, (length - 1) * stride + 1)
    table = replace(
        NO_PACKETS,
        pts=np.arange(count),
        key=np.ones(count, dtype=bool),
        shown=np.ones(count, dtype=bool),
        size=np.ones(count, np.int32),
    )
    index = PacketIndex(info, b"", "", 0, packets=table, dropped_at_start=0, end_s=0.0)
    selection = replace(rule, fps=None, frames=None, at=None, num=None, keyframes=False, within=TimeRange())
    return make_plan(item, index, replace(request, selection=selection))


@dataclass(frozen=True)
class _Measured:
    """What decoding a video tells of its frames; most exports do without."""

    path: str
    request: ExportRequest

    def motion(self) -> MotionArray:
        """See :class:`seqpipe.cli.selection.Measured`."""
        from ..readers.frame_values import FrameMotion

        return FrameMotion(self._indexes()).of(self.path)

    def content(self) -> ContentArray:
        """See :class:`seqpipe.cli.selection.Measured`."""
        from ..readers.frame_content import FrameContent

        return FrameContent(self._indexes(), str(self.request.devices[0])).of(self.path)

    def _indexes(self) -> IndexOptions:
        """Return the options that indexes are opened with."""
        from ..video.index.open import IndexOptions

        options = self.request.options
        return IndexOptions(options.cache_dir, options.stream, options.register)


def _files_of(
    frames: IntArray, request: ExportRequest, source: str
) -> tuple[IntArray, IntArray | None, IntArray]:
    """The frames of each file, its sequence, and its position in the sequence."""
    encoder, sequence = request.encoder, None
    if request.selection.sequences:
        sequence = np.arange(len(frames), dtype=np.int64)
    elif encoder.streamed or encoder.pairs:
        frames = frames.reshape(1, -1)
    length = frames.shape[1] - encoder.pairs
    if not length:
        raise single_frame(source)
    position = np.zeros(len(frames), dtype=np.int64)
    # arrays hold a sequence in one file; videos do so without --sequence-length too
    if encoder.packed if request.selection.sequences else encoder.streamed:
        if encoder.pairs and request.selection.scenes:
            moving = frames[:, 1] >= 0
            frames, position = frames[moving], position[moving]
            sequence = None if sequence is None else sequence[moving]
        return frames, sequence, position
    if encoder.pairs:
        frames = np.stack([frames[:, :-1], frames[:, 1:]], axis=-1)
    frames = frames.reshape(-1, 1 + encoder.pairs)
    rows = len(frames) // length
    used = frames[:, -1] >= 0
    if sequence is None or length == 1:
        return frames, sequence, np.zeros(len(frames), dtype=np.int64)
    return frames[used], np.repeat(sequence, length)[used], np.tile(np.arange(length), rows)[used]


def single_frame(source: str) -> FrameRangeError:
    """The error for a selection of one frame, where files are made from two."""
    return FrameRangeError(
        "a single frame is selected, and motion needs two", source=source, allowed="two frames or more"
    )


def check_collisions(plans: Seq[SourcePlan], others: Mapping[str, str]) -> None:
    """Check that all file names differ."""
    hashes = [np.fromiter(map(hash, plan.names()), dtype=np.int64, count=len(plan)) for plan in plans]
    # Eight bytes a file: names are formatted again only where two hashes agree.
    digests = [np.array([hash(name) for name in others], np.int64), *hashes]
    values, counts = np.unique(np.concatenate(digests), return_counts=True)
    twice = set(values[counts > 1].tolist())
    seen: dict[str, tuple[SourcePlan, int]] = {}
    for plan, column in zip(plans, hashes, strict=True):
        for file in np.flatnonzero(np.isin(column, list(twice))).tolist() if twice else ():
            name = plan.name(file)
            if name in others:
                raise OutputError(
                    f"frame {plan.frames[file, 0]} would have the name {printable(name)}, as {others[name]} is",
                    source=plan.source,
                    advice="Give another --pattern",
                )
            if name in seen:
                raise _collision(name, seen[name], (plan, file))
            seen[name] = plan, file


def check_told_apart(items: Seq[InputFile | SeqpipeError], options: Options) -> None:
    """Check that the pattern names the files of each input differently, for jobs that see only a part of the inputs."""
    pattern = Pattern(options.pattern or "{stem}", sequences=True)
    used = [field for field in ("name", "stem", "parent") if field in pattern.fields]
    seen: dict[tuple[str, ...], InputFile] = {}
    for item in items:
        if isinstance(item, InputFile):
            other = seen.setdefault(tuple(getattr(item, field) for field in used), item)
            if other is not item:
                raise OutputError(
                    f"{printable(other.path)} and {printable(item.path)} could have files of the same names: "
                    f"jobs with --shard do not see each other's",
                    allowed="patterns that tell inputs apart, with {stem}, {name} or {parent}",
                    advice=f"Give a --pattern with more of these; now it is '{pattern.text}/…'"
                    if options.pattern is None
                    else f"Give a --pattern with more of these; now it is '{pattern.text}'",
                )


def first_existing(plans: Seq[SourcePlan], folder: Path, *others: str) -> Path | None:
    """The first file of the plans, or of other names in the output folder, that exists."""
    if not _exists(folder):
        return None
    paths = (folder / name for names in (*(plan.names() for plan in plans), others) for name in names)
    return next(filter(_exists, paths), None)


def _exists(path: Path) -> bool:
    """Whether a path exists; missing permission is reported when it is written."""
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises then, before Python 3.14


def _facts(index: PacketIndex) -> str:
    """Return a line about a video for the contact sheet."""
    info = index.info
    width, height = info.display_size
    rate = "" if info.average_rate is None else f", {float(info.average_rate):.4g} frames/s"
    length = clock_text(index.end_s - float(index.timestamps[0]))
    codec = f"{info.codec} {info.profile or ''}".strip()
    return f"{codec}, {width}×{height}{rate}, {len(index):,} frames, {length}"


def _collision(name: str, first: tuple[SourcePlan, int], second: tuple[SourcePlan, int]) -> OutputError:
    """Return the error for two files of one name."""
    sides = [f"frame {plan.frames[file, 0]} of {printable(plan.source)}" for plan, file in (first, second)]
    two = "two files" if first[0] is second[0] else "the files of two inputs"
    return OutputError(
        f"{two} would have the name {printable(name)}: {sides[0]} and {sides[1]}",
        advice=_collision_advice(first[0], second[0]),
    )


def _collision_advice(first: SourcePlan, second: SourcePlan) -> str:
    """Advice on how to give two files different names."""
    begin, advice = "Give", "tell the sources apart with {parent}"
    if first is second:
        # --num and --fps may repeat a frame
        fields = "{index}" if "frame" in first.pattern.fields else "{index} or {frame}"
        advice = f"tell the files apart with {fields}"
        if printf := _PRINTF.search(first.pattern.text):
            advice = f"tell the frames apart, such as {{index:{printf[1]}}} for {printf[0]}"
        advice += "" if second.sequence is None else ", and sequences with {sequence}"
    elif first.input.name != second.input.name:
        advice = "tell the sources apart with {name}"
    elif first.input.parent == second.input.parent:
        if "://" in first.source + second.source or _folder(first) == _folder(second):
            return "No --pattern tells these two apart: rename one, or export it to another --out"
        begin = "Pass one folder that contains both, and use"
    return f"{begin} a --pattern that can {advice}; now it is '{first.pattern.text}'"


def _folder(plan: SourcePlan) -> Path:
    """Return the folder of a source."""
    return Path(plan.source).absolute().parent
