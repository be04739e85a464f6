"""Erasing against plain slices, torchvision's rule in distribution, and what DALI was seen to do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Erase, RandomErasing, Spec, per_frame
from seqpipe.ops.core.blocks import resolve
from seqpipe.random import stream
from tests.support.operators import compare

NINES = np.full((10, 10, 1), 9, np.uint8)

# arguments, and rows and columns that DALI 2.4 erased of a 10×10 image
SEEN = [
    ({"anchor": (1.6, 1.4), "shape": (2.7, 2.2)}, (1, 4), (1, 3)),
    ({"anchor": (0.16, 0.14), "shape": (0.27, 0.22), "normalized": True}, (1, 4), (1, 3)),
    (
        {"anchor": (0.5, 0.5), "shape": (0.35, 0.25), "normalized": True, "centered_anchor": True},
        (3, 6),
        (3, 6),
    ),
    ({"anchor": (5.0, 5.0), "shape": (3.0, 2.0), "centered_anchor": True}, (3, 6), (4, 6)),
    ({"anchor": (5.0, 5.0), "shape": (3.5, 2.5), "centered_anchor": True}, (3, 6), (3, 6)),
    ({"anchor": (-2.0, 8.0), "shape": (4.0, 4.0)}, (0, 2), (8, 10)),
    ({"anchor": (2.5, 3.5), "shape": (1.0, 1.0)}, (2, 3), (3, 4)),
    ({"anchor": (2.5, 3.5), "shape": (1.5, 2.5)}, (2, 4), (3, 6)),
]


def extent(erased):
    """Rows and columns of the one box that is erased; it must be a full one."""
    rows, columns = (np.flatnonzero(erased.any(axis=axis)) for axis in (1, 0))
    assert erased.sum() == len(rows) * len(columns)
    return (rows[0], rows[-1] + 1), (columns[0], columns[-1] + 1)


@pytest.mark.parametrize(("arguments", "rows", "columns"), SEEN, ids=str)
def test_a_region_is_that_of_dali(anywhere, arguments, rows, columns):
    assert extent(anywhere(Erase(**arguments), NINES)[..., 0] == 0) == (rows, columns)


def test_normalized_may_be_said_of_one_of_both():
    for arguments in (
        {"anchor": (0.2, 0.3), "shape": (4.0, 2.0), "normalized_anchor": True},
        {"anchor": (2.0, 3.0), "shape": (0.4, 0.2), "normalized_shape": True},
        {"anchor": (2.0, 3.0), "shape": (0.4, 0.2), "normalized": True, "normalized_anchor": False},
    ):
        assert extent(fn.erase(NINES, **arguments)[..., 0] == 0) == ((2, 6), (3, 5))


def test_several_regions_and_a_level_for_each_channel(anywhere):
    x = np.random.default_rng(0).integers(0, 255, (2, 30, 40, 3), dtype=np.uint8)
    wanted = x.copy()
    for top, left, bottom, right in ((2, 3, 9, 20), (25, 30, 30, 40), (5, 10, 12, 14)):
        wanted[:, top:bottom, left:right] = (7, 8, 200)
    op = Erase(anchor=(2, 3), shape=(7, 17), more=[25, 30, 9, 99, 5, 10, 7, 4], fill_value=(7.0, 8.0, 200.0))
    compare(anywhere(op, x), wanted)


def test_one_level_serves_any_number_of_channels(anywhere):
    x = np.ones((6, 6, 7), np.float32)
    found = anywhere(Erase(shape=(2, 6), fill_value=0.5), x)
    assert (found[:2] == 0.5).all()
    assert (found[2:] == 1).all()


def test_a_region_may_move_with_the_frames(anywhere):
    x = np.full((5, 8, 8, 1), 9, np.uint8)
    found = anywhere(Erase(anchor=per_frame(np.c_[np.arange(5), np.full(5, 2)]), shape=(1, 3)), x)
    for frame, one in enumerate(found[..., 0]):
        assert extent(one == 0) == ((frame, frame + 1), (2, 5))


def test_levels_that_fit_no_channels_are_refused():
    for levels in ((1.0, 2.0), (1.0,) * 5):
        with pytest.raises(
            ParameterError, match=rf"erase: fill_value has {len(levels)} values for 3 channels"
        ):
            fn.erase(np.zeros((4, 4, 3), np.uint8), shape=(2, 2), fill_value=levels)


def test_random_erasing_has_the_distribution_of_torchvision():
    """Area and logarithm of the ratio are uniform, and so is the place within what is left free."""
    height, width, count = 200, 300, 1000
    x = np.ones((count, 1, height, width, 1), np.uint8)
    found = fn.random_erasing(x, scale=(0.05, 0.2), ratio=(0.5, 2.0), seed=5)[:, 0, :, :, 0] == 0
    boxes = np.array([np.ravel(extent(result)) for result in found], np.float64)
    top, bottom, left, right = boxes.T
    rows, columns = bottom - top, right - left
    assert stats.kstest(rows * columns / height / width, stats.uniform(0.05, 0.15).cdf).pvalue > 0.001
    ratio = np.log(rows / columns) / np.log(2)
    assert stats.kstest(ratio, stats.uniform(-1, 2).cdf).pvalue > 0.001
    for start, free in ((top, height - rows), (left, width - columns)):
        assert stats.kstest((start + 0.5) / (free + 1), "uniform").pvalue > 0.001


def test_random_erasing_tries_ten_times_and_then_leaves_it():
    """What is as wide or as high as the image never does."""
    x = np.ones((600, 1, 20, 20, 1), np.uint8)
    never = fn.random_erasing(x, scale=(1.0, 1.0), ratio=(0.3, 3.3))
    compare(never, x)
    # with this ratio it has 60 √area rows, which must be fewer than 20
    share = (fn.random_erasing(x, scale=(0.02, 3 / 4), ratio=(9.0, 9.0)) == 0).any(axis=(1, 2, 3, 4)).mean()
    fits = ((20 * 3 * np.sqrt(np.linspace(0.02, 0.75, 100_001))).round() < 20).mean()
    assert stats.binomtest(int(share * 600), 600, 1 - (1 - fits) ** 10).pvalue > 0.001


def test_a_random_region_reaches_every_border():
    x = np.ones((300, 1, 6, 6, 1), np.uint8)
    found = fn.random_erasing(x, scale=(0.25, 0.25), ratio=(1.0, 1.0), seed=8)[:, 0, :, :, 0] == 0
    places = [extent(result) for result in found]
    for axis in (0, 1):
        assert {place[axis] for place in places} == {(0, 3), (1, 4), (2, 5), (3, 6)}


def first_that_fits(numbers, op, height, width):
    """The rule as it is told: four numbers an attempt, for area, ratio, top and left; ten attempts."""
    for area, ratio, top, left in numbers.astype(np.float64).reshape(-1, 4):
        pixels = height * width * (op.scale[0] + (op.scale[1] - op.scale[0]) * area)
        lo, hi = map(math.log, op.ratio)
        aspect = np.exp(lo + (hi - lo) * ratio)
        rows, columns = round(np.sqrt(pixels * aspect)), round(np.sqrt(pixels / aspect))
        if rows < height and columns < width:
            begin = int(top * (height - rows + 1)), int(left * (width - columns + 1))
            return [*begin, begin[0] + rows, begin[1] + columns]
    return [0, 0, 0, 0]


@pytest.mark.parametrize("samples", [1, 2, 9])
@pytest.mark.parametrize("size", [(24, 30), (9, 200), (2, 2)])
def test_random_regions_are_drawn_by_the_rule(size, samples):
    """Of the numbers of each sample's own generator, however many are drawn together."""
    for op in (RandomErasing(seed=3), RandomErasing(scale=(0.3, 1.0), ratio=(0.1, 9.0), p=0.5)):
        spec = Spec(2, *size, 3, "uint8")
        rows = resolve(op, [spec] * samples, 4, range(5, 5 + samples)).rows
        found = op.kernel_rows(rows, spec)["boxes"][:, :4].tolist()
        for index, box, acts in zip(range(5, 5 + samples), found, rows["acts"], strict=True):
            rng = stream(op.seed, op.name, 4, index)
            assert box == first_that_fits(rng.random(40, np.float32), op, *size)
            assert acts == (op.p == 1 or rng.random() < op.p)
