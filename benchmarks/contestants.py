"""The contestants: each reads the same windows, or the same whole file, with a given budget of threads.

Every contestant returns RGB frames in memory of its own. Their libraries are imported where they are
used: each contestant runs in a process of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["CONTESTANTS", "Contestant", "Take", "Task", "Window"]

Pixels = NDArray[np.uint8]
Take = Callable[[int, Pixels], None]
"""Called with a running number, of the window or of the frame, and (frames, rows, columns, 3) or one frame."""


@dataclass(frozen=True)
class Window:
    """``length`` frames, ``stride`` apart, from ``start`` on."""

    path: str
    start: int
    length: int
    stride: int

    @property
    def frames(self) -> range:
        return range(self.start, self.start + self.length * self.stride, self.stride)


@dataclass(frozen=True)
class Task:
    """A task that a contestant runs once.

    Attributes:
        threads: the budget of threads.
        variant: the contestant's variant, see :meth:`Contestant.variants`.
        path: a file to be decoded whole, or "".
        windows: windows to be read, in any order.
        batch: how many windows a training loop would ask for at once.
    """

    threads: int
    variant: str
    path: str = ""
    windows: tuple[Window, ...] = ()
    batch: int = 1


class Contestant(Protocol):
    """One library."""

    def versions(self) -> dict[str, str]:
        """Return the versions of the library and of its dependencies that determine speed."""

    def variants(self, threads: int) -> list[str]:
        """Return the names of ways to use this number of threads; all are measured, the fastest counts."""

    def run(self, task: Task, take: Take) -> None:
        """Run a task, and call ``take`` with its frames."""


class Seqpipe:
    """Batches of windows, one batch ahead, as in a training loop; every run opens its files again."""

    def versions(self) -> dict[str, str]:
        import av

        import seqpipe

        return {"seqpipe": seqpipe.__version__, "av": av.__version__, "FFmpeg": str(av.ffmpeg_version_info)}

    def variants(self, threads: int) -> list[str]:
        return ["frames" if threads > 1 else "single"]

    def run(self, task: Task, take: Take) -> None:
        if task.path:
            self._whole(task, take)
        else:
            self._windows(task, take)

    def _windows(self, task: Task, take: Take) -> None:
        from seqpipe.video.engine.engine import Engine, PendingRead
        from seqpipe.video.plan import Request

        with Engine(task.threads) as engine:
            waiting: deque[tuple[int, PendingRead]] = deque()
            for first in range(0, len(task.windows), task.batch):
                batch = task.windows[first : first + task.batch]
                requests = [Request(window.path, np.array(window.frames)) for window in batch]
                waiting.append((first, engine.submit(requests)))
                if len(waiting) > 1:
                    self._finish(waiting.popleft(), take)
            while waiting:
                self._finish(waiting.popleft(), take)

    def _finish(self, batch: tuple[int, Any], take: Take) -> None:
        first, pending = batch
        for number, sequence in enumerate(pending.result(), first):
            if isinstance(sequence, Exception):
                raise sequence
            take(number, sequence.data)

    def _whole(self, task: Task, take: Take) -> None:
        import seqpipe

        with seqpipe.open(task.path, threads=task.threads) as reader:
            for number, frame in enumerate(reader):
                take(number, frame.data)


class BarePyAV:
    """``for frame in container.decode(stream)`` with seqpipe's conversion into a new array for every frame."""

    def versions(self) -> dict[str, str]:
        return Seqpipe().versions()

    def variants(self, threads: int) -> list[str]:
        return ["FRAME", "AUTO"] if threads > 1 else ["FRAME"]

    def run(self, task: Task, take: Take) -> None:
        import av
        import cv2

        from seqpipe.video.convert.converter import Converter, OutputSpec
        from seqpipe.video.convert.surface import Surface
        from seqpipe.video.probe.probe import probe

        cv2.setNumThreads(1)  # as seqpipe has it: more threads in OpenCV would be beyond the budget
        convert = Converter(probe(task.path), OutputSpec())
        with av.open(task.path) as container:
            stream = container.streams.video[0]
            stream.thread_type = task.variant
            stream.codec_context.thread_count = task.threads
            for number, frame in enumerate(container.decode(stream)):
                out = np.empty(convert.shape, convert.dtype)
                convert(Surface.of(frame, number), out)
                take(number, out)


class Torchcodec:
    """A decoder for every window.

    ``clips``: as many windows at a time as threads, one FFmpeg thread each; ``frames``: FFmpeg's frame threads.
    """

    def versions(self) -> dict[str, str]:
        torch, torchcodec = import_module("torch"), import_module("torchcodec")
        import_module("torchcodec.decoders")
        return {"torchcodec": torchcodec.__version__, "torch": torch.__version__}

    def variants(self, threads: int) -> list[str]:
        spread = ["clips", "frames"] if threads > 1 else ["clips"]
        return [f"{kind} {mode}" for kind in spread for mode in ("exact", "approximate")]

    def run(self, task: Task, take: Take) -> None:
        import_module("torch").set_num_threads(1)
        decoders = import_module("torchcodec.decoders")
        kind, mode = task.variant.split()
        inner = task.threads if kind == "frames" else 1

        def read(window: Window) -> Pixels:
            decoder = decoders.VideoDecoder(
                window.path, seek_mode=mode, num_ffmpeg_threads=inner, dimension_order="NHWC"
            )
            pixels: Pixels = decoder.get_frames_at(list(window.frames)).data.numpy()
            return pixels

        _spread(read, task.windows, task.threads // inner, take)


class Decord:
    """A reader for every window, with the same two variants."""

    def versions(self) -> dict[str, str]:
        from importlib.metadata import version

        import_module("decord")
        return {"decord2": version("decord2")}

    def variants(self, threads: int) -> list[str]:
        return ["clips", "frames"] if threads > 1 else ["clips"]

    def run(self, task: Task, take: Take) -> None:
        import_module("torch").set_num_threads(1)
        decord = import_module("decord")
        inner = task.threads if task.variant == "frames" else 1

        def read(window: Window) -> Pixels:
            decord.bridge.set_bridge(
                "torch"
            )  # the only output without a copy; each thread has its own choice
            reader = decord.VideoReader(window.path, num_threads=inner)
            pixels: Pixels = reader.get_batch(list(window.frames)).numpy()
            return pixels

        _spread(read, task.windows, task.threads // inner, take)


def _spread(read: Callable[[Window], Pixels], windows: tuple[Window, ...], threads: int, take: Take) -> None:
    """Read windows on threads; at most ``threads + 1`` results are pending."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[int, Future[Pixels]]] = deque()
        for number, window in enumerate(windows):
            waiting.append((number, pool.submit(read, window)))
            if len(waiting) > threads + 1:
                done, future = waiting.popleft()
                take(done, future.result())
        for done, future in waiting:
            take(done, future.result())


CONTESTANTS: dict[str, type[Contestant]] = {
    "seqpipe": Seqpipe,
    "pyav": BarePyAV,
    "torchcodec": Torchcodec,
    "decord2": Decord,
}
