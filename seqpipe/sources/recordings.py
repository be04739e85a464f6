"""Recordings as a source: columns of instants, and the frames of all cameras at chosen instants around each."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..array import Array, BoolArray, IntArray
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome
from ..errors import DeviceMemoryError, SeqpipeError, UnreadableSourceError
from ..ops import Type
from ..readers.fetch import LazyPool
from ..readers.report import Report, ReportBook
from ..readers.robot_files import RobotFrames
from ..sampling.dealing import distinct, substitutes
from ..sampling.params import OnError
from ..sequence import Sequence
from ..video.convert.output import OutputSpec
from ..video.engine.engine import Engine, PendingRead
from ..video.index.open import IndexOptions, open_index
from ..video.plan import Request

__all__ = ["OUTSIDE", "CameraFrames", "RecordingSource"]

OUTSIDE: Final = -1
"""Number of a frame where none is within the tolerance."""


class CameraFrames(NamedTuple):
    """The frames of a camera.

    Attributes:
        frames: for each row of the table, the number of the frame in its file; :data:`OUTSIDE` if none is within the
            tolerance.
        shapes: shape of an output frame, for each episode.
        pool: what decodes them.
    """

    frames: IntArray
    shapes: tuple[tuple[int, ...], ...]
    pool: LazyPool[Engine]


class _Item(NamedTuple):
    """A sample before its frames are read: its rows for each key with times, its frames, and why it cannot be read."""

    number: int
    row: int
    episode: int
    padding: Mapping[str, BoolArray]
    rows: Mapping[str, IntArray]
    frames: Mapping[str, IntArray]
    error: SeqpipeError | None


class _Reading(NamedTuple):
    """Samples that are being read, with the array that receives all frames of a camera, if shapes agree."""

    plan: ReadPlan
    stack: bool
    stacked: Mapping[str, Array]
    reads: Mapping[LazyPool[Engine], tuple[Engine, PendingRead]]


@dataclass(frozen=True, eq=False)
class RecordingSource:
    """The rows of a table of instants, with the frames of cameras.

    Attributes:
        table: columns and places of the rows.
        cameras: frames of each camera.
        offsets: for keys with several times: distances in rows.
        tolerance_s: largest distance of a frame from its time.
        pixels: color, dtype, size and layout of the frames.
        device: device of the frames.
        shuffle: whether each epoch has a new random order.
        seed: seed of the order.
        on_error: policy for unreadable samples.
        indexes: options that the indexes of videos are opened with.
        book: records losses.
        windows: row of each sample; None for every row, where offsets that leave the episode are clipped and marked.
        fills_missing: whether frames outside of the tolerance are filled with zeros, instead of an error.
        name: what the source consists of.
    """

    table: RobotFrames
    cameras: Mapping[str, CameraFrames]
    offsets: Mapping[str, IntArray]
    tolerance_s: float
    pixels: OutputSpec
    device: str
    shuffle: bool
    seed: int
    on_error: OnError
    indexes: IndexOptions
    book: ReportBook
    windows: IntArray | None = None
    fills_missing: bool = False
    name: str = "lerobot"
    unit: int = 1
    mix: int = 0
    fill: float = field(default=0.0, init=False)

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.table) if self.windows is None else len(self.windows)

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        types: dict[str, Type] = {}
        for name, camera in self.cameras.items():
            sides = set(camera.shapes)
            frame = sides.pop() if len(sides) == 1 else (None, None, None)
            single, layout = self._is_single(name), self.pixels.layout
            shape = frame if single else (self._times_of(name), *frame)
            types[name] = Type(
                "images", layout[1:] if single else layout, self.pixels.dtype, self.device, shape
            )
        for name, column in self.table.columns.items():
            dtype = column.dtype.name if column.dtype.kind != "O" else None
            lead = (len(self.offsets[name]),) if name in self.offsets else ()
            types[name] = Type("numbers", None, dtype, "cpu", (*lead, *column.shape[1:])) if dtype else Type()
        if self.windows is None:
            for name, offsets in self.offsets.items():
                types[f"{name}_is_pad"] = Type("numbers", None, "bool", "cpu", (len(offsets),))
        return {**types, "task": Type()} if self.table.tasks is not None else types

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        table, content = self.table, 0
        frames = [camera.frames for camera in self.cameras.values()]
        for array in (table.bounds, *frames, *([] if self.windows is None else [self.windows])):
            content = zlib.crc32(array.tobytes(), content)
        return {
            "files": [Path(table.root).name, table.version, content],
            "frames": [table.episodes, list(self.cameras)],
            "sampler": [{name: offsets.tolist() for name, offsets in self.offsets.items()}, self.tolerance_s],
        }

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        del heads
        items = [self._item(int(index)) for index in indices]
        itemsize = np.dtype(self.pixels.dtype).itemsize
        values = sum(
            len(frames) * math.prod(self.cameras[name].shapes[item.episode])
            for item in items
            for name, frames in item.frames.items()
        )
        return ReadPlan(epoch, indices, values * itemsize, items)

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> _Reading:
        """See :class:`seqpipe.dataset.source.SampleSource`; all cameras and times are planned together."""
        items = [item for item in plan.work if item.error is None]
        stacked: dict[str, Array] = {}
        requests: dict[LazyPool[Engine], list[Request]] = {
            camera.pool: [] for camera in self.cameras.values()
        }
        for name, camera in self.cameras.items():
            shapes = {camera.shapes[item.episode] for item in items}
            if stack and len(shapes) == 1:
                whole = (len(items), self._times_of(name), *shapes.pop())
                stacked[name] = camera.pool.get().allocate(whole, np.dtype(self.pixels.dtype))
        for number, item in enumerate(items):
            for name, frames in item.frames.items():
                camera, path = self.cameras[name], self.table.footage[name][item.episode].path
                out = stacked[name][number] if name in stacked else None
                if (frames == OUTSIDE).all():  # nothing is decoded, so that nothing would tell the shape
                    whole = len(frames), *camera.shapes[item.episode]
                    out = (
                        camera.pool.get().allocate(whole, np.dtype(self.pixels.dtype)) if out is None else out
                    )
                requests[camera.pool].append(Request(path, frames, output=self.pixels, out=out))
        engines = {pool: pool.get() for pool in requests}
        reads = {pool: (engine, engine.submit(requests[pool])) for pool, engine in engines.items()}
        return _Reading(plan, stack, stacked, reads)

    def finish(self, work: _Reading) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        if any(engine is not pool.get() for pool, (engine, _) in work.reads.items()):
            work = self.begin(work.plan, stack=work.stack)  # closed, or a forked process
        outcomes = self._outcomes(work)
        final = [
            self._lost(work.plan.epoch, item, outcome) if isinstance(outcome, SeqpipeError) else outcome
            for item, outcome in zip(work.plan.work, outcomes, strict=True)
        ]
        if any(isinstance(outcome, SeqpipeError) for outcome in outcomes):
            return ReadResult(tuple(final))
        stacked = {
            name: array[:, 0] if self._is_single(name) else array for name, array in work.stacked.items()
        }
        return ReadResult(tuple(final), stacked)

    def cancel(self, work: _Reading) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        for _, read in work.reads.values():
            read.cancel()

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """The number of each row within the whole data set, whichever episodes are read."""
        return {"index": self.table.columns["index"][indices]} if self.windows is None else {}

    def report(self) -> Report:
        """Return what was lost."""
        return self.book.so_far()

    def stats(self) -> dict[str, Any]:
        """Return counts of decoded frames by backend."""
        counts: dict[str, dict[str, int]] = {"frames": {}, "fallbacks": {}}
        for pool in self._pools:
            for kind, by_name in pool.get().stats().items():
                for name, count in by_name.items():
                    counts[kind][name] = counts[kind].get(name, 0) + count
        return counts

    def share_cores(self, processes: int) -> None:
        """Let this process use one of ``processes`` parts of the cores."""
        for pool in self._pools:
            pool.share_cores(processes)

    def close(self) -> None:
        """Stop the threads; the next read starts them again."""
        for pool in self._pools:
            pool.close()

    def __repr__(self) -> str:
        shuffled = f", shuffle seed {self.seed}" if self.shuffle else ""
        table = self.table
        where = f"{Path(table.root).name} {table.version}, " if table.root else ""
        return (
            f"{self.name}({where}{len(table.episodes)} {self.book.unit}, "
            f"{self.size} samples, {len(self.cameras)} cameras{shuffled})"
        )

    @property
    def _pools(self) -> list[LazyPool[Engine]]:
        return list(dict.fromkeys(camera.pool for camera in self.cameras.values()))

    def _times_of(self, camera: str) -> int:
        """Return the number of times of a camera in a sample."""
        return len(self.offsets[camera]) if camera in self.offsets else 1

    def _is_single(self, camera: str) -> bool:
        """Return whether a camera has no axis of frames: a single time of LeRobot's samples."""
        return self.windows is None and self._times_of(camera) == 1

    def _item(self, index: int) -> _Item:
        """Return the rows and frames of a sample; times outside of the episode become its first or last row."""
        row = index if self.windows is None else int(self.windows[index])
        episode = int(np.searchsorted(self.table.bounds, row, side="right")) - 1
        first, end = self.table.bounds[episode : episode + 2].tolist()
        wanted = {name: row + offsets for name, offsets in self.offsets.items()}
        padding = {name: (rows < first) | (rows >= end) for name, rows in wanted.items()}
        rows = {name: np.clip(numbers, first, end - 1) for name, numbers in wanted.items()}
        alone, error = np.array([row]), None
        frames = {name: camera.frames[rows.get(name, alone)] for name, camera in self.cameras.items()}
        for name, numbers in frames.items():
            if not self.fills_missing and (numbers == OUTSIDE).any():
                late = int(rows.get(name, alone)[int(np.argmax(numbers == OUTSIDE))])
                error = self._outside(name, episode, late)
                break
        return _Item(index, row, episode, padding, rows, frames, error)

    def _outside(self, camera: str, episode: int, row: int) -> SeqpipeError:
        """Return the error for a row without a frame at its time."""
        path, start_s = self.table.footage[camera][episode]
        time_s = start_s + float(self.table.columns["timestamp"][row])
        try:
            clock = open_index(path, **self.indexes._asdict()).timestamps
        except SeqpipeError as error:
            return error
        return UnreadableSourceError(
            f"camera {camera!r} has no frame at {time_s:.6f} s, which frame {row - self.table.bounds[episode]} of "
            f"episode {self.table.episodes[episode]} needs: the nearest is "
            f"{float(np.abs(clock - time_s).min()):.6f} s away",
            source=path,
            allowed=f"tolerance_s={self.tolerance_s:g}",
            advice="Give a larger tolerance_s, or leave such samples out with on_error='skip'",
        )

    def _outcomes(self, work: _Reading) -> list[tuple[int, dict[str, Any]] | SeqpipeError]:
        """Return each sample, or why it cannot be read."""
        arrived = {pool: iter(read.result()) for pool, (_, read) in work.reads.items()}
        outcomes: list[tuple[int, dict[str, Any]] | SeqpipeError] = []
        for item in work.plan.work:
            if item.error is not None:
                outcomes.append(item.error)
                continue
            read = {name: next(arrived[camera.pool]) for name, camera in self.cameras.items()}
            errors = [outcome for outcome in read.values() if isinstance(outcome, SeqpipeError)]
            if errors and isinstance(errors[0], DeviceMemoryError):
                raise errors[0]
            images = {name: outcome for name, outcome in read.items() if isinstance(outcome, Sequence)}
            outcomes.append(errors[0] if errors else (item.number, self._sample(item, images)))
        return outcomes

    def _sample(self, item: _Item, images: Mapping[str, Sequence]) -> dict[str, Any]:
        """Return the parts of a sample, in LeRobot's order."""
        parts: dict[str, Any] = {}
        for name, sequence in images.items():
            single = self._is_single(name)
            data, layout = (
                (sequence.data[0], sequence.layout[1:]) if single else (sequence.data, sequence.layout)
            )
            parts[name] = Sequence(data, layout, sequence.source)
        for name, column in self.table.columns.items():
            value = column[item.rows.get(name, item.row)]
            is_text = column.dtype.kind == "O"
            parts[name] = (list(value) if name in item.rows else value) if is_text else np.asarray(value)
        if self.windows is None:
            parts |= {f"{name}_is_pad": flags for name, flags in item.padding.items()}
        if self.table.tasks is None:
            return parts
        number = int(self.table.columns["task_index"][item.row])
        return {**parts, "task": self.table.tasks.get(number, "")}

    def _lost(self, epoch: int, item: _Item, error: SeqpipeError) -> SampleOutcome:
        """Return what takes the place of an unreadable sample, by ``on_error``."""
        source = error.source or self.table.root
        if self.on_error == "raise":
            self.book.note(source, "sample raised", error)
            return error
        found = self._substitute(epoch, item) if self.on_error == "substitute" else None
        self.book.note(source, "sample left out" if found is None else "sample substituted", error)
        return found

    def _substitute(self, epoch: int, lost: _Item) -> SampleOutcome:
        candidates = substitutes(self.seed, epoch, lost.number, self.size)
        rows = candidates if self.windows is None else self.windows[candidates]
        episodes = np.searchsorted(self.table.bounds, rows, side="right") - 1
        for candidate in distinct(candidates, episodes, lost.episode):
            (outcome,) = self._outcomes(self.begin(self.plan(epoch, np.array([candidate])), stack=False))
            if not isinstance(outcome, SeqpipeError):
                return outcome
        return None
