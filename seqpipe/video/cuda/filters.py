"""Filter parameters per axis, from which a kernel computes its weights; weights.cuh explains them."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..convert.chroma import ChromaAxis
from ..convert.geometry import Stretch

__all__ = ["FilterAxis", "filter_axis"]

_EXACT: Final = 1 << 24  # float32 represents all integers below this


class FilterAxis(NamedTuple):
    """Resampling parameters of one axis in the kernel's form; positions are integers in fractions of a sample.

    Attributes:
        shown: number of visible samples: of the luma grid, or of the plane itself.
        size: number of pixels that the scaled samples become.
        samples: number of samples of the plane.
        begin: position of the first visible sample in the plane.
        step_bits: log2 of the distance between visible samples.
        unit_bits: log2 of the distance between samples of the plane.
        taps: maximum number of samples that contribute to a pixel.
        first: first pixel that is computed.
        left: first visible sample that is scaled.
        length: number of visible samples that are scaled.
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
        """Whether integer sums of weights may exceed the exact range of float32."""
        reach = 2 * max(self.length, self.size)
        return (reach << self.unit_bits) * -(-reach // self.size) >= _EXACT


def filter_axis(axis: ChromaAxis, stretch: Stretch, *, skip_luma_grid: bool = False) -> FilterAxis:
    """Return the filter that scales the luma samples of an axis to a number of pixels.

    Args:
        axis: range of luma samples, and the position of the plane's samples among them; shift 0 for the luma plane.
        stretch: scaling of these luma samples to pixels.
        skip_luma_grid: scale chroma samples directly instead of interpolating them to the luma grid; the stretch must
            be a whole number of them, and all of it must be scaled.
    """
    # The first chroma sample may lie halfway between two luma samples.
    unit_bits = axis.shift + 1
    unit = 1 << unit_bits
    left, length, size = stretch.begin, stretch.length, stretch.size
    if skip_luma_grid:
        shown = length = axis.length >> axis.shift
        step_bits, begin = unit_bits, round(axis.extent[0] * unit)
    else:
        shown, step_bits = axis.length, 1
        begin = round((axis.start - axis.offset) * 2)
    most = min(-(-2 * max(length, size) // size), shown)  # visible samples that contribute to a pixel
    step = 1 << step_bits
    furthest = unit - step + begin % step + (most - 1) * step
    taps = min(-(-furthest // unit) + 1, axis.samples)
    return FilterAxis(
        shown, size, axis.samples, begin, step_bits, unit_bits, taps, stretch.first, left, length
    )
