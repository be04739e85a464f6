"""Kernel assembly and launch: one launch for all images of a call."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, address_of, namespace
from ...core.cached import cached_property
from ...core.kernel import CudaSource, KernelDevice
from ...core.native import source_text
from ...errors import ParameterError
from ..core.blocks import Block
from ..core.declaration import Declaration
from ..core.spec import KERNEL_DTYPES
from ..core.traits import WORK, Work

__all__ = [
    "GRID",
    "SKELETONS",
    "TYPES",
    "Item",
    "OpSource",
    "cuda_device",
    "defines_of",
    "launch",
    "row_text",
    "run_kernel",
    "source_of",
    "widened",
]

SKELETONS: Final = __package__
"""Package with the CUDA sources of operators."""
_THREADS: Final = 256
_IMAGES_IN_Y: Final = 32768
_INLINE_BYTES: Final = 4000  # bytes of tables in kernel arguments, on any device
# bytes on devices with long arguments; a copy to the device takes longer than most kernels
_LONG_INLINE_BYTES: Final = 32000
TYPES: Final = {name: number for number, name in enumerate(KERNEL_DTYPES)}
"""Numbers of dtypes in kernels that compute."""
GRID: Final = {"INLINE": _INLINE_BYTES, "THREADS": _THREADS, "IMAGES_IN_Y": _IMAGES_IN_Y}
"""Macros that all kernels share."""
# as in prelude.cuh; NumPy takes a hundred times as long to write the fields one by one
_ITEM: Final = struct.Struct("2Q 10q 10i")
_HEAD: Final = struct.Struct("Q 4i Q")
_JOBS: Final = {size: np.dtype((np.void, _HEAD.size + size)) for size in (_INLINE_BYTES, _LONG_INLINE_BYTES)}


class Item(NamedTuple):
    """Images of one shape in a call.

    Attributes:
        x: input, ``(N, F, H, W, C)``.
        out: output, likewise.
        sample: index of the first sample in the call.
    """

    x: Array
    out: Array
    sample: int


@dataclass(frozen=True)
class OpSource(CudaSource):
    """Source that consists of the prelude, a skeleton, and an operator's body.

    Attributes:
        row: fields of a row of parameters, in C.
        body: statements of the operator.
        numbers: integers of its table.
    """

    row: str = ""
    body: str = ""
    numbers: str = ""

    @cached_property
    def work(self) -> Work:
        """Division into launches and blocks."""
        return WORK.get(self.name.removesuffix(".cuh"), Work())

    @cached_property
    def text(self) -> str:
        """The source: the prelude with the declaration of a row, and the skeleton with the operator's body."""
        head, mark, tail = source_text(SKELETONS, "prelude.cuh").partition("// One image of an item.")
        row = f"struct Row {{\n{self.row}\n}};\n\n"
        if self.work.tile is not None:
            row += "constexpr int TALL = {}, WIDE = {};\n\n".format(*self.work.tile)
        skeleton = source_text(self.package, self.name)
        skeleton = skeleton.replace("BODY", self.body).replace("NUMBERS", self.numbers)
        return f"{head}{row}{mark}{tail}\n{skeleton}"


@lru_cache(maxsize=512)
def source_of(op: type[Declaration]) -> OpSource:
    """Return the source of an operator's kernel."""
    body = op.traits.body
    if body is None:
        raise ParameterError(f"{op.name} has no kernel")
    numbers = ", ".join(map(str, body.numbers())) or "0"
    return OpSource(SKELETONS, f"{body.kind}.cuh", row_text(op.kernel_dtype()), body.text, numbers)


def defines_of(op: Declaration | type[Declaration], dtype: str, result: str, channels: int) -> dict[str, int]:
    """Return the macros of a kernel: dtypes, channels (0 if images differ), and size of the tables."""
    shared = {"CHANNELS": channels if channels <= 4 or op.traits.channels else 0, **GRID}
    if op.traits.values == "moved":
        return {"ELEMENT_BYTES": np.dtype(dtype).itemsize, **shared}
    # whether the statements treat all channels alike
    alike = op.traits.body is not None and "channel" not in op.traits.body.text
    return {"IN": TYPES[dtype], "OUT": TYPES[result], "ALIKE": int(alike), **shared}


@lru_cache(maxsize=1024)
def _kernel_of(
    op: type[Declaration], dtype: np.dtype[Any], result: np.dtype[Any], channels: int
) -> tuple[OpSource, dict[str, int]]:
    """Return the source of an operator's kernel, and the macros for dtypes."""
    return source_of(op), defines_of(op, dtype.name, result.name, channels)


def run_kernel(op: Declaration, items: Seq[Item], block: Block, device: KernelDevice) -> None:
    """Queue an operator on images in device memory, in one launch."""
    first = items[0]
    channels = first.x.shape[4]
    if len(items) > 1 and any(item.x.shape[4] != channels for item in items):
        channels = 0
    source, defines = _kernel_of(type(op), first.x.dtype, first.out.dtype, channels)
    launch(source, defines, items, block, device)


def launch(
    source: OpSource,
    defines: Mapping[str, int],
    items: Seq[Item],
    block: Block,
    device: KernelDevice,
) -> None:
    """Queue a kernel on images in device memory."""
    entries, images = [], 0
    for x, out, sample in items:
        samples, frames, height, width, channels = out.shape
        row = block.first[sample]
        of_sample = block.first[sample + 1] - row if samples > 1 else 0
        shape = images, frames, channels, *x.shape[2:4], height, width
        strides = *x.strides, *out.strides
        entries.append(
            _ITEM.pack(address_of(x), address_of(out), *strides, *shape, row, of_sample, block.step)
        )
        images += samples * frames
    work, in_y, x = source.work, GRID["IMAGES_IN_Y"], items[0].x
    sizes = {item.out.shape[2:4] for item in items}
    launches = work.launches(block.rows, sizes, images, _THREADS)
    scratch, of_image = None, 0  # zeroed memory that kernels share
    if work.scratch and len(launches) > 1:
        of_image = work.scratch[x.dtype.name] * max(item.x.shape[4] for item in items)
        scratch = namespace(x).zeros(of_image * images, np.uint8)
    tables = b"".join((*entries, block.rows.tobytes()))
    inline, macros = _INLINE_BYTES, {**defines, **GRID}
    if len(tables) > _INLINE_BYTES:
        fits = len(tables) <= _LONG_INLINE_BYTES and device.argument_bytes >= _HEAD.size + _LONG_INLINE_BYTES
        inline = _LONG_INLINE_BYTES if fits else 0
        macros["INLINE"] = inline or _INLINE_BYTES
    head = len(entries), images, len(entries) * _ITEM.size, of_image
    job, kept = _job(tables, inline, head, x, scratch)
    for function, blocks, count in launches:
        grid = blocks, min(count, in_y), -(-count // in_y)
        device.launch(source, function, macros, grid, _THREADS, job, None)
    # CuPy's pool reuses memory in stream order, so only after the launch
    del kept, scratch


@lru_cache(maxsize=32)
def cuda_device(number: int) -> KernelDevice:
    """Return the GPU with a number."""
    return KernelDevice(number)


def _job(
    tables: bytes, inline: int, head: tuple[int, ...], x: Array, scratch: Array | None
) -> tuple[npt.NDArray[Any], object]:
    """Return the argument of a launch, with the tables if they fit, and an object to keep alive until it is queued."""
    dtype = _JOBS[inline or _INLINE_BYTES]
    kept = None if inline else namespace(x).asarray(np.frombuffer(tables, np.uint8))
    job = bytearray(dtype.itemsize)
    addresses = [0 if array is None else address_of(array) for array in (kept, scratch)]
    _HEAD.pack_into(job, 0, addresses[0], *head, addresses[1])
    if inline:
        job[_HEAD.size : _HEAD.size + len(tables)] = tables
    return np.ndarray((), dtype, job), kept


def widened(rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return rows with a dtype that has more fields, which are 0."""
    result = np.zeros(len(rows), dtype)
    for name in rows.dtype.names or ():
        result[name] = rows[name]
    return result


def row_text(dtype: np.dtype[Any]) -> str:
    """Return the fields of a row as C declarations."""
    lines = []
    for name in dtype.names or ():
        kind = dtype[name]
        length = f"[{int(np.prod(kind.shape))}]" if kind.shape else ""
        lines.append(f"    {'int' if kind.base == np.int32 else 'Real'} {name}{length};")
    return "\n".join(lines)
