"""LeRobot data sets as a source: the columns of a frame, and the frames of all cameras at chosen times around it."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..array import Array, BoolArray, FloatArray, IntArray
from ..core.param import Param, check_path
from ..dataset.dataset import Dataset
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome
from ..errors import DeviceMemoryError, ParameterError, SeqpipeError, UnreadableSourceError, described_type
from ..ops import Type
from ..readers.fetch import LazyEngine
from ..readers.report import Report, ReportBook
from ..readers.robot_files import Footage, RobotFiles, RobotFrames, read_frames
from ..sampling.dealing import distinct, substitutes
from ..sampling.params import ON_ERROR, SEED, SHUFFLE, OnError
from ..sequence import Sequence
from ..video.convert.output import OutputSpec, check_output
from ..video.device import DECODE, STREAM, THREADS, parse_device
from ..video.engine.engine import Engine, PendingRead
from ..video.index.open import IndexOptions, open_index
from ..video.index.shared import find_register
from ..video.packet_index import Facts
from ..video.plan import Request
from .options import Decode

__all__ = ["RobotSource", "lerobot"]

_TOLERANCE: Final = Param(
    name="tolerance_s", doc="Largest distance of a frame from its time", kind=float, lo=0, hi=1e6, unit="s"
)
_PLAIN_OUTPUT: Final = OutputSpec(dtype="float32", layout="FCHW")  # as LeRobot gives them
_OUTSIDE: Final = -1


class _Camera(NamedTuple):
    """The frames of a camera.

    Attributes:
        frames: for each frame of the data set, its number in its file; -1 if none is within the tolerance.
        shapes: shape of an output frame, for each episode.
    """

    frames: IntArray
    shapes: tuple[tuple[int, ...], ...]


class _Item(NamedTuple):
    """A sample before its frames are read: its rows for each key with times, its frames, and why it cannot be read."""

    number: int
    episode: int
    padding: Mapping[str, BoolArray]
    rows: Mapping[str, IntArray]
    frames: Mapping[str, IntArray]
    error: SeqpipeError | None


class _RobotReading(NamedTuple):
    """Samples that are being read, with the array that receives all frames of a camera, if shapes agree."""

    plan: ReadPlan
    stack: bool
    stacked: Mapping[str, Array]
    read: PendingRead
    engine: Engine


@dataclass(frozen=True, eq=False)
class RobotSource:
    """The frames of robots' episodes; parts have the names and dtypes of LeRobot's samples.

    Attributes:
        table: columns and places of the frames.
        cameras: frames of each camera.
        offsets: for keys with ``delta_timestamps``: distances in frames.
        tolerance_s: largest distance of a frame from its time.
        pool: the decoding engine.
        pixels: color, dtype, size and layout of the frames.
        device: device of the frames.
        shuffle: whether each epoch has a new random order.
        seed: seed of the order.
        on_error: policy for unreadable samples.
        indexes: options that the indexes of videos are opened with.
        book: records losses.
    """

    table: RobotFrames
    cameras: Mapping[str, _Camera]
    offsets: Mapping[str, IntArray]
    tolerance_s: float
    pool: LazyEngine
    pixels: OutputSpec
    device: str
    shuffle: bool
    seed: int
    on_error: OnError
    indexes: IndexOptions
    book: ReportBook
    name: str = "lerobot"
    unit: int = 1
    mix: int = 0
    fill: float = field(default=0.0, init=False)

    @property
    def size(self) -> int:
        """Number of samples: one for each frame of the episodes."""
        return len(self.table)

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        types: dict[str, Type] = {}
        for name, camera in self.cameras.items():
            sides = set(camera.shapes)
            frame = sides.pop() if len(sides) == 1 else (None, None, None)
            count, layout = self._times_of(name), self.pixels.layout
            shape = (count, *frame) if count > 1 else frame
            types[name] = Type(
                "images", layout if count > 1 else layout[1:], self.pixels.dtype, self.device, shape
            )
        for name, column in self.table.columns.items():
            dtype = column.dtype.name if column.dtype.kind != "O" else None
            lead = (len(self.offsets[name]),) if name in self.offsets else ()
            types[name] = Type("numbers", None, dtype, "cpu", (*lead, *column.shape[1:])) if dtype else Type()
        for name, offsets in self.offsets.items():
            types[f"{name}_is_pad"] = Type("numbers", None, "bool", "cpu", (len(offsets),))
        return {**types, "task": Type()}

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        table = self.table
        content = zlib.crc32(table.columns["index"].tobytes(), zlib.crc32(table.bounds.tobytes()))
        return {
            "files": [Path(table.root).name, table.version, content],
            "frames": [table.episodes, list(self.cameras)],
            "sampler": [{name: one.tolist() for name, one in self.offsets.items()}, self.tolerance_s],
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

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> _RobotReading:
        """See :class:`seqpipe.dataset.source.SampleSource`; all cameras and times are planned together."""
        engine, items = self.pool.get(), [item for item in plan.work if item.error is None]
        stacked: dict[str, Array] = {}
        for name, camera in self.cameras.items():
            shapes = {camera.shapes[item.episode] for item in items}
            if stack and len(shapes) == 1:
                whole = (len(items), self._times_of(name), *shapes.pop())
                stacked[name] = engine.allocate(whole, np.dtype(self.pixels.dtype))
        requests = [
            Request(
                self.table.footage[name][item.episode].path,
                frames,
                output=self.pixels,
                out=stacked[name][number] if name in stacked else None,
            )
            for number, item in enumerate(items)
            for name, frames in item.frames.items()
        ]
        return _RobotReading(plan, stack, stacked, engine.submit(requests), engine)

    def finish(self, work: _RobotReading) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        if work.engine is not self.pool.get():  # closed, or a forked process
            work = self.begin(work.plan, stack=work.stack)
        outcomes = self._outcomes(work)
        final = [
            self._lost(work.plan.epoch, item, one) if isinstance(one, SeqpipeError) else one
            for item, one in zip(work.plan.work, outcomes, strict=True)
        ]
        if any(isinstance(one, SeqpipeError) for one in outcomes):
            return ReadResult(tuple(final))
        stacked = {
            name: array[:, 0] if array.shape[1] == 1 else array for name, array in work.stacked.items()
        }
        return ReadResult(tuple(final), stacked)

    def cancel(self, work: _RobotReading) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        work.read.cancel()

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """The number of each frame within the whole data set, whichever episodes are read."""
        return {"index": self.table.columns["index"][indices]}

    def report(self) -> Report:
        """Return what was lost."""
        return self.book.so_far()

    def stats(self) -> dict[str, Any]:
        """Return counts of decoded frames by backend."""
        return self.pool.get().stats()

    def share_cores(self, processes: int) -> None:
        """Let this process use one of ``processes`` parts of the cores."""
        self.pool.share_cores(processes)

    def close(self) -> None:
        """Stop the threads; the next read starts them again."""
        self.pool.close()

    def __repr__(self) -> str:
        shuffled = f", shuffle seed {self.seed}" if self.shuffle else ""
        table = self.table
        return (
            f"lerobot({Path(table.root).name} {table.version}, {len(table.episodes)} episodes, "
            f"{self.size} samples, {len(self.cameras)} cameras{shuffled})"
        )

    def _times_of(self, camera: str) -> int:
        """Return the number of times of a camera in a sample."""
        return len(self.offsets[camera]) if camera in self.offsets else 1

    def _item(self, index: int) -> _Item:
        """Return the rows and frames of a sample; times outside of the episode become its first or last frame."""
        episode = int(np.searchsorted(self.table.bounds, index, side="right")) - 1
        first, end = self.table.bounds[episode : episode + 2].tolist()
        wanted = {name: index + offsets for name, offsets in self.offsets.items()}
        padding = {name: (rows < first) | (rows >= end) for name, rows in wanted.items()}
        rows = {name: np.clip(one, first, end - 1) for name, one in wanted.items()}
        alone, error = np.array([index]), None
        frames = {name: camera.frames[rows.get(name, alone)] for name, camera in self.cameras.items()}
        for name, numbers in frames.items():
            if (numbers == _OUTSIDE).any():
                row = int(rows.get(name, alone)[int(np.argmax(numbers == _OUTSIDE))])
                error = self._outside(name, episode, row)
                break
        return _Item(index, episode, padding, rows, frames, error)

    def _outside(self, camera: str, episode: int, row: int) -> SeqpipeError:
        """Return the error for a frame without a picture at its time."""
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

    def _outcomes(self, work: _RobotReading) -> list[tuple[int, dict[str, Any]] | SeqpipeError]:
        """Return each sample, or why it cannot be read."""
        arrived = iter(work.read.result())
        outcomes: list[tuple[int, dict[str, Any]] | SeqpipeError] = []
        for item in work.plan.work:
            if item.error is not None:
                outcomes.append(item.error)
                continue
            read = {name: next(arrived) for name in self.cameras}
            errors = [one for one in read.values() if isinstance(one, SeqpipeError)]
            if errors and isinstance(errors[0], DeviceMemoryError):
                raise errors[0]
            images = {name: one for name, one in read.items() if isinstance(one, Sequence)}
            outcomes.append(errors[0] if errors else (item.number, self._sample(item, images)))
        return outcomes

    def _sample(self, item: _Item, images: Mapping[str, Sequence]) -> dict[str, Any]:
        """Return the parts of a sample, in LeRobot's order; a single time has no axis of frames."""
        parts: dict[str, Any] = {}
        for name, one in images.items():
            single = len(item.frames[name]) == 1
            data, layout = (one.data[0], one.layout[1:]) if single else (one.data, one.layout)
            parts[name] = Sequence(data, layout, one.source)
        for name, column in self.table.columns.items():
            value = column[item.rows.get(name, item.number)]
            is_text = column.dtype.kind == "O"
            parts[name] = (list(value) if name in item.rows else value) if is_text else np.asarray(value)
        parts |= {f"{name}_is_pad": flags for name, flags in item.padding.items()}
        number = int(self.table.columns["task_index"][item.number])
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
        episodes = np.searchsorted(self.table.bounds, candidates, side="right") - 1
        for candidate in distinct(candidates, episodes, lost.episode):
            (outcome,) = self._outcomes(self.begin(self.plan(epoch, np.array([candidate])), stack=False))
            if not isinstance(outcome, SeqpipeError):
                return outcome
        return None


def lerobot(
    root: str | os.PathLike[str],
    delta_timestamps: Mapping[str, Iterable[float]] | None = None,
    episodes: Iterable[int] | None = None,
    cameras: Iterable[str] | None = None,
    *,
    tolerance_s: float = 1e-4,
    output: OutputSpec | None = None,
    decode: Decode | None = None,
    device: str = "cpu",
    shuffle: bool = False,
    seed: int = 0,
    on_error: OnError = "raise",
) -> Dataset:
    """Return a LeRobot data set of version 2.1 or 3.0 on a local disk (extra ``parquet``).

    ds = seqpipe.lerobot("pusht", {"observation.image": [-0.1, 0.0], "action": [0.0, 0.1]}, shuffle=True).batch(64)
    for batch in ds.torch():
        batch["observation.image"], batch["action"], batch["action_is_pad"], batch["task"]

    A sample is a frame of an episode, with the names, dtypes and shapes of ``LeRobotDataset[i]``: each camera as
    float32 of shape (channels, height, width) in 0…1, or (times, channels, height, width) for several times; columns
    as float32, int64, bool or texts; ``…_is_pad`` for keys of ``delta_timestamps``; and ``task``. All cameras and times
    of a batch are decoded together, each frame once. Nothing is decoded yet; columns are read into memory, and videos
    without an index are indexed on all threads. Columns of language annotations are not read. Operators of
    :meth:`Dataset.map` draw once for all cameras, which then have one size and number of times.

    Args:
        root: the folder with ``meta``, ``data`` and ``videos``.
        delta_timestamps: for cameras and columns by name: times in seconds relative to the frame, multiples of the
            frame's duration. Times outside of the episode are its first or last frame, and marked in ``…_is_pad``.
        episodes: numbers of the episodes; None for all. Their order is that of the data set.
        cameras: names of the cameras; None for all.
        tolerance_s: largest distance in seconds of a frame from its time in the table, and of ``delta_timestamps``
            from multiples of the frame's duration.
        output: color, dtype, size, crop and layout of the frames; by default as above. ``OutputSpec()`` gives uint8
            with channels last.
        decode: backend, stream, threads and indexes.
        device: "cpu", "cuda", "cuda:N", or "auto" for the first usable GPU, else the CPU.
        shuffle: whether each epoch has a new random order.
        seed: seed of the order.
        on_error: policy for frames that cannot be read or are outside of the tolerance: "raise", "skip" or
            "substitute".

    Raises:
        ParameterError: an argument is out of bounds, or names a camera, column or episode that does not exist.
        UnreadableSourceError: the version is another one; a camera is stored as images or depth; or a video is shorter
            than the table tells.
        SourceNotFoundError: a file does not exist.
        ManifestError: the metadata are not valid.
        BackendError: pyarrow is not installed, or the device is not available.
    """
    spec = check_output(_PLAIN_OUTPUT if output is None else output)
    if not isinstance(decode, Decode | None):
        raise ParameterError(
            f"decode is {described_type(decode)}", source="lerobot", allowed="Decode(backend=…, threads=…, …)"
        )
    chosen, tolerance = decode or Decode(), _TOLERANCE.check(tolerance_s)
    policy, order = ON_ERROR.check(on_error), (SHUFFLE.check(shuffle), SEED.check(seed))
    place = parse_device(device)
    folder = Path(check_path("root", root))
    files = RobotFiles(folder)
    names = files.chosen_cameras(cameras)
    offsets = _offsets(files, delta_timestamps, names, tolerance)
    table = read_frames(files, files.chosen_episodes(episodes), names)
    register = find_register(chosen.register, str(folder))
    indexes = IndexOptions(chosen.cache_dir, STREAM.check(chosen.stream), register)
    pool = LazyEngine(THREADS.check(chosen.threads), place, DECODE.check(chosen.backend), indexes)
    survey = _Survey(table, tolerance, spec, indexes)
    found = {name: survey.camera(name, pool.get()) for name in names}
    book = ReportBook(unit="episodes")
    book.finished(listed=len(table.episodes), used=len(table.episodes), samples=len(table))
    fixed = tolerance, pool, spec, str(place)
    return Dataset(RobotSource(table, found, offsets, *fixed, *order, policy, indexes, book))


def _offsets(
    files: RobotFiles, deltas: Any, cameras: tuple[str, ...], tolerance_s: float
) -> dict[str, IntArray]:
    """Return distances in frames by name."""
    if not isinstance(deltas, Mapping | None):
        raise ParameterError(
            f"delta_timestamps is {described_type(deltas)}", allowed="names → lists of seconds"
        )
    known = [name for name in files.features if name not in files.cameras or name in cameras]
    found = {}
    for name, times in (deltas or {}).items():
        if name not in known:
            raise ParameterError(
                f"delta_timestamps has {name!r}, which is no camera or column that is read",
                source=str(files.root),
                allowed=", ".join(known),
            )
        try:
            seconds = np.array([float(one) for one in times])
        except (TypeError, ValueError) as error:
            raise ParameterError(
                f"delta_timestamps[{name!r}]={times!r} is not valid", allowed="a list of seconds"
            ) from error
        steps = np.rint(seconds * files.fps)
        wrong = ~(np.abs(seconds * files.fps - steps) / files.fps <= tolerance_s)
        if not len(seconds) or wrong.any():
            value = seconds[wrong].tolist() or "no times"
            raise ParameterError(
                f"delta_timestamps[{name!r}] has {value}",
                allowed=f"multiples of 1/{files.fps:g} s, up to tolerance_s={tolerance_s:g}",
            )
        found[name] = steps.astype(np.int64)
    return found


@dataclass(frozen=True, eq=False)
class _Survey:
    """Finds the frame of each row in the files of a camera."""

    table: RobotFrames
    tolerance_s: float
    output: OutputSpec
    indexes: IndexOptions

    def camera(self, name: str, engine: Engine) -> _Camera:
        """Return the frames of a camera, after indexing its files on the engine's threads."""
        table = self.table
        by_path: dict[str, list[int]] = {}
        for episode, footage in enumerate(table.footage[name]):
            by_path.setdefault(footage.path, []).append(episode)
        frames = np.full(len(table), _OUTSIDE, np.int64)
        shapes: dict[int, tuple[int, ...]] = {}
        opened = engine.map(self._opened, by_path)
        for (path, episodes), (shape, clock) in zip(by_path.items(), opened, strict=True):
            for episode in episodes:
                first, end = table.bounds[episode : episode + 2]
                frames[first:end] = self._numbers(
                    name, episode, Footage(path, table.footage[name][episode].start_s), clock
                )
                shapes[episode] = shape
        return _Camera(frames, tuple(shapes[episode] for episode in range(len(table.episodes))))

    def _opened(self, path: str) -> tuple[tuple[int, ...], FloatArray]:
        index = open_index(path, **self.indexes._asdict())
        return self.output.frame_shape(Facts.of(index)), index.timestamps

    def _numbers(self, name: str, episode: int, footage: Footage, clock: FloatArray) -> IntArray:
        """Return the number of the frame nearest to each row's time; -1 beyond the tolerance."""
        first, end = self.table.bounds[episode : episode + 2]
        times = footage.start_s + self.table.columns["timestamp"][first:end].astype(np.float64)
        if len(times) and (
            not len(clock) or times.max() > clock[-1] + max(self.tolerance_s, 0.5 / self.table.fps)
        ):
            ends = f"at {float(clock[-1]):.6f} s" if len(clock) else "without a frame"
            raise UnreadableSourceError(
                f"the video of camera {name!r} ends {ends}, and episode {self.table.episodes[episode]} of the table "
                f"has a frame at {float(times.max()):.6f} s",
                source=footage.path,
                advice="The file may be incomplete: download it again, or leave the episode out",
            )
        after = (
            np.clip(np.searchsorted(clock, times), 1, len(clock) - 1)
            if len(clock) > 1
            else np.zeros(len(times), np.int64)
        )
        before = np.maximum(after - 1, 0)
        nearest = np.where(times - clock[before] <= clock[after] - times, before, after)
        near: IntArray = np.where(np.abs(clock[nearest] - times) <= self.tolerance_s, nearest, _OUTSIDE)
        return near
