"""Channels of volumes on a GPU: the stages of intensity operators, for many channels in common launches."""

from __future__ import annotations

import struct
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, address_of, device_of
from ...core.kernel import CudaSource, KernelDevice
from ...resampling.launch import on_device
from ..noise.numbers import normal_lines

__all__ = [
    "CODES",
    "COUNTS",
    "MOST_VOXELS",
    "Blurred",
    "Call",
    "ChannelTask",
    "Coarse",
    "Measurement",
    "Median",
    "SavedValues",
    "Stage",
    "Statistics",
    "Step",
    "rounded",
    "run_channels",
    "scaled",
]

CODES: Final = (
    "scale",
    "noise",
    "rician",
    "contrast",
    "power",
    "restore",
    "score",
    "window",
    "rounded",
    "bias",
    "holes",
    "mixed",
    "local_power",
    "gradient",
    "local_mix",
    "wave",
    "lines",
    "filled",
    "kept",
)
"""The steps that ``intensity3.cu`` has, in the order of its numbers for them."""


COUNTS: Final = ("all", "nonzero", "mask")
"""The voxels that statistics may count, in the order of the kernel's numbers for them."""


@dataclass(eq=False)
class Statistics:
    """Statistics of the values, of those that are finite.

    Attributes:
        counts: the voxels that count, one of :data:`COUNTS`.
        address: address of the result on the device; 0 before it is allocated.
    """

    counts: str = "all"
    address: int = 0


@dataclass(eq=False)
class SavedValues:
    """The current values, for a step after passes that change them.

    Attributes:
        values: the values, set when this stage is reached; before that None.
    """

    values: Array | None = None


@dataclass(eq=False)
class Measurement:
    """Numbers that are computed of the current values, for a step after it; the values stay.

    Attributes:
        function: returns the numbers, float32, of the channel's values ``(D, H, W)`` and the device of kernels.
        values: the numbers, set when this stage is reached; before that None.
    """

    function: Callable[[Array, KernelDevice], Array]
    values: Array | None = None


@dataclass(eq=False)
class Step:
    """A change of each voxel independently.

    Attributes:
        code: the kind of change, one of :data:`CODES`.
        numbers: up to four arguments, the kernel's ``a`` to ``d``.
        key: key of its random numbers, two words.
        position: position in the random numbers of the key.
        before: a statistics whose results it uses.
        after: a second statistics whose results it uses.
        other: further values that it uses, or numbers of the values.
        table: table of numbers that it uses, float32, complex64 or int32.
        count: number of entries of the table, such as boxes, or the order of a polynomial.
        mask: whether it uses the sample's mask.
    """

    code: str
    numbers: tuple[float, ...] = ()
    key: Any = (0, 0)
    position: int = 0
    before: Statistics | None = None
    after: Statistics | None = None
    other: SavedValues | Measurement | None = None
    table: npt.NDArray[Any] | None = None
    count: int = 0
    mask: bool = False


@dataclass(eq=False)
class Blurred:
    """A convolution along an axis; borders are mirrored.

    Attributes:
        axis: 0 for slices, 1 for rows, 2 for columns.
        weights: weights of the neighbors, an odd number; the middle one is the weight of the voxel itself.
    """

    axis: int
    weights: npt.NDArray[np.float32]


@dataclass(eq=False)
class Coarse:
    """Downsampling to the nearest voxels, and linear interpolation back to the original size.

    Attributes:
        few: number of slices, rows and columns that are kept.
    """

    few: tuple[int, int, int]


@dataclass(eq=False)
class Median:
    """The median of each voxel and its 26 neighbors; the border is repeated."""


@dataclass(eq=False)
class Call:
    """A function of the channel's values ``(D, H, W)``, computed by CuPy instead of ``intensity3.cu``.

    Attributes:
        function: returns the new values.
    """

    function: Callable[[Array], Array]


Stage: TypeAlias = Statistics | SavedValues | Measurement | Step | Blurred | Coarse | Median | Call


def scaled(factor: float, offset: float = 0.0) -> Step:
    """``x · factor + offset``."""
    return Step("scale", (factor, offset))


def rounded(dtype: np.dtype[Any]) -> Step:
    """Conversion of values to an integer dtype."""
    info = np.iinfo(dtype)
    return Step("rounded", (info.min, info.max))


MOST_VOXELS: Final = 2**31 - 1
"""Of a channel: the kernels count them in 32 bits."""

_SOURCE: Final = CudaSource("seqpipe.ops.cuda", "intensity3.cu")
_THREADS: Final = 256
_POINT_BLOCKS: Final = 512  # of a channel, at most: each has several voxels for a thread
_TILE: Final = (64, 32)  # rows and columns of a block of the other kernels
_ROOM: Final = 4000  # bytes of tables in the argument
_MAX_CHANNELS_PER_LAUNCH: Final = 65535  # channels of a launch
_RANDOM: Final = ("noise", "rician")
# as intensity3.cu declares them
_TASK: Final = struct.Struct("6Qq10i")
_STEP: Final = struct.Struct("2i2I4f3Qq2i")
_HEAD: Final = struct.Struct("2Qq")
_FOUND: Final = 32  # bytes of what a statistics finds, with the count of its blocks
_SUMS: Final = 32  # bytes of what a block contributes
_CHUNK: Final = 128 * _FOUND
_WORD: Final = 0xFFFFFFFF


@dataclass(eq=False)
class ChannelTask:
    """The stages of one channel that remain, and its memory.

    Attributes:
        values: current values, float32 ``(D, H, W)``, contiguous.
        result: memory of the final values; ``values`` itself if that may be overwritten.
        stages: stages to apply.
        mask: the voxels that labels mark, uint8 ``(D, H, W)``, if a stage asks for it.
    """

    values: Array
    result: Array
    stages: list[Stage]
    mask: Array | None = None
    _next: int = 0
    _buffers: list[Array] = field(default_factory=list)
    _kept: list[SavedValues] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._buffers.append(self.result)

    @property
    def done(self) -> bool:
        """Whether all stages are done."""
        return self._next == len(self.stages) and self.values is self.result

    def pending(self, device: KernelDevice, xp: Any) -> Stage | None:
        """Return the next stage that requires a launch; stages without one, or of CuPy, are run before."""
        while self._next < len(self.stages):
            stage = self.stages[self._next]
            if isinstance(stage, SavedValues):
                stage.values = self.values
                self._kept.append(stage)
            elif isinstance(stage, Measurement):
                stage.values = xp.asarray(stage.function(self.values, device), np.float32)
            elif isinstance(stage, Call):
                self.values = xp.ascontiguousarray(stage.function(self.values), np.float32)
                self._buffers.append(self.values)
            else:
                return stage
            self._next += 1
        return None

    def take_steps(self) -> tuple[list[Step], Statistics | None]:
        """Return the steps of one launch, and the statistics of their result."""
        steps: list[Step] = []
        while self._next < len(self.stages):
            stage = self.stages[self._next]
            if isinstance(stage, Statistics):
                self._next += 1
                return steps, stage
            if not isinstance(stage, Step):
                break
            steps.append(stage)
            self._next += 1
        return steps, None

    def passed(self) -> None:
        """Mark the next stage as done."""
        self._next += 1

    def buffer(self, xp: Any, *, in_place: bool) -> Array:
        """Memory for the output of a launch."""
        last = self._next == len(self.stages)  # the last launch may overwrite values that it reads
        kept = [] if last else [stage.values for stage in self._kept]
        free = [buffer for buffer in self._buffers if not any(buffer is other for other in kept)]
        if not in_place:
            free = [buffer for buffer in free if buffer is not self.values]
        elif not last and any(buffer is self.values for buffer in free):
            return self.values
        if not free:
            self._buffers.append(xp.empty(self.values.shape, np.float32))
            return self._buffers[-1]
        return free[0]  # result, if it is free


def run_channels(tasks: Seq[ChannelTask], device: KernelDevice, xp: Any) -> None:
    """Run all stages of channels; consecutive steps of a channel share a launch, and so do channels."""
    statistics_memory = _StatisticsMemory(xp)
    for first in range(0, len(tasks), _MAX_CHANNELS_PER_LAUNCH):
        _run(tasks[first : first + _MAX_CHANNELS_PER_LAUNCH], device, xp, statistics_memory)


def _run(left: Seq[ChannelTask], device: KernelDevice, xp: Any, statistics_memory: _StatisticsMemory) -> None:
    """Run the tasks of channels on one device."""
    while left:
        launches: dict[tuple[str, int], _Launch] = {}
        for task in left:
            stage = task.pending(device, xp)
            if stage is None and task.done:
                continue
            if isinstance(stage, (Blurred, Coarse, Median)):
                launch = launches.setdefault((_NAMES[type(stage)], 0), _Launch(xp))
                launch.add_pass(task, stage)
            else:
                steps, statistics = task.take_steps()
                random = int(any(step.code in _RANDOM for step in steps))
                launch = launches.setdefault(("points", random), _Launch(xp))
                launch.add_points(task, steps, statistics, statistics_memory)
        for (name, random), launch in launches.items():
            launch.start(device, name, random)
        left = [task for task in left if not task.done]


_NAMES: Final[dict[type, str]] = {Blurred: "blurred", Coarse: "coarse", Median: "median"}


class _StatisticsMemory:
    """Memory for the results of statistics, initially 0."""

    def __init__(self, xp: Any) -> None:
        self._xp, self._at = xp, _CHUNK
        self._chunks: list[Array] = []
        self.sums: list[Array] = []

    def allocate(self) -> int:
        """Return the address of memory for one statistics."""
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
    """A launch for several channels, under construction.

    Args:
        xp: NumPy or CuPy.
    """

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._tasks: list[list[Any]] = []
        self._steps: list[Step] = []
        self._tables: list[tuple[int, Any]] = []  # with the number of its task
        self._blocks = 0
        self._like: Any = None

    def add_points(
        self,
        task: ChannelTask,
        steps: list[Step],
        statistics: Statistics | None,
        statistics_memory: _StatisticsMemory,
    ) -> None:
        """Add steps of a channel, and a statistics of their result."""
        self._like = task.values
        fours = -(-task.values.size // 4)
        blocks = min(_POINT_BLOCKS, -(-fours // _THREADS))
        writes = bool(steps) or statistics is None
        to = task.buffer(self._xp, in_place=True) if writes else None
        addresses, counted = [0, 0, 0], 0
        if statistics is not None:
            statistics.address = statistics_memory.allocate()
            addresses = [
                statistics.address,
                statistics_memory.blocks(blocks),
                statistics.address + _FOUND // 2,
            ]
            counted = COUNTS.index(statistics.counts)
        mask = 0 if task.mask is None else address_of(task.mask)
        ends = address_of(task.values), 0 if to is None else address_of(to), mask
        numbers = (len(self._steps), len(steps), counted, *task.values.shape, 0, 0, 0, blocks)
        self._tasks.append([*ends, *addresses, 0, *numbers])
        self._steps += steps
        self._blocks = max(self._blocks, blocks)
        if to is not None:
            task.values = to

    def add_pass(self, task: ChannelTask, stage: Blurred | Coarse | Median) -> None:
        """Add a pass of a channel that reads neighboring voxels."""
        self._like = task.values
        shape = task.values.shape
        rows = shape[0] * shape[1]
        blocks = -(-rows // _TILE[0]) * -(-shape[2] // _TILE[1])
        to = task.buffer(self._xp, in_place=False)
        first, count, few = 0, 0, (0, 0, 0)
        if isinstance(stage, Blurred):
            first, count = stage.axis, len(stage.weights) // 2
            self._tables.append((len(self._tasks), stage.weights))
        elif isinstance(stage, Coarse):
            few = stage.few
        self._tasks.append(
            [address_of(task.values), address_of(to), 0, 0, 0, 0, 0, first, count, 0, *shape, *few, blocks]
        )
        self._blocks = max(self._blocks, blocks)
        task.values = to
        task.passed()

    def start(self, device: KernelDevice, name: str, random: int) -> None:
        """Queue the launch."""
        tasks = self._tasks
        steps = len(tasks) * _TASK.size
        at = steps + len(self._steps) * _STEP.size
        tables = bytearray()
        for number, table in self._tables:
            tasks[number][6] = at + len(tables)
            tables += table.tobytes() + bytes(-table.nbytes % 8)
        rows = []
        for step in self._steps:
            rows.append(_row(step, at + len(tables)))
            if step.table is not None:
                tables += step.table.tobytes() + bytes(-step.table.nbytes % 8)
        data = b"".join([*(_TASK.pack(*task) for task in tasks), *rows, tables])
        job, table = bytearray(_HEAD.size + _ROOM), None
        if len(data) > _ROOM:
            table = on_device(data, self._like)
        else:
            job[_HEAD.size : _HEAD.size + len(data)] = data
        lines = address_of(_lines(device_of(self._like), self._xp)) if random else 0
        _HEAD.pack_into(job, 0, 0 if table is None else address_of(table), lines, steps)
        argument = np.ndarray((), np.dtype((np.void, len(job))), job)
        defines = {"NOISE": random}
        device.launch(_SOURCE, name, defines, (self._blocks, len(tasks), 1), _THREADS, argument, None)
        del table  # CuPy frees memory in stream order


def _row(step: Step, table: int) -> bytes:
    """Return a step as the kernel reads it."""
    before, after, other = (
        0 if step.before is None else step.before.address,
        0 if step.after is None else step.after.address,
        0 if step.other is None or step.other.values is None else address_of(step.other.values),
    )
    numbers = (*step.numbers, 0.0, 0.0, 0.0, 0.0)[:4]
    key = (int(word) & _WORD for word in step.key)
    return _STEP.pack(
        CODES.index(step.code), step.position, *key, *numbers, before, after, other, table, step.count, 0
    )


@lru_cache(maxsize=16)
def _lines(device: str, xp: Any) -> Array:  # noqa: ARG001  one for each device
    """The table of the normal distribution where kernels can read it."""
    return xp.asarray(normal_lines())
