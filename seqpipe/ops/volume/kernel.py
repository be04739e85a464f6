"""``gather3.cu``: gathers on a GPU, many in one launch."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import namespace
from ...kernel import CudaSource, KernelDevice
from ..cuda.kernel import address_of

__all__ = ["launch_gathers", "on_device"]

_SOURCE: Final = CudaSource("seqpipe.ops.cuda", "gather3.cu")
_THREADS: Final = 256
_TILE: Final = (8, 8, 32)  # slices, rows and columns of a block
_ROOM: Final = 9  # volumes of which all is in the argument
_MOST: Final = 65535  # volumes of a launch


def launch_gathers(device: KernelDevice, rows: Seq[npt.NDArray[Any]], like: Any) -> None:
    """Start gathers, in one launch for each form of the kernel.

    Args:
        device: what they run on.
        rows: what the kernel is told of each; see :func:`seqpipe.ops.volume.gather.work_row`.
        like: an array in the memory that tables are put into.
    """
    forms: dict[tuple[int, int, int], list[npt.NDArray[Any]]] = {}
    for row in rows:
        forms.setdefault((int(row["type"]), int(row["interpolation"]), _field(row)), []).append(row)
    for (kind, interpolation, field), alike in forms.items():
        defines = {"TYPE": kind, "INTERP": interpolation, "FIELD": field}
        for first in range(0, len(alike), _MOST):
            some = alike[first : first + _MOST]
            # to stack structures takes NumPy ten times as long
            _launch(
                device, defines, np.frombuffer(b"".join([row.tobytes() for row in some]), some[0].dtype), like
            )


def _launch(device: KernelDevice, defines: dict[str, int], rows: npt.NDArray[Any], like: Any) -> None:
    job = np.zeros((), [("table", np.uint64), ("few", rows.dtype, (_ROOM,))])
    table = None
    if len(rows) <= _ROOM:
        job["few"][: len(rows)] = rows
    else:
        table = on_device(rows, like)
        job["table"] = address_of(table)
    tiles = (-(-rows["size"] // np.array(_TILE))).prod(axis=1)
    device.launch(_SOURCE, "gather3", defines, (int(tiles.max()), len(rows), 1), _THREADS, job, None)
    # CuPy gives memory back to its pool in the order of the stream, so the launch is before the next use of it
    del table


def on_device(rows: npt.NDArray[Any], like: Any) -> Any:
    """A table where an array lies, as bytes."""
    return namespace(like).asarray(np.frombuffer(rows.tobytes(), np.uint8))


def _field(row: npt.NDArray[Any]) -> int:
    """In which form the kernel is compiled; see the source."""
    if row["positions"]:
        return 3
    if not row["lattice"]:
        return 0
    post = row["post"].reshape(3, 4)
    straight = not post[:, :3][~np.eye(3, dtype=bool)].any()
    # a tile's slices lie within one cell of the lattice and the next one, and so do its rows
    steps = abs(np.diag(post)[:2] * row["per_node"][:2]) * (np.array(_TILE[:2]) - 1)
    return 1 if straight and steps.max() <= 1 else 2
