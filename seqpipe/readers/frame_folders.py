"""Folders of frames, one image each, as videos: their listing, survey and engine."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import numpy.typing as npt

from ..array import Array, FloatArray
from ..core.natural_order import natural_order
from ..core.param import check_path
from ..core.workers import OPENCV, InterruptibleFuture, Workers
from ..errors import FrameRangeError, ParameterError, SeqpipeError, SourceNotFoundError, UnreadableSourceError
from ..images import decode_image, image_extensions
from ..sequence import Sequence
from ..video.convert.converter import Converter, host_array
from ..video.convert.output import OutputSpec
from ..video.convert.surface import Surface, surface_format
from ..video.engine.engine import Engine, PendingRead, available_cores
from ..video.packet_index import Facts
from ..video.plan import Outcomes, Request, check_memory
from ..video.probe.info import StreamInfo
from .entry import Entry, Listing
from .fetch import LazyPool
from .labels import NO_LABEL, LabelParser
from .listing import list_files
from .selection import Catalog
from .survey import VideoSurvey

__all__ = ["FolderEngine", "FolderSurvey", "FrameFiles", "LazyFolderEngine", "list_folders"]

_CONVERTERS = 64  # cached by each thread
_FOLDERS = 4096  # whose file names are cached
_BT601_FULL = {"matrix": 5, "full_range": True, "primaries": 2, "transfer": 2, "chroma_location": 0}


def list_folders(source: Any, labels: Iterable[Any] | None, parser: LabelParser) -> Listing:
    """Return the listed folders of frames."""
    is_root = isinstance(source, (str, os.PathLike))
    if labels is not None and (is_root or isinstance(source, Listing)):
        given = "a folder of folders" if is_root else "a listing"
        raise ParameterError(f"labels and {given} exclude one another", source="folders", allowed="a list")
    if isinstance(source, Listing):
        return source
    return (
        _of_root(Path(check_path("source", source)), parser)
        if is_root
        else list_files(source, labels, None, parser)
    )


def _of_root(root: Path, labels: LabelParser) -> Listing:
    """List the folders of frames in class folders; or in the root itself, without labels, if these have no subfolders.

    Raises:
        SourceNotFoundError: the root does not exist, or has no folder of frames.
    """
    above = _folders_of(root)
    classes = {folder.name: inside for folder in above if (inside := _folders_of(folder))}
    if not classes:
        entries = [Entry(str(folder), folder.name, NO_LABEL) for folder in above]
    else:
        known = labels if labels.classes else LabelParser(sorted(classes), labels.label_type)
        labels = known
        chosen = [name for name in sorted(classes) if name in known.classes]
        entries = [
            Entry(str(folder), f"{name}/{folder.name}", known(name))
            for name in chosen
            for folder in classes[name]
        ]
    if not entries:
        raise SourceNotFoundError(
            "there is no folder of frames", source=str(root), allowed="one folder or more"
        )
    return Listing.of(entries, labels)


def _folders_of(folder: Path) -> list[Path]:
    """Return the visible subfolders of a folder, sorted."""
    try:
        return sorted(
            inner for inner in folder.iterdir() if inner.is_dir() and not inner.name.startswith(".")
        )
    except OSError as error:
        raise SourceNotFoundError(
            f"the folder cannot be listed: {error.strerror}", source=str(folder), advice="Check the path"
        ) from error


@dataclass(frozen=True)
class FrameFiles:
    """The mapping from frame numbers to image files of a folder.

    Attributes:
        template: name of a frame's file, such as ``img_{:05}.jpg``; None for all images, sorted by the numbers in
            their names.
        first_number: number of the first frame in names by the template.

    Raises:
        ParameterError: the template does not have exactly one field for a number.
    """

    template: str | None = None
    first_number: int = 1
    _listed: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

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
                allowed="the name of a file with one field for a number, such as 'img_{:05}.jpg'",
            )

    def path(self, folder: str, frame: int) -> str:
        """Return the path of a frame's file."""
        if self.template is not None:
            return os.path.join(folder, self.template.format(frame + self.first_number))  # noqa: PTH118  very many
        names = self._images(folder)
        if frame >= len(names):
            raise FrameRangeError(
                f"there is no frame {frame}",
                source=folder,
                allowed=f"0 to {len(names) - 1}, one for each image",
            )
        return os.path.join(folder, names[frame])  # noqa: PTH118  very many

    def count(self, folder: str) -> int:
        """Return the number of frames of a folder: its images, or its files by the template up to the first gap."""
        if self.template is None:
            return len(self._images(folder))
        names, frames = set(_names(folder)), 0
        while self.template.format(frames + self.first_number) in names:
            frames += 1
        return frames

    def _images(self, folder: str) -> tuple[str, ...]:
        """The images of a folder, which are listed once."""
        images = self._listed.get(folder)
        if images is None:
            names = natural_order(file for file in _names(folder) if file.lower().endswith(image_extensions))
            if len(self._listed) >= _FOLDERS:
                self._listed.clear()
            images = self._listed[folder] = tuple(names)
        return images


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  names alone
    except OSError as error:
        raise SourceNotFoundError(
            f"the folder of frames cannot be listed: {error.strerror}", source=folder, advice="Check the path"
        ) from error


@dataclass
class FolderSurvey(VideoSurvey):
    """The survey of folders of frames: counts come from the listing or the folder, sizes from the first image.

    Attributes:
        files: the mapping from frame numbers to files.
    """

    files: FrameFiles = field(default_factory=FrameFiles)

    def catalog(self, listing: Listing, engine: Engine) -> Catalog:
        """See :meth:`VideoSurvey.catalog`; the names in the fingerprint say which images are the frames."""
        catalog = super().catalog(listing, engine)
        if self.files.template is None:
            return catalog
        which = f"{self.files.template} from {self.files.first_number}"
        return replace(catalog, keys=tuple(f"{key}/{which}" for key in catalog.keys))

    def _survey(
        self, names: Iterable[str], entries: Seq[Entry], engine: Engine
    ) -> Iterator[tuple[str, Facts | SeqpipeError, FloatArray | None]]:
        declared = {
            entry.name: entry.part.end_frame
            for entry in entries
            if entry.part is not None and entry.part.end_frame
        }
        folders = list(names)
        facts_of_each = engine.map(lambda name: self._facts(name, declared.get(name)), folders)
        for name, facts in zip(folders, facts_of_each, strict=True):
            yield name, facts, None

    def _facts(self, folder: str, declared: int | None) -> Facts | SeqpipeError:
        try:
            frames = declared or self.files.count(folder)
            if not frames:
                wanted = self.files.template or ", ".join(image_extensions)
                raise SourceNotFoundError(
                    "the folder has no frames",
                    source=folder,
                    allowed=wanted,
                    advice="Give template=… for other names; videos are read by seqpipe.videos",
                )
            if self.output.size is not None and self.output.crop is None:
                return Facts(frames, 1, 1, 0, False)  # the output's size does not depend on the frames'
            height, width, _ = _decoded(self.files.path(folder, 0), gray=True).shape
            return Facts(frames, width, height, 0, False)
        except SeqpipeError as error:
            return error


class FolderEngine:
    """Reads sequences of frames from folders, on threads, with the interface of :class:`Engine`.

    Args:
        files: the mapping from frame numbers to files.
        threads: number of threads; by default one per core that this process may use.
    """

    def __init__(self, files: FrameFiles, threads: int | None = None) -> None:
        self._files = files
        self.threads = threads or available_cores()
        self._workers = Workers(self.threads, "seqpipe-frames")
        self._local = threading.local()
        self._frames: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.allocate = host_array

    map = Engine.map

    @property
    def _executor(self) -> Workers:
        return self._workers

    def submit(self, requests: Seq[Request]) -> PendingRead:
        """Start to read sequences."""
        planned: InterruptibleFuture[Any] = InterruptibleFuture()
        calls = [
            partial(OPENCV.single_threaded, self._outcome, position, request)
            for position, request in enumerate(requests)
        ]
        planned.set_result([self._workers.submit(call) for call in calls])
        return PendingRead(range(len(requests)), planned)

    def read(self, requests: Seq[Request]) -> list[Sequence | SeqpipeError]:
        """Read sequences in parallel; return a sequence or an error for each request."""
        return self.submit(requests).result()

    def stats(self) -> dict[str, dict[str, int]]:
        """Return the number of decoded images."""
        return {"frames": dict(self._frames), "fallbacks": {}}

    def close(self) -> None:
        """Wait for pending reads, and stop the threads."""
        self._workers.close()

    def _outcome(self, position: int, request: Request) -> Outcomes:
        """Return the sequence of a request, or its error."""
        try:
            return {position: self._sequence(request)}
        except SeqpipeError as error:
            return {position: error}

    def _sequence(self, request: Request) -> Sequence:
        """Decode and convert the frames of a request, each once."""
        folder, gray = str(request.origin), request.output.color == "GRAY"
        if request.output.color == "RGBA":
            raise ParameterError(
                "color='RGBA' is not read from folders of images",
                source=folder,
                advice="Open the images as a video by a pattern of their names, such as 'img%03d.png'",
            )
        pixels, decoded = request.out, dict[int, Array]()
        frames = request.frames.tolist()
        for position, frame in enumerate(frames):
            if frame < 0 or frame in decoded:
                continue
            image = _decoded(self._files.path(folder, frame), gray=gray)
            converter = self._converter(image, request.output)
            shape = (len(frames), *converter.shape)
            if pixels is None:
                pixels = host_array(shape, converter.dtype)
            check_memory(pixels, shape, converter.dtype, folder)
            converter(_surface(image, frame), pixels[position])
            decoded[frame] = pixels[position]
        if pixels is None:
            raise UnreadableSourceError("the sequence has only padded frames", source=folder)
        for position, frame in enumerate(frames):
            if frame < 0:
                for where, value in request.fill_values(position):
                    pixels[where] = value
            elif decoded[frame] is not pixels[position]:
                pixels[position] = decoded[frame]
        with self._lock:
            self._frames["cpu"] += len(decoded)
        padding = request.frames < 0 if request.padding is None else request.padding | (request.frames < 0)
        numbers = np.where(padding, -1, request.frames)
        return Sequence(pixels, request.output.layout, folder, numbers, np.full(len(numbers), np.nan))

    def _converter(self, image: npt.NDArray[Any], output: OutputSpec) -> Converter:
        """Return this thread's converter for images of a size; converters hold buffers that threads cannot share."""
        known: dict[Any, Converter] = self._local.__dict__.setdefault("converters", {})
        key = image.shape, output
        if key not in known:
            if len(known) >= _CONVERTERS:
                known.clear()
            known[key] = Converter(_info(*image.shape), output)
        return known[key]


class LazyFolderEngine(LazyPool[Engine]):
    """A lazy :class:`FolderEngine`.

    Args:
        files: the mapping from frame numbers to files.
        threads: number of threads; by default one per core.
    """

    def __init__(self, files: FrameFiles, threads: int | None) -> None:
        super().__init__()
        self._arguments = files, threads

    def make(self) -> Engine:
        """See :meth:`LazyPool.make`."""
        files, threads = self._arguments
        return cast("Engine", FolderEngine(files, self.threads_for(threads)))

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyFolderEngine, self._arguments


def _decoded(path: str, *, gray: bool) -> npt.NDArray[np.uint8]:
    """Read and decode an image, ``HWC``."""
    folder, _, name = path.rpartition(os.sep)
    try:
        data = Path(path).read_bytes()
        return decode_image(data, "GRAY" if gray else "RGB")
    except OSError as error:
        unreadable = UnreadableSourceError(f"{name} cannot be read: {error.strerror}", source=folder)
        raise unreadable from error
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
    """Return the stream info that describes images to a converter."""
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
