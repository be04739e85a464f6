"""Scenes of videos, and the quality of their frames: what a pass over small frames tells of each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..array import FloatArray, IntArray
from ..errors import DamagedSourceError, ParameterError, SeqpipeError
from ..video.convert.output import OutputSpec
from ..video.index.open import IndexOptions, open_index
from ..video.reader import VideoReader
from .entry import Entry, Listing, Range
from .frame_values import ComputedValues

__all__ = [
    "CONTENT",
    "CONTENT_OUTPUT",
    "NEIGHBORS",
    "SHORTEST_SCENE",
    "ContentArray",
    "ContentMeter",
    "FrameContent",
    "SceneDetector",
    "by_scenes",
    "scene_starts",
    "unlike_before",
]

SceneDetector: TypeAlias = Callable[[VideoReader], Iterable[int]]
"""Gives the numbers of the frames with which scenes begin."""
ContentArray: TypeAlias = "npt.NDArray[np.void]"

CONTENT: Final = np.dtype([("change", "<f4"), ("dark", "<f4"), ("sharpness", "<f4"), ("look", "<u8")])
"""Values of a frame.

``change``: mean absolute difference of hue (0 to 179), saturation and value (0 to 255) from the frame before; NaN for
the first frame and next to lost ones. ``dark``: share of pixels whose luma is below a tenth of its range.
``sharpness``: variance of the Laplacian of luma. ``look``: difference hash of luma, 64 bits.
"""
CONTENT_OUTPUT: Final = OutputSpec(max_side=256)
"""Color and size of the frames whose values are computed."""
NEIGHBORS: Final = 2
"""Frames on each side that a change is compared with."""
SHORTEST_SCENE: Final = 15
"""Least number of frames of a scene that others follow."""
_DARK: Final = 26  # a tenth of 255
_LEAST_AVERAGE: Final = 1e-5


class FrameContent(ComputedValues[np.void]):
    """Values of each frame, as :data:`CONTENT` has them, of frames of at most 256 pixels on the longer side.

    Args:
        indexes: options that the indexes of videos are opened with.
        device: device that decodes and scales; values are computed on the CPU.
    """

    _suffix = ".content"
    _dtype = CONTENT
    _output = CONTENT_OUTPUT

    def __init__(self, indexes: IndexOptions, device: str = "cpu") -> None:
        super().__init__(indexes)
        self._device = device

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.indexes, self._device)

    def _open(self, name: str) -> VideoReader:
        cache_dir, stream, register = self.indexes
        kept: dict[str, Any] = {"cache_dir": cache_dir, "register": register}
        return VideoReader(name, stream=stream, device=self._device, output=self._output, **kept)

    def _compute(self, video: VideoReader) -> ContentArray:
        meter = ContentMeter(len(video))
        with contextlib.suppress(DamagedSourceError):  # values of lost frames stay NaN
            for frame in video.stream(range(len(video)), host=True):
                assert frame.frames is not None  # a reader's frames are numbered
                meter.add(int(frame.frames[0]), frame.numpy())
        return meter.values


class ContentMeter:
    """Computes the values of frames that come in order, of the size and color of :data:`CONTENT_OUTPUT`.

    Args:
        count: number of frames of the video.

    Attributes:
        values: the values, as :data:`CONTENT` has them; of frames that did not come, NaN and 0.
    """

    def __init__(self, count: int) -> None:
        self.values: ContentArray = np.zeros(count, CONTENT)
        self.values["change"] = self.values["sharpness"] = np.nan
        self._before: npt.NDArray[np.uint8] | None = None
        self._previous = -1

    def add(self, number: int, pixels: Any) -> None:
        """Compute the values of a frame."""
        import cv2

        colors = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)
        luma = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
        row = self.values[number]
        if self._before is not None and number == self._previous + 1:
            row["change"] = cv2.norm(colors, self._before, cv2.NORM_L1) / colors.size
        row["dark"] = np.count_nonzero(luma < _DARK) / luma.size
        row["sharpness"] = cv2.meanStdDev(cv2.Laplacian(luma, cv2.CV_16S))[1].item() ** 2
        row["look"] = _difference_hash(cv2.resize(luma, (9, 8), interpolation=cv2.INTER_AREA))
        self._before, self._previous = colors, number


def _difference_hash(small: npt.NDArray[Any]) -> int:
    """Return a bit for each of 8 x 8 pairs of neighbors in a row: whether the right one is brighter."""
    bits = np.packbits(small[:, 1:] > small[:, :-1])
    return int.from_bytes(bits.tobytes(), "big")


def scene_starts(
    change: FloatArray,
    *,
    threshold: float = 3.0,
    least_change: float = 15.0,
    window: int = NEIGHBORS,
    shortest: int = SHORTEST_SCENE,
) -> IntArray:
    """Return the frames with which scenes begin, 0 among them, by the adaptive rule of PySceneDetect.

    A scene begins where a frame changes ``threshold`` times as much as the average of its neighbors, and by at least
    ``least_change``; the rule adapts to moving cameras, which change all frames.

    Args:
        change: change of each frame from the one before.
        threshold: least ratio to the average change of the ``window`` frames before and the ``window`` frames after.
        least_change: least change.
        window: number of neighbors on each side; frames that lack one begin no scene.
        shortest: least number of frames of a scene that others follow.
    """
    values = np.nan_to_num(np.asarray(change, np.float64))
    if len(values) <= 2 * window + 1:
        return np.zeros(min(1, len(values)), np.int64)
    around = np.lib.stride_tricks.sliding_window_view(values, 2 * window + 1)
    middle = around[:, window]
    average = (around.sum(1) - middle) / (2 * window)
    sudden = (middle >= least_change) & (middle >= threshold * np.maximum(average, _LEAST_AVERAGE))
    starts = [0]
    for frame in (np.flatnonzero(sudden) + window).tolist():
        if frame - starts[-1] >= shortest:
            starts.append(frame)
    return np.array(starts, np.int64)


def unlike_before(looks: npt.NDArray[np.uint64], distance: int) -> npt.NDArray[np.bool_]:
    """Return which frames differ from the last one that does, by more than ``distance`` bits of their hashes."""
    kept, last = np.zeros(len(looks), bool), None
    for number, look in enumerate(looks.tolist()):
        if last is None or (look ^ last).bit_count() > distance:
            kept[number], last = True, look
    return kept


def by_scenes(
    listing: Listing,
    detector: SceneDetector | None,
    content: FrameContent,
    run: Callable[[Callable[[str], Any], list[str]], Iterable[Any]],
) -> Listing:
    """Return a listing whose entries are the scenes of the given one's; of ranges, the scenes within them.

    Args:
        listing: videos; those that cannot be read stay as they are.
        detector: finds scenes; None for :func:`scene_starts`.
        content: values of the frames of videos.
        run: calls a function with each name, as ``map`` does.

    Raises:
        ParameterError: the detector fails, or returns something other than frame numbers.
    """

    def starts(name: str) -> tuple[IntArray, int, FloatArray] | None:
        try:
            index = open_index(name, **content.indexes._asdict())
            if detector is None:
                found = scene_starts(content.of(name)["change"])
            else:
                with VideoReader(
                    name, stream=content.indexes.stream, cache_dir=content.indexes.cache_dir
                ) as video:
                    found = _checked(_detected(detector, video), video)
        except SeqpipeError as error:
            if isinstance(error, ParameterError):
                raise
            return None  # the survey meets the error, and follows the policy for it
        return found, len(index), index.timestamps

    names = list(dict.fromkeys(entry.name for entry in listing.entries))
    found = dict(zip(names, run(starts, names), strict=True))
    entries = [part for entry in listing.entries for part in _parts(entry, found[entry.name])]
    return replace(listing, entries=tuple(entries))


def _detected(detector: SceneDetector, video: VideoReader) -> Iterable[int]:
    """Call the user's detector; its errors name it and the video."""
    try:
        return detector(video)
    except SeqpipeError:
        raise
    except Exception as error:
        raise ParameterError(
            f"split={detector!r} fails ({type(error).__name__}: {error})",
            source=video.info.source,
            allowed="a function of a reader that returns the frames with which scenes begin",
        ) from error


def _parts(entry: Entry, found: tuple[IntArray, int, FloatArray] | None) -> list[Entry]:
    """Return an entry for each scene of an entry."""
    if found is None or not found[1]:
        return [entry]
    starts, count, times = found
    try:
        span = (entry.part or Range()).of(count, times)
    except SeqpipeError:
        return [entry]
    edges = [span.first, *starts[(starts > span.first) & (starts < span.end)].tolist(), span.end]
    return [entry._replace(part=Range(start_frame=first, end_frame=end)) for first, end in pairwise(edges)]


def _checked(starts: Iterable[int], video: VideoReader) -> IntArray:
    """Return the frames with which scenes begin, 0 among them, as a detector gives them."""
    numbers = np.unique(np.array([0, *starts], np.int64))
    wrong = numbers[(numbers < 0) | (numbers >= len(video))]
    if len(wrong) and len(video):
        raise ParameterError(
            f"the detector returned frame {wrong[0]}",
            source=video.info.source,
            allowed=f"numbers of frames, 0 to {len(video) - 1}",
        )
    return numbers
