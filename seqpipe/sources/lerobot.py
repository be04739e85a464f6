"""LeRobot data sets as a source: the columns of a frame, and the frames of all cameras at chosen times around it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..array import FloatArray, IntArray
from ..core.param import Param, check_path
from ..dataset.dataset import Dataset
from ..errors import ParameterError, UnreadableSourceError, described_type
from ..readers.fetch import LazyEngine, LazyPool
from ..readers.report import ReportBook
from ..readers.robot_files import Footage, RobotFiles, RobotFrames, read_frames, robot_folder
from ..sampling.params import ON_ERROR, SEED, SHUFFLE, OnError
from ..video.convert.output import OutputSpec, check_output
from ..video.device import DECODE, STREAM, THREADS, parse_device
from ..video.engine.engine import Engine
from ..video.index.open import IndexOptions, open_index
from ..video.index.shared import find_register
from ..video.packet_index import Facts
from .options import Decode
from .recordings import OUTSIDE, CameraFrames, RecordingSource

__all__ = ["lerobot"]

_TOLERANCE: Final = Param(
    name="tolerance_s", doc="Largest distance of a frame from its time", kind=float, lo=0, hi=1e6, unit="s"
)
_PLAIN_OUTPUT: Final = OutputSpec(dtype="float32", layout="FCHW")  # as LeRobot gives them


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
        root: the folder with ``meta``, ``data`` and ``videos``, or the name of a repository that LeRobot has
            downloaded, such as "lerobot/pusht".
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
    folder = robot_folder(Path(check_path("root", root)))
    files = RobotFiles(folder)
    names = files.chosen_cameras(cameras)
    offsets = _offsets(files, delta_timestamps, names, tolerance)
    table = read_frames(files, files.chosen_episodes(episodes), names)
    register = find_register(chosen.register, str(folder))
    indexes = IndexOptions(chosen.cache_dir, STREAM.check(chosen.stream), register)
    pool = LazyEngine(THREADS.check(chosen.threads), place, DECODE.check(chosen.backend), indexes)
    survey = _Survey(table, tolerance, spec, indexes)
    found = {name: survey.camera(name, pool) for name in names}
    book = ReportBook(unit="episodes")
    book.finished(listed=len(table.episodes), used=len(table.episodes), samples=len(table))
    fixed = tolerance, spec, str(place)
    return Dataset(RecordingSource(table, found, offsets, *fixed, *order, policy, indexes, book))


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
            seconds = np.array([float(time_s) for time_s in times])
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

    def camera(self, name: str, pool: LazyPool[Engine]) -> CameraFrames:
        """Return the frames of a camera, after indexing its files on the pool's threads."""
        table = self.table
        by_path: dict[str, list[int]] = {}
        for episode, footage in enumerate(table.footage[name]):
            by_path.setdefault(footage.path, []).append(episode)
        frames = np.full(len(table), OUTSIDE, np.int64)
        shapes: dict[int, tuple[int, ...]] = {}
        opened = pool.get().map(self._opened, by_path)
        for (path, episodes), (shape, clock) in zip(by_path.items(), opened, strict=True):
            for episode in episodes:
                first, end = table.bounds[episode : episode + 2]
                frames[first:end] = self._numbers(
                    name, episode, Footage(path, table.footage[name][episode].start_s), clock
                )
                shapes[episode] = shape
        return CameraFrames(frames, tuple(shapes[n] for n in range(len(table.episodes))), pool)

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
        near: IntArray = np.where(np.abs(clock[nearest] - times) <= self.tolerance_s, nearest, OUTSIDE)
        return near
