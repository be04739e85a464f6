"""``fn.water``, ``sphere``, ``jitter`` and ``experimental.remap``: images whose pixels are displaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ...random import stream
from ..call import IMAGE_LAYOUTS, DaliCall, plain
from ..data_node import DataNode, node_of
from ..dtypes import converted
from ..value import Value

__all__ = ["displaced", "jitter", "remap", "sphere", "water"]

_WAVE: Final = 2 * math.pi / 128
_Positions: TypeAlias = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


def water(height: int, width: int, options: Mapping[str, float]) -> _Positions:
    """Return the column and the row that each pixel of ``fn.water`` is taken from."""
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    across = options.get("ampl_x", 10.0) * np.sin(
        options.get("freq_x", _WAVE) * y + options.get("phase_x", 0.0)
    )
    down = options.get("ampl_y", 10.0) * np.cos(
        options.get("freq_y", _WAVE) * x + options.get("phase_y", 0.0)
    )
    return (x + across).astype(np.float32), (y + down).astype(np.float32)


def sphere(height: int, width: int, _: Mapping[str, float]) -> _Positions:
    """Return the column and the row that each pixel of ``fn.sphere`` is taken from."""
    middle_x, middle_y = width / 2, height / 2
    x, y = np.meshgrid(np.arange(width) + 0.5 - middle_x, np.arange(height) + 0.5 - middle_y)
    distance = np.sqrt(x * x + y * y) / max(width // 2, height // 2)
    return (middle_x + distance * x).astype(np.float32), (middle_y + distance * y).astype(np.float32)


def displaced(
    positions_of: Callable[[int, int, Mapping[str, float]], _Positions], names: tuple[str, ...] = ()
) -> Callable[[DaliCall], DataNode]:
    """Return the builder of an operator that moves pixels.

    Args:
        positions_of: returns the column and the row that each pixel is taken from, of height, width and options.
        names: the options.
    """

    def build(call: DaliCall) -> DataNode:
        options = {name: float(value) for name in names if (value := call.take(name)) is not None}
        kind = plain("interp_type", call.take("interp_type", "nearest"))
        if kind not in ("nearest", "linear"):
            raise call.wrong(f"interp_type={kind!r}", allowed="types.INTERP_NN, types.INTERP_LINEAR")
        mask, fill = call.take("mask", 1), call.take("fill_value", 0.0)
        if isinstance(fill, NativeNode):
            raise call.wrong("fill_value is a node", allowed="a number")
        call.done()

        def compute(values: list[Value], _: Run) -> Value:
            value = values[0]
            _check_layout(value, call.row.name)
            parts = []
            for part, acts in zip(value, values[1].on_host(), strict=True):
                positions = positions_of(part.shape[-3], part.shape[-2], options)
                parts.append(
                    _sampled(part, positions, kind == "linear", float(fill)) if np.any(acts) else part
                )
            return Value.of(parts, value.layout, value.sources)

        return call.node(compute, node_of(mask).cpu(), summary=f"{options} {kind} {fill}")

    return build


def jitter(call: DaliCall) -> DataNode:
    """``fn.jitter``: each value is that of a pixel near by, drawn for each channel; all frames are moved alike."""
    degree, mask = int(call.take("nDegree", 2)), node_of(call.take("mask", 1)).cpu()
    call.args.pop("interp_type", None)  # pixels are moved as a whole
    call.args.pop("fill_value", None)  # no pixel comes from outside
    seed = call.drawing_seed
    call.done()

    def compute(values: list[Value], run: Run) -> Value:
        value = values[0]
        _check_layout(value, call.row.name)
        parts = []
        for part, acts, index in zip(value, values[1].on_host(), run.index.tolist(), strict=True):
            xp, shape = namespace(part), part.shape[-3:]
            drawn = stream(seed, "jitter", run.epoch, index).integers(
                -(degree // 2), degree - degree // 2, (2, *shape), endpoint=True
            )
            rows, columns, channels = (xp.asarray(one) for one in np.indices(shape))
            rows = (rows + xp.asarray(drawn[0])).clip(0, shape[0] - 1)
            columns = (columns + xp.asarray(drawn[1])).clip(0, shape[1] - 1)
            parts.append(part[..., rows, columns, channels] if np.any(acts) else part)
        return Value.of(parts, value.layout, value.sources)

    return call.node(compute, mask, summary=f"{degree} {seed}")


def remap(call: DaliCall) -> DataNode:
    """``fn.experimental.remap``: pixels from the columns ``mapx`` and the rows ``mapy``, 0 outside of the image.

    The maps have the rows and columns of the image, and frames if they differ between the frames of a sequence.
    """
    maps = [node_of(call.take(name)) if name in call.args else None for name in ("mapx", "mapy")]
    images, *more = call.inputs
    map_nodes = [*more, *(one for one in maps if one is not None)]
    kind = plain("interp_type", call.take("interp", "linear"))
    origin = call.take("pixel_origin", "corner")
    call.done()
    if len(map_nodes) != 2:
        raise call.wrong(f"there are {len(map_nodes)} maps", allowed="mapx and mapy")
    if kind not in ("nearest", "linear"):
        raise call.wrong(f"interp={kind!r}", allowed="types.INTERP_NN, types.INTERP_LINEAR")
    if origin not in ("corner", "center"):
        raise call.wrong(f"pixel_origin={origin!r} is not valid", allowed="'corner', 'center'")
    call.inputs = [images]

    def one(part: Array, *positions: Array) -> Array:
        shape = part.shape[:-1]
        x, y = (
            np.asarray(coordinates, np.float32) + (0.5 if origin == "center" else 0)
            for coordinates in positions
        )
        x, y = (
            coordinates[..., 0] if coordinates.shape[-1:] == (1,) and shape[-1] != 1 else coordinates
            for coordinates in (x, y)
        )
        if x.shape != y.shape or x.shape not in (shape, shape[-2:]):
            raise ParameterError(
                f"maps of shape {x.shape} and {y.shape} for images of {shape}",
                source=f"fn.{call.row.name}",
                allowed="the rows and columns of the image",
            )
        if x.ndim == 2:
            return _sampled(part, (x, y), kind == "linear", 0.0)
        frames = [
            _sampled(*frame, kind == "linear", 0.0)
            for frame in zip(part, zip(x, y, strict=True), strict=True)
        ]
        return namespace(part).stack(frames)

    def compute(values: list[Value], _: Run) -> Value:
        value, *positions = values
        _check_layout(value, call.row.name)
        return Value.of(map(one, value, *positions), value.layout, value.sources)

    return call.node(compute, *(node.cpu() for node in map_nodes), summary=f"{kind} {origin}")


def _check_layout(value: Value, name: str) -> None:
    """Check that samples are images or sequences with channels last."""
    layout = value.layout or IMAGE_LAYOUTS.get(value.ndim, "")
    if layout[-3:] != "HWC":
        raise ParameterError(f"samples of layout {layout!r}", source=f"fn.{name}", allowed="HWC or FHWC")


def _sampled(part: Array, positions: _Positions, linear: bool, fill: float) -> Array:
    """Return images ``(…, H, W, C)`` with displaced pixels, ``fill`` outside; pixel centers are at n + 0.5."""
    xp = namespace(part)
    height, width = part.shape[-3:-1]
    x, y = (xp.asarray(one) for one in positions)

    def pixels(rows: Array, columns: Array) -> Array:
        inside = (columns >= 0) & (rows >= 0) & (columns < width) & (rows < height)
        sampled = part[..., xp.where(inside, rows, 0), xp.where(inside, columns, 0), :]
        return xp.where(inside[..., None], sampled, level)

    level = converted(xp.asarray(fill), part.dtype.name)
    if not linear:
        return pixels(xp.floor(y).astype(int), xp.floor(x).astype(int))
    left, top = xp.floor(x - 0.5).astype(int), xp.floor(y - 0.5).astype(int)
    across, down = (x - 0.5 - left)[..., None], (y - 0.5 - top)[..., None]
    upper = pixels(top, left) * (1 - across) + pixels(top, left + 1) * across
    lower = pixels(top + 1, left) * (1 - across) + pixels(top + 1, left + 1) * across
    return converted(upper * (1 - down) + lower * down, part.dtype.name)
