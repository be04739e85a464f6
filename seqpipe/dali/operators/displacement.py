"""``fn.water`` and ``fn.sphere``: images whose pixels are displaced by a formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run, cast_array
from ...pipeline.value import Value
from ..call import IMAGE_LAYOUTS, DaliCall, plain
from ..data_node import DataNode, node_of

__all__ = ["displaced", "sphere", "water"]

_WAVE: Final = 2 * math.pi / 128
_Places: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


def water(height: int, width: int, options: Mapping[str, float]) -> _Places:
    """Return the column and the row that each pixel of ``fn.water`` is taken from."""
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    across = options.get("ampl_x", 10.0) * np.sin(
        options.get("freq_x", _WAVE) * y + options.get("phase_x", 0.0)
    )
    down = options.get("ampl_y", 10.0) * np.cos(
        options.get("freq_y", _WAVE) * x + options.get("phase_y", 0.0)
    )
    return (x + across).astype(np.float32), (y + down).astype(np.float32)


def sphere(height: int, width: int, _: Mapping[str, float]) -> _Places:
    """Return the column and the row that each pixel of ``fn.sphere`` is taken from."""
    middle_x, middle_y = width / 2, height / 2
    x, y = np.meshgrid(np.arange(width) + 0.5 - middle_x, np.arange(height) + 0.5 - middle_y)
    distance = np.sqrt(x * x + y * y) / max(width // 2, height // 2)
    return (middle_x + distance * x).astype(np.float32), (middle_y + distance * y).astype(np.float32)


def displaced(
    places: Callable[[int, int, Mapping[str, float]], _Places], names: tuple[str, ...] = ()
) -> Callable[[DaliCall], DataNode]:
    """Return the builder of an operator that moves pixels.

    Args:
        places: returns the column and the row that each pixel is taken from, of height, width and options.
        names: the options.
    """

    def build(call: DaliCall) -> DataNode:
        options = {name: float(value) for name in names if (value := call.take(name)) is not None}
        kind = plain("interp_type", call.take("interp_type", "nearest"))
        if kind not in ("nearest", "linear"):
            raise call.wrong(f"interp_type={kind!r}", allowed="types.INTERP_NN, types.INTERP_LINEAR")
        mask, fill = call.take("mask", 1), call.take("fill_value", 0.0)
        if isinstance(fill, NativeNode):
            raise call.wrong("fill_value is a node", allowed="a number")
        call.done()

        def compute(values: list[Value], _: Run) -> Value:
            value = values[0]
            layout = value.layout or IMAGE_LAYOUTS.get(value.ndim, "")
            if layout[-3:] != "HWC":
                raise ParameterError(
                    f"samples of layout {layout!r}", source=f"fn.{call.row.name}", allowed="HWC or FHWC"
                )
            parts = []
            for part, acts in zip(value, values[1].on_host(), strict=True):
                found = places(part.shape[-3], part.shape[-2], options)
                parts.append(_sampled(part, found, kind == "linear", float(fill)) if np.any(acts) else part)
            return Value.of(parts, value.layout, value.sources)

        return call.node(compute, node_of(mask).cpu(), summary=f"{options} {kind} {fill}")

    return build


def _sampled(part: Array, places: _Places, linear: bool, fill: float) -> Array:
    """Return images ``(…, H, W, C)`` with displaced pixels, ``fill`` outside; pixel centers are at n + 0.5."""
    xp = namespace(part)
    height, width = part.shape[-3:-1]
    x, y = (xp.asarray(one) for one in places)

    def pixels(rows: Array, columns: Array) -> Array:
        inside = (columns >= 0) & (rows >= 0) & (columns < width) & (rows < height)
        found = part[..., xp.where(inside, rows, 0), xp.where(inside, columns, 0), :]
        return xp.where(inside[..., None], found, level)

    level = cast_array(xp.asarray(fill), part.dtype.name)
    if not linear:
        return pixels(xp.floor(y).astype(int), xp.floor(x).astype(int))
    left, top = xp.floor(x - 0.5).astype(int), xp.floor(y - 0.5).astype(int)
    across, down = (x - 0.5 - left)[..., None], (y - 0.5 - top)[..., None]
    upper = pixels(top, left) * (1 - across) + pixels(top, left + 1) * across
    lower = pixels(top + 1, left) * (1 - across) + pixels(top + 1, left + 1) * across
    return cast_array(upper * (1 - down) + lower * down, part.dtype.name)
