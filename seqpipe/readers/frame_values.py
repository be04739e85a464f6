"""Values of every frame of a video, loaded on demand and kept for a while: timestamps, and how much moves."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import zlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ..array import FloatArray
from ..errors import DamagedSourceError
from ..flow.cpu import dense_flow
from ..opencv_threads import OPENCV
from ..video.convert.output import OutputSpec
from ..video.index.cache import cache_directory, cache_file
from ..video.index.open import open_index
from ..video.reader import VideoReader
from ..video.source.source import Stamp, open_source
from ..whole_file import replacing

__all__ = ["Clock", "FrameMotion", "FrameValues"]

_KEPT_FRAMES = 1 << 21
_SIDE_PX: Final = 160
"""Longer side of the frames whose motion is computed."""
_FORMAT: Final = 1

ValueT = TypeVar("ValueT", bound=np.floating[Any])

_log = logging.getLogger(__name__)


class FrameValues(ABC, Generic[ValueT]):
    """Values by path or URL, those of the most recently used videos kept: of two million frames.

    Args:
        cache_dir: where indexes are kept.
        stream: which stream of each video; None for the best one.
        register: the path of a register of indexes, if there is one.
    """

    def __init__(
        self,
        cache_dir: str | os.PathLike[str] | None,
        stream: int | None = None,
        register: str | None = None,
    ) -> None:
        self._cache_dir, self._stream, self._register = cache_dir, stream, register
        self._known: OrderedDict[str, npt.NDArray[ValueT]] = OrderedDict()
        self._frames = 0
        self._lock = threading.Lock()

    @property
    def kept_frames(self) -> int:
        """How many frames have their values in memory."""
        return self._frames

    def of(self, name: str) -> npt.NDArray[ValueT]:
        """The values of all frames of a video.

        Raises:
            SourceError: it cannot be opened.
        """
        with self._lock:
            if (known := self._known.get(name)) is not None:
                self._known.move_to_end(name)
                return known
        values = self._load(name)
        values.flags.writeable = False
        with self._lock:
            if name not in self._known:
                self._known[name] = values
                self._frames += len(values)
            while self._frames > _KEPT_FRAMES and len(self._known) > 1:
                self._frames -= len(self._known.popitem(last=False)[1])
        return values

    @abstractmethod
    def _load(self, name: str) -> npt.NDArray[ValueT]:
        """The values of all frames of a video that are not in memory."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._cache_dir, self._stream, self._register)


class Clock(FrameValues[np.float64]):
    """Presentation times in seconds."""

    def _load(self, name: str) -> FloatArray:
        # A copy: the view would keep the whole index in memory.
        index = open_index(name, cache_dir=self._cache_dir, stream=self._stream, register=self._register)
        times: FloatArray = index.timestamps.copy()
        return times


class FrameMotion(FrameValues[np.float32]):
    """How much each frame moves until the next one, in percent of its longer side per second.

    That is the mean length of the optical flow (DIS, fast) between gray frames of at most 160 pixels on the longer
    side. A cut counts as motion. The last frame, and frames beside lost ones, have none (NaN). A video is decoded once
    for it; the values are kept beside its index on disk, if its content can be known again. Another version of OpenCV
    may give slightly other values, so processes that share a dataset should share ``cache_dir``.
    """

    _suffix: ClassVar = ".motion"

    def _load(self, name: str) -> npt.NDArray[np.float32]:
        stamp = open_source(name, stream=self._stream).stamp()
        path = None if stamp is None else self._path(stamp)
        known = None if path is None or stamp is None else _read(path, stamp)
        if known is not None:
            return known
        output = OutputSpec(color="GRAY", max_side=_SIDE_PX)
        with VideoReader(
            name, stream=self._stream, threads=1, output=output, cache_dir=self._cache_dir
        ) as video:
            found: npt.NDArray[np.float32] = OPENCV.single_threaded(_computed, video)
        if path is not None and stamp is not None:
            _write(path, stamp, found)
        return found

    def _path(self, stamp: Stamp) -> Path:
        return cache_file(cache_directory(self._cache_dir), stamp).with_suffix(self._suffix)


def _computed(video: VideoReader) -> npt.NDArray[np.float32]:
    times, found = video.timestamps, np.full(len(video), np.nan, np.float32)
    before, number = None, -1
    with contextlib.suppress(DamagedSourceError):  # what is lost stays unknown
        for frame in video.stream(range(len(video))):
            assert frame.frames is not None  # a reader's frames are numbered
            here, gray = int(frame.frames[0]), frame.data[..., 0]
            if before is not None and here == number + 1 and times[here] > times[number]:
                flow = dense_flow("dis", "fast", before, gray)
                length = float(np.hypot(flow[..., 0], flow[..., 1]).mean())
                found[number] = 100 * length / max(gray.shape) / (times[here] - times[number])
            before, number = gray, here
    return found


def _read(path: Path, stamp: Stamp) -> npt.NDArray[np.float32] | None:
    """Values that were kept; None if there are none, or they are of another content, another method, or damaged."""
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        if json.loads(head) != [_FORMAT, list(stamp), zlib.crc32(body)]:
            return None
    except (OSError, ValueError):  # what cannot be read is computed, and kept anew
        return None
    return np.frombuffer(body, np.float32).copy()


def _write(path: Path, stamp: Stamp, values: npt.NDArray[np.float32]) -> None:
    body = values.tobytes()
    head = json.dumps([_FORMAT, list(stamp), zlib.crc32(body)]).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(head + b"\n" + body)
    except OSError as error:
        _warn(str(path.parent.parent), error.strerror or str(error))


@cache  # so that each is told once, of thousands of files
def _warn(folder: str, reason: str) -> None:
    _log.warning(
        "the motion of videos cannot be kept in %s (%s): it is computed again every time", folder, reason
    )
