"""CUDA kernels: launches of ``gather.cu`` and ``control.cu``."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence as Seq
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np

from ..array import address_of, namespace
from ..core.kernel import CudaSource, KernelDevice
from .mapping import IDENTITY, DrawnControl, Extent, Mapping3

__all__ = ["KernelForm", "launch_controls", "launch_gathers", "mapping_form", "on_device"]

_SOURCE: Final = CudaSource(__package__, "gather.cu")
_CONTROLS: Final = CudaSource(__package__, "control.cu")
_THREADS: Final = 256
_TILE: Final = (8, 8, 32)  # slices, rows and columns of a block
# lattice cells that a tile may cover along slices and columns: shared memory has room for this number and 4 more
_CELLS: Final = (1, math.inf, 6)
_ROOM: Final = 9  # volumes whose description fits into the argument
_CONTROL_ROOM: Final = 50  # fields whose description fits into the argument
_MAX_VOLUMES_PER_LAUNCH: Final = 65535  # volumes per launch
_OFF_DIAGONAL: Final = (1, 2, 4, 6, 8, 9)  # of a matrix of three rows of four
_ONES: Final = (1.0, 1.0, 1.0)
_CONTROL: Final = struct.Struct("3Q4q3d")


class KernelForm(NamedTuple):
    """The variant of the gather kernel: numbers of the dtype, the interpolation and the kind of mapping."""

    dtype: int
    interpolation: int
    mapping: int


def launch_gathers(device: KernelDevice, jobs: Seq[tuple[KernelForm, Extent, bytes]], like: Any) -> None:
    """Start gathers, in one launch for each form of the kernel."""
    forms: dict[KernelForm, tuple[list[bytes], list[Extent]]] = {}
    for form, size, row in jobs:
        rows, sizes = forms.setdefault(form, ([], []))
        rows.append(row)
        sizes.append(size)
    for form, (rows, sizes) in forms.items():
        defines = {"TYPE": form.dtype, "INTERP": form.interpolation, "FIELD": form.mapping}
        tiles = max(-(-d // _TILE[0]) * -(-h // _TILE[1]) * -(-w // _TILE[2]) for d, h, w in set(sizes))
        for first in range(0, len(rows), _MAX_VOLUMES_PER_LAUNCH):
            part = rows[first : first + _MAX_VOLUMES_PER_LAUNCH]
            argument, table = _argument(part, _ROOM, like)
            device.launch(_SOURCE, "gather", defines, (tiles, len(part), 1), _THREADS, argument, None)
            # CuPy frees memory in stream order, so the launch precedes the next use of it
            del table


def mapping_form(mapping: Mapping3) -> int:
    """Return the number of a mapping's kind in the kernel: 0 affine, 1 with a field that is straight, 2 any field."""
    if mapping.lattice is None:
        return 0
    scale = _ONES
    if mapping.post is not IDENTITY:
        post = mapping.post[:3].ravel().tolist()
        if any(post[n] for n in _OFF_DIAGONAL):
            return 2
        scale = post[0], post[5], post[10]
    for factor, extent, distance, most in zip(scale, _TILE, mapping.lattice.distance, _CELLS, strict=True):
        if abs(factor) * ((extent - 1) / distance) > most:
            return 2
    return 1


def launch_controls(device: KernelDevice, fields: Seq[DrawnControl], like: Any) -> tuple[Any, list[int]]:
    """Start to draw the control points of fields, in one launch."""
    counts = [math.prod(field.nodes) * 3 for field in fields]
    every = namespace(like).empty(sum(counts), np.float32)
    addresses = [address_of(every) + 4 * before for before in accumulate(counts[:-1], initial=0)]
    rows = [
        _CONTROL.pack(address, *field.key, *field.nodes, field.flat, *field.most)
        for field, address in zip(fields, addresses, strict=True)
    ]
    blocks = -(-max(counts) // (4 * _THREADS))
    for first in range(0, len(rows), _MAX_VOLUMES_PER_LAUNCH):
        part = rows[first : first + _MAX_VOLUMES_PER_LAUNCH]
        argument, table = _argument(part, _CONTROL_ROOM, like)
        defines = {"THREADS": _THREADS}
        device.launch(_CONTROLS, "control", defines, (blocks, len(part), 1), _THREADS, argument, None)
        del table
    return every, addresses


def _argument(rows: Seq[bytes], room: int, like: Any) -> tuple[Any, Any]:
    """Return the argument of a launch, rows or their address, and memory to keep until it is queued."""
    data, table = b"".join(rows), None
    job = bytearray(8 + room * len(rows[0]))
    if len(rows) <= room:
        job[8 : 8 + len(data)] = data
    else:
        table = on_device(data, like)
        job[:8] = address_of(table).to_bytes(8, "little")
    return np.ndarray((), np.dtype((np.void, len(job))), job), table


def on_device(data: bytes, like: Any) -> Any:
    """Return a copy of bytes, uint8, in the memory that an array is in."""
    return namespace(like).array(np.frombuffer(data, np.uint8))
