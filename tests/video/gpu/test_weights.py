"""The weights that kernels work out in whole numbers, bit for bit those of a table in float64."""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqpipe.core.kernel import CudaSource
from seqpipe.core.native import source_text
from seqpipe.video.convert.chroma import ChromaAxis
from seqpipe.video.convert.geometry import Stretch
from seqpipe.video.cuda.conversion import FilterAxis, filter_axis
from tests.support.benches import Bench
from tests.support.filter_table import filter_table, window_table

MARGIN = 3  # samples on both sides of a pixel's own, which must have no weight
_CODE = (
    "typedef unsigned long long Address;\n"
    + source_text("seqpipe.video.cuda", "weights.cuh")
    + """
struct Question { Address first, weights; Axis axis; int margin; };
extern "C" __global__ void answer(const __grid_constant__ Question question) {
    const Axis& axis = question.axis;
    const int pixel = blockIdx.x * 64 + threadIdx.x, taps = axis.taps + 2 * question.margin;
    if (pixel >= axis.size) return;
    const Span span = span_of(axis, pixel);
    ((int*)question.first)[pixel] = span.first;
    for (int i = 0; i < taps; i++) {
        const int sample = span.first - question.margin + i;
        ((float*)question.weights)[pixel * taps + i] = sample < 0 ? 0 : weight_of(axis, span, sample);
    }
}
"""
)
# seldom drawn: as many as there are, one for all, all for one, a single sample, sums that a float cannot hold
STRETCHES = ((97, 97), (97, 1), (1, 97), (1, 1), (2, 300), (1920, 224), (1080, 224), (5000, 3), (8192, 2))


def whole(axis: ChromaAxis, size: int) -> Stretch:
    """All samples that are shown become so many pixels, all of which are made."""
    return Stretch(0, axis.length, size, 0, size, ends=False)


def weights_of(bench: Bench, axis: FilterAxis, *, ends: bool = False) -> NDArray[np.float32]:
    """By pixel and sample, as the kernel has them."""
    source = CudaSource("seqpipe.video.cuda", "weights_alone.cu")
    source.__dict__["text"] = _CODE
    taps = axis.taps + 2 * MARGIN
    first = bench.array(np.full(axis.size, -9, np.int32))
    weights = bench.array(np.full((axis.size, taps), 9, np.float32))
    packed = struct.pack("2Q 10i i", bench.address(first), bench.address(weights), *axis, MARGIN)
    job: Any = np.ndarray((), np.dtype((np.void, len(packed))), bytearray(packed))
    grid = (-(-axis.size // 64), 1, 1)
    bench.device.launch(source, "answer", {"WIDE": int(axis.wide), "ENDS": int(ends)}, grid, 64, job, None)
    begins, found = bench.numpy(first), bench.numpy(weights)
    table = np.zeros((axis.size, axis.samples), np.float32)
    for pixel, (begin, line) in enumerate(zip(begins, found, strict=True)):
        assert 0 <= begin < axis.samples
        samples = begin - MARGIN + np.arange(taps)
        inside = (samples >= 0) & (samples < axis.samples)
        assert not line[~inside].any()
        table[pixel, samples[inside]] = line[inside]
    return table


def drawn_axis(random: np.random.Generator, length: int, shift: int) -> ChromaAxis:
    """A stretch of a plane, from its border or elsewhere to its border or not."""
    before, after = (int(random.integers(0, 40)) * int(random.integers(0, 2)) for _ in range(2))
    offset = float(random.choice([0.0, 0.5, 1.0])) * ((1 << shift) - 1)
    return ChromaAxis(shift, offset, before, length, -(-(before + length + after) >> shift))


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_weights_are_those_of_the_table(bench: Bench, shift: int) -> None:
    random = np.random.default_rng(shift)
    drawn = [tuple(int(n) for n in np.exp(random.uniform(0, 6.5, 2)).astype(int)) for _ in range(60)]
    wide = 0
    for length, size in (*STRETCHES, *drawn):
        axis = drawn_axis(random, length, shift)
        skips = (False, True) if shift and axis.skips_luma_grid(size) else (False,)
        for skip in skips:
            filters = filter_axis(axis, whole(axis, size), skip_luma_grid=skip)
            found, wanted = weights_of(bench, filters), filter_table(axis, size, skip_luma_grid=skip)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{axis} {size} {skip}")
            taps = [np.ptp(np.flatnonzero(line)) + 1 for line in wanted]
            assert max(taps) <= filters.taps
            # some pixel's triangle lies within the stretch
            assert size < 3 or filters.taps <= max(taps) + 2
            wide += filters.wide
    assert 0 < wide < 10


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_weights_of_windows_are_those_of_the_table(bench: Bench, shift: int) -> None:
    """Samples beside the window count, those that are not shown do not; of a part of the pixels, too."""
    random = np.random.default_rng(shift)
    drawn = [tuple(int(n) for n in np.exp(random.uniform(0, 5.5, 2)).astype(int)) for _ in range(40)]
    for length, size in (*STRETCHES[:5], (300, 56), *drawn):
        before, behind = (int(n) for n in random.integers(0, 30, 2) * random.integers(0, 2, 2))
        axis = drawn_axis(random, before + length + behind, shift)
        made = Stretch(before, length, size, 0, size, ends=True)
        filters = filter_axis(axis, made)
        found, wanted = weights_of(bench, filters, ends=True), window_table(axis, made)
        np.testing.assert_allclose(found, wanted, atol=1e-7, err_msg=f"{axis} {made}")
        first = int(random.integers(0, size))
        part = weights_of(bench, filter_axis(axis, made._replace(first=first)), ends=True)
        np.testing.assert_array_equal(part[: size - first], found[first:])


def test_where_rounding_in_float64_parts_from_it_the_kernel_is_nearer(bench: Bench) -> None:
    """One weight of some millions lies so close to the middle of two floats that the table takes the wrong one."""
    axis, size = ChromaAxis(0, 0.0, 0, 3107, 3107), 224
    found, table = weights_of(bench, filter_axis(axis, whole(axis, size))), filter_table(axis, size)
    (apart,) = np.argwhere(found != table)
    pixel, sample = (int(n) for n in apart)
    center = Fraction((2 * pixel + 1) * axis.length, 2 * size) - Fraction(1, 2)
    reach = Fraction(axis.length, size)
    all_of_it = [max(Fraction(0), 1 - abs(place - center) / reach) for place in range(-20, axis.length + 20)]
    exact = all_of_it[sample + 20] / sum(all_of_it)
    assert abs(Fraction(float(found[pixel, sample])) - exact) < abs(
        Fraction(float(table[pixel, sample])) - exact
    )
