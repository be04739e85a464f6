"""The jobs: files, windows, contestants, and the required speed of seqpipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import media
from benchmarks.contestants import Task, Window

__all__ = ["RACES", "Race"]

_PEERS = ("torchcodec", "decord2")


@dataclass(frozen=True)
class Race:
    """One comparison.

    Attributes:
        title: what is done.
        required: at least so many times the speed of the fastest peer; 0 for a figure to know only.
        peers: against whom.
        make: the task, its files made in a folder if they must be, for a number of threads.
    """

    title: str
    required: float
    peers: tuple[str, ...]
    make: Callable[[Path, int], Task]


def _whole(folder: Path, threads: int) -> Task:
    return Task(threads, "", path=str(media.large(folder)))


def _small(folder: Path, threads: int) -> Task:
    sources = [media.small(folder, content) for content in range(media.CONTENTS)]
    return _windows(media.named(sources, folder, 200), 200, 16, 4, threads)


def _small_shared(folder: Path, threads: int) -> Task:
    sources = [media.small(folder, content) for content in range(media.CONTENTS)]
    return _windows(sources, 200, 16, 4, threads)


def _small_film(folder: Path, threads: int) -> Task:
    sources = [media.small(folder, content, film=True) for content in range(media.FILM_PARTS)]
    return _windows(media.named(sources, folder, 200), 200, 16, 4, threads)


def _large(folder: Path, threads: int) -> Task:
    sources = [media.large(folder, content, key_every=30) for content in range(2)]
    return _windows(media.named(sources, folder, 20), 20, 32, 5, threads)


def _large_shared(folder: Path, threads: int) -> Task:
    sources = [media.large(folder, content, key_every=30) for content in range(2)]
    return _windows(sources, 20, 32, 5, threads)


def _large_film(folder: Path, threads: int) -> Task:
    sources = [media.large(folder, key_every=30, film=True)]
    return _windows(media.named(sources, folder, 20), 20, 32, 5, threads)


def _windows(paths: list[Path], count: int, length: int, stride: int, threads: int) -> Task:
    """Random starts; if there are as many files as windows each is used once, else they are drawn."""
    random = np.random.Generator(np.random.Philox(1))
    starts = random.integers(0, media.FRAMES - (length - 1) * stride, count)
    files = random.permutation(count) if len(paths) == count else random.integers(0, len(paths), count)
    windows = [
        Window(str(paths[file]), int(start), length, stride)
        for file, start in zip(files, starts, strict=True)
    ]
    # a 1080p window takes 200 MB, and two batches are under way
    return Task(threads, "", windows=tuple(windows), batch=8 if length == 16 else 4)


RACES: dict[str, Race] = {
    "whole": Race("whole file, 1080p", 0.95, ("pyav",), _whole),
    "small": Race("200 windows 16×4, 340×256, a file each", 1.6, _PEERS, _small),
    "small-shared": Race("the same windows over ten files", 1.6, _PEERS, _small_shared),
    "small-film": Race("the same, real film, a file each", 0, _PEERS, _small_film),
    "large": Race("20 windows 32×5, 1080p, a file each", 1.4, _PEERS, _large),
    "large-shared": Race("the same windows over two files", 1.4, _PEERS, _large_shared),
    "large-film": Race("the same, real film, a file each", 0, _PEERS, _large_film),
}
