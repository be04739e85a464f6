"""Warping of frames by flow, detection of occlusion, and statistics of motion."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..array import Array, FloatArray, device_of, namespace, to_numpy
from ..errors import ParameterError
from .grid import grid_of
from .values import apply_to, flow_array, layout_of

__all__ = ["MotionStatistics", "occlusion", "statistics", "warp"]

X = TypeVar("X")


class MotionStatistics(NamedTuple):
    """Statistics of the lengths of flow vectors for each frame, without unknown vectors (NaN).

    Attributes:
        mean: mean length in pixels, float64; NaN for frames without known vectors.
        std: standard deviation in pixels.
        median: median in pixels.
        p95: 95th percentile in pixels.
        max: greatest length in pixels.
        moving: share of the vectors that are longer than the threshold, 0 to 1.
    """

    mean: FloatArray
    std: FloatArray
    median: FloatArray
    p95: FloatArray
    max: FloatArray
    moving: FloatArray


def statistics(flow: Any, threshold: float = 1.0) -> MotionStatistics:
    """Compute statistics of the lengths of flow vectors for each frame.

    Args:
        flow: ``(…, h, w, 2)``, a NumPy, CuPy or torch array or a Sequence.
        threshold: length in pixels above which a vector counts as moving.

    Returns:
        NumPy arrays of the shape ``…``.

    Raises:
        ParameterError: ``flow`` is not a flow.
    """
    array = to_numpy(flow_array(flow, "statistics")).astype(np.float64)
    lengths = np.hypot(array[..., 0], array[..., 1]).reshape(-1, array.shape[-3] * array.shape[-2])
    rows = [row[np.isfinite(row)] for row in lengths]
    measured = [
        (row.mean(), row.std(), np.median(row), np.percentile(row, 95), row.max(), (row > threshold).mean())
        if row.size
        else (np.nan,) * 6
        for row in rows
    ]
    columns = np.array(measured, np.float64).reshape(-1, 6).T
    return MotionStatistics(*(column.reshape(array.shape[:-3]) for column in columns))


def warp(frames: X, flow: Any, fill_value: float | None = None) -> X:
    """Warp frames backward: frame ``k + 1``, warped by the flow from ``k`` to ``k + 1``, resembles frame ``k``.

    ``out[y, x] = frame[(y, x) + flow[y, x]]``, interpolated bilinearly.

    Args:
        frames: ``(…, H, W, C)``, a NumPy, CuPy or torch array or a Sequence; for a clip, ``clip.data[1:]``.
        flow: ``(…, H, W, 2)`` for as many frames; see :func:`upsample` for flow on a grid.
        fill_value: value outside of the frame and at unknown vectors; None repeats edge pixels.

    Returns:
        Frames of the same type and dtype; integers are rounded half to even. Without ``fill_value``, pixels with an
        unknown vector (NaN) are NaN, or 0 for integers.

    Raises:
        ParameterError: frames and flow differ in number, size or device.
    """
    layout = layout_of(frames) or "C"
    if layout[-1] != "C":
        raise ParameterError(f"frames of layout {layout}", source="warp", allowed="layouts that end in C")
    return apply_to(frames, partial(_warped, flow=flow_array(flow, "warp"), fill_value=fill_value))


def _warped(frames: Array, flow: Array, fill_value: float | None) -> Array:
    """Return frames moved back along a flow, on the device of both."""
    fits = frames.ndim == flow.ndim and frames.shape[:-1] == flow.shape[:-1]
    if not fits or device_of(frames) != device_of(flow):
        raise ParameterError(
            f"frames of shape {tuple(frames.shape)} on {device_of(frames)} and a flow of shape "
            f"{tuple(flow.shape)} on {device_of(flow)}",
            source="warp",
            allowed="a flow (…, H, W, 2) of as many frames of that size, on one device",
            advice="Take frames clip[1:] for the flow of a clip, and flow.upsample() for a flow on a grid",
        )
    library: Any = namespace(frames)
    height, width, channels = frames.shape[-3:]
    result = library.empty(frames.shape, frames.dtype)
    flat = frames.reshape(-1, height, width, channels)
    for image, motion, out in zip(
        flat, flow.reshape(-1, height, width, 2), result.reshape(flat.shape), strict=True
    ):
        values, inside = _sample(library, image, motion.astype(np.float32))
        unknown = ~library.isfinite(motion).all(-1)[..., None]
        if fill_value is not None:
            values = library.where(inside[..., None], values, np.float32(fill_value))
        elif frames.dtype.kind == "f":
            values = library.where(unknown, np.float32(np.nan), values)
        else:
            values = library.where(unknown, np.float32(0), values)
        if frames.dtype.kind in "iu":
            bounds = np.iinfo(frames.dtype)
            values = library.clip(library.rint(values), bounds.min, bounds.max)
        out[...] = values.astype(frames.dtype)
    return result


def _sample(library: Any, image: Array, motion: Array) -> tuple[Array, Array]:
    """Sample an image ``(H, W, C)`` bilinearly at its displaced pixels; also return which of these lie inside."""
    height, width = image.shape[:2]
    rows = library.arange(height, dtype=np.float32)[:, None] + motion[..., 1]
    columns = library.arange(width, dtype=np.float32)[None, :] + motion[..., 0]
    inside = (rows >= -0.5) & (rows <= height - 0.5) & (columns >= -0.5) & (columns <= width - 0.5)
    rows = library.clip(library.nan_to_num(rows), 0, height - 1)
    columns = library.clip(library.nan_to_num(columns), 0, width - 1)
    top, left = rows.astype(np.int32), columns.astype(np.int32)
    down, right = (rows - top)[..., None], (columns - left)[..., None]
    next_row, next_column = library.minimum(top + 1, height - 1), library.minimum(left + 1, width - 1)
    values = image.astype(np.float32)
    upper = values[top, left] * (1 - right) + values[top, next_column] * right
    lower = values[next_row, left] * (1 - right) + values[next_row, next_column] * right
    return upper * (1 - down) + lower * down, inside


def occlusion(forward: Any, backward: Any, size: tuple[int, int] | None = None) -> Array:
    """Find cells that are visible in the first frame and occluded in the second, by forward and backward flow.

    A cell is occluded if ``|f + b|² > 0.01 (|f|² + |b|²) + 0.5``, where ``b`` is the backward flow at the point that
    the forward flow ``f`` leads to (Sundaram et al., 2010); if that point is outside of the frame; or if the flow is
    unknown.

    Args:
        forward: ``(…, h, w, 2)``, flow from the first frames to the second ones.
        backward: flow from the second frames to the first ones.
        size: (height, width) of the frames; by default that of the flow, which is then on grid 1.

    Returns:
        bool ``(…, h, w)``, NumPy or CuPy as the flow is.

    Raises:
        ParameterError: the arguments are not flow of the same shape, or do not fit frames of that size.
    """
    first, second = flow_array(forward, "occlusion"), flow_array(backward, "occlusion")
    if first.shape != second.shape or device_of(first) != device_of(second):
        raise ParameterError(
            f"forward flow of shape {tuple(first.shape)} and backward flow of shape {tuple(second.shape)}",
            source="occlusion",
            allowed="one shape, on one device",
        )
    shape = first.shape[-3:-1]
    grid = 1 if size is None else grid_of(shape, size, "occlusion")
    library: Any = namespace(first)
    result = library.empty(first.shape[:-1], bool)
    flat = first.reshape(-1, *first.shape[-3:]), second.reshape(-1, *first.shape[-3:])
    for f, backward_flow, out in zip(*flat, result.reshape(-1, *shape), strict=True):
        b, inside = _sample(library, backward_flow, f.astype(np.float32) / grid)
        error = ((f + b) ** 2).sum(-1)
        threshold = 0.01 * ((f**2).sum(-1) + (b**2).sum(-1)) + 0.5
        out[...] = ~(error <= threshold) | ~inside  # NaN counts as occluded
    return result
