"""``fn.resize``, ``fn.gaussian_blur`` and ``fn.laplacian`` of volumes: along slices as well as rows and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import REGISTRY
from ...ops import DataNode as NativeNode
from ...ops.core.spec import COMPUTED_DTYPES
from ...ops.filters.smooth import derivative_windows
from ..call import native
from ..data_node import DataNode, node_of
from ..declared import DaliCall, image_layout, operator
from ..dtypes import converted, dtype_name
from ..value import Value

__all__ = ["blurred", "gaussian_window", "in_slices", "resized", "restored", "sides_and_scales"]

_SIDES: Final = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}


def _setting_of(settings: Mapping[str, Any], name: str, sample: int) -> npt.NDArray[np.float64] | None:
    """Return the numbers of a setting for one sample, which is a constant or the value of a node; None if absent."""
    setting = settings.get(name)
    if setting is None:
        return None
    return np.ravel(setting.on_host()[sample] if isinstance(setting, Value) else setting).astype(np.float64)


def in_slices(part: Array, layout: str) -> tuple[Array, list[int]]:
    """Return a volume as ``DHWC``, and the order of axes that restores its layout.

    Raises:
        ParameterError: the volume has further axes.
    """
    if set(layout) - {*"DHWC"}:
        raise ParameterError(f"samples of layout {layout!r}", allowed="DHWC, CDHW or DHW")
    part, layout = (part, layout) if "C" in layout else (part[..., None], layout + "C")
    return part.transpose([layout.index(letter) for letter in "DHWC"]), ["DHWC".index(c) for c in layout]


def restored(part: Array, order: list[int], axes: int) -> Array:
    """Return a volume ``DHWC`` in an order of axes from :func:`in_slices`, without channels if it had ``axes`` 3."""
    volume = part.transpose(order)
    return namespace(part).ascontiguousarray(volume if axes == len(order) else volume[..., 0])


# ---------------------------------------------------------------------- resize


class _Target(NamedTuple):
    """How one axis is resampled.

    Attributes:
        side: length of the result.
        start: start of the window of the sample that it shows.
        end: end of the window; less than the start if the result is mirrored.
    """

    side: int
    start: float
    end: float

    @property
    def shrinks(self) -> bool:
        """Whether the result is shorter than the window."""
        return self.side < abs(self.end - self.start)


def resized(value: Value, settings: Mapping[str, Any]) -> Value:
    """Resample images, sequences or volumes along slices, rows and columns, by DALI's rules for sizes.

    Linear interpolation is antialiased along every axis that shrinks.

    Args:
        value: the samples.
        settings: arguments of ``fn.resize`` by name, those that are nodes as their values; ``filters`` are the
            interpolations along axes that shrink and along others.
    """
    layout = image_layout(value)
    letters = "".join(letter for letter in layout if letter in "DHW")
    targets = []
    for n, shape in enumerate(value.shapes()):
        extents = [shape[layout.index(letter)] for letter in letters]
        targets.append(dict(zip(letters, _targets(extents, letters, settings, n), strict=True)))
    orders = [letter for letter in layout if letter not in "DHWC"] + [*letters, *("C" * ("C" in layout))]
    axes = [layout.index(letter) for letter in orders]
    parts = _resampled([part.transpose(axes) for part in value], "".join(orders), targets, settings)
    kind = settings.get("dtype") or value.dtype.name
    back = [orders.index(letter) for letter in layout]
    results = [namespace(part).ascontiguousarray(converted(part, kind).transpose(back)) for part in parts]
    return Value.of(results, value.layout, value.sources)


def _resampled(
    parts: list[Array], order: str, targets: list[dict[str, _Target]], settings: Mapping[str, Any]
) -> list[Array]:
    """Resample arrays whose slices, rows and columns follow one another: rows and columns, then slices."""
    shapes = [list(part.shape) for part in parts]
    channels = [shape[-1] if order.endswith("C") else 1 for shape in shapes]
    flat = [
        part.reshape(-1, *(part.shape[order.index(c)] for c in "HW"), count)
        for part, count in zip(parts, channels, strict=True)
    ]
    flat = _pass(flat, [(one["H"], one["W"]) for one in targets], settings, deep="D" in order)
    if "D" in order:
        slabs, along = [], []
        for part, shape, one in zip(flat, shapes, targets, strict=True):
            depth, width = shape[order.index("D")], math.prod(part.shape[1:])
            slabs.append(part.reshape(-1, depth, width, 1))
            along.append((one["D"], _Target(width, 0.0, float(width))))
        flat = _pass(slabs, along, settings, deep=True)
    for shape, one in zip(shapes, targets, strict=True):
        for letter, target in one.items():
            shape[order.index(letter)] = target.side
    return [part.reshape(shape) for part, shape in zip(flat, shapes, strict=True)]


def _pass(
    parts: list[Array], targets: list[tuple[_Target, _Target]], settings: Mapping[str, Any], *, deep: bool
) -> list[Array]:
    """Resample rows and columns of arrays ``FHWC``, all by one call if they have one filter."""
    smaller, larger = settings.get("filters", ("linear", "linear"))
    choices = {tuple(smaller if axis.shrinks else larger for axis in pair) for pair in targets}
    if len(choices) > 1 and len(parts) > 1:
        pairs = zip(parts, targets, strict=True)
        return [_pass([part], [pair], settings, deep=deep)[0] for part, pair in pairs]
    across = choices.pop() if choices else (smaller, larger)
    if across[0] != across[1]:  # rows and columns one after the other
        rows = [
            (y, _Target(part.shape[2], 0.0, float(part.shape[2])))
            for part, (y, _) in zip(parts, targets, strict=True)
        ]
        columns = [(_Target(y.side, 0.0, float(y.side)), x) for y, x in targets]
        parts = _pass(parts, rows, {**settings, "filters": (across[0],) * 2}, deep=True)
        return _pass(parts, columns, {**settings, "filters": (across[1],) * 2}, deep=deep)
    kind = parts[0].dtype.name
    if across[0] != "nearest":
        kind = "float32" if deep else settings.get("dtype") or kind
    op: Any = REGISTRY["resize"](
        resize_y=np.array([y.side for y, _ in targets], np.float64),
        resize_x=np.array([x.side for _, x in targets], np.float64),
        roi_start=np.array([[y.start, x.start] for y, x in targets]),
        roi_end=np.array([[y.end, x.end] for y, x in targets]),
        interp_type=across[0],
        antialias=settings.get("antialias") is not False,
        dtype=kind if kind in COMPUTED_DTYPES else None,
        compat="dali",
    )
    xp = namespace(parts[0])
    return list(op([xp.ascontiguousarray(part) for part in parts], layout="FHWC"))


def _targets(extents: Seq[int], letters: str, settings: Mapping[str, Any], sample: int) -> list[_Target]:
    """Return how each axis of a sample is resampled."""

    def numbers(name: str) -> npt.NDArray[np.float64] | None:
        found = _setting_of(settings, name, sample)
        if found is not None and found.size not in (1, len(letters)):
            raise ParameterError(
                f"{name} has {found.size} values",
                source="fn.resize",
                allowed=f"one value, or {len(letters)}: for {', '.join(letters)}",
            )
        return None if found is None else np.broadcast_to(found, len(letters))

    starts, ends, units = numbers("roi_start"), numbers("roi_end"), np.array(extents, np.float64)
    scale = units if settings.get("roi_relative") else 1.0
    starts = np.zeros(len(letters)) if starts is None else starts * scale
    ends = units if ends is None else ends * scale
    lengths = np.abs(ends - starts).tolist()
    mode, wanted = settings.get("mode") or "default", [0.0] * len(letters)
    for name, rule in (("resize_shorter", "not_smaller"), ("resize_longer", "not_larger")):
        if (one := numbers(name)) is not None and one.any():
            wanted, mode = one.tolist(), rule
    if (size := numbers("size")) is not None:
        wanted = size.tolist()
    for axis, letter in enumerate(letters):
        if (one := _setting_of(settings, _SIDES[letter], sample)) is not None:
            wanted[axis] = float(one[0])
    limits = numbers("max_size")
    sides = _sides(lengths, wanted, mode, None if limits is None else limits.tolist())
    result = []
    for start, end, side in zip(starts.tolist(), ends.tolist(), sides, strict=True):
        whole = _whole(side)
        if settings.get("subpixel_scale", True):
            middle, reach = (start + end) / 2, (end - start) / 2 * whole / abs(side)
            start, end = middle - reach, middle + reach
        result.append(_Target(whole, end, start) if side < 0 else _Target(whole, start, end))
    return result


def _whole(side: float) -> int:
    """Round a side, halves up, to at least 1."""
    return max(1, math.floor(abs(side) + 0.5 + 1e-6))


def _sides(extents: Seq[float], wanted: Seq[float], mode: str, limits: Seq[float] | None) -> list[float]:
    """Return sides of a result before they are rounded; a negative one is mirrored."""
    known = [abs(side) / extent for side, extent in zip(wanted, extents, strict=True) if side]
    if mode in ("not_larger", "not_smaller"):
        scale = (min if mode == "not_larger" else max)(known, default=1.0)
        if limits is not None:
            scale = min(scale, *(most / extent for most, extent in zip(limits, extents, strict=True)))
        return [math.copysign(extent * scale, side) for extent, side in zip(extents, wanted, strict=True)]
    scale = 1.0 if mode == "stretch" or not known else math.prod(known) ** (1 / len(known))
    sides = [side or extent * scale for extent, side in zip(extents, wanted, strict=True)]
    if limits is not None:
        sides = [math.copysign(min(abs(side), most), side) for side, most in zip(sides, limits, strict=True)]
    return sides


def sides_and_scales(
    shape: Seq[int], wanted: Seq[float], mode: str, subpixel_scale: bool
) -> tuple[list[int], list[float]]:
    """Return the rounded sides of a result, and the scale of each axis.

    Args:
        shape: sides of the array.
        wanted: sides of the result; a side of 0 follows from the others.
        mode: ``mode`` of ``fn.resize``.
        subpixel_scale: whether scales are those before sides were rounded.
    """
    exact = _sides(shape, wanted, mode, None)
    sides = [_whole(side) for side in exact]
    return sides, [
        (side if subpixel_scale else whole) / extent
        for side, whole, extent in zip(exact, sides, shape, strict=True)
    ]


# ---------------------------------------------------------------------- windows along each axis


def _spatial_axes(value: Value, source: str) -> list[int]:
    """Return the axes of a sample that windows slide along: all but frames and channels; without a layout, all."""
    layout = value.layout or "?" * value.ndim
    inner = (
        layout.removeprefix("CF").removeprefix("FC") if layout[:2] in ("CF", "FC") else layout.lstrip("FC")
    )
    inner = layout[1:] if len(layout) - len(inner) == 2 and layout[0] == layout[1] else inner
    fact = ""
    if "F" in inner:
        fact = f"For sequences, layout should begin with 'F' or 'C', got: {layout}"
    elif "C" in inner[1:-1]:
        fact = f"Only channel-first or channel-last layouts are supported, got: {layout}"
    elif "C" in inner and (inner[0] == "C" or layout.count("C") > 1):
        fact = f"Found more the one occurrence of 'F' or 'C' axes in layout: {layout}"
    axes = [n for n, letter in enumerate(layout) if letter not in "FC"]
    if not fact and len(axes) > 3:
        fact = f"Too many dimensions, found: {len(axes)} data axes, maximum supported is: 3"
    if fact:
        raise ParameterError(fact, source=source)
    return axes


def _by_axis(
    value: Value, settings: Mapping[str, Any], names: Seq[str], source: str, *, always: bool = False
) -> list[list[list[float] | None]] | None:
    """Return the numbers of some settings along each spatial axis, for each sample."""
    by_frame = any(isinstance(one, Value) and one.by_frame for one in settings.values())
    rows = [[_setting_of(settings, name, n) for name in names] for n in range(len(value))]
    single = all(one is None or one.size == 1 for row in rows for one in row)
    if by_frame and always:
        raise ParameterError("numbers by axis and by frame", source=source, allowed="one of both")
    images = value.layout in ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW", "CFHW")
    if not always and images and (by_frame or single):
        return None
    count = len(_spatial_axes(value, source))
    for row in rows:
        for name, one in zip(names, row, strict=True):
            if one is not None and one.size not in (1, count):
                raise ParameterError(
                    f"{name} has {one.size} values",
                    source=source,
                    allowed=f"one value, or {count}: one for each axis",
                )
    return [[None if one is None else np.broadcast_to(one, count).tolist() for one in row] for row in rows]


def _convolved(part: Array, axes: Seq[int], weights: Seq[npt.NDArray[np.floating[Any]]]) -> Array:
    """Convolve a sample along some axes with their weights, float32."""
    xp = namespace(part)
    result = part.astype(np.float32)
    for axis, column in zip(axes, weights, strict=True):
        if len(column) > 1 and result.size:
            op: Any = REGISTRY["filter"](
                kernel=tuple((float(one),) for one in np.ravel(column)), dtype="float32"
            )
            moved = xp.ascontiguousarray(xp.moveaxis(result, axis, 0))
            made = op(moved.reshape(len(moved), -1, 1), layout="HWC").reshape(moved.shape)
            result = xp.moveaxis(made, 0, axis)
    return xp.ascontiguousarray(result)


def blurred(value: Value, settings: Mapping[str, Any]) -> Value | None:
    """Blur samples along each of up to three axes, with the sigma and window size of each.

    Args:
        value: the samples.
        settings: arguments of ``fn.gaussian_blur`` by name; those that are nodes as their values.

    Returns:
        The result; None for images with one sigma, or one for each frame, which the operator itself blurs.
    """
    rows = _by_axis(value, settings, ("sigma", "window_size"), "fn.gaussian_blur")
    if rows is None:
        return None
    axes, parts = _spatial_axes(value, "fn.gaussian_blur"), []
    for part, (sigmas, sizes) in zip(value, rows, strict=True):
        pairs = zip(sigmas or [0.0] * len(axes), sizes or [0] * len(axes), strict=True)
        windows = [gaussian_window(sigma, int(size)) for sigma, size in pairs]
        parts.append(converted(_convolved(part, axes, windows), settings.get("dtype") or part.dtype.name))
    return Value.of(parts, value.layout, value.sources)


def gaussian_window(sigma: float, size: int) -> npt.NDArray[np.float64]:
    """Return the weights of a Gaussian window as a column; a size or sigma of 0 follows from the other, as in DALI.

    Raises:
        ParameterError: both are 0, or the size is even.
    """
    import cv2

    if sigma <= 0 and size <= 0:
        raise ParameterError("sigma and window_size are 0", source="fn.gaussian_blur", allowed="one of them")
    if size and not size % 2:
        raise ParameterError(
            f"window_size={size} is not valid", source="fn.gaussian_blur", allowed="odd numbers, or 0"
        )
    size = size or 2 * math.ceil(3 * sigma) + 1
    return np.asarray(cv2.getGaussianKernel(size, sigma or 0.3 * ((size - 1) / 2 - 1) + 0.8), np.float64)


# ---------------------------------------------------------------------- laplacian


@operator("laplacian", passes=True)
def _laplacian(call: DaliCall) -> DataNode:
    """``fn.laplacian``: also of volumes, and with windows and a scale for each axis, slices or rows first."""
    names, by_axis = ("window_size", "smoothing_size", "scale"), False
    for name in names:
        value = call.args.get(name)
        if isinstance(value, NativeNode):
            by_axis |= name != "scale"
        elif value is not None:
            by_axis |= np.size(value) > 1
            call.args[name] = np.ravel(value).tolist() if np.size(value) > 1 else np.ravel(value)[0].item()
    if not by_axis:
        return native(call, instead=_second_derivatives)  # type: ignore[no-any-return]
    kind = call.take("dtype")
    fixed = {
        "normalized_kernel": bool(call.take("normalized_kernel", False)),
        "dtype": None if kind is None else dtype_name(kind),
    }
    nodes = {name: node_of(call.take(name)).cpu() for name in names if call.args.get(name) is not None}
    call.done()

    def compute(values: list[Value], _: Any) -> Value:
        settings = {**fixed, **dict(zip(nodes, values[1:], strict=True))}
        result = _second_derivatives(values[0], settings, always=True)
        assert result is not None
        return result

    return call.node(compute, *nodes.values(), summary=f"{fixed}")


def _second_derivatives(value: Value, settings: Mapping[str, Any], *, always: bool = False) -> Value | None:
    """Return the sum of second derivatives along each of up to three axes."""
    rows = _by_axis(
        value, settings, ("window_size", "smoothing_size", "scale"), "fn.laplacian", always=always
    )
    if rows is None:
        return None
    axes, parts = _spatial_axes(value, "fn.laplacian"), []
    for part, row in zip(value, rows, strict=True):
        result = _laplacian_of(part, axes, row, bool(settings.get("normalized_kernel")))
        parts.append(converted(result, settings.get("dtype") or part.dtype.name))
    return Value.of(parts, value.layout, value.sources)


def _laplacian_of(part: Array, axes: list[int], row: list[list[float] | None], normalized: bool) -> Array:
    """Return the sum of second derivatives of one sample, float32."""
    windows, smoothings, scales = row[0] or [3] * len(axes), row[1], row[2] or [1.0] * len(axes)
    for what, least, sizes in (("Window", 3, windows), ("Smoothing window", 1, smoothings or [])):
        if wrong := [size for size in sizes if size < least or size > 31 or not size % 2]:
            raise ParameterError(
                f"{what} size must be an odd integer between {least} and 31, got {wrong[0]:g}",
                source="fn.laplacian",
            )
    total: Any = None
    for n in range(len(axes)):
        sizes = [int(one) for one in smoothings or [windows[n]] * len(axes)]
        sizes[n] = int(windows[n])
        columns = [derivative_windows(sizes[n], size)[0][k != n] for k, size in enumerate(sizes)]
        factor = scales[n] * (2.0 ** (len(axes) + 2 - sum(sizes)) if normalized else 1.0)
        term = _convolved(part, axes, columns) * np.float32(factor)
        total = term if total is None else total + term
    return total
