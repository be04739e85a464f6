"""``fn.tensor_resize``: arrays of any shape resampled along any of their axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ...array import Array, namespace
from ...ops import REGISTRY, Run
from ...ops import DataNode as NativeNode
from ..call import plain
from ..data_node import DataNode, node_of
from ..declared import DaliCall, Kind, operator
from ..dtypes import converted
from ..value import Value
from .arrays import axes_of
from .volumes import sides_and_scales

__all__: list[str] = []

_ROUNDINGS: Final[Mapping[str, Callable[[float], int]]] = {
    "round": round,
    "truncate": math.floor,
    "floor": math.floor,
    "ceil": math.ceil,
}
"""How sizes that are no whole numbers become whole."""


@operator(
    "tensor_resize",
    passes=True,
    refuse={
        **dict.fromkeys(("min_filter", "mag_filter"), "interp_type is for both directions"),
        **dict.fromkeys(("roi_start", "roi_end", "roi_relative"), "fn.slice cuts regions"),
        "max_size": "mode='not_larger' limits sizes",
    },
)
def _tensor_resize(
    call: DaliCall,
    *,
    axes: Any = None,
    axis_names: Any = None,
    mode: Any = "default",
    subpixel_scale: bool = True,
    size_rounding: Any = "round",
    alignment: Any = 0.5,
    dtype: Kind = None,
) -> DataNode:
    """``fn.tensor_resize``: to ``sizes`` or by ``scales``, of all axes or of some; linear by default, antialiased."""
    arguments = {name: call.take(name) for name in ("sizes", "scales") if call.args.get(name) is not None}
    names, rounding, kind = axis_names, size_rounding, dtype
    if rounding not in _ROUNDINGS:
        raise call.wrong(f"size_rounding={rounding!r}", allowed=", ".join(map(repr, _ROUNDINGS)))
    options = {
        name: plain(name, value)
        for name in ("interp_type", "antialias")
        if (value := call.take(name)) is not None
    }
    call.done()
    if len(arguments) != 1:
        raise call.wrong("how large?", allowed="one of sizes and scales")
    if axes is not None and names is not None:
        raise call.wrong("axes and axis_names are given", allowed="one of both")
    ((name, number),) = arguments.items()
    if isinstance(number, (list, tuple)) and any(isinstance(one, NativeNode) for one in number):
        raise call.wrong(f"{name} has nodes among its values", allowed="numbers, or one node")

    def compute(values: list[Value], _: Run) -> Value:
        value, wanted, points = values
        places = tuple(range(value.ndim))
        if axes is not None or names is not None:
            places = axes_of(value, axes, names, "fn.tensor_resize")
        parts = []
        for part, numbers, point in zip(value, wanted.on_host(), points.on_host(), strict=True):
            requested = np.ravel(numbers).astype(np.float64)
            if requested.size not in (1, len(places)):
                raise call.fault(
                    f"{name} has {requested.size} values", allowed=f"one value, or {len(places)}"
                )
            extents = [part.shape[axis] for axis in places]
            targets = np.broadcast_to(requested, len(places)) * (extents if name == "scales" else 1)
            sides, scales = sides_and_scales(extents, targets.tolist(), mode, subpixel_scale=True)
            if rounding != "round":
                exact = [scale * extent for scale, extent in zip(scales, extents, strict=True)]
                sides = [max(_ROUNDINGS[rounding](round(side, 6)), 1) for side in exact]
            if not subpixel_scale:
                scales = [side / extent for side, extent in zip(sides, extents, strict=True)]
            at = np.broadcast_to(np.ravel(point).astype(float), len(places)).tolist()
            takes = options.get("interp_type") == "nearest"
            resized = part if takes else part.astype(np.float32)
            for axis, side, scale, fixed in zip(places, sides, scales, at, strict=True):
                resized = _along(resized, axis, side, scale, fixed, options)
            parts.append(converted(resized, kind or part.dtype.name))
        return Value.of(parts, value.layout, value.sources)

    return call.node(
        compute,
        node_of(number).cpu(),
        node_of(alignment).cpu(),
        summary=f"{name} {options}",
    )


def _along(part: Array, axis: int, side: int, scale: float, fixed: float, options: dict[str, Any]) -> Array:
    """Resample one axis to a number of positions by a scale; the fixed point is a share of the axis."""
    extent = part.shape[axis]
    if side == extent and scale == 1:
        return part
    xp = namespace(part)
    front = xp.moveaxis(part, axis, 0)
    rest = max(front.size // max(extent, 1), 1)
    start = fixed * (extent - side / scale)
    op: Any = REGISTRY["resize"](
        size=(side, rest),
        roi_start=(start, 0.0),
        roi_end=(start + side / scale, float(rest)),
        dtype=part.dtype.name,
        compat="dali",
        **options,
    )
    resampled = op(xp.ascontiguousarray(front.reshape(extent, rest, 1)), layout="HWC")
    return xp.moveaxis(resampled.reshape(side, *front.shape[1:]), 0, axis)
