"""Folders of frames: their images by number, how many there are, and threads that read sequences of them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from ..array import Array, FloatArray
from ..errors import FrameRangeError, ParameterError, SeqpipeError, SourceNotFoundError, UnreadableSourceError
from ..images import decode_image, image_extensions
from ..opencv_threads import OPENCV
from ..sequence import Sequence
from ..video.convert.converter import Converter, OutputSpec
from ..video.convert.surface import Surface, surface_format
from ..video.device import Device
from ..video.engine.engine import Engine, PendingRead, available_cores
from ..video.engine.workers import Workers
from ..video.interruptible import InterruptibleFuture
from ..video.memory import host_array
from ..video.plan.request import Outcomes, Request, check_memory
from ..video.probe.facts import Facts
from ..video.probe.info import StreamInfo
from .entry import Entry
from .lazy_engine import LazyEngine
from .survey import VideoSurvey

__all__ = ["FolderEngine", "FolderSurvey", "FrameFiles", "LazyFolderEngine"]

_CONVERTERS = 64  # that a thread keeps
_BT601_FULL = {"matrix": 5, "full_range": True, "primaries": 2, "transfer": 2, "chroma_location": 0}


@dataclass(frozen=True)
class FrameFiles:
    """Which image of a folder is which frame.

    Attributes:
        template: name of a frame's file, such as ``img_{:05}.jpg``; None for all images in the order of their names.
        first_number: the number that the template has for the first frame.

    Raises:
        ParameterError: the template has no place for a number, or more than one.
    """

    template: str | None = None
    first_number: int = 1

    def __post_init__(self) -> None:
        if self.template is None:
            return
        try:
            differs = self.template.format(1) != self.template.format(22)
        except (IndexError, KeyError, ValueError):
            differs = False
        if not differs:
            raise ParameterError(
                f"template={self.template!r} is not valid",
                allowed="the name of a file with one place for a number, such as 'img_{:05}.jpg'",
            )

    def path(self, folder: str, frame: int) -> str:
        """The file of a frame.

        Raises:
            SourceNotFoundError: the folder is not there.
            FrameRangeError: it has fewer images; only found where there is no template.
        """
        if self.template is not None:
            return os.path.join(folder, self.template.format(frame + self.first_number))  # noqa: PTH118  very many
        names = _images(folder)
        if frame >= len(names):
            raise FrameRangeError(
                f"there is no frame {frame}",
                source=folder,
                allowed=f"0 to {len(names) - 1}, one for each image",
            )
        return os.path.join(folder, names[frame])  # noqa: PTH118  very many

    def count(self, folder: str) -> int:
        """How many frames a folder has: images, or files by the template from the first number on, without a gap.

        Raises:
            SourceNotFoundError: the folder is not there.
        """
        if self.template is None:
            return len(_images(folder))
        names, frames = set(_listed(folder)), 0
        while self.template.format(frames + self.first_number) in names:
            frames += 1
        return frames


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  names alone
    except OSError as error:
        raise SourceNotFoundError(
            f"the folder of frames cannot be listed: {error.strerror}", source=folder, advice="Check the path"
        ) from error


@lru_cache(maxsize=1024)
def _images(folder: str) -> tuple[str, ...]:
    return tuple(sorted(name for name in _listed(folder) if name.lower().endswith(image_extensions)))


@dataclass
class FolderSurvey(VideoSurvey):
    """Looks at folders of frames: lists say how many there are, or the folder does; the first image tells the size.

    Attributes:
        files: which image is which frame.
    """

    files: FrameFiles = field(default_factory=FrameFiles)

    def _look(
        self, names: Iterable[str], entries: Seq[Entry], engine: Engine
    ) -> Iterator[tuple[str, Facts | SeqpipeError, FloatArray | None]]:
        listed = {
            one.name: one.part.end_frame for one in entries if one.part is not None and one.part.end_frame
        }
        known = list(names)
        found = engine.map(lambda name: self._seen(name, listed.get(name)), known)
        for name, facts in zip(known, found, strict=True):
            yield name, facts, None

    def _seen(self, folder: str, listed: int | None) -> Facts | SeqpipeError:
        try:
            frames = listed or self.files.count(folder)
            if not frames:
                wanted = self.files.template or ", ".join(image_extensions)
                raise SourceNotFoundError("the folder has no frames", source=folder, allowed=wanted)
            if self.output.size is not None and self.output.crop is None:
                return Facts(frames, 1, 1, 0, False)  # whatever the size, frames become one that is known
            height, width, _ = _decoded(self.files.path(folder, 0), gray=True).shape
            return Facts(frames, width, height, 0, False)
        except SeqpipeError as error:
            return error


class FolderEngine:
    """Threads that read sequences of frames from folders, as an :class:`Engine` does from videos.

    Args:
        files: which image is which frame.
        threads: how many; by default one for each core that this process may use.
    """

    def __init__(self, files: FrameFiles, threads: int | None = None) -> None:
        self._files = files
        self.threads = threads or available_cores()
        self._workers = Workers(self.threads, "seqpipe-frames")
        self._local = threading.local()
        self._frames: Counter[str] = Counter()
        self.allocate = host_array

    map = Engine.map

    @property
    def _executor(self) -> Workers:
        return self._workers

    def submit(self, requests: Seq[Request]) -> PendingRead:
        """Begin to read sequences."""
        planned: InterruptibleFuture[Any] = InterruptibleFuture()
        calls = [partial(OPENCV.single_threaded, self._outcome, place, one) for place, one in enumerate(requests)]
        planned.set_result([self._workers.submit(call) for call in calls])
        return PendingRead(range(len(requests)), planned)

    def read(self, requests: Seq[Request]) -> list[Sequence | SeqpipeError]:
        """Read sequences in parallel; one entry for each, the sequence or the error that it ended in."""
        return self.submit(requests).result()

    def stats(self) -> dict[str, dict[str, int]]:
        """How many images were decoded."""
        return {"frames": dict(self._frames), "fallbacks": {}}

    def close(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        self._workers.close()

    def _outcome(self, place: int, request: Request) -> Outcomes:
        try:
            return {place: self._sequence(request)}
        except SeqpipeError as error:
            return {place: error}

    def _sequence(self, request: Request) -> Sequence:
        folder, gray = str(request.origin), request.output.color == "GRAY"
        pixels, made = request.out, dict[int, Array]()
        frames = request.frames.tolist()
        for place, frame in enumerate(frames):
            if frame < 0 or frame in made:
                continue
            image = _decoded(self._files.path(folder, frame), gray=gray)
            converter = self._converter(image, request.output)
            shape = (len(frames), *converter.shape)
            if pixels is None:
                pixels = host_array(shape, converter.dtype)
            check_memory(pixels, shape, converter.dtype, folder)
            converter(_surface(image, frame), pixels[place])
            made[frame] = pixels[place]
        if pixels is None:
            raise UnreadableSourceError("a sequence of padding alone", source=folder)
        for place, frame in enumerate(frames):
            if frame < 0:
                for part, value in request.fill_values(place):
                    pixels[part] = value
            elif made[frame] is not pixels[place]:
                pixels[place] = made[frame]
        self._frames["cpu"] += len(made)
        padding = request.frames < 0 if request.padding is None else request.padding | (request.frames < 0)
        numbers = np.where(padding, -1, request.frames)
        return Sequence(pixels, request.output.layout, folder, numbers, np.full(len(numbers), np.nan))

    def _converter(self, image: npt.NDArray[Any], output: OutputSpec) -> Converter:
        """This thread's converter of images of a size: it works in memory of its own."""
        known: dict[Any, Converter] = self._local.__dict__.setdefault("converters", {})
        key = image.shape, output
        if key not in known:
            if len(known) >= _CONVERTERS:
                known.clear()
            known[key] = Converter(_info(*image.shape), output)
        return known[key]


class LazyFolderEngine(LazyEngine):
    """Creates a :class:`FolderEngine` where :class:`LazyEngine` creates one for videos.

    Args:
        files: which image is which frame.
        threads: how many threads; by default one for each core.
    """

    def __init__(self, files: FrameFiles, threads: int | None) -> None:
        super().__init__(threads, None, Device("cpu"), "auto")
        self._files = files

    def make(self) -> Engine:
        """See :meth:`LazyEngine.make`."""
        return cast("Engine", FolderEngine(self._files, self._threads))

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyFolderEngine, (self._files, self._threads)


def _decoded(path: str, *, gray: bool) -> npt.NDArray[np.uint8]:
    """An image, ``HWC``.

    Raises:
        UnreadableSourceError: it cannot be read, or is no image.
    """
    folder, _, name = path.rpartition(os.sep)
    try:
        data = Path(path).read_bytes()
        return decode_image(data, "GRAY" if gray else "RGB")
    except OSError as error:
        found = UnreadableSourceError(f"{name} cannot be read: {error.strerror}", source=folder)
        raise found from error
    except UnreadableSourceError as error:
        error.fact, error.source = f"{name}: {error.fact}", folder
        raise


def _surface(image: npt.NDArray[np.uint8], number: int) -> Surface:
    planes = cv2.split(image) if image.shape[2] > 1 else (image[..., 0],)
    return Surface(number, tuple(planes), surface_format(_form(image.shape[2])))


def _form(channels: int) -> str:
    return "gray" if channels == 1 else "gbrp"


@lru_cache(maxsize=256)
def _info(height: int, width: int, channels: int) -> StreamInfo:
    """What converters have to know of images."""
    return StreamInfo(
        source="",
        container="",
        codec="",
        profile=None,
        pixel_format=_form(channels),
        bit_depth=8,
        chroma=surface_format(_form(channels)).chroma,
        width=width,
        height=height,
        sample_aspect_ratio=Fraction(1),
        rotation_degrees=0,
        flipped=False,
        average_rate=None,
        real_rate=None,
        time_base=Fraction(1),
        start_s=None,
        duration_s=None,
        frame_count=None,
        declared_frames=None,
        has_b_frames=None,
        has_audio=False,
        **_BT601_FULL,  # type: ignore[arg-type]  # values of several types
    )
