"""``fn.resize``, ``fn.gaussian_blur`` and ``fn.laplacian`` of volumes: along slices as well as rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops.call.backends import cuda_device_of
from ...ops.filters.along_axes import convolved, gaussian_window, laplacian_of
from ...ops.resize.along_axes import Resampling, ResizedAxis, resampled, sides_of, whole_side
from ...resampling.gather import Interpolation, gather
from ...resampling.mapping import Mapping3
from ..call import native
from ..data_node import DataNode, node_of
from ..declared import DaliCall, image_layout, operator
from ..dtypes import converted, dtype_name
from ..value import Value

__all__ = ["blurred", "gathered", "resized"]

_SIDES: Final = {"D": "resize_z", "H": "resize_y", "W": "resize_x"}


def _setting_of(settings: Mapping[str, Any], name: str, sample: int) -> npt.NDArray[np.float64] | None:
    """Return the numbers of a setting for one sample, which is a constant or the value of a node; None if absent."""
    setting = settings.get(name)
    if setting is None:
        return None
    return np.ravel(setting.on_host()[sample] if isinstance(setting, Value) else setting).astype(np.float64)


def _in_slices(array: Array, layout: str) -> tuple[Array, list[int]]:
    """Return a volume as ``DHWC``, and the order of axes that restores its layout.

    Raises:
        ParameterError: the volume has further axes.
    """
    if set(layout) - {*"DHWC"}:
        raise ParameterError(f"samples of layout {layout!r}", allowed="DHWC, CDHW or DHW")
    array, layout = (array, layout) if "C" in layout else (array[..., None], layout + "C")
    return array.transpose([layout.index(letter) for letter in "DHWC"]), ["DHWC".index(c) for c in layout]


def _restored(array: Array, order: list[int], axes: int) -> Array:
    """Return a volume ``DHWC`` in an order of axes from :func:`_in_slices`, without channels if it had ``axes`` 3."""
    volume = array.transpose(order)
    return namespace(array).ascontiguousarray(volume if axes == len(order) else volume[..., 0])


def gathered(
    array: Array,
    layout: str,
    mapping_of: Callable[[tuple[int, ...]], Mapping3],
    interpolation: Interpolation,
    fill: Any,
    kind: str | None,
) -> Array:
    """Return a volume of voxels that are taken from other places of it, on the CPU or on its GPU.

    Args:
        array: the volume.
        layout: letters of its axes.
        mapping_of: returns the places, of slices, rows and columns of the volume.
        interpolation: "nearest" or "linear".
        fill: value outside of the volume; None repeats its edge.
        kind: dtype of the result; None for that of the volume.
    """
    volume, order = _in_slices(array, layout)
    if kind not in (None, array.dtype.name) and interpolation != "nearest":
        volume = volume.astype(np.float32)
    device = None if isinstance(volume, np.ndarray) else cuda_device_of(volume)
    level = None if fill is None else float(fill)
    made = gather(volume, mapping_of(volume.shape[:3]), interpolation, level, device=device)
    return _restored(converted(made, kind or array.dtype.name), order, array.ndim)


# ---------------------------------------------------------------------- resize


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
    how = Resampling(
        settings.get("filters", ("linear", "linear")),
        settings.get("antialias") is not False,
        settings.get("dtype"),
    )
    arrays = resampled([array.transpose(axes) for array in value], "".join(orders), targets, how)
    kind = settings.get("dtype") or value.dtype.name
    back = [orders.index(letter) for letter in layout]
    results = [namespace(array).ascontiguousarray(converted(array, kind).transpose(back)) for array in arrays]
    return Value.of(results, value.layout, value.sources)


def _targets(extents: Seq[int], letters: str, settings: Mapping[str, Any], sample: int) -> list[ResizedAxis]:
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
    sides = sides_of(lengths, wanted, mode, None if limits is None else limits.tolist())
    result = []
    for start, end, side in zip(starts.tolist(), ends.tolist(), sides, strict=True):
        whole = whole_side(side)
        if settings.get("subpixel_scale", True):
            middle, reach = (start + end) / 2, (end - start) / 2 * whole / abs(side)
            start, end = middle - reach, middle + reach
        result.append(ResizedAxis(whole, end, start) if side < 0 else ResizedAxis(whole, start, end))
    return result


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
    by_frame = any(isinstance(setting, Value) and setting.by_frame for setting in settings.values())
    rows = [[_setting_of(settings, name, n) for name in names] for n in range(len(value))]
    single = all(number is None or number.size == 1 for row in rows for number in row)
    if by_frame and always:
        raise ParameterError("numbers by axis and by frame", source=source, allowed="one of both")
    images = value.layout in ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW", "CFHW")
    if not always and images and (by_frame or single):
        return None
    count = len(_spatial_axes(value, source))
    for row in rows:
        for name, number in zip(names, row, strict=True):
            if number is not None and number.size not in (1, count):
                raise ParameterError(
                    f"{name} has {number.size} values",
                    source=source,
                    allowed=f"one value, or {count}: one for each axis",
                )
    return [[None if item is None else np.broadcast_to(item, count).tolist() for item in row] for row in rows]


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
    axes, arrays = _spatial_axes(value, "fn.gaussian_blur"), []
    for array, (sigmas, sizes) in zip(value, rows, strict=True):
        pairs = zip(sigmas or [0.0] * len(axes), sizes or [0] * len(axes), strict=True)
        windows = [gaussian_window(sigma, int(size)) for sigma, size in pairs]
        arrays.append(converted(convolved(array, axes, windows), settings.get("dtype") or array.dtype.name))
    return Value.of(arrays, value.layout, value.sources)


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
    axes, arrays = _spatial_axes(value, "fn.laplacian"), []
    for array, row in zip(value, rows, strict=True):
        result = laplacian_of(array, axes, row, bool(settings.get("normalized_kernel")))
        arrays.append(converted(result, settings.get("dtype") or array.dtype.name))
    return Value.of(arrays, value.layout, value.sources)
