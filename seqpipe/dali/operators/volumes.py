"""``fn.resize``, ``fn.gaussian_blur`` and ``fn.laplacian`` of volumes: along slices as well as rows and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import REGISTRY
from ...ops import DataNode as NativeNode
from ...pipeline.value import Value
from ..call import IMAGE_LAYOUTS, DaliCall, native
from ..data_node import DataNode, node_of
from ..dtypes import converted, dtype_name

__all__ = ["blurred", "gaussian_window", "in_slices", "laplacian", "resized", "restored", "sides_and_scales"]

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


def resized(value: Value, settings: Mapping[str, Any]) -> Value:
    """Resample volumes to a size; linear interpolation is antialiased along every axis that shrinks.

    Args:
        value: volumes.
        settings: arguments of ``fn.resize`` by name; those that are nodes as their values.

    Raises:
        ParameterError: the size is missing, or has another number of sides than volumes have.
    """
    if settings.get("roi_start") is not None:
        raise ParameterError(
            "roi_start of volumes", source="fn.resize", advice="Cut the region by fn.slice first"
        )
    parts = [_resized_one(part, value.layout, settings, n) for n, part in enumerate(value)]
    return Value.of(parts, value.layout, value.sources)


def _resized_one(part: Array, layout: str, settings: Mapping[str, Any], sample: int) -> Array:
    volume, order = in_slices(part, layout)
    kind = settings.get("dtype") or part.dtype.name
    shape = tuple(map(int, volume.shape[:3]))
    sides, scales = _sizes(shape, settings, sample)
    options = {
        name: settings[name] for name in ("interp_type", "antialias") if settings.get(name) is not None
    }
    exact = options.get("interp_type") == "nearest"

    def pass_of(image: Array, axes: list[int], layout: str, keeps: int | None = None) -> Array:
        """Resample two axes, or one axis followed by an axis that keeps its length."""
        outs = [sides[axis] for axis in axes]
        starts = [shape[axis] / 2 - sides[axis] / scales[axis] / 2 for axis in axes]
        ends = [shape[axis] / 2 + sides[axis] / scales[axis] / 2 for axis in axes]
        if keeps is not None:
            outs, starts, ends = [*outs, keeps], [*starts, 0.0], [*ends, float(keeps)]
        op: Any = REGISTRY["resize"](
            size=tuple(outs),
            roi_start=tuple(starts),
            roi_end=tuple(ends),
            dtype=part.dtype.name if exact else "float32",
            compat="dali",
            **options,
        )
        return op(namespace(part).ascontiguousarray(image), layout=layout)

    flat = pass_of(volume, [1, 2], "FHWC")
    width = flat.shape[1] * flat.shape[2] * flat.shape[3]
    deep = pass_of(flat.reshape(shape[0], width, 1), [0], "HWC", width)
    result = converted(deep.reshape(sides[0], *flat.shape[1:]), kind)
    return restored(result, order, part.ndim)


def _sizes(shape: tuple[int, ...], settings: Mapping[str, Any], sample: int) -> tuple[list[int], list[float]]:
    """Return the sides of the result, and the scale of each axis: by default before sides were rounded."""
    mode = settings.get("mode") or "default"
    wanted: list[float] = [0.0] * 3
    for name, extreme in (("resize_shorter", min), ("resize_longer", max)):
        if (one := _setting_of(settings, name, sample)) is not None and one[0]:
            wanted[shape.index(extreme(shape))] = float(one[0])
            mode = "not_smaller" if extreme is min else "not_larger"
    size = _setting_of(settings, "size", sample)
    if size is not None:
        if size.size not in (1, 3):
            raise ParameterError(
                f"size has {size.size} values",
                source="fn.resize",
                allowed="3 for volumes, or one for all sides",
            )
        wanted = [float(one) for one in np.broadcast_to(size, 3)]
    for axis, name in enumerate(_SIDES.values()):
        if (one := _setting_of(settings, name, sample)) is not None:
            wanted[axis] = float(one[0])
    if not any(wanted):
        raise ParameterError("no size is given", source="fn.resize", allowed="size, or resize_x and others")
    return sides_and_scales(shape, wanted, mode, bool(settings.get("subpixel_scale", True)))


def sides_and_scales(
    shape: Seq[int], wanted: Seq[float], mode: str, subpixel_scale: bool
) -> tuple[list[int], list[float]]:
    """Return the rounded sides of a result, and the scale of each axis.

    Args:
        shape: sides of the array.
        wanted: sides of the result, not all 0; a side of 0 follows from the others.
        mode: ``mode`` of ``fn.resize``.
        subpixel_scale: whether scales are those before sides were rounded.
    """
    scales = [side / extent for side, extent in zip(wanted, shape, strict=True)]
    known = [scale for scale in scales if scale > 0]
    if mode in ("not_larger", "not_smaller"):
        scales = [min(known) if mode == "not_larger" else max(known)] * len(scales)
    else:
        other = 1.0 if mode == "stretch" else math.prod(known) ** (1 / len(known))
        scales = [scale if scale > 0 else other for scale in scales]
    sides = [max(1, math.floor(extent * scale + 0.5)) for extent, scale in zip(shape, scales, strict=True)]
    if not subpixel_scale:
        scales = [side / extent for side, extent in zip(sides, shape, strict=True)]
    return sides, scales


# ---------------------------------------------------------------------- blur


def blurred(value: Value, settings: Mapping[str, Any]) -> Value | None:
    """Blur volumes, or images with a sigma or a window size for each axis, rows first.

    Args:
        value: images or volumes.
        settings: arguments of ``fn.gaussian_blur`` by name; those that are nodes as their values.

    Returns:
        The result; None for images with one sigma, or one for each frame, which the operator itself blurs.

    Raises:
        ParameterError: sigma or window_size has another number of values than the samples have axes.
    """
    layout = value.layout or IMAGE_LAYOUTS.get(value.ndim, "")
    if any(isinstance(one, Value) and one.by_frame for one in settings.values()):
        return None
    numbers = [
        [_setting_of(settings, name, n) for name in ("sigma", "window_size")] for n in range(len(value))
    ]
    if "D" not in layout and all(one is None or one.size == 1 for row in numbers for one in row):
        return None
    parts = []
    for part, row in zip(value, numbers, strict=True):
        axes = [letter for letter in "DHW" if letter in layout]
        weights = _weights(axes, *row)
        kind = settings.get("dtype") or part.dtype.name
        parts.append(converted(_convolved(part, layout, weights), kind))
    return Value.of(parts, layout, value.sources)


def _weights(
    axes: list[str], sigma: npt.NDArray[np.float64] | None, size: npt.NDArray[np.float64] | None
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the weights of the window along each axis, as a column."""
    sigma, size = (np.zeros(1) if one is None else one for one in (sigma, size))
    for name, one in (("sigma", sigma), ("window_size", size)):
        if one.size not in (1, len(axes)):
            raise ParameterError(
                f"{name} has {one.size} values",
                source="fn.gaussian_blur",
                allowed=f"one value, or {len(axes)}: for {', '.join(axes)}",
            )
    pairs = zip(np.broadcast_to(sigma, len(axes)), np.broadcast_to(size, len(axes)), strict=True)
    return {letter: gaussian_window(float(a), int(b)) for letter, (a, b) in zip(axes, pairs, strict=True)}


def _convolved(part: Array, layout: str, weights: Mapping[str, npt.NDArray[np.floating[Any]]]) -> Array:
    """Convolve a sample along each axis with its weights, float32."""

    def smoothed(image: Array, rows: Any, columns: Any, letters: str) -> Array:
        kernel = tuple(map(tuple, np.outer(rows, columns).tolist()))
        op: Any = REGISTRY["filter"](kernel=kernel, dtype="float32")
        return op(namespace(image).ascontiguousarray(image), layout=letters)

    if "D" not in layout:
        return smoothed(part, weights["H"], weights["W"], layout)
    volume, order = in_slices(part, layout)
    flat = smoothed(volume, weights["H"], weights["W"], "FHWC")
    deep = smoothed(flat.reshape(len(flat), -1, 1), weights["D"], [1.0], "HWC")
    return restored(deep.reshape(flat.shape), order, part.ndim)


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


def laplacian(call: DaliCall) -> DataNode:
    """``fn.laplacian``: also of volumes, and with windows and a scale for each axis, slices or rows first."""
    names, by_axis = ("window_size", "smoothing_size", "scale"), False
    for name in names:
        value = call.args.get(name)
        if value is None or isinstance(value, NativeNode):
            continue
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
        if (result := _second_derivatives(values[0], settings)) is None:
            raise ParameterError("numbers by axis and by frame", source="fn.laplacian", allowed="one of both")
        return result

    return call.node(compute, *nodes.values(), summary=f"{fixed}")


def _second_derivatives(value: Value, settings: Mapping[str, Any]) -> Value | None:
    """Return the sum of second derivatives of volumes, or of images with windows or a scale for each axis.

    Args:
        value: images or volumes.
        settings: arguments of ``fn.laplacian`` by name; those that are nodes as their values.

    Returns:
        The result; None for images with one number for all axes, or one for each frame, which the operator computes.

    Raises:
        ParameterError: an argument has another number of values than the samples have axes.
    """
    layout = value.layout or IMAGE_LAYOUTS.get(value.ndim, "")
    if any(isinstance(setting, Value) and setting.by_frame for setting in settings.values()):
        return None
    names = ("window_size", "smoothing_size", "scale")
    rows = [[_setting_of(settings, name, n) for name in names] for n in range(len(value))]
    if "D" not in layout and all(numbers is None or numbers.size == 1 for row in rows for numbers in row):
        return None
    axes = [letter for letter in "DHW" if letter in layout]
    parts = []
    for part, row in zip(value, rows, strict=True):
        for name, numbers in zip(names, row, strict=True):
            if numbers is not None and numbers.size not in (1, len(axes)):
                raise ParameterError(
                    f"{name} has {numbers.size} values",
                    source="fn.laplacian",
                    allowed=f"one value, or {len(axes)}: for {', '.join(axes)}",
                )
        result = _laplacian_of(part, layout, axes, row, bool(settings.get("normalized_kernel")))
        parts.append(converted(result, settings.get("dtype") or part.dtype.name))
    return Value.of(parts, layout, value.sources)


def _laplacian_of(
    part: Array, layout: str, axes: list[str], row: list[npt.NDArray[np.float64] | None], normalized: bool
) -> Array:
    """Return the sum of second derivatives of one sample, float32.

    Args:
        part: the sample.
        layout: layout of the sample.
        axes: spatial axes of the layout.
        row: window sizes, smoothing sizes and scales, one number or one for each axis; None for the default.
        normalized: whether each derivative is scaled by 2 to the power of (axes + 2 - sum of its windows' sizes).
    """
    windows, smoothings, scales = (
        None if one is None else np.broadcast_to(one, len(axes)).tolist() for one in row
    )
    windows, scales = windows or [3] * len(axes), scales or [1.0] * len(axes)
    total: Any = None
    for n, axis in enumerate(axes):
        sizes = [int(one) for one in smoothings or [windows[n]] * len(axes)]
        sizes[n] = int(windows[n])
        weights = {}
        for letter, size in zip(axes, sizes, strict=True):
            op: Any = REGISTRY["laplacian"](window_size=sizes[n], smoothing_size=size)
            twice, smooth = op.weights(None)[0]
            weights[letter] = twice if letter == axis else smooth
        factor = scales[n] * (2.0 ** (len(axes) + 2 - sum(sizes)) if normalized else 1.0)
        term = _convolved(part, layout, weights) * np.float32(factor)
        total = term if total is None else total + term
    return total
