"""DALI's image operators whose arguments differ from those of seqpipe's operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import LAYOUTS, Array, namespace
from ...errors import ParameterError
from ...ops import REGISTRY, Run
from ...ops import DataNode as NativeNode
from ..call import BORDERS, check_known, native, plain
from ..data_node import DataNode, node_of
from ..declared import IMAGE_LAYOUTS, DaliCall, Kind, image_layout, operator
from ..dtypes import converted, dtype_name
from ..sources.mapped import is_mapped, owned
from ..sources.staging import Staging
from ..value import Value
from .arrays import axes_of
from .volumes import blurred
from .windows import crop_window, fill_levels

__all__: list[str] = []

_FLIPS: Final = {"D": "depthwise", "H": "vertical", "W": "horizontal"}
_WINDOW: Final = ("rounding", "image_type")
"""Arguments of windows that are accepted here, and read where the window is cut."""


@operator("crop", passes=True, accept=_WINDOW)
def _crop(call: DaliCall) -> DataNode:
    """``fn.crop``."""
    if crop_window(call) is None:
        return native(call)  # type: ignore[no-any-return]
    call.done()
    return call.node(lambda values, _: values[0])


@operator("crop_mirror_normalize", passes=True, accept=_WINDOW, renamed={"output_dtype": "dtype"})
def _crop_mirror_normalize(call: DaliCall) -> DataNode:
    """``fn.crop_mirror_normalize``: float32 ``CHW`` by default; fill values are not normalized."""
    fill = call.args.get("fill_values", 0) if call.args.get("out_of_bounds_policy") == "pad" else 0
    mirror, margins = call.args.get("mirror", 0), crop_window(call, trims=True)
    layout, padded = str(call.take("output_layout", "CHW")).replace("N", ""), call.take("pad_output", False)
    moved = bool({*"FD"} & {*layout[1:]})  # frames or slices are not the first axis
    call.args["output_layout"] = "HWC" if moved else layout.lstrip("FD") or None
    by_sample = any(isinstance(call.args.get(name), NativeNode) for name in ("mean", "std"))
    result: DataNode = _normalized_by_sample(call) if by_sample else native(call)
    if padded:
        result = DataNode("channels", [result], lambda v, _: _channels(v[0], fill), device=result.device)
    if moved:
        result = DataNode(
            "transpose", [result], lambda v, _: _ordered(v[0], layout), device=result.device, summary=layout
        )
    if margins is None:
        return result
    inputs, surround = [result, margins, node_of(mirror).cpu()], partial(_surrounded, fill)
    return DataNode("margins", inputs, surround, device=result.device, summary=f"{fill}")


def _normalized_by_sample(call: DaliCall) -> DataNode:
    """Return cropped images, with the mean and the standard deviation of each sample in nodes."""
    numbers = [
        call.take("mean", 0.0),
        call.take("std", 1.0),
        call.take("scale", 1.0),
        call.take("shift", 0.0),
    ]
    nodes = [
        node_of(np.asarray(number, np.float32) if not isinstance(number, NativeNode) else number).cpu()
        for number in numbers
    ]
    kind = dtype_name(call.take("dtype", "float32"))
    images: DataNode = native(call, dtype="float32")

    def compute(values: list[Value], _: Run) -> Value:
        value, arrays = values[0], []
        axis = value.layout.index("C")
        for array, *row in zip(*values, strict=True):
            xp = namespace(array)
            sides = [-1 if n == axis else 1 for n in range(array.ndim)]
            mean, std, scale, shift = (xp.asarray(item, np.float32).reshape(sides) for item in row)
            arrays.append(converted((array - mean) * (scale / std) + shift, kind))
        return Value.of(arrays, value.layout, value.sources)

    return DataNode("normalize", [images, *nodes], compute, device=images.device, summary=kind)


def _surrounded(fill: Any, values: list[Value], _: Run) -> Value:
    """Add the margins of windows that reach past the edges of their samples, which may be mirrored."""
    value, margins, mirrors = values
    if not margins.data.any():
        return value
    channels = value.shapes()[0][value.layout.index("C")]
    if 1 < np.size(fill) < channels:  # as in DALI, the other channels are filled with 0
        fill = [*np.ravel(fill), *[0] * (channels - np.size(fill))]
    levels, arrays = fill_levels(fill, value, "fn.crop_mirror_normalize"), []
    for array, widths, mirrored in zip(value, margins, mirrors.on_host(), strict=True):
        xp, sides = namespace(array), [(0, 0)] * array.ndim
        for letter, (before, after) in zip("DHW", widths.tolist(), strict=True):
            axis = (
                value.layout.find(letter)
                if letter in value.layout or letter != "D"
                else value.layout.find("F")
            )
            if axis >= 0:
                swaps = letter == "W" and np.any(mirrored)
                sides[axis] = (after, before) if swaps else (before, after)
        extents = [side + a + b for side, (a, b) in zip(array.shape, sides, strict=True)]
        result = xp.empty(extents, array.dtype)
        result[...] = converted(xp.asarray(levels), array.dtype.name)
        inner = (slice(a, a + side) for side, (a, _) in zip(array.shape, sides, strict=True))
        result[tuple(inner)] = array
        arrays.append(result)
    return Value.of(arrays, value.layout, value.sources)


def _channels(value: Value, fill: Any) -> Value:
    """Pad the channels of images to a power of two."""
    axis = value.layout.index("C")

    def computed(array: Array) -> Array:
        count, xp = array.shape[axis], namespace(array)
        levels = np.resize(np.atleast_1d(fill), 1 << (count - 1).bit_length())[count:]
        more = xp.empty(
            [len(levels) if n == axis else side for n, side in enumerate(array.shape)], array.dtype
        )
        for number, level in enumerate(levels):
            xp.moveaxis(more, axis, 0)[number] = level
        return xp.concatenate([array, more], axis)

    return value.each(computed)


def _ordered(value: Value, layout: str) -> Value:
    """Transpose sequences to another layout."""
    if sorted(layout) != sorted(value.layout):
        raise ParameterError(
            f"output_layout={layout!r} of samples of layout {value.layout!r}",
            source="fn.crop_mirror_normalize",
            allowed="the same axes in any order",
        )
    order = [value.layout.index(letter) for letter in layout]
    return value.each(lambda array: array.transpose(order), layout)


@operator("erase", passes=True)
def _erase(call: DaliCall, *, axes: Any = None, axis_names: Any = "HW") -> DataNode:
    """``fn.erase``: regions along rows and columns, or along any axes."""
    names = axis_names
    if axes is not None or names != "HW":
        return _erased(call, axes, names)
    corner, size = call.args.get("anchor"), call.args.get("shape")
    if isinstance(corner, (list, tuple)) and isinstance(size, (list, tuple)) and len(corner) > 2:
        # further regions, each two numbers of the one and two of the other
        pairs = zip(range(0, len(corner), 2), range(0, len(size), 2), strict=True)
        first, *rest = [(*corner[a : a + 2], *size[b : b + 2]) for a, b in pairs]
        call.args |= {
            "anchor": first[:2],
            "shape": first[2:],
            "more": [number for region in rest for number in region],
        }
    return native(call)  # type: ignore[no-any-return]


def _erased(call: DaliCall, axes: Any, names: str) -> DataNode:
    """Erase regions along other axes than rows and columns; bounds are rounded down, as in DALI."""
    both = bool(call.take("normalized", False))
    shares = [bool(call.take(f"normalized_{what}", both)) for what in ("anchor", "shape")]
    centered, fill = bool(call.take("centered_anchor", False)), call.take("fill_value", 0)
    corners, sizes = (node_of(call.take(what)).cpu() for what in ("anchor", "shape"))
    call.done()

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        if not value.layout:
            value = value.with_data(value.data, IMAGE_LAYOUTS.get(value.ndim, ""))
        places = axes_of(value, axes, None if axes is not None else names, "fn.erase")
        levels = fill_levels(fill, value, "fn.erase")
        arrays = []
        for array, *numbers in zip(value, values[1], values[2], strict=True):
            erased, extents = array.copy(), [array.shape[axis] for axis in places]
            corner, size = (
                np.reshape(number, (-1, len(places))).astype(np.float64) * (extents if share else 1)
                for number, share in zip(numbers, shares, strict=True)
            )
            for start, length in zip(corner - size / 2 if centered else corner, size, strict=True):
                region = [slice(None)] * array.ndim
                for axis, low, side in zip(places, start, length, strict=True):
                    region[axis] = slice(max(int(low), 0), max(int(low + side), 0))
                erased[tuple(region)] = converted(namespace(array).asarray(levels), array.dtype.name)
            arrays.append(erased)
        return Value.of(arrays, value.layout, value.sources)

    summary = f"{axes} {names} {shares} {centered} {fill}"
    return call.node(compute, corners, sizes, summary=summary)


@operator("flip", passes=True, defaults={"horizontal": 1})
def _flip(call: DaliCall) -> DataNode:
    """``fn.flip``: mirrors rows, columns and slices of volumes, but not frames of videos, as in DALI."""
    backwards = call.take("depthwise", 0)
    if not isinstance(backwards, NativeNode) and not backwards:
        return native(call, instead=partial(_flipped_views, Staging()))  # type: ignore[no-any-return]
    call.args["depthwise"] = backwards
    acts = {letter: node_of(call.take(name, 0)).cpu() for letter, name in _FLIPS.items()}
    call.done()
    memory = Staging()

    def compute(values: list[Value], _: Run) -> Value:
        return _flipped(memory, values[0], dict(zip(acts, values[1:], strict=True)))

    return call.node(compute, *acts.values(), summary="depthwise")


def _flipped_views(memory: Staging, value: Value, settings: Mapping[str, Any]) -> Value | None:
    """Mirror views of mapped files while they are copied; return None for other samples."""
    if value.dense or not any(map(is_mapped, value)):
        return None
    return _flipped(memory, value, {letter: settings.get(name, 0) for letter, name in _FLIPS.items()})


def _flipped(memory: Staging, value: Value, acts: Mapping[str, Any]) -> Value:
    """Mirror samples along some axes by one copy."""
    layout = image_layout(value)
    flags = {
        letter: flag.on_host() if isinstance(flag, Value) else [flag] * len(value)
        for letter, flag in acts.items()
    }
    arrays = []
    for number, array in enumerate(value):
        axes = [layout.index(c) for c, item in flags.items() if c in layout and np.any(item[number])]
        arrays.append(namespace(array).flip(array, axes) if axes else array)
    if value.on_gpu:
        return Value.of(arrays, value.layout, value.sources)
    if len({(array.shape, array.dtype) for array in arrays}) == 1:
        return value.with_data(memory.copy(arrays))
    return owned(Value(arrays, value.layout, value.sources))


@operator("gaussian_blur", passes=True)
def _gaussian_blur(call: DaliCall) -> DataNode:
    """``fn.gaussian_blur``: also of volumes, and with sigma or window size for each axis, slices or rows first."""
    constants = {
        name: value for name in ("sigma", "window_size") if (value := call.args.get(name)) is not None
    }
    if all(isinstance(setting, NativeNode) or np.size(setting) == 1 for setting in constants.values()):
        return native(call, instead=blurred)  # type: ignore[no-any-return]
    if any(isinstance(item, NativeNode) for item in constants.values()):
        raise call.wrong("one of sigma and window_size is a node", allowed="both are nodes, or none is")
    kind = call.take("dtype")
    call.args = {name: value for name, value in call.args.items() if name not in constants}
    call.done()
    settings = {**constants, "dtype": None if kind is None else dtype_name(kind)}
    return call.node(lambda v, _: blurred(v[0], settings), summary=f"{settings}")


@operator(
    "filter",
    passes=True,
    renamed={"border": "pad_mode"},
    values={"pad_mode": BORDERS},
    inputs=("kernel", "fill_value"),
)
def _filtered(call: DaliCall, *, mode: Any = "same", kernel: Any = None) -> DataNode:
    """``fn.filter``: the second input is the kernel, for all samples or for each; the third the fill value."""
    if mode not in ("same", "valid"):
        raise call.wrong(f"mode={mode!r}", allowed="'same', 'valid'")
    if kernel is None:
        raise call.wrong("the kernel is missing", allowed="fn.experimental.filter(images, kernel)")
    cls: Any = REGISTRY["filter"]
    check_known(call, *(parameter.name for parameter in cls.parameters))
    options = {
        name: plain(name, value)
        for name, value in call.args.items()
        if value is not None and name not in call.row.accept
    }
    if isinstance(options.get("fill_value"), NativeNode):
        raise call.wrong("fill_value is a node", allowed="a number")
    fixed = None if isinstance(kernel, NativeNode) else _kernel(kernel)
    whole = None if fixed is None else cls(kernel=fixed, **options)
    nodes = [node_of(kernel).cpu()] if fixed is None else []

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        layout = value.layout or IMAGE_LAYOUTS[value.ndim]
        arrays = []
        for n, array in enumerate(value):
            op = whole if whole is not None else cls(kernel=_kernel(values[1][n]), **options)
            result, (rows, columns) = op(array, layout=layout), np.shape(op.kernel)
            if mode == "valid":
                top, left = rows // 2, columns // 2
                axes = dict.fromkeys(layout, slice(None))
                axes["H"] = slice(top, array.shape[layout.index("H")] - (rows - 1 - top))
                axes["W"] = slice(left, array.shape[layout.index("W")] - (columns - 1 - left))
                result = result[tuple(axes[letter] for letter in layout)]
            arrays.append(result)
        return Value.of(arrays, layout, value.sources)

    return call.node(compute, *nodes, summary=f"{options}")


def _kernel(weights: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, np.atleast_2d(np.asarray(weights, np.float64)).tolist()))


@operator("normalize", passes=True)
def _normalize(call: DaliCall) -> DataNode:
    """``fn.normalize``: also of arrays of any axes, and with nodes, or arrays that broadcast over the axes."""
    options = {name: call.args.get(name) for name in ("mean", "stddev")}
    for name, value in options.items():
        array = value
        if isinstance(array, (np.ndarray, list, tuple)) and np.size(array) in (1, np.shape(array)[-1]):
            options[name] = call.args[name] = tuple(np.ravel(array).tolist())
    arrays = any(isinstance(item, (NativeNode, np.ndarray)) for item in options.values())
    if arrays and call.args.get("batch"):
        raise call.wrong("batch=True, with mean or stddev as arrays", allowed="numbers, or batch=False")
    settings: dict[str, Any] = {
        **{name: call.args.get(name) for name in ("axes", "axis_names")},
        "kind": dtype_name("float32" if call.args.get("dtype") is None else call.args["dtype"]),
        **{
            name: float(default if call.args.get(name) is None else call.args[name])
            for name, default in (("scale", 1), ("shift", 0), ("epsilon", 0), ("ddof", 0))
        },
        "batch": bool(call.args.get("batch")),
    }
    given = [name for name, setting in options.items() if setting is not None]
    if not arrays:

        def instead(value: Value, _: Any) -> Value | None:
            if value.layout in LAYOUTS:
                return None
            numbers = {name: [np.asarray(options[name])] * len(value) for name in given}
            return _normalized(value, numbers, **settings)

        return native(call, instead=instead)  # type: ignore[no-any-return]
    nodes = [node_of(options[name]).cpu() for name in given]
    call.args.clear()

    def compute(values: list[Value], _: Run) -> Value:
        return _normalized(values[0], dict(zip(given, values[1:], strict=True)), **settings)

    return call.node(compute, *nodes, summary=f"{settings}")


def _normalized(
    value: Value,
    given: Mapping[str, Any],
    *,
    axes: Any,
    axis_names: str | None,
    kind: str,
    scale: float,
    shift: float,
    epsilon: float,
    ddof: float,
    batch: bool,
) -> Value:
    """Subtract means and divide by standard deviations along some axes, which are computed unless they are given."""
    every = axes is None and axis_names is None
    places = tuple(range(value.ndim)) if every else axes_of(value, axes, axis_names, "fn.normalize")

    def numbers(name: str, compute: Callable[[int, Array], Any]) -> list[Any]:
        if name in given:
            return [namespace(array).asarray(item) for array, item in zip(value, given[name], strict=True)]
        totals = [compute(n, array) for n, array in enumerate(value)]
        counts = [math.prod(array.shape[axis] for axis in places) for array in value]
        if batch:
            totals, counts = [sum(totals)] * len(totals), [sum(counts)] * len(counts)
        less = ddof if name == "stddev" else 0
        pairs = zip(totals, counts, strict=True)
        return [total / (count - less) if count > less else total * 0 for total, count in pairs]

    values = value.each(lambda array: array.astype(np.float32))
    means = numbers("mean", lambda n, _: values[n].sum(places, keepdims=True))
    widths = numbers("stddev", lambda n, _: ((values[n] - means[n]) ** 2).sum(places, keepdims=True))
    arrays = []
    for array, mean, width in zip(values, means, widths, strict=True):
        xp = namespace(array)
        below = xp.sqrt((width**2 if "stddev" in given else width) + epsilon)
        factor = xp.where(below > 0, scale / xp.where(below > 0, below, 1), 0)
        arrays.append(converted(((array - mean) * factor + shift).astype(np.float32), kind))
    return Value.of(arrays, value.layout, value.sources)


@operator("grid_mask", each={"tile": 100.0, "ratio": 0.5, "angle": 0.0, "shift_x": 0.0, "shift_y": 0.0})
def _grid_mask(call: DaliCall) -> DataNode:
    """``fn.grid_mask``: zero within squares that repeat every ``tile`` pixels and are ``ratio`` of that long.

    The grid is shifted by pixels, and turned by ``angle`` in radians.
    """

    def compute(values: list[Value], _: Run) -> Value:
        value, *drawn = values
        rows = [setting.stacked(name).reshape(-1) for name, setting in zip(call.settings, drawn, strict=True)]
        layout = image_layout(value)
        if "H" not in layout or "W" not in layout:
            raise call.fault(f"samples of the layout {layout!r}", allowed="layouts with H and W")
        places = layout.index("H"), layout.index("W")
        arrays = []
        for array, *numbers in zip(value, *rows, strict=True):
            kept = _kept_by_grid(*(array.shape[place] for place in places), *map(float, numbers))
            shape = [length if axis in places else 1 for axis, length in enumerate(array.shape)]
            arrays.append(array * namespace(array).asarray(kept.reshape(shape)).astype(array.dtype))
        return Value.of(arrays, value.layout, value.sources)

    return call.node(compute)


def _kept_by_grid(
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


@operator("multi_paste", passes=True, each={"output_size": None, "in_ids": None})
def _multi_paste(call: DaliCall, *, dtype: Kind = None) -> DataNode:
    """``fn.multi_paste``: regions of images on canvases, in the order of the list.

    The images are those of the batch that ``in_ids`` names, or those of each input.
    """
    given = call.settings
    for name in ("in_anchors", "shapes", "out_anchors"):
        options = {key: one for key in (name, f"{name}_rel") if (one := call.take(key)) is not None}
        if len(options) > 1:
            raise call.wrong(f"{name} and {name}_rel are given", allowed="one of both")
        given |= {key: node_of(setting).cpu() for key, setting in options.items()}
    call.done()
    count = len(call.inputs)
    if count > 1 and "in_ids" in given:
        raise call.wrong(f"in_ids and {count} inputs", allowed="in_ids, or several inputs")

    def compute(values: list[Value], _: Run) -> Value:
        images, settings = values[0], dict(zip(given, values[count:], strict=True))
        arrays = []
        for number in range(len(images)):
            rows = {name: np.asarray(item[number]) for name, item in settings.items()}
            picked = [value[number] for value in values[:count]]
            if "in_ids" in rows:
                picked = _picked(images, rows.pop("in_ids").reshape(-1).tolist())
            arrays.append(_pasted(picked or [images[number][:0]], rows))
        result = Value.of(arrays, images.layout or "HWC")
        return result if dtype is None else result.each(lambda array: converted(array, dtype))

    return call.node(compute, summary=f"{list(given)}")


def _picked(images: Value, numbers: list[int]) -> list[Array]:
    """Return some images of a batch."""
    for number in numbers:
        if not 0 <= number < len(images):
            raise ParameterError(
                f"The `in_idx` must be in range [0, {len(images)}). Got in_idx: {number}. Input batch size is: "
                f"{len(images)}",
                source="fn.multi_paste",
            )
    return [images[number] for number in numbers]


def _pasted(picked: list[Array], rows: dict[str, Any]) -> Array:
    """Return one canvas with regions of images."""
    first, fact = picked[0], ""
    if "output_size" not in rows and len({image.shape[:2] for image in picked}) > 1:
        fact = "If the `output_size` is not specified, all the input samples must have the same shape"
    elif len({image.shape[2:] for image in picked}) > 1:
        fact = "All regions pasted into given output sample must have the same number of channels"
    if fact:
        raise ParameterError(fact, source="fn.multi_paste", advice="State output_size=(height, width)")
    xp = namespace(first)
    sides = np.resize(rows.get("output_size", first.shape[:2]), 2)
    canvas = xp.zeros((*map(int, sides), *first.shape[2:]), first.dtype)
    for n, image in enumerate(picked):

        def pair(name: str, whole: Any, otherwise: Any, n: int = n) -> list[int]:
            units = np.array(whole[:2]) if f"{name}_rel" in rows else np.ones(2)
            given = rows.get(f"{name}_rel", rows.get(name))
            pairs = np.array([otherwise]) if given is None else given.reshape(-1, 2) * units
            return [int(number) for number in pairs[n if len(pairs) > 1 else 0]]

        top, left = pair("in_anchors", image.shape, (0, 0))
        below, right = pair("out_anchors", canvas.shape, (0, 0))
        height, width = pair("shapes", image.shape, (image.shape[0] - top, image.shape[1] - left))
        array = image[top : top + height, left : left + width]
        target = canvas[below : below + height, right : right + width]
        if array.shape != target.shape or array.shape[:2] != (height, width):
            raise ParameterError(
                f"a region of {height}×{width} pixels at {(top, left)} of an image of {image.shape[:2]}, for "
                f"{(below, right)} of a canvas of {canvas.shape[:2]}",
                source="fn.multi_paste",
                allowed="regions within both",
            )
        canvas[below : below + height, right : right + width] = array
    return canvas


@operator("optical_flow", passes=True)
def _optical_flow(call: DaliCall) -> DataNode:
    """``fn.optical_flow``: float32 ``FHWC``, x and y in pixels, by the GPU's flow engine or by OpenCV."""
    preset, kind = float(call.take("preset", 0.0)), call.take("image_type")
    if call.take("enable_external_hints", False) or len(call.inputs) > 1:
        raise call.wrong("enable_external_hints", advice="seqpipe.fn.optical_flow takes hints")
    names = ("slow", "medium", "fast")
    op: Any = REGISTRY["optical_flow"](
        preset=names[min(2, int(preset * 2))],
        output_grid=int(call.take("output_grid", call.take("out_grid_size", 4))),
        temporal_hints=bool(call.take("enable_temporal_hints", False)),
        image_type="RGB" if kind is None else plain("image_type", kind),
    )
    call.args.pop("hint_grid", None)
    call.args.pop("out_grid_size", None)
    call.done()

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        if value.dense:
            return value.with_data(op(value.data, layout="NFHWC"), "FHWC")
        return Value.of(op(list(value.data), layout="FHWC"), "FHWC", value.sources)

    return call.node(compute, summary=f"{op.changed()}")
