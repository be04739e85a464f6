"""Training copies of listed videos: files, what was finished before, and the manifest of the copies."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np

from ..core.whole_file import write_durably
from ..errors import OutputError, SeqpipeError, SourceError
from ..readers.entry import Entry, Listing, Range
from ..readers.listing import listing, source_kind
from ..video.convert.output import OutputSpec
from ..video.encode.transcode import Copied, CopySettings, decoded_per_frame, transcode
from ..video.index.open import open_index
from ..video.packet_index import PacketIndex
from ..video.reader import VideoReader
from ..video.source.source import Source, open_source
from ..writers.files import output_errors
from ..writers.parallel import in_parallel
from .shard import ShardNumbers, of_shard, path_of_shard

__all__ = ["CopyEstimate", "CopyJob", "CopyRun", "estimate", "listed", "planned"]

_RECORD: Final = ".seqpipe-transcode.jsonl"
_MANIFEST: Final = "manifest.csv"
_SAMPLES, _SAMPLE_FRAMES, _READ_CLIPS = 4, 240, 4
_CLIP: Final = (16, 4)
_SUMMED: Final = ("frames", "bytes_before", "bytes_after", "copy_s")
_AVERAGED: Final = (
    "decoded_per_frame_before",
    "decoded_per_frame_after",
    "read_ms_before",
    "read_ms_after",
)


@dataclass(frozen=True)
class CopyJob:
    """A listed video, or a part of it, and the file of its copy.

    Attributes:
        entry: the video.
        label: the label as it is written to the manifest; None for none.
        out: path of the copy, relative to the folder of copies.
    """

    entry: Entry
    label: str | None
    out: str


def listed(source: str) -> Listing:
    """Return the videos of a folder, of a manifest with its labels as they are written, or of one file."""
    kind = source_kind(source)
    return listing(**kind, label_type="text" if "manifest" in kind else "class")


def planned(listing: Listing) -> list[CopyJob]:
    """Return a job for each entry; parts of one video become files of their own."""
    stems = [_stem(entry) for entry in listing]
    count, used = Counter(stems), Counter[str]()
    jobs = []
    for stem, entry in zip(stems, listing, strict=True):
        name = f"{stem}_{used[stem]:04d}" if count[stem] > 1 or entry.part is not None else stem
        used[stem] += 1
        jobs.append(CopyJob(entry, _label(listing, entry), f"{name}.mp4"))
    return jobs


def _stem(entry: Entry) -> str:
    """Return where a copy lies: as the video in its folder, without what leads out of it."""
    parts = [
        part for part in PurePosixPath(entry.key.replace("\\", "/")).parts if part not in ("/", "..", ".")
    ]
    parts = parts if len(parts) <= 3 and "://" not in entry.key else parts[-2:]
    *folders, name = parts
    return str(PurePosixPath(*folders, PurePosixPath(name).stem))


def _label(listing: Listing, entry: Entry) -> str | None:
    """Return a label as the manifest writes it."""
    if isinstance(entry.label, int):
        if entry.label < 0:
            return None
        return listing.classes[entry.label] if listing.classes else str(entry.label)
    return None if entry.label is None or entry.label == "" else str(entry.label)


def _frames_of(index: PacketIndex, part: Range | None) -> range:
    """Return the frames of a range."""
    span = (part or Range()).of(len(index), index.timestamps)
    return range(span.first, span.end)


class CopyRun:
    """Copies of a list of videos into a folder, by one run or by several that share the list.

    What is finished is recorded line by line, so that another run with the same settings continues, also with another
    number of shards. A copy is made again if its source has changed or its file is gone.

    Args:
        folder: the folder of copies.
        settings: size, key frames, codec and quality.
        cache_dir: folder of the indexes.
        shard: (number, count) of this run among those that share the list; None for one run.

    Raises:
        OutputError: the folder cannot be created, or holds copies of other settings.
    """

    def __init__(
        self,
        folder: Path,
        settings: CopySettings,
        *,
        cache_dir: str | None,
        shard: ShardNumbers | None = None,
    ) -> None:
        self._folder, self._settings, self._cache_dir = folder, settings, cache_dir
        self._own, self._manifest = (path_of_shard(folder / name, shard) for name in (_RECORD, _MANIFEST))
        self._shard, self._lock = shard, threading.Lock()
        with output_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._done = self._recorded()

    def run(
        self, jobs: Seq[CopyJob], threads: int, tell: Callable[[CopyJob, Copied | SeqpipeError | None], None]
    ) -> None:
        """Make this run's copies, and write the manifest of those that exist."""
        mine, made, stop = of_shard(jobs, self._shard), list[CopyJob](), threading.Event()
        with in_parallel(
            lambda job: None if stop.is_set() else self._copy(job), mine, threads, stop
        ) as results:
            for job, result in zip(mine, results, strict=True):
                tell(job, result)
                if not isinstance(result, SeqpipeError):
                    made.append(job)
        with output_errors(self._manifest):
            write_durably(self._manifest, _table(made).encode())

    def _copy(self, job: CopyJob) -> Copied | SeqpipeError | None:
        """Make a copy; return None if it is there already, and the error of a video that cannot be read."""
        target = self._folder / job.out
        try:
            source = open_source(job.entry.name)
            key = self._key(job, source)
            if self._done.get(job.out) == key and target.exists():
                return None
            index = open_index(source, cache_dir=self._cache_dir)
            with output_errors(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                frames = _frames_of(index, job.entry.part)
                copied = transcode(source, index, target, self._settings, frames=frames)
        except SeqpipeError as error:
            error.source = error.source or job.entry.name
            return error
        self._record({"out": job.out, "key": key, **vars(copied)})
        return copied

    def _key(self, job: CopyJob, source: Source) -> list[Any]:
        """Return what a copy depends on, as JSON gives it back."""
        stamp = source.stamp()
        part = job.entry.part
        ends = None if part is None else [part.start_frame, part.end_frame, part.start_s, part.end_s]
        return [job.entry.name, None if stamp is None else list(stamp), ends, vars(self._settings)]

    def _recorded(self) -> dict[str, Any]:
        """The keys of the finished copies by file, of all runs."""
        done: dict[str, Any] = {}
        for path in sorted(self._folder.glob(f"{Path(_RECORD).stem}*.jsonl")):
            for line in path.read_text("utf-8").splitlines():
                with suppress(ValueError):  # the line that a killed run left
                    value = json.loads(line)
                    done[value["out"]] = value["key"]
        others = [key[3] for key in done.values() if key[3] != vars(self._settings)]
        if others:
            raise OutputError(
                f"the folder holds copies of other settings: {others[0]}",
                source=str(self._folder),
                advice="Choose another folder, or delete this one",
            )
        return done

    def _record(self, values: Mapping[str, Any]) -> None:
        """Append a finished copy to this run's record."""
        with self._lock, output_errors(self._own), self._own.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(values)}")  # on a line of its own, whatever a killed run left
            file.flush()
            os.fsync(file.fileno())


def _table(jobs: Seq[CopyJob]) -> str:
    """Return the manifest: paths, labels and further columns; ranges are files of their own."""
    names = list(dict.fromkeys(name for job in jobs for name in job.entry.fields))
    labeled = any(job.label is not None for job in jobs)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["path", *["label"] * labeled, *names])
    for job in jobs:
        values = [_text(job.entry.fields.get(name, "")) for name in names]
        rows.writerow([job.out, *[job.label or "-1"] * labeled, *values])
    return text.getvalue()


def _text(value: Any) -> str:
    """Return a value of a manifest as text."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    return json.dumps(plain) if isinstance(plain, (list, dict)) else str(plain)


@dataclass(frozen=True, kw_only=True)
class CopyEstimate:
    """What copies of all videos of a list cost and gain, by copies of the middle of a few.

    Seconds and milliseconds are processor time of this machine; clips are of 16 frames with a stride of 4.

    Attributes:
        videos: number of copies.
        sampled: number of those that were made, in part.
        frames: number of frames of all copies.
        bytes_before: bytes of the video data of the originals.
        bytes_after: bytes of the copies.
        copy_s: time to make the copies.
        decoded_per_frame_before: frames that are decoded for each frame of random clips of the originals.
        decoded_per_frame_after: the same of the copies.
        read_ms_before: time to read a frame of random clips of the originals, at the size of the copies.
        read_ms_after: the same of the copies.
    """

    videos: int
    sampled: int
    frames: int
    bytes_before: int
    bytes_after: int
    copy_s: float
    decoded_per_frame_before: float
    decoded_per_frame_after: float
    read_ms_before: float
    read_ms_after: float


def estimate(jobs: Seq[CopyJob], settings: CopySettings, cache_dir: str | None) -> CopyEstimate:
    """Make copies of the middle of a few videos, read clips of both, and return what this is for all videos."""
    found = list[Mapping[str, float]]()
    with tempfile.TemporaryDirectory() as folder:
        for job, source, index in _sampled(jobs, _SAMPLES, cache_dir):
            wanted, table = _frames_of(index, job.entry.part), index.packets
            middle = wanted[max(0, (len(wanted) - _SAMPLE_FRAMES) // 2) :][:_SAMPLE_FRAMES]
            target, began = Path(folder) / f"{len(found)}.mp4", time.process_time()
            made = transcode(source, index, target, settings, frames=middle)
            spent_s = time.process_time() - began
            copy = open_index(open_source(str(target)), cache_dir=folder, whole=True)
            read_ms = partial(_read_ms, short_side=settings.short_side, cache_dir=cache_dir)
            found.append(
                {
                    "frames": len(wanted),
                    "bytes_before": table.size[table.frame_packet[wanted.start : wanted.stop]].sum(),
                    "bytes_after": made.bytes / made.frames * len(wanted),
                    "copy_s": spent_s / made.frames * len(wanted),
                    "decoded_per_frame_before": decoded_per_frame(index, *_CLIP),
                    "decoded_per_frame_after": decoded_per_frame(copy, *_CLIP),
                    "read_ms_before": read_ms(job.entry.name, middle),
                    "read_ms_after": read_ms(str(target), range(made.frames)),
                }
            )
    scale, count = len(jobs) / max(1, len(found)), max(1, len(found))
    sums = {name: sum(float(sample[name]) for sample in found) for name in _SUMMED}
    means = {name: round(sum(sample[name] for sample in found) / count, 2) for name in _AVERAGED}
    copy_s = round(sums.pop("copy_s") * scale, 1)
    totals: dict[str, Any] = {name: round(value * scale) for name, value in sums.items()} | means
    return CopyEstimate(videos=len(jobs), sampled=len(found), copy_s=copy_s, **totals)


def _read_ms(name: str, frames: range, *, short_side: int, cache_dir: str | None) -> float:
    """Return the milliseconds of processor time to read a frame of clips that are spread over frames of a video."""
    length, stride = _CLIP
    span = (length - 1) * stride + 1
    starts = np.linspace(0, max(0, len(frames) - span), _READ_CLIPS).round().astype(np.int64)
    clips = [[*frames[start : start + span : stride]] for start in np.unique(starts).tolist()]
    with VideoReader(name, threads=1, output=OutputSpec(short_side=short_side), cache_dir=cache_dir) as video:
        video.frames(clips[0])  # which sets decoders up
        began = time.process_time()
        for clip in clips:
            video.frames(clip)
        return 1000 * (time.process_time() - began) / sum(map(len, clips))


def _sampled(
    jobs: Seq[CopyJob], count: int, cache_dir: str | None
) -> Iterator[tuple[CopyJob, Source, PacketIndex]]:
    """Yield jobs spread evenly over a list whose videos can be opened."""
    step = max(1, len(jobs) // count)
    found = 0
    for job in jobs[::step]:
        try:
            source = open_source(job.entry.name)
            # whole, as the kinds of packets tell which are decoded
            yield job, source, open_index(source, cache_dir=cache_dir, whole=True)
            found += 1
        except SourceError:
            continue
        if found == count:
            return
