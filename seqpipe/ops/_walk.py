"""Samples on their way through operators side by side: a launch does for each of them what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import lru_cache
from itertools import takewhile
from typing import Any

import numpy as np

from ..array import Array, namespace
from ..kernel import KernelDevice
from ._beside import RUN, Beside, Steps, changes_levels
from ._body import Work
from ._draw import Block
from ._kernel import GRID, TYPES, Item, Scratch, launch

__all__ = ["Walk", "walk"]


class Walk:
    """A sample on its way.

    Args:
        source: the kernel that does its steps.
        x: its images, ``(1, F, H, W, C)``.
        out: where they go in the end.
        steps: all that is done to them, one after the other, each operator with its row; none copies them.

    Attributes:
        x: the images as they are.
        out: where the operators that come next put theirs.
        turn: the number of their pass that comes next.
        kept_at: the number of the first image whose memory they use between passes.
    """

    def __init__(self, source: Beside, x: Array, out: Array, steps: Steps) -> None:
        self.x = x
        self.turn = 0
        self.kept_at = 0
        self._source = source
        self._last = out
        self._left = list(_together(steps))
        self.out = self._target()

    @property
    def steps(self) -> Steps:
        """The operators that come next."""
        return self._left[0]

    @property
    def work(self) -> Work:
        """How their work is cut."""
        return self._work_of(self.steps)

    @property
    def kept(self) -> int:
        """How many images have memory that is kept between passes, all in all."""
        twice = sum(len(self._work_of(steps).passes) > 1 for steps in self._left)
        return int(self.x.shape[1]) * twice

    @property
    def order(self) -> int:
        """Where it stands in a launch: that with more passes is first, and what is least work is last."""
        return 2 - len(self.work.passes) + (self._source.part_of(self.steps) == 0)

    def goes_on(self) -> bool:
        """Go on to the next pass; whether there is one."""
        passes = len(self.work.passes)
        self.turn = (self.turn + 1) % passes
        if self.turn:
            return True
        if passes > 1:
            self.kept_at += self.x.shape[1]
        del self._left[0]
        self.x = self.out
        if self._left:
            self.out = self._target()
        return bool(self._left)

    def _work_of(self, steps: Steps) -> Work:
        return self._source.works[self._source.part_of(steps)]

    def _target(self) -> Array:
        return namespace(self.x).empty(self.x.shape, self.x.dtype) if len(self._left) > 1 else self._last


def walk(source: Beside, walks: Seq[Walk], device: KernelDevice) -> None:
    """Queue all that is to become of some samples, of one type and with as many channels.

    Each launch does the next pass of every sample, whatever it is, so that none waits for others, and the GPU has much
    to do at a time.

    Args:
        source: the kernel.
        walks: the samples.
        device: where it runs.
    """
    scratch = _scratch(source, walks)
    going = list(walks)
    while going:
        going.sort(key=lambda way: way.order)
        _launch(source, going, scratch, device)
        going = [way for way in going if way.goes_on()]


def _scratch(source: Beside, walks: Seq[Walk]) -> Scratch | None:
    """What is kept between passes, for every time that a sample needs it; says to each where its own begins."""
    count = 0
    for way in walks:
        way.kept_at, count = count, count + way.kept
    if not count:
        return None
    x = walks[0].x
    of_image = max(work.scratch.get(x.dtype.name, 0) for work in source.works) * x.shape[4]
    return Scratch(namespace(x).zeros(of_image * count, np.uint8), of_image)


def _launch(source: Beside, walks: Seq[Walk], scratch: Scratch | None, device: KernelDevice) -> None:
    """Queue the next pass of some samples."""
    images = sum([way.x.shape[1] for way in walks])
    rows, first = [], 0
    for way in walks:
        _, frames, height, width, _ = way.x.shape
        blocks = way.work.blocks(height, width, GRID["THREADS"], images)
        rows.append(source.row_of(way.steps, way.turn, blocks, way.kept_at - first))
        first += frames
    items = [Item(way.x, way.out, number) for number, way in enumerate(walks)]
    block = Block(np.frombuffer(b"".join(rows), source.row), tuple(range(len(items))), 0)
    launch(source, _defines(items[0].x.dtype, items[0].x.shape[4]), items, block, device, scratch)


def _together(steps: Steps) -> Iterator[Steps]:
    """Steps as they are done in one go: as many as can be of those on levels, else one; or one that does nothing."""
    rest = steps
    while rest or rest is steps:
        some = list(takewhile(lambda step: changes_levels(step[0]), rest[:RUN])) or rest[:1]
        yield some
        rest = rest[len(some) :]


@lru_cache(maxsize=64)
def _defines(dtype: np.dtype[Any], channels: int) -> dict[str, int]:
    """The macros for images of a type."""
    kind = TYPES[dtype.name]
    return {"IN": kind, "OUT": kind, "CHANNELS": channels, "BESIDE": 1}
