"""Operators side by side: one launch for samples of which each has another one, and some have several on levels."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..kernel import KernelDevice
from ._body import Pass, Work
from ._declaration import Declaration
from ._draw import Block
from ._kernel import TYPES, CutSource, Item, OpSource, launch, prelude, row_text, source_of

__all__ = ["RUN", "Beside", "Turn", "beside", "changes_levels"]

RUN: Final = 2
"""Operators on levels that a launch does one after the other."""
_ONE: Final = struct.Struct("i")
_TWO: Final = struct.Struct("2i")
_PASSES: Final = ("begin", "each")
_HEAD: Final = "    int part, frames;"
_PART: Final = """#undef ALIKE
#define ALIKE {alike}
namespace part{number} {{
{source}
}}
"""
_KERNEL: Final = """
extern "C" __global__ void __launch_bounds__(THREADS, 4) {name}(const __grid_constant__ Job job) {{
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    switch (image_of(job, number).row.part) {{
{cases}
    }}
}}
"""
_RUN: Final = """
#pragma unroll
    for (int k = 0; k < {most}; k++) {{
        if (k == row.count) break;
        const int* const step = row.steps + k * {length};
        switch (step[0]) {{
{cases}
        }}
        value = rounded<OUT>(value);
    }}"""
_STEP: Final = """        case {number}: {{
            const Row::Step{number}& row = *(const Row::Step{number}*)(step + 1);
            {text}
            break;
        }}"""


class Turn(NamedTuple):
    """What a launch does to a sample.

    Attributes:
        x: its images, ``(1, F, H, W, C)``.
        out: where the result goes.
        steps: operators on levels, :data:`RUN` at most, or one other, each with its row; none copies the images.
    """

    x: Array
    out: Array
    steps: Seq[tuple[type[Declaration], bytes]]


class _Works(NamedTuple):
    """How the works of all parts are cut together; see :class:`Cut`.

    Attributes:
        parts: of each part.
        scratch: what the part needs that needs most.
        kinds: those that differ, by the pass that they have.
    """

    parts: tuple[Work, ...]
    scratch: Mapping[str, int]
    kinds: Mapping[str, list[Work]]

    @classmethod
    def of(cls, parts: tuple[Work, ...]) -> _Works:
        """Those of some parts."""
        names = set(chain.from_iterable(part.scratch for part in parts))
        scratch = {name: max(part.scratch.get(name, 0) for part in parts) for name in names}
        kinds = [part for number, part in enumerate(parts) if part not in parts[:number]]
        first = [part for part in kinds if len(part.passes) > 1]
        return cls(parts, scratch, dict(zip(_PASSES, (first, kinds), strict=True)))

    def launches(
        self, rows: npt.NDArray[Any], sizes: Collection[tuple[int, int]], images: int, threads: int
    ) -> list[Pass]:
        """The first pass for the images of parts that have two, which come first, and the last one for all.

        Each has as many blocks as the part takes that takes most; others have no work for some, or less for each.
        """
        pairs = zip(rows["part"].tolist(), rows["frames"].tolist(), strict=True)
        first = sum([frames for part, frames in pairs if len(self.parts[part].passes) > 1])
        found = []
        for name, count in zip(_PASSES, (first, images), strict=True):
            if count:
                works = [(work, size) for work in self.kinds[name] for size in sizes]
                found.append((name, max([work.blocks(*size, threads, count) for work, size in works]), count))
        return found


@dataclass(frozen=True)
class Beside(CutSource):
    """The source of operators side by side.

    Every operator keeps its kernel, as a function in a namespace of its own; those on levels share one, which does some
    of them one after the other. The row of an image begins with the number of its part.

    Attributes:
        ops: the operators.
    """

    ops: tuple[type[Declaration], ...]

    @cached_property
    def levels(self) -> tuple[type[Declaration], ...]:
        """Those on levels, which are the first part together."""
        return tuple(op for op in self.ops if changes_levels(op))

    @cached_property
    def others(self) -> tuple[type[Declaration], ...]:
        """All others, the parts after it."""
        return tuple(op for op in self.ops if not changes_levels(op))

    @cached_property
    def row(self) -> np.dtype[Any]:
        """The number of the part, how many images have the row, and the row of the part as so many bytes."""
        sizes = [8 + RUN * self._length_of_step, *(op.kernel_dtype().itemsize for op in self.others)]
        return np.dtype([("part", np.int32), ("frames", np.int32), ("own", np.void, max(sizes))])

    @cached_property
    def work(self) -> _Works:
        """How it is cut into launches and blocks."""
        return _Works.of(tuple(part.work for part in self._parts))

    @cached_property
    def text(self) -> str:
        """The source."""
        alike = int(not any(op.body and "channel" in op.body.text for op in self.levels))
        parts = [
            _PART.format(alike=alike, number=number, source=part.own)
            for number, part in enumerate(self._parts)
        ]
        row = f"struct Row {{\n{_HEAD}\n    unsigned char own[{self.row['own'].itemsize}];\n}};\n"
        kernels = [_KERNEL.format(name=name, cases=self._cases(name)) for name in _PASSES]
        return "\n".join([prelude()[0], *parts, row, prelude()[1], *kernels])

    def _row_of(self, part: int, turn: Turn) -> bytes:
        """The row of a sample that is for a part."""
        frames, steps = turn.x.shape[1], turn.steps
        if part:
            return _TWO.pack(part, frames) + steps[0][1]
        room = self._length_of_step - 4
        known = [_ONE.pack(self.levels.index(op)) + row.ljust(room, b"\0") for op, row in steps]
        return _TWO.pack(part, frames) + _TWO.pack(1, len(known)) + b"".join(known)

    def _part_of(self, turn: Turn) -> int:
        """The part that a sample's steps are for; none are for that on levels."""
        op = turn.steps[0][0] if turn.steps else None
        return 0 if op is None or op in self.levels else 1 + self.others.index(op)

    @cached_property
    def _order(self) -> list[int]:
        """Where the samples of each part stand: those with two passes first, and then those that are more work."""
        return [len(part.work.passes) < len(_PASSES) and 1 + (part is self._parts[0]) for part in self._parts]

    @cached_property
    def _length_of_step(self) -> int:
        """Bytes of an operator on levels within a row: its number, and its own row."""
        return 4 + max(op.kernel_dtype().itemsize for op in self.levels)

    @cached_property
    def _parts(self) -> tuple[OpSource, ...]:
        run = f"{self._steps}\n    int acts, count, steps[{RUN * self._length_of_step // 4}];"
        body = _RUN.format(
            most=RUN, length=self._length_of_step // 4, cases="\n".join(map(self._step, self.levels))
        )
        parts = [OpSource(__package__, "value.cuh", self._padded(run, 8 + RUN * self._length_of_step), body)]
        for op in self.others:
            own = source_of(op)
            row = self._padded(own.row, op.kernel_dtype().itemsize)
            parts.append(OpSource(own.package, own.name, row, own.body, own.numbers))
        return tuple(parts)

    @property
    def _steps(self) -> str:
        """The rows of operators on levels, as C declares them."""
        return "\n".join(
            f"    struct Step{number} {{\n{row_text(op.kernel_dtype())}\n    }};"
            for number, op in enumerate(self.levels)
        )

    def _step(self, op: type[Declaration]) -> str:
        """What an operator does to a level."""
        return _STEP.format(number=self.levels.index(op), text=op.body.text if op.body else "")

    def _padded(self, row: str, length: int) -> str:
        """The fields of a part's row, which is as long as that of any other."""
        unused = (self.row["own"].itemsize - length) // 4
        return f"{_HEAD}\n{row}" + (f"\n    int unused[{unused}];" if unused else "")

    def _cases(self, name: str) -> str:
        """The parts that a pass has, by their numbers."""
        found = []
        for number, part in enumerate(self._parts):
            passes = part.work.passes
            function = passes[-1] if name == _PASSES[-1] else passes[0] if len(passes) > 1 else ""
            if function:
                found.append(f"    case {number}: return part{number}::{function}(job);")
        return "\n".join(found)

    def run(self, turns: Seq[Turn], device: KernelDevice) -> None:
        """Queue what is to become of some samples, all of one type and with as many channels.

        Args:
            turns: for each sample.
            device: where kernels run.
        """
        parts = [(self._part_of(turn), turn) for turn in turns]
        parts.sort(key=lambda pair: self._order[pair[0]])
        room = self.row.itemsize
        rows = b"".join([self._row_of(part, turn).ljust(room, b"\0") for part, turn in parts])
        items = [Item(turn.x, turn.out, number) for number, (_, turn) in enumerate(parts)]
        block = Block(np.frombuffer(rows, self.row), tuple(range(len(items))), 0)
        launch(self, _defines(items[0].x.dtype, items[0].x.shape[4]), items, block, device)


@lru_cache(maxsize=64)
def _defines(dtype: np.dtype[Any], channels: int) -> dict[str, int]:
    """The macros for images of a type."""
    kind = TYPES[dtype.name]
    return {"IN": kind, "OUT": kind, "CHANNELS": channels, "BESIDE": 1}


@lru_cache(maxsize=64)
def beside(ops: tuple[type[Declaration], ...]) -> Beside:
    """Operators side by side, of which at least one changes levels."""
    return Beside(__package__, "beside", ops)


@lru_cache(maxsize=512)
def changes_levels(op: type[Declaration]) -> bool:
    """Whether what becomes of a level depends on that level alone."""
    return op.body is not None and op.body.kind == "value"
