"""``fn.water``, ``sphere``, ``jitter`` and ``experimental.remap``: images whose pixels are displaced."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ...array import Array, namespace
from ...ops import DataNode as NativeNode
from ...ops import Run
from ...ops.geometry.displaced import displaced, sphere_positions, water_positions
from ...random import stream
from ..call import plain
from ..data_node import DataNode, node_of
from ..declared import DaliCall, Seed, image_layout, operator
from ..value import Value

__all__: list[str] = []

_WAVE: Final = 2 * math.pi / 128
_WATER: Final = {
    **{"ampl_x": 10.0, "ampl_y": 10.0, "freq_x": _WAVE, "freq_y": _WAVE, "phase_x": 0.0, "phase_y": 0.0}
}


@operator("sphere", "water", each={"mask": 1}, passes=True)
def _displaced(call: DaliCall, *, interp_type: Any = "nearest", fill_value: Any = 0.0) -> DataNode:
    """An operator that moves pixels: those of samples whose mask is not 0."""
    known = _WATER if call.row.name == "water" else {}
    options = {name: float(call.take(name, default)) for name, default in known.items()}
    positions_of = water_positions if known else sphere_positions
    kind = plain("interp_type", interp_type)
    if kind not in ("nearest", "linear"):
        raise call.wrong(f"interp_type={kind!r}", allowed="types.INTERP_NN, types.INTERP_LINEAR")
    if isinstance(fill_value, NativeNode):
        raise call.wrong("fill_value is a node", allowed="a number")
    call.done()

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        _check_layout(value, call)
        arrays = []
        for array, acts in zip(value, values[1], strict=True):
            positions = positions_of(array.shape[-3], array.shape[-2], options)
            moves = np.any(acts)
            arrays.append(
                displaced(array, positions, kind == "linear", float(fill_value)) if moves else array
            )
        return Value.of(arrays, value.layout, value.sources)

    return call.node(compute, summary=f"{options}")


@operator(
    "jitter", each={"mask": 1}, note="other random numbers than DALI's; also on the CPU, and of sequences"
)
def _jitter(
    call: DaliCall,
    *,
    nDegree: int = 2,  # noqa: N803  DALI's name
    interp_type: Any = None,  # noqa: ARG001  pixels are moved as a whole
    fill_value: Any = None,  # noqa: ARG001  no pixel comes from outside
    seed: Seed,
) -> DataNode:
    """``fn.jitter``: each value is that of a pixel near by, drawn for each channel; all frames are moved alike."""

    def compute(values: list[Value], run: Run) -> Value:
        value = values[0]
        _check_layout(value, call)
        arrays = []
        for array, acts, index in zip(value, values[1], run.index.tolist(), strict=True):
            xp, shape = namespace(array), array.shape[-3:]
            drawn = stream(seed, "jitter", run.epoch, index).integers(
                -(nDegree // 2), nDegree - nDegree // 2, (2, *shape), endpoint=True
            )
            rows, columns, channels = (xp.asarray(side) for side in np.indices(shape))
            rows = (rows + xp.asarray(drawn[0])).clip(0, shape[0] - 1)
            columns = (columns + xp.asarray(drawn[1])).clip(0, shape[1] - 1)
            arrays.append(array[..., rows, columns, channels] if np.any(acts) else array)
        return Value.of(arrays, value.layout, value.sources)

    return call.node(compute)


@operator("experimental.remap", note="interp is INTERP_NN or INTERP_LINEAR; also on the CPU")
def _remap(
    call: DaliCall,
    *,
    mapx: Any = None,
    mapy: Any = None,
    interp: Any = "linear",
    pixel_origin: Any = "corner",
) -> DataNode:
    """``fn.experimental.remap``: pixels from the columns ``mapx`` and the rows ``mapy``, 0 outside of the image.

    The maps have the rows and columns of the image, and frames if they differ between the frames of a sequence.
    """
    images, *more = call.inputs
    map_nodes = [*more, *(node_of(positions) for positions in (mapx, mapy) if positions is not None)]
    kind, origin = plain("interp_type", interp), pixel_origin
    if len(map_nodes) != 2:
        raise call.wrong(f"there are {len(map_nodes)} maps", allowed="mapx and mapy")
    if kind not in ("nearest", "linear"):
        raise call.wrong(f"interp={kind!r}", allowed="types.INTERP_NN, types.INTERP_LINEAR")
    if origin not in ("corner", "center"):
        raise call.wrong(f"pixel_origin={origin!r} is not valid", allowed="'corner', 'center'")
    call.inputs = [images]

    def computed(array: Array, *positions: Array) -> Array:
        shape = array.shape[:-1]
        x, y = (
            np.asarray(coordinates, np.float32) + (0.5 if origin == "center" else 0)
            for coordinates in positions
        )
        x, y = (
            coordinates[..., 0] if coordinates.shape[-1:] == (1,) and shape[-1] != 1 else coordinates
            for coordinates in (x, y)
        )
        if x.shape != y.shape or x.shape not in (shape, shape[-2:]):
            raise call.fault(
                f"maps of shape {x.shape} and {y.shape} for images of {shape}",
                allowed="the rows and columns of the image",
            )
        if x.ndim == 2:
            return displaced(array, (x, y), kind == "linear", 0.0)
        frames = [
            displaced(*frame, kind == "linear", 0.0)
            for frame in zip(array, zip(x, y, strict=True), strict=True)
        ]
        return namespace(array).stack(frames)

    def compute(values: list[Value], _: Run) -> Value:
        value, *positions = values
        _check_layout(value, call)
        return Value.of(map(computed, value, *positions), value.layout, value.sources)

    return call.node(compute, *(node.cpu() for node in map_nodes))


def _check_layout(value: Value, call: DaliCall) -> None:
    """Check that samples are images or sequences with channels last."""
    if (layout := image_layout(value))[-3:] != "HWC":
        raise call.fault(f"samples of layout {layout!r}", allowed="HWC or FHWC")
