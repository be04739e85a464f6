"""``fn.resize``, ``fn.random_resized_crop`` and ``fn.resize_crop_mirror``: images and volumes resampled to a size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import namespace
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ...pipeline.value import Value
from ..call import IMAGE_LAYOUTS, DaliCall, native, plain
from ..data_node import DataNode, node_of
from ..dtypes import DALIInterpType
from .volumes import resized
from .windows import window_sides

__all__ = ["random_resized_crop", "resize", "resize_crop_mirror"]

_BOTH: Final = "Antialiased INTERP_LINEAR is INTERP_TRIANGULAR where images shrink"


def resize(call: DaliCall) -> Any:
    """``fn.resize``: also of volumes, with nodes as sizes, ``min_filter``, ``mag_filter`` and ``save_attrs``."""
    size, mirrored = call.take("size"), ""
    if isinstance(size, NativeNode) or any(isinstance(one, NativeNode) for one in _listed(size)):
        call.args |= {"resize_y": size[0], "resize_x": size[1]}
    elif size is not None:
        sides = [float(one) for one in np.atleast_1d(size)]
        letters = "DHW"[-len(sides) :] if len(sides) > 1 else "DHW"
        mirrored = "".join(c for c, side in zip(letters, sides, strict=False) if side < 0)
        size = [abs(side) for side in sides]
        sides = size * 2 if len(size) == 1 else size
        if len(sides) == 2 and min(sides) > 0:
            call.args["size"] = tuple(round(side) for side in sides)
        elif len(sides) == 2:
            options = {"resize_y": sides[0], "resize_x": sides[1]}
            call.args |= {name: side for name, side in options.items() if side > 0}
    for name in ("resize_x", "resize_y", "resize_z", "resize_shorter", "resize_longer"):
        if isinstance(call.args.get(name), (int, float)) and not call.args[name]:
            call.args.pop(name)
    filters = _filters_of(call)
    saves = bool(call.take("save_attrs", False))
    if isinstance(call.args.get("max_size"), (list, tuple)):
        call.args["max_size"] = int(min(call.args["max_size"]))
    calls = [replace(call, args={**call.args, "interp_type": one}) for one in filters]
    results = [_resized_node(one, size) for one in calls]
    result = results[0]
    if len(results) > 1:
        result = DataNode("filter", [call.input(), *results], _by_direction, device=result.device)
    if mirrored:
        result = DataNode(
            "mirror", [result], partial(_mirrored, mirrored), device=result.device, summary=mirrored
        )
    return (result, DataNode("sizes", [call.input()], _sizes)) if saves else result


def _filters_of(call: DaliCall) -> list[Any]:
    """Return the filters for smaller and for larger results: one if both give the same result."""
    general = call.take("interp_type", DALIInterpType.INTERP_LINEAR)
    pair = [call.take("min_filter", general), call.take("mag_filter", general)]
    antialiased = call.args.get("antialias") in (None, True)
    # antialiased linear interpolation is the triangular filter
    same = {DALIInterpType.INTERP_TRIANGULAR: DALIInterpType.INTERP_LINEAR} if antialiased else {}
    if same.get(pair[0], pair[0]) == same.get(pair[1], pair[1]):
        return pair[:1]
    if call.args.get("roi_start") is not None:
        raise call.wrong("min_filter and mag_filter differ, and roi_start is given", allowed="interp_type")
    return pair


def _by_direction(values: list[Value], _: Run) -> Value:
    """Return for each sample the smaller or the larger result, by the sizes of the sample and of its results.

    Raises:
        ParameterError: one axis of a sample shrinks and another grows.
    """
    source, *results = values
    axes = [axis for axis, letter in enumerate(results[0].layout) if letter in "DHW"]
    parts = []
    for before, *pair in zip(source, *results, strict=True):
        changes = [pair[0].shape[axis] - before.shape[axis] for axis in axes]
        if min(changes) < 0 < max(changes):
            raise ParameterError(
                f"min_filter and mag_filter differ, and a sample of shape {before.shape} becomes {pair[0].shape}",
                source="fn.resize",
                allowed="one filter (interp_type) where one axis shrinks and another grows",
            )
        parts.append(pair[max(changes) > 0])
    return Value.of(parts, results[0].layout, results[0].sources)


def _resized_node(call: DaliCall, size: Any) -> DataNode:
    """Return the node of ``fn.resize`` for images or volumes, or of volumes only if the size has slices."""
    depth = call.take("resize_z")

    def volumes(value: Value, settings: Mapping[str, Any]) -> Value | None:
        if "D" not in value.layout:
            return None
        if isinstance(size, NativeNode):
            raise call.wrong(
                "the size of volumes is a node",
                allowed="numbers, or nodes as resize_z, resize_y and resize_x",
            )
        sides = size if isinstance(size, list) else settings.get("size")
        return resized(value, {**settings, "size": sides})

    if depth is None and not (isinstance(size, list) and len(size) > 2):
        return native(call, call.row.to or call.row.name, instead=volumes, compat="dali")  # type: ignore[no-any-return]
    names = (
        "resize_y",
        "resize_x",
        "mode",
        "interp_type",
        "antialias",
        "dtype",
        "roi_start",
        "subpixel_scale",
    )
    options = {"resize_z": depth, **{name: call.take(name) for name in names}}
    call.done()
    nodes = {name: node_of(one).cpu() for name, one in options.items() if isinstance(one, NativeNode)}
    constants = {
        name: plain(name, one) for name, one in options.items() if name not in nodes and one is not None
    }

    def compute(values: list[Value], _: Run) -> Value:
        value = (
            values[0]
            if values[0].layout or values[0].ndim != 4
            else values[0].with_data(values[0].data, "DHWC")
        )
        result = volumes(value, {**constants, **dict(zip(nodes, values[1:], strict=True))})
        if result is None:
            raise ParameterError(
                f"a size with slices, for samples of layout {value.layout!r}",
                source="fn.resize",
                allowed="volumes: DHWC, CDHW or DHW",
            )
        return result

    return call.node(compute, *nodes.values(), summary=f"{size} {constants}")


def _mirrored(letters: str, values: list[Value], _: Run) -> Value:
    value = values[0]
    layout = value.layout or IMAGE_LAYOUTS[value.ndim]
    axes = tuple(layout.index(letter) for letter in letters if letter in layout)
    return value.each(lambda part: namespace(part).flip(part, axes))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _sizes(values: list[Value], _: Run) -> Value:
    """Return rows and columns of each image, the output of ``save_attrs``."""
    layout = values[0].layout or IMAGE_LAYOUTS[values[0].ndim]
    sides = [[shape[layout.index(letter)] for letter in "HW"] for shape in values[0].shapes()]
    return Value(np.asarray(sides, np.int32))


def random_resized_crop(call: DaliCall) -> DataNode:
    """``fn.random_resized_crop``: one number as size stands for both sides.

    ``min_filter`` and ``mag_filter`` must give the same result, since a drawn window may shrink along one axis and grow
    along the other.
    """
    filters = _filters_of(call)
    if len(filters) > 1:
        raise call.wrong(
            "min_filter and mag_filter differ", allowed="one filter for both, or interp_type", advice=_BOTH
        )
    call.args["interp_type"] = filters[0]
    size = call.args.get("size")
    if size is not None and not isinstance(size, NativeNode) and np.size(size) == 1:
        call.args["size"] = (int(np.ravel(size)[0]),) * 2
    return native(call, compat="dali")  # type: ignore[no-any-return]


def resize_crop_mirror(call: DaliCall) -> Any:
    """``fn.resize_crop_mirror``: ``mirror`` is 1 for left to right, 2 for top to bottom, 3 for both."""
    if sides := window_sides(call):
        call.args["crop"] = tuple(sides)
    mirror = call.args.get("mirror")
    if isinstance(mirror, NativeNode) or mirror not in (2, 3):
        return resize(call)
    call.args["mirror"] = bool(mirror & 1)
    result = resize(call)
    return DataNode("mirror", [result], partial(_mirrored, "H"), device=result.device, summary="H")
