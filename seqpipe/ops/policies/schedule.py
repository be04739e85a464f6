"""Schedule of batched operators: each launch runs the next pass of every sample."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from ...array import Array, namespace
from ...kernel import KernelDevice
from ..core.blocks import Block
from ..core.body import Work
from ..cuda.kernel import GRID, TYPES, Item, Scratch, launch
from .batched import RUN, BatchedOps, OpRows, is_pointwise

__all__ = ["Schedule", "Stage", "run_schedules", "stages_of"]


class Stage(NamedTuple):
    """What is done to a sample in one go, the same for every sample that it is done to.

    Attributes:
        part: the number of the part of the kernel that does it.
        work: how that is cut.
        own: of the sample's row, what is behind the head.
        order: where it stands in a launch: what has more passes is first, and what is least work is last.
    """

    part: int
    work: Work
    own: bytes
    order: int


def stages_of(source: BatchedOps, steps: OpRows) -> tuple[Stage, ...]:
    """All that is done to a sample, operators one after the other, by as few legs as can be; none copies it.

    Args:
        source: the kernel that does them.
        steps: the operators, each with its row.
    """
    stages = []
    for some in _together(steps):
        part = source.part_of(some)
        work = source.works[part]
        stages.append(Stage(part, work, source.own_of(some), 2 - len(work.passes) + (part == 0)))
    return tuple(stages)


class Schedule:
    """A sample on its way.

    Args:
        stages: all that is done to it.
        x: its images, ``(1, F, H, W, C)``.
        out: where they go in the end.

    Attributes:
        x: the images as they are.
        out: where the leg that comes next puts them.
        stage: that one.
        turn: the number of its pass that comes next.
        kept_at: the number of the first image whose memory is used between its passes.
        frames: how many images there are.
        size: their rows and columns.
        between: the memory that images are in on their way, of as many legs in turn as it has.
    """

    __slots__ = (
        "_at",
        "_last",
        "between",
        "frames",
        "kept_at",
        "out",
        "size",
        "stage",
        "stages",
        "turn",
        "x",
    )

    def __init__(self, stages: tuple[Stage, ...], x: Array, out: Array) -> None:
        self.stages, self.x, self._last = stages, x, out
        _, self.frames, height, width, _ = x.shape
        self.size = height, width
        self.stage, self.out = stages[0], out
        self.turn = self.kept_at = self._at = 0
        self.between: Seq[Array] = ()

    @property
    def passes(self) -> list[int]:
        """How many passes each leg has."""
        return [len(stage.work.passes) for stage in self.stages]

    def begins(self, between: Seq[Array]) -> None:
        """Set out, with memory for the way."""
        self.between = between
        self.out = self._target()

    def goes_on(self) -> bool:
        """Go on to the next pass; whether there is one."""
        passes = len(self.stage.work.passes)
        self.turn = (self.turn + 1) % passes
        if self.turn:
            return True
        if passes > 1:
            self.kept_at += self.frames
        self._at += 1
        if self._at == len(self.stages):
            return False
        self.stage, self.x = self.stages[self._at], self.out
        self.out = self._target()
        return True

    def _target(self) -> Array:
        is_last = self._at == len(self.stages) - 1
        return self._last if is_last else self.between[self._at % len(self.between)]


def run_schedules(source: BatchedOps, schedules: Seq[Schedule], device: KernelDevice) -> None:
    """Queue all that is to become of some samples, of one type and with as many channels.

    Each launch does the next pass of every sample, whatever it is, so that none waits for others, and the GPU has much
    to do at a time.

    Args:
        source: the kernel.
        schedules: the samples.
        device: where it runs.
    """
    _set_out(schedules)
    scratch = _scratch(source, schedules)
    going = list(schedules)
    while going:
        going.sort(key=_order)
        _launch(source, going, scratch, device)
        going = [schedule for schedule in going if schedule.goes_on()]


def _order(schedule: Schedule) -> int:
    return schedule.stage.order


def _set_out(schedules: Seq[Schedule]) -> None:
    """Give every sample memory for its way: one array for all of one shape, for a GPU's pool takes time for each."""
    shapes: dict[tuple[int, ...], list[Schedule]] = {}
    for schedule in schedules:
        if len(schedule.stages) > 1:
            shapes.setdefault(schedule.x.shape, []).append(schedule)
    for shape, some in shapes.items():
        counts = [min(len(schedule.stages) - 1, 2) for schedule in some]
        x = some[0].x
        memory = iter(namespace(x).empty((sum(counts), *shape), x.dtype))
        for schedule, count in zip(some, counts, strict=True):
            schedule.begins([next(memory) for _ in range(count)])


def _scratch(source: BatchedOps, schedules: Seq[Schedule]) -> Scratch | None:
    """What is kept between passes, for every time that a sample needs it; says to each where its own begins."""
    count = 0
    for schedule in schedules:
        schedule.kept_at = count
        count += schedule.frames * sum([passes > 1 for passes in schedule.passes])
    if not count:
        return None
    x = schedules[0].x
    of_image = max(work.scratch.get(x.dtype.name, 0) for work in source.works) * x.shape[4]
    return Scratch(namespace(x).zeros(of_image * count, np.uint8), of_image)


def _launch(
    source: BatchedOps, schedules: Seq[Schedule], scratch: Scratch | None, device: KernelDevice
) -> None:
    """Queue the next pass of some samples."""
    images = sum([schedule.frames for schedule in schedules])
    blocks: dict[tuple[int, Any], int] = {}
    rows: list[bytes] = []
    items: list[Item] = []
    first = 0
    for number, schedule in enumerate(schedules):
        part, work, own, _ = schedule.stage
        count = blocks.get((part, schedule.size))
        if count is None:
            count = blocks[part, schedule.size] = work.blocks(*schedule.size, GRID["THREADS"], images)
        rows += source.head_of(part, schedule.turn, count, schedule.kept_at - first), own
        items.append(Item(schedule.x, schedule.out, number))
        first += schedule.frames
    block = Block(np.frombuffer(b"".join(rows), source.row), tuple(range(len(items))), 0)
    launch(source, _defines(items[0].x.dtype, items[0].x.shape[4]), items, block, device, scratch)


def _together(steps: OpRows) -> Iterator[OpRows]:
    """Steps as they are done in one go: as many as can be of those on levels, else one; or one that does nothing."""
    rest = steps
    while rest or rest is steps:
        some = list(takewhile(lambda step: is_pointwise(step[0]), rest[:RUN])) or rest[:1]
        yield some
        rest = rest[len(some) :]


@lru_cache(maxsize=64)
def _defines(dtype: np.dtype[Any], channels: int) -> dict[str, int]:
    """The macros for images of a type."""
    kind = TYPES[dtype.name]
    return {"IN": kind, "OUT": kind, "CHANNELS": channels, "BESIDE": 1}
