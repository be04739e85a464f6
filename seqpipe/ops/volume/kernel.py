"""``gather3.cu``: the gather on a GPU."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...kernel import KernelDevice, Source

__all__ = ["launch"]

_SOURCE: Final = Source("seqpipe.ops.cuda", "gather3.cu")
_THREADS: Final = 256
_TILE: Final = (64, 4)  # columns and rows of a block
_NODES: Final = 40  # control points of a row that a block keeps


def launch(device: KernelDevice, row: npt.NDArray[Any]) -> None:
    """Start the gather.

    Args:
        device: what it runs on.
        row: what it is told; see :func:`seqpipe.ops.volume.gather.work_row`.
    """
    depth, height, width = (int(n) for n in row["size"])
    defines = {"TYPE": int(row["type"]), "INTERP": int(row["interpolation"]), "FIELD": _field(row)}
    grid = -(-width // _TILE[0]), -(-height // _TILE[1]), depth
    device.launch(_SOURCE, "gather3", defines, grid, _THREADS, row, None)


def _field(row: npt.NDArray[Any]) -> int:
    """In which form the kernel is compiled; see the source."""
    if row["positions"]:
        return 3
    if not row["lattice"]:
        return 0
    post = row["post"].reshape(3, 4)
    straight = not post[:, :3][~np.eye(3, dtype=bool)].any()
    few = abs(post[2, 2] * row["per_node"][2]) * (_TILE[0] - 1) + 6 <= _NODES
    return 1 if straight and few else 2
