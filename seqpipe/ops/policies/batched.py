"""Batched operators: one kernel that applies a different operator to each sample."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.body import KernelPass, Work
from ..core.declaration import Declaration
from ..cuda.kernel import SKELETONS, CutSource, OpSource, prelude, row_text, source_of

__all__ = ["RUN", "BatchedOps", "OpRows", "batched_ops", "is_pointwise"]

OpRows: TypeAlias = Seq[tuple[type[Declaration], bytes]]
"""What is done to a sample in one go: operators on levels, :data:`RUN` at most, or one other, with rows; or nothing."""
RUN: Final = 2
"""Operators on levels that are done one after the other in one go."""
_ONE: Final = struct.Struct("i")
_TWO: Final = struct.Struct("2i")
_FIELDS: Final = ("work", "blocks", "aside")  # that a row begins with, as Beside says
_HEAD: Final = struct.Struct(f"{len(_FIELDS)}i")
_DECLARED: Final = f"    int {', '.join(_FIELDS)};"
_PASSES: Final = 2  # that a part has at most
_PART: Final = """#undef ALIKE
#define ALIKE {alike}
namespace part{number} {{
{source}
}}
"""
_KERNEL: Final = """
extern "C" __global__ void __launch_bounds__(THREADS, 4) each(const __grid_constant__ Job job) {{
    const int number = blockIdx.z * IMAGES_IN_Y + blockIdx.y;
    if (number >= job.images) return;
    const Row& row = image_of(job, number).row;
    if (blockIdx.x >= row.blocks) return;
    switch (row.work) {{
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


class _AsRowsSay:
    """One launch of as many blocks as the row says that has most."""

    scratch: Mapping[str, int] = MappingProxyType({})

    def launches(
        self, rows: npt.NDArray[Any], sizes: Collection[tuple[int, int]], images: int, threads: int
    ) -> list[KernelPass]:
        """See :meth:`Cut.launches`."""
        del sizes, threads
        return [("each", int(rows["blocks"].max()), images)]


@dataclass(frozen=True)
class BatchedOps(CutSource):
    """The source of operators side by side.

    Every operator keeps its kernels, as functions in a namespace of its own, a part; those on levels share one, which
    does some of them one after the other. The row of an image begins with what is done in a launch: which pass of which
    part, by how many blocks, and how far what it keeps between passes lies from where it would by the image's number.

    Attributes:
        ops: the operators.
    """

    ops: tuple[type[Declaration], ...]

    @cached_property
    def levels(self) -> tuple[type[Declaration], ...]:
        """Those on levels, which are the first part together."""
        return tuple(op for op in self.ops if is_pointwise(op))

    @cached_property
    def others(self) -> tuple[type[Declaration], ...]:
        """All others, the parts after it."""
        return tuple(op for op in self.ops if not is_pointwise(op))

    @cached_property
    def row(self) -> np.dtype[Any]:
        """What is done with an image, and the row of the part as so many bytes."""
        sizes = [8 + RUN * self._length_of_step, *(op.kernel_dtype().itemsize for op in self.others)]
        heads = [(name, np.int32) for name in _FIELDS]
        return np.dtype([*heads, ("own", np.void, max(sizes))])

    @cached_property
    def work(self) -> _AsRowsSay:
        """How it is cut into launches and blocks."""
        return _AsRowsSay()

    @cached_property
    def works(self) -> tuple[Work, ...]:
        """How the work of each part is cut into passes and blocks."""
        return tuple(part.work for part in self._parts)

    @cached_property
    def text(self) -> str:
        """The source."""
        alike = int(not any(op.traits.body and "channel" in op.traits.body.text for op in self.levels))
        parts = [
            _PART.format(alike=alike, number=number, source=part.own)
            for number, part in enumerate(self._parts)
        ]
        row = f"struct Row {{\n{_DECLARED}\n    unsigned char own[{self.row['own'].itemsize}];\n}};\n"
        return "\n".join([prelude()[0], *parts, row, prelude()[1], _KERNEL.format(cases=self._cases)])

    def part_of(self, steps: OpRows) -> int:
        """The number of the part that does some steps; to do nothing is left to that on levels."""
        op = steps[0][0] if steps else None
        return 0 if op is None or op in self.levels else 1 + self.others.index(op)

    def own_of(self, steps: OpRows) -> bytes:
        """What the row of a sample has behind its head, whichever the pass is: the row of the part for some steps."""
        if self.part_of(steps):
            own = steps[0][1]
        else:
            room = self._length_of_step - 4
            known = [_ONE.pack(self.levels.index(op)) + row.ljust(room, b"\0") for op, row in steps]
            own = _TWO.pack(1, len(known)) + b"".join(known)
        return own.ljust(self.row.itemsize - _HEAD.size, b"\0")

    def head_of(self, part: int, turn: int, blocks: int, aside: int) -> bytes:
        """What the row of a sample begins with.

        Args:
            part: the number of the part.
            turn: the number of the pass.
            blocks: how many take part in an image.
            aside: how far what it keeps between passes lies from where it would by its number, in images.
        """
        return _HEAD.pack(_PASSES * part + turn, blocks, aside)

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
        parts = [OpSource(SKELETONS, "value.cuh", self._padded(run, 8 + RUN * self._length_of_step), body)]
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
        return _STEP.format(number=self.levels.index(op), text=op.traits.body.text if op.traits.body else "")

    def _padded(self, row: str, length: int) -> str:
        """The fields of a part's row, which is as long as that of any other."""
        unused = (self.row["own"].itemsize - length) // 4
        return f"{_DECLARED}\n{row}" + (f"\n    int unused[{unused}];" if unused else "")

    @property
    def _cases(self) -> str:
        """The passes of all parts, by their numbers."""
        return "\n".join(
            f"    case {_PASSES * number + turn}: return part{number}::{function}(job);"
            for number, part in enumerate(self._parts)
            for turn, function in enumerate(part.work.passes)
        )


@lru_cache(maxsize=64)
def batched_ops(ops: tuple[type[Declaration], ...]) -> BatchedOps:
    """Operators side by side, of which at least one changes levels."""
    return BatchedOps(SKELETONS, "batched_ops", ops)


@lru_cache(maxsize=512)
def is_pointwise(op: type[Declaration]) -> bool:
    """Whether what becomes of a level depends on that level alone."""
    return op.traits.body is not None and op.traits.body.kind == "value"
