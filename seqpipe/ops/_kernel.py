"""An operator on a GPU: its source put together, and one launch for all images of a call."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..array import Array, namespace
from ..errors import ParameterError
from ..kernel import CudaDevice, KernelDevice, Source
from ._body import WORK, Work
from ._declaration import Declaration
from ._draw import Block

__all__ = [
    "GRID",
    "TYPES",
    "Item",
    "OpSource",
    "cuda_device",
    "defines_of",
    "launch",
    "row_text",
    "run_kernel",
    "source_of",
]

_THREADS: Final = 256
_IMAGES_IN_Y: Final = 32768
_INLINE: Final = 4000
TYPES: Final = {"uint8": 0, "uint16": 1, "int16": 2, "float16": 3, "float32": 4}
"""The numbers of types in kernels that compute."""
GRID: Final = {"INLINE": _INLINE, "THREADS": _THREADS, "IMAGES_IN_Y": _IMAGES_IN_Y}
"""Macros that are the same for all kernels."""
_ITEM: Final = np.dtype(
    [
        ("addresses", np.uint64, 2),
        ("strides", np.int64, (2, 5)),
        ("first", np.int32),
        ("frames", np.int32),
        ("channels", np.int32),
        ("in_size", np.int32, 2),
        ("size", np.int32, 2),
        ("row", np.int32),
        ("row_of_sample", np.int32),
        ("row_of_frame", np.int32),
    ],
    align=True,
)
_JOB: Final = np.dtype(
    [
        ("tables", np.uint64),
        ("items", np.int32),
        ("images", np.int32),
        ("rows_at", np.int32),
        ("scratch_of_image", np.int32),
        ("scratch", np.uint64),
        ("bytes", np.uint8, _INLINE),
    ],
    align=True,
)


class Item(NamedTuple):
    """Images of one shape that a call is about.

    Attributes:
        x: what is given, ``(N, F, H, W, C)``.
        out: what is to be written, likewise.
        sample: the number of its first sample in the call.
    """

    x: Array
    out: Array
    sample: int


@dataclass(frozen=True)
class OpSource(Source):
    """A source put together from the prelude, a skeleton, and what an operator states.

    Attributes:
        row: the fields of a row of parameters, as C has them.
        body: the statements of the operator.
    """

    row: str = ""
    body: str = ""

    @property
    def work(self) -> Work:
        """How it is cut into launches and blocks."""
        return WORK.get(self.name.removesuffix(".cuh"), Work())

    @cached_property
    def text(self) -> str:
        """The source."""
        folder = resources.files(self.package)
        prelude, skeleton = (
            folder.joinpath(name).read_text(encoding="utf-8") for name in ("prelude.cuh", self.name)
        )
        head, _, tail = prelude.partition("// Images of one shape")
        row = f"struct Row {{\n{self.row}\n}};\n\n"
        if self.work.tile is not None:
            row += "constexpr int TALL = {}, WIDE = {};\n\n".format(*self.work.tile)
        return f"{head}{row}// Images of one shape{tail}\n{skeleton.replace('BODY', self.body)}"


@lru_cache(maxsize=512)
def source_of(op: type[Declaration]) -> OpSource:
    """The source of an operator's kernel."""
    body = op.body
    if body is None:
        raise ParameterError(f"{op.name} has no kernel")
    return OpSource(__package__, f"{body.skeleton}.cuh", row_text(op.kernel_dtype()), body.text)


def defines_of(op: Declaration, dtype: str, result: str, channels: int) -> dict[str, int]:
    """The macros of a kernel: types, channels (0 if images differ), the room for tables."""
    shared = {"CHANNELS": channels if channels <= 4 or op.channels else 0, **GRID}
    if op.values == "moved":
        return {"ELEMENT_BYTES": np.dtype(dtype).itemsize, **shared}
    return {"IN": TYPES[dtype], "OUT": TYPES[result], **shared}


def run_kernel(op: Declaration, items: Seq[Item], block: Block, device: KernelDevice) -> None:
    """Queue an operator on images in device memory, in one launch.

    Args:
        op: the operator.
        items: the images, all of one type.
        block: the rows that the kernel is given.
        device: where it runs, on CuPy's current stream.
    """
    counts = {item.x.shape[4] for item in items}
    channels = counts.pop() if len(counts) == 1 else 0
    defines = defines_of(op, items[0].x.dtype.name, items[0].out.dtype.name, channels)
    launch(source_of(type(op)), defines, items, block, device)


def launch(
    source: OpSource, defines: Mapping[str, int], items: Seq[Item], block: Block, device: KernelDevice
) -> None:
    """Queue a kernel on images in device memory.

    Args:
        source: the kernel, or several, one after the other.
        defines: its macros, without those that are the same for all.
        items: the images, all of one type.
        block: the rows that the kernel is given.
        device: where it runs, on CuPy's current stream.
    """
    table = np.zeros(len(items), _ITEM)
    images = 0
    for entry, item in zip(table, items, strict=True):
        samples, frames, height, width, channels = item.out.shape
        first = block.first[item.sample]
        entry["addresses"] = _address(item.x), _address(item.out)
        entry["strides"] = item.x.strides, item.out.strides
        entry["first"], entry["frames"], entry["channels"] = images, frames, channels
        entry["in_size"], entry["size"] = item.x.shape[2:4], (height, width)
        entry["row"], entry["row_of_frame"] = first, block.step
        entry["row_of_sample"] = block.first[item.sample + 1] - first if samples > 1 else 0
        images += samples * frames
    work, in_y = source.work, GRID["IMAGES_IN_Y"]
    blocks = max(work.blocks(item.out.shape[2], item.out.shape[3], _THREADS) for item in items)
    job, kept = _job(table, block.rows, images, items[0].x)
    if work.scratch:
        of_image = work.scratch[items[0].x.dtype.name] * max(item.x.shape[4] for item in items)
        scratch = namespace(items[0].x).zeros(of_image * images, np.uint8)
        job["scratch"], job["scratch_of_image"] = _address(scratch), of_image
    for function in work.passes:
        grid = blocks, min(images, in_y), -(-images // in_y)
        device.launch(source, function, {**defines, **GRID}, grid, _THREADS, job, None)
    # CuPy gives memory back to its pool in the order of the stream, so the launch is before the next use of it
    del kept


@lru_cache(maxsize=32)
def cuda_device(number: int) -> CudaDevice:
    """The GPU with a number."""
    return CudaDevice(number)


def _job(
    table: npt.NDArray[Any], rows: npt.NDArray[Any], images: int, x: Array
) -> tuple[npt.NDArray[Any], object]:
    """The argument of a launch, and what must live until it is queued."""
    job: npt.NDArray[Any] = np.zeros((), _JOB)
    job["items"], job["images"], job["rows_at"] = len(table), images, table.nbytes
    both = np.concatenate([table.view(np.uint8), np.ascontiguousarray(rows).view(np.uint8)])
    if both.nbytes <= _INLINE:
        job["bytes"][: both.nbytes] = both
        return job, both
    kept = namespace(x).asarray(both)
    job["tables"] = _address(kept)
    return job, kept


def _address(array: Array) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


def row_text(dtype: np.dtype[Any]) -> str:
    """The fields of a row, as C declares them."""
    lines = []
    for name in dtype.names or ():
        kind = dtype[name]
        length = f"[{int(np.prod(kind.shape))}]" if kind.shape else ""
        lines.append(f"    {'int' if kind.base == np.int32 else 'Real'} {name}{length};")
    return "\n".join(lines)
