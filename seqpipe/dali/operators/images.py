"""DALI's image operators whose arguments differ from those of seqpipe's operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import REGISTRY, Run
from ...ops import DataNode as NativeNode
from ..call import IMAGE_LAYOUTS, DaliCall, check_known, native, plain
from ..data_node import DataNode, node_of
from ..dtypes import converted, dtype_name
from ..mapped import is_mapped, owned
from ..sources.staging import Staging
from ..value import Value
from .arrays import axes_of
from .volumes import blurred
from .windows import crop_window, fill_levels

__all__ = [
    "coord_flip",
    "crop",
    "crop_mirror_normalize",
    "erase",
    "filtered",
    "flip",
    "gaussian_blur",
    "grid_mask",
    "multi_paste",
    "normalize",
    "optical_flow",
]

_FLIPS: Final = {"D": "depthwise", "H": "vertical", "W": "horizontal"}
_GRID: Final = {"tile": 100.0, "ratio": 0.5, "angle": 0.0, "shift_x": 0.0, "shift_y": 0.0}


def crop(call: DaliCall) -> DataNode:
    """``fn.crop``."""
    if crop_window(call) is None:
        return native(call)  # type: ignore[no-any-return]
    call.done()
    return call.node(lambda values, _: values[0])


def crop_mirror_normalize(call: DaliCall) -> DataNode:
    """``fn.crop_mirror_normalize``: float32 ``CHW`` by default; fill values are not normalized."""
    fill = call.args.get("fill_values", 0) if call.args.get("out_of_bounds_policy") == "pad" else 0
    mirror, margins = call.args.get("mirror", 0), crop_window(call, trims=True)
    layout, padded = str(call.take("output_layout", "CHW")).replace("N", ""), call.take("pad_output", False)
    moved = bool({*"FD"} & {*layout[1:]})  # frames or slices are not the first axis
    call.args["output_layout"] = "HWC" if moved else layout.lstrip("FD") or None
    result: DataNode = native(call)
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


def _surrounded(fill: Any, values: list[Value], _: Run) -> Value:
    """Add the margins of windows that reach past the edges of their samples, which may be mirrored."""
    value, margins, mirrors = values
    if not margins.data.any():
        return value
    channels = value.shapes()[0][value.layout.index("C")]
    if 1 < np.size(fill) < channels:  # as in DALI, the other channels are filled with 0
        fill = [*np.ravel(fill), *[0] * (channels - np.size(fill))]
    levels, parts = fill_levels(fill, value, "fn.crop_mirror_normalize"), []
    for part, widths, mirrored in zip(value, margins, mirrors.on_host(), strict=True):
        xp, sides = namespace(part), [(0, 0)] * part.ndim
        for letter, (before, after) in zip("DHW", widths.tolist(), strict=True):
            axis = (
                value.layout.find(letter)
                if letter in value.layout or letter != "D"
                else value.layout.find("F")
            )
            if axis >= 0:
                swaps = letter == "W" and np.any(mirrored)
                sides[axis] = (after, before) if swaps else (before, after)
        extents = [side + a + b for side, (a, b) in zip(part.shape, sides, strict=True)]
        result = xp.empty(extents, part.dtype)
        result[...] = converted(xp.asarray(levels), part.dtype.name)
        inner = (slice(a, a + side) for side, (a, _) in zip(part.shape, sides, strict=True))
        result[tuple(inner)] = part
        parts.append(result)
    return Value.of(parts, value.layout, value.sources)


def _channels(value: Value, fill: Any) -> Value:
    """Pad the channels of images to a power of two."""
    axis = value.layout.index("C")

    def one(part: Array) -> Array:
        count, xp = part.shape[axis], namespace(part)
        levels = np.resize(np.atleast_1d(fill), 1 << (count - 1).bit_length())[count:]
        more = xp.empty([len(levels) if n == axis else side for n, side in enumerate(part.shape)], part.dtype)
        for number, level in enumerate(levels):
            xp.moveaxis(more, axis, 0)[number] = level
        return xp.concatenate([part, more], axis)

    return value.each(one)


def _ordered(value: Value, layout: str) -> Value:
    """Transpose sequences to another layout.

    Raises:
        ParameterError: the layout has other axes.
    """
    if sorted(layout) != sorted(value.layout):
        raise ParameterError(
            f"output_layout={layout!r} of samples of layout {value.layout!r}",
            source="fn.crop_mirror_normalize",
            allowed="the same axes in any order",
        )
    order = [value.layout.index(letter) for letter in layout]
    return value.each(lambda part: part.transpose(order), layout)


def erase(call: DaliCall) -> DataNode:
    """``fn.erase``: regions along rows and columns, or along any axes."""
    axes, names = call.take("axes"), call.take("axis_names", "HW")
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
            "more": [one for region in rest for one in region],
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
        parts = []
        for part, *numbers in zip(value, values[1], values[2], strict=True):
            erased, extents = part.copy(), [part.shape[axis] for axis in places]
            corner, size = (
                np.reshape(one, (-1, len(places))).astype(np.float64) * (extents if share else 1)
                for one, share in zip(numbers, shares, strict=True)
            )
            for start, length in zip(corner - size / 2 if centered else corner, size, strict=True):
                region = [slice(None)] * part.ndim
                for axis, low, side in zip(places, start, length, strict=True):
                    region[axis] = slice(max(int(low), 0), max(int(low + side), 0))
                erased[tuple(region)] = converted(namespace(part).asarray(levels), part.dtype.name)
            parts.append(erased)
        return Value.of(parts, value.layout, value.sources)

    summary = f"{axes} {names} {shares} {centered} {fill}"
    return call.node(compute, corners, sizes, summary=summary)


def flip(call: DaliCall) -> DataNode:
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
    """Mirror samples along some axes by one copy.

    Args:
        memory: memory for the result.
        value: the samples.
        acts: whether to mirror along an axis, by its letter: a flag, or one for each sample.
    """
    layout = value.layout or IMAGE_LAYOUTS.get(value.ndim, "")
    flags = {
        letter: one.on_host() if isinstance(one, Value) else [one] * len(value)
        for letter, one in acts.items()
    }
    parts = []
    for number, part in enumerate(value):
        axes = [layout.index(c) for c, one in flags.items() if c in layout and np.any(one[number])]
        parts.append(namespace(part).flip(part, axes) if axes else part)
    if value.on_gpu:
        return Value.of(parts, value.layout, value.sources)
    if len({(part.shape, part.dtype) for part in parts}) == 1:
        return value.with_data(memory.copy(parts))
    return owned(Value(parts, value.layout, value.sources))


def gaussian_blur(call: DaliCall) -> DataNode:
    """``fn.gaussian_blur``: also of volumes, and with sigma or window size for each axis, slices or rows first."""
    constants = {
        name: value for name in ("sigma", "window_size") if (value := call.args.get(name)) is not None
    }
    if all(isinstance(one, NativeNode) or np.size(one) == 1 for one in constants.values()):
        return native(call, instead=blurred)  # type: ignore[no-any-return]
    if any(isinstance(one, NativeNode) for one in constants.values()):
        raise call.wrong("one of sigma and window_size is a node", allowed="both are nodes, or none is")
    kind = call.take("dtype")
    call.args = {name: value for name, value in call.args.items() if name not in constants}
    call.done()
    settings = {**constants, "dtype": None if kind is None else dtype_name(kind)}
    return call.node(lambda v, _: blurred(v[0], settings), summary=f"{settings}")


def filtered(call: DaliCall) -> DataNode:
    """``fn.filter``: the second input is the kernel, for all samples or for each; the third the fill value."""
    mode, kernel = call.take("mode", "same"), call.take("kernel")
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
        parts = []
        for n, part in enumerate(value):
            op = whole if whole is not None else cls(kernel=_kernel(values[1][n]), **options)
            result, (rows, columns) = op(part, layout=layout), np.shape(op.kernel)
            if mode == "valid":
                top, left = rows // 2, columns // 2
                axes = dict.fromkeys(layout, slice(None))
                axes["H"] = slice(top, part.shape[layout.index("H")] - (rows - 1 - top))
                axes["W"] = slice(left, part.shape[layout.index("W")] - (columns - 1 - left))
                result = result[tuple(axes[letter] for letter in layout)]
            parts.append(result)
        return Value.of(parts, layout, value.sources)

    return call.node(compute, *nodes, summary=f"{mode} {options} {fixed}")


def _kernel(weights: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, np.atleast_2d(np.asarray(weights, np.float64)).tolist()))


def normalize(call: DaliCall) -> DataNode:
    """``fn.normalize``: also with nodes, or arrays that broadcast over the axes, as mean and stddev."""
    options = {name: call.args.get(name) for name in ("mean", "stddev")}
    for name, value in options.items():
        array = value
        if isinstance(array, (np.ndarray, list, tuple)) and np.size(array) in (1, np.shape(array)[-1]):
            options[name] = call.args[name] = tuple(np.ravel(array).tolist())
    if not any(isinstance(one, (NativeNode, np.ndarray)) for one in options.values()):
        return native(call)  # type: ignore[no-any-return]
    if call.take("batch", False):
        raise call.wrong("batch=True, with mean or stddev as arrays", allowed="numbers, or batch=False")
    mean, spread = (call.take(name) for name in options)
    kind, axes, names = dtype_name(call.take("dtype", "float32")), call.take("axes"), call.take("axis_names")
    scale, shift = float(call.take("scale", 1.0)), float(call.take("shift", 0.0))
    epsilon, ddof = float(call.take("epsilon", 0.0)), int(call.take("ddof", 0))
    call.done()
    nodes = [node_of(one).cpu() for one in (mean, spread) if one is not None]

    def one(part: Array, places: tuple[int, ...], middle: Any, width: Any) -> Array:
        xp = namespace(part)
        values = part.astype(np.float32)
        middle = values.mean(places, keepdims=True) if middle is None else xp.asarray(middle)
        apart = values - middle
        if width is None:
            count = math.prod(part.shape[axis] for axis in places)
            width = xp.sqrt((apart * apart).sum(places, keepdims=True) / max(count - ddof, 1))
        below = xp.sqrt(xp.asarray(width) ** 2 + epsilon)
        factor = xp.where(below > 0, scale / xp.where(below > 0, below, 1), 0)
        return converted((apart * factor + shift).astype(np.float32), kind)

    def compute(values: list[Value], _: Run) -> Value:
        value, settings = values[0], iter(values[1:])
        every = axes is None and names is None
        places = tuple(range(value.ndim)) if every else axes_of(value, axes, names, "fn.normalize")
        columns: list[Any] = [
            next(settings) if one is not None else [None] * len(value) for one in (mean, spread)
        ]
        parts = [one(part, places, *row) for part, *row in zip(value, *columns, strict=True)]
        return Value.of(parts, value.layout, value.sources)

    return call.node(compute, *nodes, summary=f"{axes} {names} {scale} {shift} {epsilon} {ddof} {kind}")


def grid_mask(call: DaliCall) -> DataNode:
    """``fn.grid_mask``: zero within squares that repeat every ``tile`` pixels and are ``ratio`` of that long.

    The grid is shifted by pixels, and turned by ``angle`` in radians; each argument may be a node with a number for
    each sample.
    """
    options = {name: call.take(name, default) for name, default in _GRID.items()}
    call.done()
    nodes = {name: node_of(one).cpu() for name, one in options.items() if isinstance(one, NativeNode)}
    numbers = {name: float(one) for name, one in options.items() if name not in nodes}

    def compute(values: list[Value], _: Run) -> Value:
        value, *drawn = values
        rows = {name: one.stacked(name).reshape(-1) for name, one in zip(nodes, drawn, strict=True)}
        layout = value.layout or IMAGE_LAYOUTS.get(value.ndim, "")
        if "H" not in layout or "W" not in layout:
            raise ParameterError(
                f"samples of the layout {layout!r}", source="fn.grid_mask", allowed="layouts with H and W"
            )
        places = layout.index("H"), layout.index("W")
        parts = []
        for sample, part in enumerate(value):
            settings = {**numbers, **{name: float(row[sample]) for name, row in rows.items()}}
            kept = _kept_by_grid(part.shape[places[0]], part.shape[places[1]], **settings)
            shape = [length if axis in places else 1 for axis, length in enumerate(part.shape)]
            parts.append(part * namespace(part).asarray(kept.reshape(shape)).astype(part.dtype))
        return Value.of(parts, value.layout, value.sources)

    return call.node(compute, *nodes.values(), summary=f"{numbers}")


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


def _common_sides(images: Value, numbers: Any) -> Any:
    """Return height and width of some images of a batch.

    Raises:
        ParameterError: they differ, or one does not exist.
    """
    shapes = images.shapes()
    wrong = [int(n) for n in numbers if not 0 <= n < len(shapes)]
    if wrong:
        raise ParameterError(
            f"in_ids has {wrong[0]}", source="fn.multi_paste", allowed=f"0 to {len(shapes) - 1}"
        )
    sides = {shapes[int(n)][:2] for n in numbers}
    if len(sides) != 1:
        raise ParameterError(
            f"images of {len(sides)} sizes on a canvas without a size",
            source="fn.multi_paste",
            allowed="one size",
            advice="State output_size=(height, width)",
        )
    return np.asarray(sides.pop())


def multi_paste(call: DaliCall) -> DataNode:
    """``fn.multi_paste``: regions of the images of a batch on canvases, in the order of the list."""
    sides = call.take("output_size")
    kind = call.take("dtype")
    options = {name: call.take(name) for name in ("in_ids", "in_anchors", "shapes", "out_anchors")}
    shares = {name: call.take(f"{name}_rel") for name in ("in_anchors", "shapes", "out_anchors")}
    call.done()
    if any(shares.values()):
        raise call.wrong("positions or shapes are relative", allowed="positions and shapes in pixels")
    nodes = {
        name: node_of(value).cpu() for name, value in {"sides": sides, **options}.items() if value is not None
    }

    def compute(values: list[Value], _: Run) -> Value:
        images, settings = values[0], dict(zip(nodes, values[1:], strict=True))
        parts = []
        for number in range(len(images)):
            rows = {name: np.asarray(one[number]) for name, one in settings.items()}
            if "sides" not in rows:
                rows["sides"] = _common_sides(images, np.ravel(rows.get("in_ids", number)))
            parts.append(_pasted(images, number, rows))
        result = Value.of(parts, images.layout or "HWC")
        return result if kind is None else result.each(lambda part: converted(part, kind))

    return call.node(compute, *nodes.values(), summary=f"{list(nodes)} {kind}")


def _pasted(images: Value, number: int, rows: dict[str, Any]) -> Array:
    """Return one canvas with regions of images of the batch.

    Raises:
        ParameterError: a region reaches past an image or the canvas.
    """
    picked = rows["in_ids"].reshape(-1).astype(int) if "in_ids" in rows else [number]
    first = images[int(picked[0])] if len(picked) else images[number]
    xp = namespace(first)
    canvas = xp.zeros((*map(int, np.resize(rows["sides"], 2)), *first.shape[2:]), first.dtype)
    for n, source in enumerate(picked):
        image = images[int(source)]

        def pair(name: str, otherwise: Any, n: int = n) -> list[int]:
            pairs = rows[name].reshape(-1, 2) if name in rows else np.array([otherwise])
            return [int(one) for one in pairs[n if len(pairs) > 1 else 0]]

        top, left = pair("in_anchors", (0, 0))
        below, right = pair("out_anchors", (0, 0))
        height, width = pair("shapes", (image.shape[0] - top, image.shape[1] - left))
        part = image[top : top + height, left : left + width]
        target = canvas[below : below + height, right : right + width]
        if part.shape != target.shape or part.shape[:2] != (height, width):
            raise ParameterError(
                f"a region of {height}×{width} pixels at {(top, left)} of an image of {image.shape[:2]}, for "
                f"{(below, right)} of a canvas of {canvas.shape[:2]}",
                source="fn.multi_paste",
                allowed="regions within both",
            )
        canvas[below : below + height, right : right + width] = part
    return canvas


def coord_flip(call: DaliCall) -> DataNode:
    """``fn.coord_flip``: mirrors coordinates ``(…, 2)`` in the range 0 to 1 around centers."""
    layout = call.take("layout", "xy")
    flips = [
        (axis, call.take(f"flip_{axis}", int(axis == "x")), float(call.take(f"center_{axis}", 0.5)))
        for axis in layout
    ]
    call.args.pop("flip_z", None)
    call.args.pop("center_z", None)
    call.done()
    nodes = [one.cpu() for _, one, _ in flips if isinstance(one, DataNode)]

    def compute(values: list[Value], _: Run) -> Value:
        parts = []
        for n, part in enumerate(values[0]):
            flipped, more = part.copy(), iter(values[1:])
            for column, (_, flip, center) in enumerate(flips):
                acts = bool(next(more)[n].reshape(-1)[0]) if isinstance(flip, DataNode) else bool(flip)
                if acts:
                    flipped[..., column] = 2 * center - part[..., column]
            parts.append(flipped)
        return Value.of(parts, values[0].layout)

    return call.node(
        compute,
        *nodes,
        summary=str([(a, b if not isinstance(b, DataNode) else "node", c) for a, b, c in flips]),
    )


def optical_flow(call: DaliCall) -> DataNode:
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
