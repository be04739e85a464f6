"""``fn.readers.numpy``: arrays of files, which are mapped if they are large."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...array import Array
from ...core.files.npy import array_of_npy
from ...errors import SeqpipeError, SourceNotFoundError, UnreadableSourceError
from ..call import DaliCall
from ..data_node import DataNode
from ..reading import Items
from ..sources.mapped import views
from ..value import Value
from .sources import bytes_of, file_rows, lines_of, started
from .windows import slice_

__all__ = ["numpy_reader"]

_LARGE: Final = 1 << 20  # bytes; smaller files are read at once
_KINDS: Final = "biuf"


def numpy_reader(call: DaliCall) -> DataNode:
    """``fn.readers.numpy``: the arrays of ``.npy`` files, or a region of each by ``roi_start`` and others.

    Large files are mapped, so that only what later operators crop of them is read and copied, unless
    ``dont_use_mmap``.
    """
    pattern, root = call.take("file_filter", "*.npy"), call.take("file_root")
    maps = not call.take("dont_use_mmap", False)
    table, files = call.take("file_list"), call.take("files")
    if files is None and table is not None:
        files = [line.strip() for _, line in lines_of(table)]
        root = Path(table).parent if root is None else root
    elif files is None and root is not None:
        files = [
            f"./{path.relative_to(root)}" for path in sorted(Path(root).rglob(pattern)) if path.is_file()
        ]
        if not files:
            raise SourceNotFoundError(f"no files {pattern} in the folder", source=str(root))
    call.args |= {"files": files, "file_root": root}
    paths, _, described = file_rows(call, (pattern,))
    region = {
        f"{rel}{side}": f"{rel}roi_{side}" for rel in ("", "rel_") for side in ("start", "end", "shape")
    }
    options = {name: call.take(argument) for name, argument in region.items()}
    selects = any(one is not None for one in options.values())
    options |= {"axes": call.take("roi_axes", ()), "fill_values": call.take("fill_value")}
    options["out_of_bounds_policy"] = call.take("out_of_bounds_policy")

    def load(number: int) -> tuple[Any, ...]:
        try:
            return (_array_of_file(paths[number], maps),)
        except OSError as error:
            if isinstance(error, SeqpipeError):
                raise
            raise UnreadableSourceError(f"it cannot be read: {error}", source=paths[number]) from error

    def gathered(items: list[Any], sources: tuple[str, ...]) -> Value:
        return views(items, "", sources)

    dataset = Items.of(load, "numpy", ("array",), {"files": paths}, described, gathered)
    (node,) = started(call, dataset, dataset.names)
    result = DataNode(call.name or call.row.name, [node], lambda v, _: v[0])
    result.maps_files = maps
    if selects:
        result = slice_(DaliCall(call.row, [result], options, "cpu"))
    return result.gpu() if call.device == "gpu" else result


def _array_of_file(path: str, maps: bool) -> Array:
    """Return the array of a file; a large one is a read-only view of the mapped file."""
    if not maps or Path(path).stat().st_size < _LARGE:
        return np.require(array_of_npy(bytes_of(path), path, _KINDS), requirements=["C", "A"])
    data = np.memmap(path, np.uint8, "r")
    array = array_of_npy(data, path, _KINDS)
    if not array.dtype.isnative:
        return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if hasattr(mmap, "MADV_WILLNEED"):  # the file is read ahead while other operators compute
        data._mmap.madvise(mmap.MADV_WILLNEED)  # type: ignore[attr-defined]  # of every memmap
    return np.asarray(array)
