"""Cached values of every frame of a video: timestamps, motion, and what else is computed by decoding it once."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import zlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ..array import FloatArray
from ..core.whole_file import replacing
from ..core.workers import OPENCV
from ..errors import DamagedSourceError
from ..flow.pairs import dense_flow
from ..video.convert.output import OutputSpec
from ..video.index.cache import cache_directory, cache_file
from ..video.index.open import IndexOptions, open_index
from ..video.reader import VideoReader
from ..video.source.source import Stamp, open_source

__all__ = ["Clock", "ComputedValues", "FrameMotion", "FrameValues"]

_MAX_FRAMES = 1 << 21
_SIDE_PX: Final = 160
"""Longer side of the frames whose motion is computed."""
_FORMAT: Final = 1

ValueT = TypeVar("ValueT", bound=np.generic)

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_told: set[tuple[str, str]] = set()  # what has been warned of


class FrameValues(ABC, Generic[ValueT]):
    """An LRU cache of values by path or URL, for two million frames in all. Thread-safe.

    Args:
        indexes: options that the indexes of videos are opened with.

    Attributes:
        indexes: the same.
    """

    def __init__(self, indexes: IndexOptions) -> None:
        self.indexes = indexes
        self._cache: OrderedDict[str, npt.NDArray[ValueT]] = OrderedDict()
        self._frames = 0
        self._lock = threading.Lock()

    def of(self, name: str) -> npt.NDArray[ValueT]:
        """Return the values of all frames of a video, read-only."""
        with self._lock:
            if (cached := self._cache.get(name)) is not None:
                self._cache.move_to_end(name)
                return cached
        values = self._load(name)
        values.flags.writeable = False
        with self._lock:
            if name not in self._cache:
                self._cache[name] = values
                self._frames += len(values)
            while self._frames > _MAX_FRAMES and len(self._cache) > 1:
                self._frames -= len(self._cache.popitem(last=False)[1])
        return values

    @abstractmethod
    def _load(self, name: str) -> npt.NDArray[ValueT]:
        """Return the values of all frames of a video."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.indexes,)


class Clock(FrameValues[np.float64]):
    """Presentation times in seconds."""

    def _load(self, name: str) -> FloatArray:
        """Return the values from the cache, or compute and cache them."""
        # copied, since a view would keep the whole index in memory
        times: FloatArray = open_index(name, **self.indexes._asdict()).timestamps.copy()
        return times


class ComputedValues(FrameValues[ValueT]):
    """Values that are computed by decoding a video, which is done once.

    They are cached on disk next to its index if the source has a stamp (size and time of change). Versions of OpenCV
    may differ slightly, so processes that share a dataset should share ``cache_dir``.
    """

    _suffix: ClassVar[str]
    _dtype: ClassVar[np.dtype[Any]]
    _output: ClassVar[OutputSpec]

    def _load(self, name: str) -> npt.NDArray[ValueT]:
        """Return the values from the cache, or compute and cache them."""
        stamp = open_source(name, stream=self.indexes.stream).stamp()
        path = None if stamp is None else self._path(stamp)
        cached = None if path is None or stamp is None else _read(path, stamp, self._dtype)
        if cached is not None:
            return cached
        with self._open(name) as video:
            values = OPENCV.single_threaded(self._compute, video)
        if path is not None and stamp is not None:
            _write(path, stamp, values)
        return values

    def lacks(self, name: str) -> bool:
        """Return whether values of a video could be kept on disk, and are not."""
        stamp = open_source(name, stream=self.indexes.stream).stamp()
        return stamp is not None and _read(self._path(stamp), stamp, self._dtype) is None

    def keep(self, name: str, values: npt.NDArray[ValueT]) -> None:
        """Keep the values of a video that were computed elsewhere."""
        if (stamp := open_source(name, stream=self.indexes.stream).stamp()) is not None:
            _write(self._path(stamp), stamp, values)

    def _open(self, name: str) -> VideoReader:
        cache_dir, stream, _ = self.indexes
        return VideoReader(name, stream=stream, threads=1, output=self._output, cache_dir=cache_dir)

    @abstractmethod
    def _compute(self, video: VideoReader) -> npt.NDArray[ValueT]:
        """Compute the values of all frames."""

    def _path(self, stamp: Stamp) -> Path:
        return cache_file(cache_directory(self.indexes.cache_dir), stamp).with_suffix(self._suffix)


class FrameMotion(ComputedValues[np.float32]):
    """Motion from each frame to the next, in percent of the longer side per second.

    Motion is the mean length of the optical flow (DIS, fast) between gray frames of at most 160 pixels on the longer
    side. A cut counts as motion. The last frame, and frames next to lost ones, have NaN.
    """

    _suffix = ".motion"
    _dtype = np.dtype(np.float32)
    _output = OutputSpec(color="GRAY", max_side=_SIDE_PX)

    def _compute(self, video: VideoReader) -> npt.NDArray[np.float32]:
        return _motion_of(video)


def _motion_of(video: VideoReader) -> npt.NDArray[np.float32]:
    """Compute the motion of each frame of a video."""
    times, motion = video.timestamps, np.full(len(video), np.nan, np.float32)
    previous_gray, previous = None, -1
    with contextlib.suppress(DamagedSourceError):  # values next to lost frames stay NaN
        for frame in video.stream(range(len(video))):
            assert frame.frames is not None  # a reader's frames are numbered
            number, gray = int(frame.frames[0]), frame.data[..., 0]
            if previous_gray is not None and number == previous + 1 and times[number] > times[previous]:
                flow = dense_flow("dis", "fast", previous_gray, gray)
                length = float(np.hypot(flow[..., 0], flow[..., 1]).mean())
                motion[previous] = 100 * length / max(gray.shape) / (times[number] - times[previous])
            previous_gray, previous = gray, number
    return motion


def _read(path: Path, stamp: Stamp, dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return cached values; None if the file is missing, damaged, of another format, or of other content."""
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        if json.loads(head) != [_FORMAT, list(stamp), zlib.crc32(body)]:
            return None
    except (OSError, ValueError):  # computed and written again
        return None
    return np.frombuffer(body, dtype).copy()


def _write(path: Path, stamp: Stamp, values: npt.NDArray[Any]) -> None:
    """Store values; a failure is logged as a warning."""
    body = values.tobytes()
    head = json.dumps([_FORMAT, list(stamp), zlib.crc32(body)]).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(head + b"\n" + body)
    except OSError as error:
        _warn(str(path.parent.parent), error.strerror or str(error))


def _warn(folder: str, reason: str) -> None:
    """Warn of a folder once, not for each of its files, which threads compute side by side."""
    with _lock:
        told = (folder, reason) in _told
        _told.add((folder, reason))
    if not told:
        _log.warning(
            "values of the frames of videos cannot be cached in %s (%s): they are computed again every time",
            folder,
            reason,
        )
