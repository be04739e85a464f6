"""``fn.grid_mask``: images with a grid of squares set to zero."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import namespace
from ..errors import ParameterError
from ..ops import DEFAULT_LAYOUTS, Run
from ..ops import DataNode as NativeNode
from ..pipeline.value import Value
from .call import DaliCall
from .data_node import DataNode, node_of

__all__ = ["grid_mask"]

_DEFAULTS: Final = {"tile": 100.0, "ratio": 0.5, "angle": 0.0, "shift_x": 0.0, "shift_y": 0.0}


def grid_mask(call: DaliCall) -> DataNode:
    """``fn.grid_mask``: zero within squares that repeat every ``tile`` pixels and are ``ratio`` of that long.

    The grid is shifted by pixels, and turned by ``angle`` in radians; each argument may be a node with a number for
    each sample.
    """
    given = {name: call.take(name, default) for name, default in _DEFAULTS.items()}
    call.done()
    nodes = {name: node_of(one).cpu() for name, one in given.items() if isinstance(one, NativeNode)}
    numbers = {name: float(one) for name, one in given.items() if name not in nodes}

    def compute(values: list[Value], _: Run) -> Value:
        value, *drawn = values
        rows = {name: one.stacked(name).reshape(-1) for name, one in zip(nodes, drawn, strict=True)}
        layout = value.layout or DEFAULT_LAYOUTS.get(value.ndim, "")
        if "H" not in layout or "W" not in layout:
            raise ParameterError(
                f"samples of the layout {layout!r}", source="fn.grid_mask", allowed="layouts with H and W"
            )
        places = layout.index("H"), layout.index("W")
        parts = []
        for sample, part in enumerate(value):
            settings = {**numbers, **{name: float(row[sample]) for name, row in rows.items()}}
            kept = _kept(part.shape[places[0]], part.shape[places[1]], **settings)
            shape = [length if axis in places else 1 for axis, length in enumerate(part.shape)]
            parts.append(part * namespace(part).asarray(kept.reshape(shape)).astype(part.dtype))
        return Value.of(parts, value.layout, value.sources)

    return call.node(compute, *nodes.values(), summary=f"{numbers}")


def _kept(
    height: int, width: int, tile: float, ratio: float, angle: float, shift_x: float, shift_y: float
) -> npt.NDArray[np.bool_]:
    """Which pixels stay, in float32 as DALI computes it."""
    if not tile >= 1:
        raise ParameterError(f"tile={tile:g} is not valid", source="fn.grid_mask", allowed="1 pixel or more")
    f = np.float32
    across, down = f(np.cos(f(angle))) / f(tile), f(np.sin(f(angle))) / f(tile)
    x, y = np.arange(width, dtype=f), np.arange(height, dtype=f)[:, None]
    along, below = across * x - down * y - f(shift_x) / f(tile), down * x + across * y - f(shift_y) / f(tile)
    kept: Any = (along - np.floor(along) >= f(ratio)) | (below - np.floor(below) >= f(ratio))
    return np.asarray(kept)
