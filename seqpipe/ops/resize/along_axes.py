"""Resampling of slices, rows and columns, one axis or two at a time, and the sizes of results."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...array import Array, namespace
from ..core.spec import COMPUTED_DTYPES
from .resize import Resize

__all__ = ["Resampling", "ResizedAxis", "resampled", "sides_and_scales", "sides_of", "whole_side"]


class ResizedAxis(NamedTuple):
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


@dataclass(frozen=True)
class Resampling:
    """How arrays are resampled.

    Attributes:
        filters: interpolations along axes that shrink, and along others.
        antialias: whether linear interpolation is antialiased where an axis shrinks.
        dtype: dtype of the result, or None for that of the array.
    """

    filters: tuple[Any, Any] = ("linear", "linear")
    antialias: bool = True
    dtype: str | None = None


def resampled(
    parts: list[Array], order: str, targets: list[dict[str, ResizedAxis]], how: Resampling
) -> list[Array]:
    """Resample arrays whose slices, rows and columns follow one another: rows and columns, then slices.

    Args:
        parts: the arrays.
        order: letters of their axes: any, then DHW or HW, then perhaps C.
        targets: for each array, how each of the axes D, H and W is resampled.
        how: filters and dtype.
    """
    shapes = [list(part.shape) for part in parts]
    channels = [shape[-1] if order.endswith("C") else 1 for shape in shapes]
    flat = [
        part.reshape(-1, *(part.shape[order.index(c)] for c in "HW"), count)
        for part, count in zip(parts, channels, strict=True)
    ]
    flat = _pass(flat, [(target["H"], target["W"]) for target in targets], how, deep="D" in order)
    if "D" in order:
        slabs, along = [], []
        for part, shape, target in zip(flat, shapes, targets, strict=True):
            depth, width = shape[order.index("D")], math.prod(part.shape[1:])
            slabs.append(part.reshape(-1, depth, width, 1))
            along.append((target["D"], ResizedAxis(width, 0.0, float(width))))
        flat = _pass(slabs, along, how, deep=True)
    for shape, sides in zip(shapes, targets, strict=True):
        for letter, resized in sides.items():
            shape[order.index(letter)] = resized.side
    return [part.reshape(shape) for part, shape in zip(flat, shapes, strict=True)]


def _pass(
    parts: list[Array], targets: list[tuple[ResizedAxis, ResizedAxis]], how: Resampling, *, deep: bool
) -> list[Array]:
    """Resample rows and columns of arrays ``FHWC``, all by one call if they have one filter."""
    smaller, larger = how.filters
    choices = {tuple(smaller if axis.shrinks else larger for axis in pair) for pair in targets}
    if len(choices) > 1 and len(parts) > 1:
        pairs = zip(parts, targets, strict=True)
        return [_pass([part], [pair], how, deep=deep)[0] for part, pair in pairs]
    across = choices.pop() if choices else (smaller, larger)
    if across[0] != across[1]:  # rows and columns one after the other
        rows = [
            (y, ResizedAxis(part.shape[2], 0.0, float(part.shape[2])))
            for part, (y, _) in zip(parts, targets, strict=True)
        ]
        columns = [(ResizedAxis(y.side, 0.0, float(y.side)), x) for y, x in targets]
        parts = _pass(parts, rows, replace(how, filters=(across[0],) * 2), deep=True)
        return _pass(parts, columns, replace(how, filters=(across[1],) * 2), deep=deep)
    kind = parts[0].dtype.name
    if across[0] != "nearest":
        kind = "float32" if deep else how.dtype or kind
    op: Any = Resize(
        resize_y=np.array([y.side for y, _ in targets], np.float64),
        resize_x=np.array([x.side for _, x in targets], np.float64),
        roi_start=np.array([[y.start, x.start] for y, x in targets]),
        roi_end=np.array([[y.end, x.end] for y, x in targets]),
        interp_type=across[0],
        antialias=how.antialias,
        dtype=kind if kind in COMPUTED_DTYPES else None,
        compat="dali",
    )
    xp = namespace(parts[0])
    return list(op([xp.ascontiguousarray(part) for part in parts], layout="FHWC"))


def whole_side(side: float) -> int:
    """Round a side, halves up, to at least 1."""
    return max(1, math.floor(abs(side) + 0.5 + 1e-6))


def sides_of(extents: Seq[float], wanted: Seq[float], mode: str, limits: Seq[float] | None) -> list[float]:
    """Return sides of a result before they are rounded; a negative one is mirrored.

    Args:
        extents: sides of the array.
        wanted: sides of the result; a side of 0 follows from the others.
        mode: "default" and "stretch" take the sides that are given; "not_larger" and "not_smaller" keep the aspect.
        limits: largest sides, or None.
    """
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
    exact = sides_of(shape, wanted, mode, None)
    sides = [whole_side(side) for side in exact]
    return sides, [
        (side if subpixel_scale else whole) / extent
        for side, whole, extent in zip(exact, sides, shape, strict=True)
    ]
