"""Export of each scene as a video in the pass over the video that finds the scenes.

A scene begins where two frames that follow confirm it, so frames are written with a delay of two. What is written waits
in a hidden folder until the plan, which follows from the values that the pass has kept, takes it over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ...core.interrupts import cleanup_on_exit
from ...core.workers import OPENCV
from ...errors import OutputError, SeqpipeError
from ...readers.frame_content import (
    CONTENT_OUTPUT,
    NEIGHBORS,
    SHORTEST_SCENE,
    ContentMeter,
    FrameContent,
    scene_starts,
)
from ...sequence import Sequence
from ...video.encode.sound import CopiedSound
from ...video.encode.write import format_of
from ...video.frame_stream import FramePainter, FrameStream
from ...video.index.open import IndexOptions
from ...video.packet_index import PacketIndex
from ...video.source.source import open_source
from ...writers.files import output_errors
from ..inputs import InputFile
from ..request import ExportRequest
from ..selection import FrameSelection
from ..source_plan import SourcePlan, make_plan

__all__ = ["SceneDrafts", "scene_drafts"]

_FOREVER: Final = (float("inf"), float("inf"))


@dataclass(eq=False)
class SceneDrafts:
    """Plans videos by scenes, and writes the scenes meanwhile.

    Attributes:
        request: the checked options.
        folder: hidden folder for what is written.
        threads: number of decoding threads for a video.
        stop: ends what is being written.
    """

    request: ExportRequest
    folder: Path
    threads: int
    stop: threading.Event = field(default_factory=threading.Event, init=False)
    _count: int = field(default=0, init=False)

    def plan(self, item: InputFile, index: PacketIndex) -> SourcePlan:
        """Plan the export of one video, whose scenes are written if they are not known yet."""
        options = self.request.options
        content = FrameContent(IndexOptions(options.cache_dir, options.stream, options.register))
        if index.cut or not self._takes_sound(item, index) or not content.lacks(item.path):
            return make_plan(item, index, self.request)
        self._count += 1
        writer = _SceneWriter(item, index, self, self.folder / f"{self._count:06d}")
        try:
            OPENCV.single_threaded(writer.write)
        except OutputError:  # scenes that are complete stay; the export meets the error at the next one
            pass
        except SeqpipeError:  # the pass of the plan meets the error, and names what is lost
            return make_plan(item, index, self.request)
        complete = writer.count == len(index)
        if complete:
            content.keep(item.path, writer.values)
        plan = make_plan(item, index, self.request)
        starts, written = plan.frames[:, 0].tolist(), writer.starts
        same = starts == written if complete else starts[: len(written)] == written
        return replace(plan, drafts=writer.drafts) if same else plan

    def _takes_sound(self, item: InputFile, index: PacketIndex) -> bool:
        """Return whether there is no sound to write, or sound that can be copied from any scene on."""
        encoder = self.request.encoder
        if not encoder.sound or not index.info.has_audio:
            return True
        with CopiedSound(open_source(item.path), float("inf"), float("inf")) as sound:
            return format_of(Path(f"video.{encoder.name}")).takes(sound)


@contextmanager
def scene_drafts(request: ExportRequest, threads: int) -> Iterator[SceneDrafts | None]:
    """Provide what writes scenes while they are found; None if the options need the scenes beforehand."""
    rule, options = request.selection, request.options
    alone = rule == FrameSelection(scenes=True, every=rule.every)
    once = not (options.resume or options.overwrite or options.contact_sheet or options.dry_run)
    cpu = all(device.kind == "cpu" for device in request.devices)
    if not (alone and once and cpu and request.encoder.is_video and not request.encoder.pairs):
        yield None
        return
    if not request.is_folder_empty:
        yield None
        return
    with output_errors(request.folder):
        request.folder.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(prefix=".seqpipe-scenes-", dir=request.folder)
    with folder as name, cleanup_on_exit(folder.cleanup):
        yield SceneDrafts(request, Path(name), threads)


class _StoppedError(Exception):
    """The export has been interrupted."""


class _SceneWriter:
    """Writes the scenes of one video while it is decoded for the first time.

    Attributes:
        values: what the pass has found of each frame.
        starts: the frames with which scenes begin.
        drafts: the files of the scenes, by number.
        count: number of frames.
    """

    def __init__(self, item: InputFile, index: PacketIndex, drafts: SceneDrafts, folder: Path) -> None:
        self._path, self._index, self._request = item.path, index, drafts.request
        self._folder, self._threads, self._stop = folder, drafts.threads, drafts.stop
        self._meter = ContentMeter(len(index))
        self._next: tuple[int, bool, Sequence] | None = None
        self.values = self._meter.values
        self.starts: list[int] = []
        self.drafts: dict[int, Path] = {}
        self.count = 0

    def write(self) -> None:
        """Decode the video, and write all scenes."""
        with ExitStack() as stack:
            number = self._request.options.stream
            stream = FrameStream(self._path, _FOREVER, stack, stream=number, threads=self._threads)
            frames = self._confirmed(stream)
            self._next = next(frames, None)
            while self._next is not None:
                self._write_scene(self._next[0], frames)
            if stream.error is not None:
                raise stream.error

    def _write_scene(self, first: int, frames: Iterator[tuple[int, bool, Sequence]]) -> None:
        """Write the scene that begins with the next frame."""
        encoder, index = self._request.encoder, self._index
        start_s = float(index.timestamps[first])
        path = self._folder / f"{len(self.starts):06d}.{encoder.name}"
        heard = encoder.sound and index.info.has_audio
        with CopiedSound(open_source(self._path), start_s, index.end_s) if heard else nullcontext() as sound:
            scene = self._scene(first, frames, sound)
            encoder.write_video(path, scene, fps=None, audio=sound, start_s=start_s)
        self.drafts[len(self.starts)] = path
        self.starts.append(first)

    def _scene(
        self, first: int, frames: Iterator[tuple[int, bool, Sequence]], sound: CopiedSound | None
    ) -> Iterator[Sequence]:
        """Yield the selected frames up to the next scene, and end the sound with the last one."""
        every, shown = self._request.selection.every or 1, first
        while self._next is not None:
            number, begins, pixels = self._next
            if begins and number > first:
                break
            if not (number - first) % every:
                shown = number
                yield pixels
            self._next = next(frames, None)
        if sound is not None and shown + 1 < len(self._index):
            sound.end_at(float(self._index.timestamps[shown + 1]))

    def _confirmed(self, stream: FrameStream) -> Iterator[tuple[int, bool, Sequence]]:
        """Yield the number of each frame, whether a scene begins with it, and its pixels."""
        small, shown = (FramePainter(stream.info, out) for out in (CONTENT_OUTPUT, self._request.output))
        waiting, last = deque[tuple[int, Sequence]](), 0
        for frame in stream.frames():
            if self._stop.is_set():
                raise _StoppedError
            self._meter.add(frame.number, small.pixels(frame.number, frame.surface))
            self.count += 1
            waiting.append((frame.number, shown.sequence(frame.number, frame.seconds, frame.surface)))
            if len(waiting) > NEIGHBORS:
                number, pixels = waiting.popleft()
                begins = number - last >= SHORTEST_SCENE and self._is_sudden(number)
                last = number if begins else last
                yield number, begins, pixels
        yield from ((number, False, pixels) for number, pixels in waiting)

    def _is_sudden(self, number: int) -> bool:
        """Return whether a frame differs from the one before much more than its neighbors do."""
        around = self.values["change"][number - NEIGHBORS - 1 : number + NEIGHBORS + 1]
        return NEIGHBORS + 1 in scene_starts(around, shortest=1)
