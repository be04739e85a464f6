"""Windows of samples: ``fn.slice``, and ``fn.crop`` of windows that reach past the edges of a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ..call import stacked_nodes
from ..data_node import DataNode, node_of, outputs_of
from ..declared import IMAGE_LAYOUTS, DaliCall, operator
from ..dtypes import converted
from ..sources.mapped import views
from ..value import Value
from .arrays import axes_of

__all__ = ["crop_window", "fill_levels", "slice_", "window_sides"]

_POLICIES = ("error", "pad", "trim_to_shape")


@operator("slice", passes=True, accept=("image_type",))
def slice_(call: DaliCall) -> DataNode:
    """``fn.slice``: a window along some axes, by its start and its end or shape, absolute or relative.

    ``axes`` of no elements are all axes.
    """
    inputs, data, source = call.inputs, call.inputs[:1], f"fn.{call.row.name}"
    # whether positional anchors and shapes are relative to the axis; integers are pixels in any case
    shares = {
        "anchor": bool(call.take("normalized_anchor", True)),
        "extent": bool(call.take("normalized_shape", True)),
    }
    arguments: dict[str, Any] = dict(zip(shares, inputs[1:], strict=False))
    for name in ("start", "end", "shape", "rel_start", "rel_end", "rel_shape"):
        if (bound := call.take(name)) is not None:
            arguments[name] = bound
    _check_single(call, arguments)
    axes, names = call.take("axes"), call.take("axis_names")
    if axes is None and names is None:
        names = "WH"
    policy, fill = _policy(call)
    kind = call.take("dtype")
    call.done()
    if isinstance(axes, DataNode):
        arguments["axes"] = axes
    nodes = {name: node_of(value).cpu() for name, value in arguments.items()}

    def compute(values: list[Value], _: Run) -> Value:
        value, settings = values[0], dict(zip(nodes, values[1:], strict=True))
        axes_of_samples = settings.pop("axes", None)
        # as in DALI, positional shares are scaled in double precision, named ones in single precision
        precision = np.float64 if "anchor" in settings else np.float32
        for name, absolute in (("anchor", "start"), ("extent", "shape")):
            if name in settings:
                bound = settings.pop(name)
                share = shares[name] and bound.dtype.kind == "f"
                settings[f"rel_{absolute}" if share else absolute] = bound
        if axes is None and not value.layout and value.ndim >= 2:
            value = value.with_data(value.data, IMAGE_LAYOUTS.get(value.ndim, ""))

        places = _places(value, axes, names, source) if axes_of_samples is None else ()
        arrays = []
        for n, array in enumerate(value):
            if axes_of_samples is not None:
                places = _places(value, axes_of_samples[n], names, source)
            bounds = {
                name: np.atleast_1d(setting[n]).astype(np.float64) for name, setting in settings.items()
            }
            bounds = {name: numbers for name, numbers in bounds.items() if numbers.size}
            starts, ends = _bounds(array.shape, places, bounds, precision)
            arrays.append(
                _window(array, starts, ends, policy, fill_levels(fill, value, source), source, kind)
            )
        return views(arrays, values[0].layout, value.sources)

    return call.node(compute, *nodes.values(), inputs=data, summary=f"{axes} {names} {policy} {fill}")


def _check_single(call: DaliCall, arguments: Mapping[str, Any]) -> None:
    """Check that no end of a window is given twice."""
    for sides in (("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")):
        if len(double := [name for name in sides if name in arguments]) > 1:
            raise call.wrong(f"{' and '.join(double)} are given", allowed=f"one of {', '.join(sides)}")


def _places(value: Value, axes: Any, names: Any, source: str) -> tuple[int, ...]:
    """Return the axes of a window; all, if there are neither numbers nor letters."""
    if axes is None and value.layout:
        return axes_of(value, None, names, source)
    every = axes is None or not np.size(axes)
    return axes_of(value, range(value.ndim) if every else axes, None, source)


def crop_window(call: DaliCall, *, trims: bool = False) -> DataNode | None:
    """Cut the window of ``fn.crop`` and similar operators, unless the operator itself gives the same result.

    The operator's own window has two sides, which are the same for all samples; it lies within the image, and its
    position is rounded. Here it may have a depth, differ by sample, reach past the edges, or be truncated.

    Args:
        call: the call.
        trims: whether a window that reaches past the edges is cut there, so that the caller adds the margins.

    Returns:
        The margins: pixels of the window before and after the sample along slices, rows and columns ``(3, 2)``. None
        if no window was cut; otherwise the arguments of its sides and position are removed.

    Raises:
        ParameterError: a policy or a rounding is unknown, or some sides of the window are missing.
    """
    policy, fill = _policy(call)
    rounding = call.take("rounding", "round")
    if rounding not in ("round", "truncate"):
        raise call.wrong(f"rounding={rounding!r}", allowed="'round', 'truncate'")
    sides = window_sides(call)
    depth = call.take("crop_pos_z", 0.5)
    fixed = isinstance(sides, list) and not any(isinstance(element, NativeNode) for element in sides)
    if sides is None or (policy == "error" and rounding == "round" and fixed and len(sides) == 2):
        if sides is not None:
            call.args["crop"] = tuple(sides)
        return None
    kind = call.take("dtype") if call.row.name == "crop" else None
    cuts, pads = policy, policy == "pad"
    if trims and pads:
        cuts, fill = "trim_to_shape", 0
    places = [depth, call.take("crop_pos_y", 0.5), call.take("crop_pos_x", 0.5)]
    size = stacked_nodes(sides) if isinstance(sides, list) else sides.cpu()
    source = f"fn.{call.row.name}"

    def compute(values: list[Value], _: Run) -> tuple[Value, ...]:
        value, count = values[0], int(np.size(values[1][0]))
        letters = "DHW"[-count:]
        layout = value.layout or {**IMAGE_LAYOUTS, 4: "DHWC" if count > 2 else "FHWC"}[value.ndim]
        if "D" not in layout:  # three sides of sequences are frames, rows and columns
            letters = letters.replace("D", "F")
        if missing := [letter for letter in letters if letter not in layout]:
            raise ParameterError(
                f"a window with {count} sides of samples of layout {layout!r}",
                source=source,
                allowed=f"samples with the axis {missing[0]}",
            )
        value, levels = value.with_data(value.data, layout), fill_levels(fill, value, source)
        arrays, margins = [], np.zeros((len(value), 3, 2), np.int64)
        for n, array in enumerate(value):
            extents = np.reshape(values[1][n], -1).tolist()
            positions = [float(np.reshape(item[n], -1)[0]) for item in values[-count:]]
            starts, ends = [0] * array.ndim, list(array.shape)
            for letter, extent, position in zip(letters, extents, positions, strict=True):
                axis, side = layout.index(letter), int(extent)
                free = position * (array.shape[axis] - side)
                starts[axis] = math.trunc(free) if rounding == "truncate" else _rounded(free)
                ends[axis] = starts[axis] + side
                margin = max(-starts[axis], 0), max(ends[axis] - array.shape[axis], 0)
                margins[n, "DHW".index(letter.replace("F", "D"))] = margin if pads else 0
            arrays.append(_window(array, starts, ends, cuts, levels, source, kind))
        return views(arrays, layout, value.sources), Value(margins)

    summary = f"{sides if fixed else ''} {places} {cuts} {fill} {rounding} {kind}"
    nodes = [call.input(), size, *(node_of(entry).cpu() for entry in places)]
    node = DataNode("window", nodes, compute, device=call.input().device, summary=summary)
    window, margins = outputs_of(node, 2)
    call.inputs = [window]
    margins.device = "cpu"
    return margins


def window_sides(call: DaliCall) -> Any:
    """Remove the sides of a window from the arguments: rows and columns, or slices, rows and columns.

    Returns:
        A list of the sides, numbers or nodes; a node of all sides; None for no window.

    Raises:
        ParameterError: some sides are missing.
    """
    whole = call.take("crop")
    sides = [call.take(f"crop_{letter}") for letter in "dhw"]
    if isinstance(whole, NativeNode):
        return node_of(whole)
    if whole is not None:
        sides = list(whole) if np.ndim(whole) else [whole] * 2
    elif all(entry is None for entry in sides):
        return None
    elif sides[0] is None:
        del sides[0]
    if any(item is None for item in sides):
        raise call.wrong(
            "some sides of the window are missing", allowed="crop_h and crop_w, or crop=(height, width)"
        )
    return [side if isinstance(side, NativeNode) else int(side) for side in sides]


def _policy(call: DaliCall) -> tuple[str, Any]:
    policy, fill = call.take("out_of_bounds_policy", "error"), call.take("fill_values", 0)
    if policy not in _POLICIES:
        raise call.wrong(
            f"out_of_bounds_policy={policy!r} is not valid", allowed=", ".join(map(repr, _POLICIES))
        )
    return policy, fill


def fill_levels(fill: Any, value: Value, source: str) -> Any:
    """Return one fill value, or one for each channel, broadcastable to a sample.

    Raises:
        ParameterError: samples have another number of channels.
    """
    levels = np.atleast_1d(np.asarray(fill))
    if levels.size == 1:
        return levels.reshape(-1)[0]
    axis = value.layout.index("C") if "C" in value.layout else value.ndim - 1
    channels = {shape[axis] for shape in value.shapes()}
    if channels != {levels.size}:
        raise ParameterError(
            f"fill_values has {levels.size} values for {sorted(channels)} channels",
            source=source,
            allowed="one value, or one for each channel",
        )
    return levels.reshape([-1 if n == axis else 1 for n in range(value.ndim)])


def _rounded(position: float) -> int:
    """Return the nearest integer, half away from zero, as DALI rounds positions."""
    return math.floor(position + 0.5) if position >= 0 else math.ceil(position - 0.5)


def _bounds(
    shape: tuple[int, ...], axes: tuple[int, ...], bounds: dict[str, Any], precision: type[np.floating[Any]]
) -> tuple[list[int], list[int]]:
    """Return start and end of a window along some axes.

    As in DALI, relative starts and ends are scaled in ``precision``; an end that is a start and a shape, in double
    precision.
    """
    starts, ends = [0] * len(shape), list(shape)

    def bound(at: dict[str, Any], name: str, length: int, kind: Any, otherwise: float) -> float:
        if f"rel_{name}" in at:
            return float(kind(at[f"rel_{name}"]) * kind(length))
        return float(at.get(name, otherwise))

    for n, axis in enumerate(axes):
        length = shape[axis]
        at = {name: values[n if len(values) > 1 else 0] for name, values in bounds.items()}
        if at.keys() & {"shape", "rel_shape"}:
            sides = (bound(at, name, length, np.float64, 0) for name in ("start", "shape"))
            ends[axis] = _rounded(sum(sides))
        else:
            ends[axis] = _rounded(bound(at, "end", length, precision, length))
        starts[axis] = _rounded(bound(at, "start", length, precision, 0))
    return starts, ends


def _window(
    array: Array, starts: list[int], ends: list[int], policy: str, levels: Any, source: str, kind: Any = None
) -> Array:
    """Return a window of a sample, of a type unless it is None; fill values are those of the result."""
    bounds = list(zip(starts, ends, array.shape, strict=True))
    outside = [(n, s, e, extent) for n, (s, e, extent) in enumerate(bounds) if s < 0 or e > extent]
    if outside and policy == "error":
        axis, start, end, extent = outside[0]
        raise ParameterError(
            f"a window from {start} to {end} of axis {axis}, which has the length {extent}",
            source=source,
            allowed="windows within the sample",
            advice="Give out_of_bounds_policy='pad' or 'trim_to_shape'",
        )
    within = [(max(s, 0), max(min(e, extent), max(s, 0))) for s, e, extent in bounds]
    inner = array[tuple(slice(s, e) for s, e in within)]
    if kind is not None:
        inner = converted(inner, kind)
    if not outside or policy == "trim_to_shape":
        return inner
    xp = namespace(array)
    result = xp.empty([e - s for s, e, _ in bounds], inner.dtype)
    result[...] = converted(xp.asarray(levels), inner.dtype.name)
    result[tuple(slice(a - s, b - s) for (a, b), (s, _, _) in zip(within, bounds, strict=True))] = inner
    return result
