"""Comparison of contestants: one process each, in turns, so that other load affects all alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.contestants import Task

__all__ = ["ROOT", "Arena", "Runs", "compare_frames"]

ROOT = Path(__file__).resolve().parents[1]
_LIBRARIES = ("avutil", "avcodec", "avformat", "avdevice", "avfilter", "swscale", "swresample")
_FARTHEST = 3.0
_LOOKED_AT = 12
_FAR_SLOWER = 1.4


@dataclass
class Runs:
    """The measurements of one variant of a contestant: wall and processor seconds of each repetition."""

    name: str
    variant: str
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    frames: int = 0

    @property
    def median_s(self) -> float:
        return median(self.wall_s)


class Arena:
    """The contestants' processes.

    Args:
        names: which contestants.
        folder: where links to FFmpeg's libraries may be put.

    Attributes:
        versions: of what is compared.
        absent: why a contestant does not run here.
    """

    def __init__(self, names: Iterable[str], folder: Path) -> None:
        self._stack = ExitStack()
        self._processes = {name: self._start(name, folder) for name in names}
        self.versions: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        for name in list(self._processes):
            answer = self._ask(name, {"do": "versions"})
            if "error" in answer:
                self.absent[name] = answer["error"]
            else:
                self.versions |= answer["versions"]

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        self._stack.close()

    def present(self, names: Iterable[str]) -> list[str]:
        """Return the contestants that can run here."""
        return [name for name in names if name in self._processes and name not in self.absent]

    def variants(self, name: str, threads: int) -> list[str]:
        """Return the variants of a contestant for this number of threads."""
        variants: list[str] = self._ask(name, {"do": "variants", "threads": threads})["variants"]
        return variants

    def run(self, name: str, task: Task, *, look: bool = False) -> dict[str, Any]:
        """Run a task of one contestant, timed, or returning digests of its frames.

        Raises:
            RuntimeError: it failed.
        """
        answer = self._ask(name, {"do": "look" if look else "time", "task": asdict(task)})
        if "error" in answer:
            raise RuntimeError(f"{name} ({task.variant}): {answer['error']}")
        return answer

    def race(self, task: Task, names: Iterable[str], repeat: int) -> list[Runs]:
        """Run each variant of each contestant once per round.

        A round that is not counted comes before; what took a contestant far longer then than its best is left out.
        """
        starters = [
            Runs(name, variant)
            for name in self.present(names)
            for variant in self.variants(name, task.threads)
        ]
        first = [self.run(runs.name, replace(task, variant=runs.variant))["wall_s"] for runs in starters]
        best: dict[str, float] = {}
        for runs, seconds in zip(starters, first, strict=True):
            best[runs.name] = min(seconds, best.get(runs.name, seconds))
        starters = [
            runs
            for runs, seconds in zip(starters, first, strict=True)
            if seconds <= _FAR_SLOWER * best[runs.name]
        ]
        for _ in range(repeat):
            for runs in starters:
                answer = self.run(runs.name, replace(task, variant=runs.variant))
                runs.wall_s.append(answer["wall_s"])
                runs.cpu_s.append(answer["cpu_s"])
                runs.frames = answer["frames"]
        return starters

    def _ask(self, name: str, order: dict[str, Any]) -> dict[str, Any]:
        process = self._processes[name]
        if process.stdin is None or process.stdout is None:
            raise RuntimeError(f"{name} has no pipes")
        order = order | ({"task": _plain(order["task"])} if "task" in order else {})
        print(json.dumps(order), file=process.stdin, flush=True)
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} ended with {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self, name: str, folder: Path) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        if name == "torchcodec":
            environment["LD_LIBRARY_PATH"] = str(_ffmpeg_links(folder / "ffmpeg"))
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", name],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._stack.enter_context(process)


def compare_frames(arena: Arena, task: Task, names: Iterable[str]) -> dict[str, float]:
    """Compare the frames that contestants decode, untimed.

    Returns:
        For each the greatest difference from seqpipe's frames, in levels, over the means of 4 × 4 parts of a frame.

    Raises:
        RuntimeError: a contestant gave another frame than the one asked for, or other colors.
    """
    task = replace(task, windows=task.windows[:_LOOKED_AT])
    seen = {
        name: arena.run(name, replace(task, variant=arena.variants(name, task.threads)[0]), look=True)["seen"]
        for name in arena.present(names)
    }
    expected = [list(window.frames) for window in task.windows]
    farthest = {}
    for name, windows in seen.items():
        numbers = [[number for number, _ in window] for window in windows]
        if numbers != (expected or [[number] for number in range(len(numbers))]):
            raise RuntimeError(f"{name} gave other frames than asked for")
        theirs, ours = (
            np.array([blocks for window in read for _, blocks in window])
            for read in (windows, seen["seqpipe"])
        )
        farthest[name] = float(np.abs(theirs - ours).max())
        if farthest[name] > _FARTHEST:
            raise RuntimeError(f"{name} shows other colors: {farthest[name]:.1f} levels apart")
    return farthest


def _plain(task: dict[str, Any]) -> dict[str, Any]:
    return task | {"windows": [list(window.values()) for window in task["windows"]]}


def _ffmpeg_links(links: Path) -> Path:
    """FFmpeg's libraries of PyAV's wheel under the names that torchcodec loads, with their dependencies."""
    import av

    links.mkdir(parents=True, exist_ok=True)
    for library in (Path(av.__file__).parents[1] / "av.libs").glob("*.so.*"):
        stem, _, version = library.name.partition(".so.")
        plain = stem.rpartition("-")[0]
        known = plain.removeprefix("lib") in _LIBRARIES
        link = links / (f"{plain}.so.{version.split('.')[0]}" if known else library.name)
        link.unlink(missing_ok=True)
        link.symlink_to(library)
    return links
