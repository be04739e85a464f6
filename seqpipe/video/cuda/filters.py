"""Filter axes: the parameters from which a kernel computes its weights; weights.cuh explains them."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..convert.chroma import ChromaAxis
from ..convert.geometry import Stretch

__all__ = ["FilterAxis", "filter_axis"]

_EXACT: Final = 1 << 24  # whole numbers below this are float32 numbers


class FilterAxis(NamedTuple):
    """How the pixels along one axis are made, as the kernel has it; all of them are whole numbers.

    Attributes:
        shown: samples that are shown: of the luma grid, or of the plane itself.
        size: pixels that are made of those that are scaled.
        samples: those that the plane has.
        begin: where the first one that is shown lies in the plane, in parts of a sample.
        step_bits: log2 of such parts from one shown sample to the next.
        unit_bits: log2 of such parts from one of the plane's samples to the next.
        taps: the most samples that a pixel is made of.
        first: the first of the pixels that is made.
        left: the first of the shown samples that is scaled.
        length: how many are.
    """

    shown: int
    size: int
    samples: int
    begin: int
    step_bits: int
    unit_bits: int
    taps: int
    first: int
    left: int
    length: int

    @property
    def wide(self) -> bool:
        """Whether sums of weights, as whole numbers, may be too large to be exact as float32."""
        reach = 2 * max(self.length, self.size)
        return (reach << self.unit_bits) * -(-reach // self.size) >= _EXACT


def filter_axis(axis: ChromaAxis, stretch: Stretch, *, skip_luma_grid: bool = False) -> FilterAxis:
    """What brings the wanted luma samples of an axis to a number of pixels.

    Args:
        axis: which luma samples, and how the plane's own lie among them; shift 0 for the luma plane.
        stretch: how those luma samples become pixels.
        skip_luma_grid: scale chroma samples as they are instead of on the luma grid; the wanted stretch must be
            a whole number of them, and all of it must be scaled.
    """
    # the first chroma sample may lie in the middle between two luma samples
    unit_bits = axis.shift + 1
    unit = 1 << unit_bits
    left, length, size = stretch.begin, stretch.length, stretch.size
    if skip_luma_grid:
        shown = length = axis.length >> axis.shift
        step_bits, begin = unit_bits, round(axis.extent[0] * unit)
    else:
        shown, step_bits = axis.length, 1
        begin = round((axis.start - axis.offset) * 2)
    most = min(-(-2 * max(length, size) // size), shown)  # shown samples that a pixel is made of
    step = 1 << step_bits
    furthest = unit - step + begin % step + (most - 1) * step
    taps = min(-(-furthest // unit) + 1, axis.samples)
    return FilterAxis(
        shown, size, axis.samples, begin, step_bits, unit_bits, taps, stretch.first, left, length
    )
