"""``fn.warp_affine``: images, and volumes by matrices of 12 numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ...ops.call.backends import cuda_device_of
from ...resampling.gather import gather
from ...resampling.mapping import Mapping3
from ..call import native, plain
from ..data_node import node_of
from ..declared import DaliCall, operator
from ..dtypes import converted, dtype_name
from ..value import Value
from .volumes import in_slices, restored

__all__: list[str] = []


@operator("warp_affine", passes=True, accept=("border",), inputs=("matrix",))
def _warp_affine(call: DaliCall) -> Any:
    """``fn.warp_affine``: ``matrix`` and ``size`` may be nodes; those of volumes have x, y and z, and slices first."""
    matrix, size = call.args.get("matrix"), call.args.get("size")
    if matrix is None:
        raise call.wrong("matrix is missing", allowed="6 values, 12 for volumes, or a node")
    deep = not isinstance(matrix, NativeNode) and np.size(matrix) == 12
    sized = isinstance(size, NativeNode) or (size is not None and np.size(size) == 3)
    if isinstance(size, (list, tuple)) and not sized:  # fractions are rounded, as in DALI
        call.args["size"] = tuple(max(math.floor(float(side) + 0.5), 1) for side in size)
    if not deep and not sized:
        return native(call, instead=_of_volumes)
    kind = call.take("dtype")
    options = {
        "fill_value": call.take("fill_value"),
        "interp_type": plain("interp_type", call.take("interp_type", "linear")),
        "inverse_map": bool(call.take("inverse_map", True)),
        "dtype": None if kind is None else dtype_name(kind),
    }
    arguments = {name: value for name in ("matrix", "size") if (value := call.take(name)) is not None}
    call.done()
    nodes = {name: node_of(value).cpu() for name, value in arguments.items()}

    def compute(values: list[Value], _: Run) -> Value:
        return _warped(values[0], {**options, **dict(zip(nodes, values[1:], strict=True))})

    return call.node(compute, *nodes.values(), summary=f"{options}")


def _of_volumes(value: Value, settings: Mapping[str, Any]) -> Value | None:
    """Warp volumes; return None for images."""
    return _warped(value, settings) if "D" in value.layout else None


def _warped(value: Value, settings: Mapping[str, Any]) -> Value:
    """Warp volumes, or images of a size for each sample."""
    layout = value.layout or {3: "HWC", 4: "DHWC"}.get(value.ndim, "")
    interpolation = settings.get("interp_type") or "linear"
    if interpolation not in ("nearest", "linear"):
        raise ParameterError(
            f"interp_type={interpolation!r}",
            source="fn.warp_affine",
            allowed="types.INTERP_NN, types.INTERP_LINEAR",
        )
    axes = 3 if "D" in layout else 2
    parts = []
    for n, part in enumerate(value):
        numbers = partial(_numbers, settings, sample=n)
        matrix = numbers("matrix", axes * (axes + 1), f"{axes * (axes + 1)} for samples of {axes} axes")
        size = numbers("size", axes, f"{axes} for samples of {axes} axes")
        frames, letters = (part, layout[1:]) if axes == 3 and "F" in layout else ([part], layout)
        sides = None if size is None else [max(math.floor(side + 0.5), 1) for side in size.tolist()]
        results = [_one(frame, letters, matrix, sides, settings) for frame in frames]
        parts.append(namespace(part).stack(results) if frames is part else results[0])
    return Value.of(parts, layout, value.sources)


def _one(
    part: Array, layout: str, matrix: Any, sides: list[int] | None, settings: Mapping[str, Any]
) -> Array:
    """Warp a volume, or an image."""
    interpolation: Any = settings.get("interp_type") or "linear"
    fill = settings.get("fill_value")
    kind, axes = settings.get("dtype") or part.dtype.name, 3 if "D" in layout else 2
    volume, order = in_slices(part, layout) if axes == 3 else (part[None], [0, 1, 2, 3])
    if kind != part.dtype.name and interpolation != "nearest":
        volume = volume.astype(np.float32)
    sides = list(volume.shape[3 - axes : 3]) if sides is None else sides
    mapping = _mapping(matrix, axes, sides, inverse=settings.get("inverse_map") is not False)
    device = None if isinstance(volume, np.ndarray) else cuda_device_of(volume)
    level = None if fill is None else float(fill)
    warped = converted(gather(volume, mapping, interpolation, level, device=device), kind)
    return restored(warped, order, part.ndim) if axes == 3 else warped[0]


def _numbers(
    settings: Mapping[str, Any], name: str, count: int, allowed: str, *, sample: int
) -> npt.NDArray[np.float64] | None:
    """Return the numbers of a setting for one sample; None if it is absent."""
    setting = settings.get(name)
    if setting is None:
        return None
    numbers = np.ravel(setting.on_host()[sample] if isinstance(setting, Value) else setting)
    if numbers.size != count:
        raise ParameterError(
            f"{name} has {numbers.size} values", source="fn.warp_affine", allowed=f"values: {allowed}"
        )
    return numbers.astype(np.float64)


def _mapping(matrix: Any, axes: int, sides: Any, *, inverse: bool) -> Mapping3:
    """Return the mapping between centers of voxels of a matrix for x, y and z, whose origin is a corner."""
    whole: npt.NDArray[Any] = np.eye(4)
    whole[3 - axes : 3, 3 - axes : 3] = matrix.reshape(axes, axes + 1)[::-1, axes - 1 :: -1]
    whole[3 - axes : 3, 3] = matrix.reshape(axes, axes + 1)[::-1, axes]
    if not inverse:
        whole = np.linalg.inv(whole)
    half = np.full(3, 0.5)
    half[: 3 - axes] = 0
    whole[:3, 3] += whole[:3, :3] @ half - half
    return Mapping3((*([1] * (3 - axes)), *sides), whole)
