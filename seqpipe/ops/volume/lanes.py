"""Channels of volumes on a GPU: stages of operators on intensities, of many channels in common launches."""

from __future__ import annotations

import struct
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ...array import Array, device_of
from ...core.kernel import CudaSource, KernelDevice
from ..cuda.kernel import address_of
from ..noise.normal_numbers import normal_lines
from .kernel import on_device
from .stages import CODES, COUNTS, Blurred, Call, Coarse, Kept, Stage, Step, Survey

__all__ = ["MOST_VOXELS", "Lane", "run_lanes"]

MOST_VOXELS: Final = 2**31 - 1
"""Of a channel: the kernels count them in 32 bits."""

_SOURCE: Final = CudaSource("seqpipe.ops.cuda", "intensity3.cu")
_THREADS: Final = 256
_POINT_BLOCKS: Final = 512  # of a channel, at most: each has several voxels for a thread
_TILE: Final = (64, 32)  # rows and columns of a block of the other kernels
_ROOM: Final = 4000  # bytes of tables in the argument
_MOST: Final = 65535  # lanes of a launch
_RANDOM: Final = ("noise", "rician")
# as intensity3.cu declares them
_LANE: Final = struct.Struct("6Qq10i")
_STEP: Final = struct.Struct("2i2I4f3Qq2i")
_HEAD: Final = struct.Struct("2Qq")
_FOUND: Final = 32  # bytes of what a survey finds, with the count of its blocks
_SUMS: Final = 32  # bytes of what a block contributes
_CHUNK: Final = 128 * _FOUND
_WORD: Final = 0xFFFFFFFF


@dataclass(eq=False)
class Lane:
    """A channel while stages are applied to it.

    Attributes:
        values: current values, float32 ``(D, H, W)``, contiguous.
        home: where they are to be in the end; ``values`` itself if that may be written.
        stages: stages to apply.
        mask: the voxels that labels mark, uint8 ``(D, H, W)``, if a stage asks for it.
    """

    values: Array
    home: Array
    stages: list[Stage]
    mask: Array | None = None
    _next: int = 0
    _rooms: list[Array] = field(default_factory=list)
    _kept: list[Kept] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rooms.append(self.home)

    @property
    def done(self) -> bool:
        """Whether all stages are done."""
        return self._next == len(self.stages) and self.values is self.home

    def pending(self, xp: Any) -> Stage | None:
        """Return the next stage that requires a launch; stages without one, or of CuPy, are run before.

        Args:
            xp: NumPy or CuPy.
        """
        while self._next < len(self.stages):
            stage = self.stages[self._next]
            if isinstance(stage, Kept):
                stage.values = self.values
                self._kept.append(stage)
            elif isinstance(stage, Call):
                self.values = xp.ascontiguousarray(stage.function(self.values), np.float32)
                self._rooms.append(self.values)
            else:
                return stage
            self._next += 1
        return None

    def taken(self) -> tuple[list[Step], Survey | None]:
        """The steps that one launch does, and the survey behind them."""
        steps: list[Step] = []
        while self._next < len(self.stages):
            stage = self.stages[self._next]
            if isinstance(stage, Survey):
                self._next += 1
                return steps, stage
            if not isinstance(stage, Step):
                break
            steps.append(stage)
            self._next += 1
        return steps, None

    def passed(self) -> None:
        """Take the next stage as done."""
        self._next += 1

    def room(self, xp: Any, *, in_place: bool) -> Array:
        """Memory for the output of a launch.

        Args:
            xp: NumPy or CuPy.
            in_place: whether that may be where the values are.
        """
        last = self._next == len(self.stages)  # what was kept may be written where it is looked at
        kept = [] if last else [one.values for one in self._kept]
        free = [one for one in self._rooms if not any(one is other for other in kept)]
        if not in_place:
            free = [one for one in free if one is not self.values]
        elif not last and any(one is self.values for one in free):
            return self.values
        if not free:
            self._rooms.append(xp.empty(self.values.shape, np.float32))
            return self._rooms[-1]
        return free[0]  # home, if it is free


def run_lanes(lanes: Seq[Lane], device: KernelDevice, xp: Any) -> None:
    """Do all stages of some channels, in as few launches as there are stages in a row.

    Args:
        lanes: the channels.
        device: where the kernels run, on CuPy's current stream.
        xp: NumPy or CuPy: where the memory is.
    """
    surveys = _Surveys(xp)
    for first in range(0, len(lanes), _MOST):
        _run(lanes[first : first + _MOST], device, xp, surveys)


def _run(left: Seq[Lane], device: KernelDevice, xp: Any, surveys: _Surveys) -> None:
    while left:
        launches: dict[tuple[str, int], _Launch] = {}
        for lane in left:
            stage = lane.pending(xp)
            if stage is None and lane.done:
                continue
            if isinstance(stage, (Blurred, Coarse)):
                launch = launches.setdefault((_NAMES[type(stage)], 0), _Launch(xp))
                launch.add_pass(lane, stage)
            else:
                steps, survey = lane.taken()
                random = int(any(step.code in _RANDOM for step in steps))
                launch = launches.setdefault(("points", random), _Launch(xp))
                launch.add_points(lane, steps, survey, surveys)
        for (name, random), launch in launches.items():
            launch.start(device, name, random)
        left = [lane for lane in left if not lane.done]


_NAMES: Final[dict[type, str]] = {Blurred: "blurred", Coarse: "coarse"}


class _Surveys:
    """Memory for the results of surveys, initially 0."""

    def __init__(self, xp: Any) -> None:
        self._xp, self._at = xp, _CHUNK
        self._chunks: list[Array] = []
        self.sums: list[Array] = []

    def room(self) -> int:
        """The address of memory for one of them."""
        if self._at == _CHUNK:
            self._chunks.append(self._xp.zeros(_CHUNK, np.uint8))
            self._at = 0
        self._at += _FOUND
        return address_of(self._chunks[-1]) + self._at - _FOUND

    def blocks(self, count: int) -> int:
        """The address of the partial results of blocks."""
        self.sums.append(self._xp.empty(count * _SUMS, np.uint8))
        return address_of(self.sums[-1])


class _Launch:
    """A launch for some lanes, under construction.

    Args:
        xp: NumPy or CuPy.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._lanes: list[list[Any]] = []
        self._steps: list[Step] = []
        self._tables: list[tuple[int, Any]] = []  # with the number of its lane
        self._blocks = 0
        self._like: Any = None

    def add_points(self, lane: Lane, steps: list[Step], survey: Survey | None, surveys: _Surveys) -> None:
        """Steps of a lane, and a survey of their result."""
        self._like = lane.values
        fours = -(-lane.values.size // 4)
        blocks = min(_POINT_BLOCKS, -(-fours // _THREADS))
        writes = bool(steps) or survey is None
        to = lane.room(self._xp, in_place=True) if writes else None
        addresses, counted = [0, 0, 0], 0
        if survey is not None:
            survey.address = surveys.room()
            addresses = [survey.address, surveys.blocks(blocks), survey.address + _FOUND // 2]
            counted = COUNTS.index(survey.counts)
        mask = 0 if lane.mask is None else address_of(lane.mask)
        ends = address_of(lane.values), 0 if to is None else address_of(to), mask
        numbers = (len(self._steps), len(steps), counted, *lane.values.shape, 0, 0, 0, blocks)
        self._lanes.append([*ends, *addresses, 0, *numbers])
        self._steps += steps
        self._blocks = max(self._blocks, blocks)
        if to is not None:
            lane.values = to

    def add_pass(self, lane: Lane, stage: Blurred | Coarse) -> None:
        """A lane's pass that looks at neighbors."""
        self._like = lane.values
        shape = lane.values.shape
        rows = shape[0] * shape[1]
        blocks = -(-rows // _TILE[0]) * -(-shape[2] // _TILE[1])
        to = lane.room(self._xp, in_place=False)
        first, count, few = 0, 0, (0, 0, 0)
        if isinstance(stage, Blurred):
            first, count = stage.axis, len(stage.weights) // 2
            self._tables.append((len(self._lanes), stage.weights))
        else:
            few = stage.few
        self._lanes.append(
            [address_of(lane.values), address_of(to), 0, 0, 0, 0, 0, first, count, 0, *shape, *few, blocks]
        )
        self._blocks = max(self._blocks, blocks)
        lane.values = to
        lane.passed()

    def start(self, device: KernelDevice, name: str, random: int) -> None:
        """Queue it.

        Args:
            device: where it runs.
            name: of the kernel.
            random: whether steps need random numbers.
        """
        lanes = self._lanes
        steps = len(lanes) * _LANE.size
        at = steps + len(self._steps) * _STEP.size
        tables = bytearray()
        for number, table in self._tables:
            lanes[number][6] = at + len(tables)
            tables += table.tobytes() + bytes(-table.nbytes % 8)
        rows = []
        for step in self._steps:
            rows.append(_row(step, at + len(tables)))
            if step.table is not None:
                tables += step.table.tobytes() + bytes(-step.table.nbytes % 8)
        data = b"".join([*(_LANE.pack(*lane) for lane in lanes), *rows, tables])
        job, table = bytearray(_HEAD.size + _ROOM), None
        if len(data) > _ROOM:
            table = on_device(np.frombuffer(data, np.uint8), self._like)
        else:
            job[_HEAD.size : _HEAD.size + len(data)] = data
        lines = address_of(_lines(device_of(self._like), self._xp)) if random else 0
        _HEAD.pack_into(job, 0, 0 if table is None else address_of(table), lines, steps)
        argument = np.ndarray((), np.dtype((np.void, len(job))), job)
        defines = {"NOISE": random}
        device.launch(_SOURCE, name, defines, (self._blocks, len(lanes), 1), _THREADS, argument, None)
        del table  # CuPy frees memory in stream order


def _row(step: Step, table: int) -> bytes:
    """A step as the kernel has it."""
    before, after, other = (
        0 if step.before is None else step.before.address,
        0 if step.after is None else step.after.address,
        0 if step.other is None or step.other.values is None else address_of(step.other.values),
    )
    numbers = (*step.numbers, 0.0, 0.0, 0.0, 0.0)[:4]
    key = (int(word) & _WORD for word in step.key)
    return _STEP.pack(
        CODES.index(step.code), step.place, *key, *numbers, before, after, other, table, step.count, 0
    )


@lru_cache(maxsize=16)
def _lines(device: str, xp: Any) -> Array:  # noqa: ARG001  one for each device
    """The table of the normal distribution where kernels can read it."""
    return xp.asarray(normal_lines())
