"""``gather3.cu`` and ``control3.cu``: gathers on a GPU and the control points of their fields, many in one launch."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence as Seq
from functools import cache
from typing import Any, Final

import numpy as np

from ...array import namespace
from ...core.kernel import CudaSource, KernelDevice
from ..cuda.kernel import address_of
from .lattice import DrawnControl

__all__ = ["WORK", "launch_controls", "launch_gathers", "on_device"]

_SOURCE: Final = CudaSource("seqpipe.ops.cuda", "gather3.cu")
_CONTROLS: Final = CudaSource("seqpipe.ops.cuda", "control3.cu")
_THREADS: Final = 256
_TILE: Final = (8, 8, 32)  # slices, rows and columns of a block
# lattice cells that a tile may cover along slices and columns: shared memory has room for this number and 4 more
_CELLS: Final = (1, math.inf, 6)
_ROOM: Final = 9  # volumes whose description fits into the argument
_CONTROL_ROOM: Final = 50  # fields whose description fits into the argument
_MOST: Final = 65535  # volumes per launch
_OFF_DIAGONAL: Final = (1, 2, 4, 6, 8, 9)  # of a matrix of three rows of four

WORK: Final = np.dtype(
    [
        *((name, np.uint64) for name in ("from", "to", "lattice", "positions")),
        *((name, np.int64) for name in ("type", "interpolation", "edge", "planes", "channels")),
        *((name, np.int64, (3,)) for name in ("shape", "stride")),
        ("channel", np.int64),
        *((name, np.int64, (3,)) for name in ("size", "pitch")),
        ("to_channel", np.int64),
        ("nodes", np.int64, (3,)),
        ("pre", np.float64, (12,)),
        ("post", np.float64, (12,)),
        ("per_node", np.float64, (3,)),
        ("fill", np.float64),
    ]
)
"""What C and the kernel are told of a volume."""
# NumPy takes ten times as long to read and write the fields one by one
_POINTERS, _KIND, _THREE = struct.Struct("2Q"), struct.Struct("2q"), struct.Struct("3q")
_CONTROL: Final = struct.Struct("3Q4q3d")
_POST, _PER_NODE = struct.Struct("12d"), struct.Struct("3d")


def launch_gathers(device: KernelDevice, rows: Seq[bytes], like: Any) -> None:
    """Start gathers, in one launch for each form of the kernel.

    Args:
        device: device of the kernels.
        rows: description of each, of dtype :data:`WORK`; see :func:`seqpipe.ops.volume.gather.work_row`.
        like: an array in the memory that tables are put into.
    """
    forms: dict[tuple[int, int, int], list[bytes]] = {}
    for row in rows:
        kind, interpolation = _KIND.unpack_from(row, _places("type"))
        forms.setdefault((kind, interpolation, _field(row)), []).append(row)
    for (kind, interpolation, field), alike in forms.items():
        defines = {"TYPE": kind, "INTERP": interpolation, "FIELD": field}
        for first in range(0, len(alike), _MOST):
            _launch(device, defines, alike[first : first + _MOST], like)


def launch_controls(device: KernelDevice, fields: Seq[DrawnControl], like: Any) -> list[Any]:
    """Start to draw the control points of fields, in one launch.

    Args:
        device: device that samples them.
        fields: the fields of the control points.
        like: an array in the memory where they are to be.

    Returns:
        The memory of each.
    """
    counts = [math.prod(field.nodes) * 3 for field in fields]
    every, found, at = namespace(like).empty(sum(counts), np.float32), [], 0
    for count in counts:
        found.append(every[at : at + count])
        at += count
    rows = [
        _CONTROL.pack(address_of(to), *field.key, *field.nodes, field.flat, *field.most)
        for field, to in zip(fields, found, strict=True)
    ]
    blocks = -(-max(counts) // (4 * _THREADS))
    for first in range(0, len(rows), _MOST):
        part = rows[first : first + _MOST]
        argument, table = _argument(part, _CONTROL_ROOM, like)
        defines = {"THREADS": _THREADS}
        device.launch(_CONTROLS, "control3", defines, (blocks, len(part), 1), _THREADS, argument, None)
        del table
    return found


def _argument(rows: Seq[bytes], room: int, like: Any) -> tuple[Any, Any]:
    """Return the argument of a launch, rows or their address, and memory to keep until it is queued."""
    data, table = b"".join(rows), None
    job = bytearray(8 + room * len(rows[0]))
    if len(rows) <= room:
        job[8 : 8 + len(data)] = data
    else:
        table = on_device(np.frombuffer(data, np.uint8), like)
        job[:8] = address_of(table).to_bytes(8, "little")
    return np.ndarray((), np.dtype((np.void, len(job))), job), table


def _launch(device: KernelDevice, defines: dict[str, int], rows: Seq[bytes], like: Any) -> None:
    argument, table = _argument(rows, _ROOM, like)
    tiles = 0
    for row in rows:
        d, h, w = _THREE.unpack_from(row, _places("size"))
        tiles = max(tiles, -(-d // _TILE[0]) * -(-h // _TILE[1]) * -(-w // _TILE[2]))
    device.launch(_SOURCE, "gather3", defines, (tiles, len(rows), 1), _THREADS, argument, None)
    # CuPy frees memory in stream order, so the launch precedes the next use of it
    del table


def on_device(rows: Any, like: Any) -> Any:
    """Return the address of an array as bytes."""
    return namespace(like).asarray(np.frombuffer(rows.tobytes(), np.uint8))


def _field(row: bytes) -> int:
    """In which form the kernel is compiled; see the source."""
    lattice, positions = _POINTERS.unpack_from(row, _places("lattice"))
    if positions:
        return 3
    if not lattice:
        return 0
    post, per_node = _POST.unpack_from(row, _places("post")), _PER_NODE.unpack_from(row, _places("per_node"))
    straight = not any(post[n] for n in _OFF_DIAGONAL)
    steps = [abs(post[5 * n] * per_node[n]) * (_TILE[n] - 1) for n in range(3)]
    return 1 if straight and all(step <= most for step, most in zip(steps, _CELLS, strict=True)) else 2


@cache
def _places(name: str) -> int:
    """Where a field begins in a row."""
    fields: Any = WORK.fields
    return int(fields[name][1])
