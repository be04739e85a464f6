"""``fn.resize``, ``random_resized_crop``, ``resize_crop_mirror`` and ``tensor_resize``: samples of another size."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import REGISTRY, Run
from ...ops import DataNode as NativeNode
from ...ops.resize.along_axes import sides_and_scales
from ..call import native, plain, stacked_nodes
from ..data_node import DataNode, node_of
from ..declared import IMAGE_LAYOUTS, DaliCall, Kind, Row, operator
from ..dtypes import DALIInterpType, converted
from ..value import Value
from .arrays import axes_of
from .volumes import resized
from .windows import window_sides

__all__: list[str] = []

_ACCEPTED: Final = ("image_type", "interp_type_old")

_SIDES: Final = ("resize_x", "resize_y", "resize_shorter", "resize_longer")
_GROUPS: Final = (
    ("size",),
    ("resize_x", "resize_y", "resize_z"),
    ("resize_shorter",),
    ("resize_longer",),
)
_ARGUMENTS: Final = (
    *("size", "resize_x", "resize_y", "resize_z", "resize_shorter", "resize_longer", "max_size", "mode"),
    *("roi_start", "roi_end", "roi_relative", "subpixel_scale"),
)
_BOTH: Final = "Antialiased INTERP_LINEAR is INTERP_TRIANGULAR where images shrink"


@operator("resize", passes=True, accept=_ACCEPTED, defaults={"subpixel_scale": True})
def _resize(call: DaliCall) -> Any:
    """``fn.resize``: images, sequences and volumes; sizes may be fractions, negative to mirror, and nodes."""
    saves, filters = bool(call.take("save_attrs", False)), _filters_of(call)
    arguments = {name: value for name in _ARGUMENTS if (value := call.take(name)) is not None}
    groups = [names for names in _GROUPS if any(name in arguments for name in names)]
    if len(groups) > 1:
        raise call.wrong(
            f"{' and '.join(names[0] for names in groups)} are given", allowed="one kind of size"
        )
    if (plain_sizes := _plain_sizes(arguments)) and len(filters) == 1:
        settings = {**arguments, "filters": filters * 2}
        call.args |= {**plain_sizes, "interp_type": filters[0]}
        result = native(
            call, call.row.to or call.row.name, instead=partial(_of_volumes, settings), compat="dali"
        )
    else:
        result = _general(call, arguments, tuple((filters * 2)[:2]))
    return (result, DataNode("sizes", [call.input()], _sizes)) if saves else result


def _plain_sizes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the operator itself; none if it does not accept a size, such as a fraction or a node."""
    plain_arguments = dict(arguments)
    size = plain_arguments.pop("size", None)
    if "resize_z" in arguments or isinstance(size, NativeNode) or _has_nodes(size):
        return {}
    if size is not None:
        sides = [size] * 2 if np.size(size) == 1 else list(size)
        if len(sides) != 2:
            return {}
        sides = [np.ravel(side)[0] for side in sides]
        plain_arguments |= {
            name: side for name, side in zip(("resize_y", "resize_x"), sides, strict=True) if side
        }
    for name in (*_SIDES, "max_size"):
        value = plain_arguments.get(name)
        if value is None:
            continue
        if isinstance(value, NativeNode) or np.size(value) > 1:
            return {}
        number = float(np.ravel(value)[0])
        if number < 1 or number % 1:
            return {}
        plain_arguments[name] = int(number)
    if {"resize_y", "resize_x"} <= plain_arguments.keys():
        plain_arguments["size"] = plain_arguments.pop("resize_y"), plain_arguments.pop("resize_x")
    return plain_arguments if {*_SIDES, "size"} & plain_arguments.keys() else {}


def _filters_of(call: DaliCall) -> list[Any]:
    """Return the filters for smaller and for larger results: one if both give the same result."""
    general = call.take("interp_type", DALIInterpType.INTERP_LINEAR)
    pair = [plain("", call.take(name, general)) for name in ("min_filter", "mag_filter")]
    # antialiased linear interpolation is the triangular filter
    same = {"triangular": "linear"} if call.args.get("antialias") in (None, True) else {}
    return pair[:1] if same.get(pair[0], pair[0]) == same.get(pair[1], pair[1]) else pair


def _of_volumes(settings: Mapping[str, Any], value: Value, others: Mapping[str, Any]) -> Value | None:
    return resized(value, {**others, **settings}) if "D" in value.layout else None


def _general(call: DaliCall, arguments: Mapping[str, Any], filters: tuple[Any, ...]) -> DataNode:
    """Return the node of ``fn.resize`` whose sizes are computed for each sample."""
    deep = "resize_z" in arguments or len(_listed(arguments.get("size"))) > 2
    crop = {name: call.take(name) for name in ("crop", "crop_pos_x", "crop_pos_y", "mirror")}
    options = {
        name: plain(name, value)
        for name in ("antialias", "dtype", "mode", "roi_relative", "subpixel_scale")
        if (value := arguments.get(name, call.take(name))) is not None
    }
    call.done()
    numbers = {name: value for name, value in arguments.items() if name not in options}
    nodes = {
        name: (stacked_nodes(value) if _has_nodes(value) else node_of(value)).cpu()
        for name, value in numbers.items()
        if isinstance(value, NativeNode) or _has_nodes(value)
    }
    fixed = {name: np.ravel(value) for name, value in numbers.items() if name not in nodes}

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        if deep and not value.layout and value.ndim == 4:
            value = value.with_data(value.data, "DHWC")
        if deep and "D" not in value.layout:
            raise ParameterError(
                f"a size with slices, for samples of layout {value.layout!r}",
                source="fn.resize",
                allowed="volumes: DHWC, CDHW or DHW",
            )
        settings = {**options, **fixed, **dict(zip(nodes, values[1:], strict=True)), "filters": filters}
        return resized(value, settings)

    summary = f"{ {name: item.tolist() for name, item in fixed.items()} } {options} {filters}"
    result = call.node(compute, *nodes.values(), summary=summary)
    if crop["crop"] is not None:
        window = {name: value for name, value in crop.items() if name != "mirror" and value is not None}
        result = native(DaliCall(Row("crop"), [result], window, result.device))
    if crop["mirror"] is not None:
        result = native(DaliCall(Row("flip"), [result], {"horizontal": crop["mirror"]}, result.device))
    return result


def _mirrored(letters: str, values: list[Value], _: Run) -> Value:
    value = values[0]
    layout = value.layout or IMAGE_LAYOUTS[value.ndim]
    axes = tuple(layout.index(letter) for letter in letters if letter in layout)
    return value.each(lambda array: namespace(array).flip(array, axes))


def _has_nodes(value: Any) -> bool:
    return any(isinstance(item, NativeNode) for item in _listed(value))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _sizes(values: list[Value], _: Run) -> Value:
    """Return rows and columns of each image, the output of ``save_attrs``."""
    layout = values[0].layout or IMAGE_LAYOUTS[values[0].ndim]
    sides = [[shape[layout.index(letter)] for letter in "HW"] for shape in values[0].shapes()]
    return Value(np.asarray(sides, np.int32))


@operator(
    "random_resized_crop",
    passes=True,
    accept=("image_type",),
    note="min_filter and mag_filter must give the same result, as INTERP_TRIANGULAR and INTERP_LINEAR do",
)
def _random_resized_crop(call: DaliCall) -> DataNode:
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
    elif isinstance(size, (list, tuple, np.ndarray)):
        call.args["size"] = tuple(int(side) for side in size)  # as in DALI, fractions are cut off
    return native(call, compat="dali")  # type: ignore[no-any-return]


@operator("resize_crop_mirror", passes=True, accept=_ACCEPTED, defaults={"subpixel_scale": True})
@operator(
    "fast_resize_crop_mirror",
    passes=True,
    to="resize_crop_mirror",
    accept=_ACCEPTED,
    defaults={"subpixel_scale": True, "antialias": False},
)
def _resize_crop_mirror(call: DaliCall) -> Any:
    """``fn.resize_crop_mirror``: ``mirror`` is 1 for left to right, 2 for top to bottom, 3 for both."""
    if (sides := window_sides(call)) is not None:
        call.args["crop"] = tuple(sides) if isinstance(sides, list) else sides
    mirror = call.args.get("mirror")
    if isinstance(mirror, NativeNode) or mirror not in (2, 3):
        return _resize(call)
    call.args["mirror"] = bool(mirror & 1)
    result = _resize(call)
    return DataNode("mirror", [result], partial(_mirrored, "H"), device=result.device, summary="H")


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
    if isinstance(number, (list, tuple)) and any(isinstance(item, NativeNode) for item in number):
        raise call.wrong(f"{name} has nodes among its values", allowed="numbers, or one node")

    def compute(values: list[Value], _: Run) -> Value:
        value, wanted, points = values
        places = tuple(range(value.ndim))
        if axes is not None or names is not None:
            places = axes_of(value, axes, names, "fn.tensor_resize")
        arrays = []
        for array, numbers, point in zip(value, wanted.on_host(), points.on_host(), strict=True):
            requested = np.ravel(numbers).astype(np.float64)
            if requested.size not in (1, len(places)):
                raise call.fault(
                    f"{name} has {requested.size} values", allowed=f"one value, or {len(places)}"
                )
            extents = [array.shape[axis] for axis in places]
            targets = np.broadcast_to(requested, len(places)) * (extents if name == "scales" else 1)
            sides, scales = _rounded(extents, targets.tolist(), mode, rounding)
            if not subpixel_scale:
                scales = [side / extent for side, extent in zip(sides, extents, strict=True)]
            at = np.broadcast_to(np.ravel(point).astype(float), len(places)).tolist()
            takes = options.get("interp_type") == "nearest"
            resized = array if takes else array.astype(np.float32)
            for axis, side, scale, fixed in zip(places, sides, scales, at, strict=True):
                resized = _along(resized, axis, side, scale, fixed, options)
            arrays.append(converted(resized, kind or array.dtype.name))
        return Value.of(arrays, value.layout, value.sources)

    return call.node(
        compute,
        node_of(number).cpu(),
        node_of(alignment).cpu(),
        summary=f"{name} {options}",
    )


def _rounded(
    extents: list[int], targets: list[float], mode: str, rounding: str
) -> tuple[list[int], list[float]]:
    """Return the sizes of the result, rounded as asked, and the scales before rounding."""
    sides, scales = sides_and_scales(extents, targets, mode, subpixel_scale=True)
    if rounding != "round":
        exact = [scale * extent for scale, extent in zip(scales, extents, strict=True)]
        sides = [max(_ROUNDINGS[rounding](round(side, 6)), 1) for side in exact]
    return sides, scales


def _along(array: Array, axis: int, side: int, scale: float, fixed: float, options: dict[str, Any]) -> Array:
    """Resample one axis to a number of positions by a scale; the fixed point is a share of the axis."""
    extent = array.shape[axis]
    if side == extent and scale == 1:
        return array
    xp = namespace(array)
    front = xp.moveaxis(array, axis, 0)
    rest = max(front.size // max(extent, 1), 1)
    start = fixed * (extent - side / scale)
    op: Any = REGISTRY["resize"](
        size=(side, rest),
        roi_start=(start, 0.0),
        roi_end=(start + side / scale, float(rest)),
        dtype=array.dtype.name,
        compat="dali",
        **options,
    )
    resampled = op(xp.ascontiguousarray(front.reshape(extent, rest, 1)), layout="HWC")
    return xp.moveaxis(resampled.reshape(side, *front.shape[1:]), 0, axis)
