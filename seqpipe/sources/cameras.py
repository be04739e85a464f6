"""Several cameras, and values that were measured at times of their own, as samples at the instants of one clock."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..array import BoolArray, FloatArray, IntArray
from ..core.keywords import refuses_unknown_fields
from ..core.param import Param, check_path, choice
from ..dataset.dataset import Dataset
from ..errors import ParameterError, SourceNotFoundError, UnreadableSourceError, described_type
from ..images import decode_image
from ..readers.fetch import LazyEngine
from ..readers.frame_folders import FrameFiles, LazyFolderEngine
from ..readers.report import ReportBook
from ..readers.robot_files import Footage, RobotFrames
from ..sampling.clock import EQUAL_S
from ..sampling.params import FPS, ON_ERROR, SEED, SEQUENCE_LENGTH, SHUFFLE, STEP, STRIDE, OnError
from ..video.convert.output import OutputSpec, check_output
from ..video.device import DECODE, STREAM, THREADS, parse_device
from ..video.index.open import IndexOptions, open_index
from ..video.index.shared import find_register
from ..video.packet_index import Facts
from .options import Decode
from .recordings import OUTSIDE, CameraFrames, RecordingSource
from .takes import Clip, in_words_of

__all__ = ["Camera", "Match", "OnMissing", "Signal", "cameras"]

Match: TypeAlias = Literal["nearest", "previous", "linear"]
"""What belongs to an instant: the nearest frame or value; the newest one that is not later; or, for values alone, what
lies between the values before and after."""

OnMissing: TypeAlias = Literal["raise", "skip", "mark"]
"""Policy for instants without a frame or value: an error; samples with such an instant are left out; or it is filled
with zeros and marked in ``<name>_is_missing``."""

MATCH: Final = choice("match", "What belongs to an instant", get_args(Match))
ON_MISSING: Final = choice("on_missing", "Policy for instants without a frame or value", get_args(OnMissing))
_TOLERANCE: Final = Param(
    name="tolerance_s",
    doc="Largest distance from an instant",
    kind=float,
    lo=0,
    hi=1e6,
    unit="s",
    optional=True,
)
_RATE: Final = replace(FPS, name="clock", doc="Rate of the instants")
_NUMBER: Final = re.compile(r"\d+")
_SHOWN: Final = 3  # spans that an error names
# of the median distance of a stream's frames or values: half of it, and a whole one, with room for jitter
_TOLERANCES: Final = {"nearest": 0.75, "linear": 0.75, "previous": 1.25}


@refuses_unknown_fields()
@dataclass(frozen=True, eq=False)
class Camera:
    """A video, or a folder of images, with the times of its frames.

    Camera("left.mp4", start_s=0.12)                       # its own timestamps, shifted
    Camera("samples/CAM_FRONT", unit_s=1e-6)               # a folder: the last number in each name, in microseconds

    Attributes:
        path: the video, or the folder.
        times_s: time of each frame in seconds, ascending; None for those of the file, or for those in the names.
        start_s: is added to all times.
        unit_s: unit in seconds of the numbers in the names of images.
    """

    path: str | os.PathLike[str]
    times_s: Any = None
    start_s: float = 0.0
    unit_s: float = 1e-6


@refuses_unknown_fields()
@dataclass(frozen=True, eq=False)
class Signal:
    """Values that were measured at times of their own, such as poses, speeds or joint angles.

    Attributes:
        times_s: times in seconds, ascending.
        values: array with a value for each time.
        match: "nearest", "previous", or "linear": interpolated between the values before and after, float32.
    """

    times_s: Any
    values: Any
    match: Match = "linear"


@dataclass(frozen=True, eq=False)
class _Stream:
    """A camera or signal of a recording, before it is matched to instants.

    Attributes:
        name: its name.
        source: path, or what else errors name.
        clock: time of each frame or value in seconds, ascending.
        match: what belongs to an instant.
        tolerance_s: largest distance from it.
        shape: shape of an output frame; empty for signals.
    """

    name: str
    source: str
    clock: FloatArray
    match: Match
    tolerance_s: float
    shape: tuple[int, ...] = ()

    def at(self, instants: FloatArray) -> IntArray:
        """Return the number of the frame or value of each instant, the one before of two: OUTSIDE if there is none."""
        clock, last = self.clock, len(self.clock) - 1
        after = np.searchsorted(clock, instants + EQUAL_S, side="right")
        before, later = np.maximum(after - 1, 0), np.minimum(after, last)
        is_later = (clock[later] - instants < instants - clock[before]) & (self.match != "previous")
        nearest = np.where(is_later, later, before)
        misses = np.abs(clock[nearest] - instants) > self.tolerance_s + EQUAL_S
        if self.match != "nearest":
            misses |= instants < clock[0] - EQUAL_S
        if self.match == "linear":
            misses |= instants > clock[-1] + EQUAL_S
        result: IntArray = np.where(misses, OUTSIDE, nearest)
        return result

    def without(self, instants: FloatArray, misses: BoolArray) -> UnreadableSourceError:
        """Return the error that names the instants that have no frame or value."""
        times = instants[misses]
        edges = np.flatnonzero(np.diff(misses.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
        spans = [(instants[first], instants[end - 1]) for first, end in edges[:_SHOWN].tolist()]
        told = ", ".join(f"{a:.3f} s" if a == b else f"{a:.3f} to {b:.3f} s" for a, b in spans)
        more = f" and {len(edges) - _SHOWN} more spans" if len(edges) > _SHOWN else ""
        return UnreadableSourceError(
            f"{self.name!r} has nothing at {len(times)} of {len(instants)} instants: at {told}{more}; "
            f"it has times from {self.clock[0]:.3f} to {self.clock[-1]:.3f} s",
            source=self.source,
            allowed=f"tolerance_s={self.tolerance_s:g}",
            advice="Give a larger tolerance_s, or on_missing='skip' or 'mark'",
        )


def cameras(
    recordings: Any,
    take: Clip | int = 1,
    *,
    clock: str | float | None = None,
    match: Match = "nearest",
    tolerance_s: float | None = None,
    on_missing: OnMissing = "raise",
    output: OutputSpec | None = None,
    decode: Decode | None = None,
    device: str = "cpu",
    shuffle: bool = False,
    seed: int = 0,
    on_error: OnError = "raise",
) -> Dataset:
    """Return samples of several cameras at the instants of one clock.

    drive = {"front": Camera("CAM_FRONT"), "left": Camera("CAM_LEFT"), "speed": Signal(times_s, speeds)}
    ds = seqpipe.cameras([drive, …], Clip(8, step=4), clock=10.0, on_missing="mark", shuffle=True).batch(4)

    The parts of a sample are, for each camera, its frames (F, H, W, C); for each signal, the values (F, …);
    ``timestamp`` (F,), the instants in seconds; ``recording``, the position of the recording; and with
    ``on_missing="mark"`` ``<name>_is_missing`` (F,). All cameras of a batch are decoded together. Operators of
    :meth:`Dataset.map` draw once for all cameras, which then have one size.

    Args:
        recordings: a mapping from names to cameras (a path or a :class:`Camera`) and :class:`Signal` values, or a list
            of such mappings, all with the same names.
        take: instants of a sample: a :class:`Clip` with ``length``, ``stride`` and ``step`` in instants, or a length.
        clock: the camera whose frames are the instants, by default the first; or a rate in Hz, from the first
            camera's first frame to its last.
        match: frame of a camera at an instant: "nearest", or "previous", the newest one that is not later.
        tolerance_s: largest distance in seconds of a frame or value from its instant, for linear signals of the nearer
            value; by default 0.75 times the median distance between two frames or values, for "previous" 1.25 times.
        on_missing: policy for instants without a frame or value within the tolerance: "raise", "skip" leaves out
            samples that have one, "mark" fills it with zeros. :meth:`Dataset.report` names them.
        output: color, dtype, size and crop of the frames.
        decode: backend, stream, threads and indexes of videos.
        device: device of the frames; folders of images are read on the CPU.
        shuffle: whether each epoch has a new random order.
        seed: seed of the order.
        on_error: policy for samples that cannot be decoded.

    Raises:
        ParameterError: an argument is out of bounds, names differ between recordings, or no sample remains.
        UnreadableSourceError: ``on_missing`` is "raise", and a camera or signal has nothing at an instant.
        SourceError: a video or folder cannot be opened.
    """
    given, taken = _checked(recordings), _checked_take(take)
    place, chosen = parse_device(device), decode or Decode()
    spec = check_output(OutputSpec() if output is None else output)
    matched, policy = MATCH.check(match), ON_MISSING.check(on_missing)
    if matched == "linear":
        raise _wrong("match='linear' is for signals", "'nearest' or 'previous'")
    register = find_register(chosen.register, None)
    indexes = IndexOptions(chosen.cache_dir, STREAM.check(chosen.stream), register)
    threads, files = THREADS.check(chosen.threads), FrameFiles()
    own = {name: stream for name, stream in given[0].items() if isinstance(stream, Camera)}
    names, folders = list(own), {name for name, stream in own.items() if Path(stream.path).is_dir()}
    if folders and place.kind != "cpu":
        raise _wrong(
            f"camera {min(folders)!r} is a folder of images, and device={device!r}",
            "device='cpu'; .batch(…).to('cuda') copies the batches",
        )
    videos = LazyEngine(threads, place, DECODE.check(chosen.backend), indexes)
    images = LazyFolderEngine(files, threads)
    survey = _Survey(spec, indexes, files, matched, _TOLERANCE.check(tolerance_s))
    flat = [(name, stream, name in folders) for recording in given for name, stream in recording.items()]
    streams = iter(videos.get().map(survey.stream, flat))
    book, rows = ReportBook(unit="recordings"), []
    for number, recording in enumerate(given):
        by_name = {name: next(streams) for name in recording}
        rows.append(_Rows.of(number, by_name, recording, _instants(by_name, names, clock), policy, book))
    windows = _windows(rows, taken, skips=policy == "skip")
    book.finished(listed=len(given), used=len(given), samples=len(windows))
    engines = {name: images if name in folders else videos for name in names}
    table = _table(rows, names)
    steps = np.arange(taken.length) * taken.stride
    offsets = dict.fromkeys([*names, *(name for name in table.columns if name != "recording")], steps)
    tolerance = max(stream.tolerance_s for recording in rows for stream in recording.streams.values())
    fixed = tolerance, spec, str(place), SHUFFLE.check(shuffle), SEED.check(seed), ON_ERROR.check(on_error)
    return Dataset(
        RecordingSource(
            *(table, _frames(rows, engines), offsets, *fixed, indexes, book),
            windows=windows,
            fills_missing=True,
            name="cameras",
        )
    )


def _frames(
    rows: Seq[_Rows], engines: Mapping[str, LazyEngine | LazyFolderEngine]
) -> dict[str, CameraFrames]:
    """Return the frames of each camera, and what reads them."""
    return {
        name: CameraFrames(
            np.concatenate([recording.numbers[name] for recording in rows]),
            tuple(recording.streams[name].shape for recording in rows),
            engine,
        )
        for name, engine in engines.items()
    }


@dataclass(frozen=True, eq=False)
class _Survey:
    """Finds the clocks of cameras and signals."""

    output: OutputSpec
    indexes: IndexOptions
    files: FrameFiles
    match: Match
    tolerance_s: float | None

    def stream(self, given: tuple[str, Camera | Signal, bool]) -> _Stream:
        """Return a camera or signal with its clock."""
        name, stream, is_folder = given
        shape: tuple[int, ...] = ()
        if isinstance(stream, Signal):
            source, match = name, stream.match
            clock = _ascending(stream.times_s, len(stream.values), name)
        else:
            source, match = str(stream.path), self.match
            clock, shape = (self._folder if is_folder else self._video)(stream, name)
        distance = float(np.median(np.diff(clock))) if len(clock) > 1 else 0.0
        tolerance_s = _TOLERANCES[match] * distance if self.tolerance_s is None else self.tolerance_s
        return _Stream(name, source, clock, match, tolerance_s, shape)

    def _video(self, camera: Camera, name: str) -> tuple[FloatArray, tuple[int, ...]]:
        index = open_index(str(camera.path), **self.indexes._asdict())
        times = index.timestamps if camera.times_s is None else camera.times_s
        clock = _ascending(times, len(index.timestamps), name, str(camera.path))
        return clock + camera.start_s, self.output.frame_shape(Facts.of(index))

    def _folder(self, camera: Camera, name: str) -> tuple[FloatArray, tuple[int, ...]]:
        folder = str(camera.path)
        paths = [Path(self.files.path(folder, n)) for n in range(self.files.count(folder))]
        if not paths:
            raise UnreadableSourceError(f"camera {name!r} has no images", source=folder)
        times = camera.times_s
        if times is None:
            numbers = [_NUMBER.findall(path.stem) for path in paths]
            if not all(numbers):
                bad = paths[[not name_numbers for name_numbers in numbers].index(True)]
                raise UnreadableSourceError(
                    f"the name {bad.name} has no number, which would be its time",
                    source=folder,
                    advice="Give Camera(times_s=…)",
                )
            times = [int(name_numbers[-1]) * camera.unit_s for name_numbers in numbers]
        clock = _ascending(times, len(paths), name, folder) + camera.start_s
        height, width = decode_image(paths[0].read_bytes(), "GRAY").shape[:2]
        return clock, self.output.frame_shape(Facts(len(paths), width, height, 0, flipped=False))


@dataclass(frozen=True, eq=False)
class _Rows:
    """The instants of a recording, with the frame or value of each stream.

    Attributes:
        streams: cameras and signals by name.
        instants: their times in seconds.
        numbers: for each stream, the frame or value of each instant; OUTSIDE for none.
        columns: values of the signals, and which frames and values are missing.
    """

    streams: Mapping[str, _Stream]
    instants: FloatArray
    numbers: Mapping[str, IntArray]
    columns: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def of(
        cls,
        recording: int,
        streams: Mapping[str, _Stream],
        given: Mapping[str, Camera | Signal],
        instants: FloatArray,
        policy: OnMissing,
        book: ReportBook,
    ) -> _Rows:
        """Match streams to instants.

        Raises:
            UnreadableSourceError: the policy is "raise", and a stream has nothing at an instant.
        """
        numbers = {name: stream.at(instants) for name, stream in streams.items()}
        columns: dict[str, npt.NDArray[Any]] = {"timestamp": instants}
        for name, stream in given.items():
            misses = numbers[name] == OUTSIDE
            if misses.any():
                error = streams[name].without(instants, misses)
                if policy == "raise":
                    raise error
                book.note(error.source or name, "instants without a frame", error)
            if isinstance(stream, Signal):
                columns[name] = _values(stream, streams[name].clock, instants, numbers[name])
            if policy == "mark":
                columns[f"{name}_is_missing"] = misses
        columns["recording"] = np.full(len(instants), recording, np.int64)
        return cls(streams, instants, numbers, columns)


def _instants(streams: Mapping[str, _Stream], cameras: list[str], clock: Any) -> FloatArray:
    """Return the times of the samples of a recording."""
    if isinstance(clock, str) and clock not in cameras:
        raise _wrong(f"clock={clock!r} is no camera", f"{', '.join(cameras)}, or a rate in Hz")
    if clock is None or isinstance(clock, str):
        return streams[cameras[0] if clock is None else clock].clock
    first, *_, last = (streams[cameras[0]].clock[[0, -1]]).tolist()
    rate = _RATE.check(clock)
    times: FloatArray = first + np.arange(int((last - first) * rate + EQUAL_S * rate) + 1) / rate
    return times


def _values(signal: Signal, clock: FloatArray, instants: FloatArray, numbers: IntArray) -> npt.NDArray[Any]:
    """Return the value of a signal at each instant; zeros where there is none."""
    values = np.asarray(signal.values)
    found = values[np.maximum(numbers, 0)]
    if signal.match == "linear":
        flat = values.reshape(len(values), -1).astype(np.float64)
        lines = [np.interp(instants, clock, column) for column in flat.T]
        found = np.stack(lines, axis=1).reshape(len(instants), *values.shape[1:]).astype(np.float32)
    found[numbers == OUTSIDE] = 0
    return found


def _windows(rows: list[_Rows], take: Clip, *, skips: bool) -> IntArray:
    """Return the first row of each sample."""
    step = take.length * take.stride if take.step is None else take.step
    reach = (take.length - 1) * take.stride
    starts, before = [], 0
    for recording in rows:
        own = np.arange(0, max(len(recording.instants) - reach, 0), step)
        if skips:
            misses = np.any([numbers == OUTSIDE for numbers in recording.numbers.values()], axis=0)
            window = np.arange(take.length) * take.stride
            own = own[~misses[own[:, None] + window].any(axis=1)] if len(own) else own
        starts.append(own + before)
        before += len(recording.instants)
    windows: IntArray = np.concatenate(starts).astype(np.int64)
    if not len(windows):
        longest = max(len(recording.instants) for recording in rows)
        raise _wrong(
            f"no recording has {take.length} instants at a stride of {take.stride} with all frames and values",
            f"at most {longest} instants in all",
        )
    return windows


def _table(rows: list[_Rows], cameras: list[str]) -> RobotFrames:
    """Return the instants of all recordings as rows."""
    lengths = [len(recording.instants) for recording in rows]
    columns = {
        name: np.concatenate([recording.columns[name] for recording in rows]) for name in rows[0].columns
    }
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    footage = {
        name: tuple(Footage(recording.streams[name].source, 0.0) for recording in rows) for name in cameras
    }
    return RobotFrames("", "", 0.0, columns, tuple(range(len(rows))), bounds, None, footage)


def _ascending(times: Any, count: int, name: str, source: str | None = None) -> FloatArray:
    """Return times as float64, if they are ``count`` finite ascending ones."""
    clock = np.asarray(times, np.float64)
    if clock.shape != (count,) or not count or not np.isfinite(clock).all():
        raise _wrong(f"{name!r} has times of shape {clock.shape}", f"{count} finite times in seconds", source)
    back = np.flatnonzero(np.diff(clock) < 0)
    if len(back):
        at = int(back[0])
        raise _wrong(
            f"{name!r} goes back in time, from {clock[at]:.6f} s to {clock[at + 1]:.6f} s",
            "ascending times",
            source,
        )
    return clock


def _checked(recordings: Any) -> list[dict[str, Camera | Signal]]:
    """Return recordings as mappings from names to cameras and signals."""
    given = [recordings] if isinstance(recordings, Mapping) else recordings
    if not isinstance(given, Seq) or isinstance(given, str) or not given:
        raise _wrong(
            f"recordings is {described_type(recordings)}", "a mapping of cameras, or a list of these"
        )
    checked: list[dict[str, Camera | Signal]] = []
    for number, recording in enumerate(given):
        if not isinstance(recording, Mapping) or not recording:
            raise _wrong(f"recording {number} is {described_type(recording)}", "names → cameras and signals")
        if recording.keys() != given[0].keys():
            raise _wrong(
                f"recording {number} has {', '.join(recording)}", f"as the first: {', '.join(given[0])}"
            )
        checked.append({name: _stream_of(str(name), stream) for name, stream in recording.items()})
        kinds = [
            (type(stream), isinstance(stream, Camera) and Path(stream.path).is_dir())
            for stream in checked[-1].values()
        ]
        first = [
            (type(stream), isinstance(stream, Camera) and Path(stream.path).is_dir())
            for stream in checked[0].values()
        ]
        if kinds != first:
            raise _wrong(
                f"recording {number} mixes videos, folders and signals differently from the first", "one kind"
            )
    if not any(isinstance(stream, Camera) for stream in checked[0].values()):
        raise _wrong("there is no camera", "one camera or more")
    return checked


def _stream_of(name: str, stream: Any) -> Camera | Signal:
    if name in ("timestamp", "recording", "index"):
        raise _wrong(f"the name {name!r} is taken", "another name")
    if isinstance(stream, Signal):
        MATCH.check(stream.match)
        return replace(stream, values=np.asarray(stream.values))
    camera = stream if isinstance(stream, Camera) else Camera(stream)
    path = check_path(name, camera.path)
    if not Path(path).exists() and "://" not in str(path):
        raise SourceNotFoundError(
            f"camera {name!r} does not exist", source=str(path), advice="Check the path"
        )
    return replace(camera, path=path)


def _checked_take(take: Any) -> Clip:
    taken = Clip(take) if isinstance(take, int) and not isinstance(take, bool) else take
    if not isinstance(taken, Clip):
        raise _wrong(f"take is {described_type(take)}", "Clip(length, stride=…, step=…), or a length")
    if taken != Clip(taken.length, taken.stride, taken.step):
        raise _wrong(f"take is {taken!r}", "length, stride and step, in instants")
    with in_words_of(taken):
        SEQUENCE_LENGTH.check(taken.length)
        STRIDE.check(taken.stride)
        STEP.check(taken.step)
    return taken


def _wrong(fact: str, allowed: str, source: str | None = None) -> ParameterError:
    return ParameterError(fact, source=source or "cameras", allowed=allowed)
