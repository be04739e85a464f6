"""Gaussian windows in fixed point, as bytes are smoothed: what they are, how near the exact ones, on every backend."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import ndimage

from seqpipe.ops import GaussianBlur, Sharpen, apply, per_frame
from seqpipe.ops.core.blocks import constant_of
from seqpipe.ops.core.spec import Spec
from seqpipe.ops.cuda.kernel import defines_of, source_of
from tests.support.deep import combined, deep
from tests.support.nvrtc import assert_compiles_well, missing_nvrtc
from tests.support.operators import compare

BORDERS = {
    "reflect": "mirror",
    "symmetric": "reflect",
    "edge": "nearest",
    "wrap": "grid-wrap",
    "constant": "constant",
}
FILL = 77
SIGMAS = (0.2, 0.5, 0.8, 1.0, 1.5, 1.66, 2.0, 2.6)  # up to 17 taps


def gaussian(sigma, taps):
    weights = np.exp(-((np.arange(taps) - taps // 2) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def steps(weights):
    """In 4096ths: what one loses or gains by rounding, the next one inwards has; the middle has what is left."""
    ends, owed = [], 0.0
    for weight in weights[: len(weights) // 2]:
        wanted = 4096 * weight + owed
        ends.append(round(wanted))
        owed = wanted - ends[-1]
    return np.array([*ends, 4096 - 2 * sum(ends), *ends[::-1]], np.float64)


def smoothed(x, across, down, border="reflect", part=None):
    """By SciPy, in float64: rows, rounded to 1/16 if weights are 4096ths, and then columns."""
    mode = BORDERS[border]
    rows = ndimage.correlate1d(x.astype(np.float64), across, axis=1, mode=mode, cval=FILL)
    fill = FILL * across.sum()
    if part is not None:
        rows, fill = np.rint(rows / 256), fill / 256
    return ndimage.correlate1d(rows, down, axis=0, mode=mode, cval=fill)


def in_fixed_point(x, sigma, taps, border="reflect"):
    weights = steps(gaussian(sigma, taps))
    return smoothed(x, weights, weights, border, part=256) / 65536


def taps_of(sigma):
    return 2 * math.ceil(3 * sigma) + 1


def pictures(size=(128, 170)):
    """Noise, something smooth, and shapes of the two outermost levels."""
    rng = np.random.default_rng(0)
    waves = ndimage.gaussian_filter(rng.normal(size=size), 6)
    return {
        "noise": rng.integers(0, 256, size),
        "smooth": np.rint(255 * (waves - waves.min()) / np.ptp(waves)),
        "shapes": 255 * (waves > 0),
    }


@pytest.mark.parametrize("backend", ["reference", None])
@pytest.mark.parametrize("border", BORDERS)
def test_bytes_are_smoothed_in_fixed_point(backend, border):
    """To the last bit, as SciPy does it with weights and rounding by the rule that the class states."""
    rng = np.random.default_rng(1)
    for size in ((37, 41), (4, 70), (1, 5)):
        x = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        for sigma, window in (*((sigma, 0) for sigma in SIGMAS), (21.0, 17), (0.3, 9)):
            taps = window or taps_of(sigma)
            wanted = np.stack([in_fixed_point(x[..., c], sigma, taps, border) for c in range(3)], axis=-1)
            op = GaussianBlur(sigma=sigma, window_size=window, pad_mode=border, fill_value=FILL)
            compare(apply(op, x, backend=backend), np.rint(wanted).astype(np.uint8))
            sharp = (x + 1.5 * (x - wanted)).clip(0, 255)
            if not window:
                op = Sharpen(sigma=sigma, amount=1.5, pad_mode=border, fill_value=FILL)
                compare(apply(op, x, backend=backend), np.rint(sharp).astype(np.uint8))


@pytest.mark.parametrize("sigma", [*SIGMAS, 4.0, 8.0, 21.0])
def test_blurred_bytes_are_those_of_exact_weights(sigma):
    """SciPy's in float64, rounded: all but 3 in 100, and those are another by 1."""
    taps = taps_of(sigma)
    for x in pictures().values():
        weights = gaussian(sigma, taps)
        exact = smoothed(x, weights, weights)
        found = apply(GaussianBlur(sigma=sigma), x.astype(np.uint8)[..., None], backend="reference")[..., 0]
        apart = np.abs(found - np.rint(exact))
        assert apart.max() <= 1
        assert (apart > 0).mean() <= 0.03
        assert np.abs(found - exact).max() <= 0.5 + 0.15


def test_errors_of_fixed_point_are_below_a_level():
    """Of any image: all of its values may be as bad as the errors of weights let them."""
    worst = {"blur": 0.0, "sharpen": 0.0}
    for taps in range(3, 18, 2):
        for sigma in np.concatenate((np.arange(0.05, 3, 0.01), np.arange(3, 21, 0.5))):
            weights = gaussian(sigma, taps)
            # values lie up to 127.5 from the middle of the levels; the sum of the errors of weights is 0
            bound = 2 * 127.5 * np.abs(steps(weights) / 4096 - weights).sum() + 1 / 32
            worst["blur"] = max(worst["blur"], bound)
            if taps == taps_of(sigma):
                worst["sharpen"] = max(worst["sharpen"], 1.5 * bound)
    assert 0.5 < worst["blur"] < 0.75
    assert 0.5 < worst["sharpen"] < 1


@pytest.mark.parametrize("sigma", [*SIGMAS, 4.0])
def test_what_is_even_stays_so(sigma):
    levels = np.arange(256, dtype=np.uint8)
    x = np.broadcast_to(levels[:, None, None, None], (256, 9, 20, 1))
    for backend in ("reference", "cpu"):
        compare(apply(GaussianBlur(sigma=sigma), x, backend=backend), x)
        compare(apply(Sharpen(sigma=sigma), x, backend=backend), x)


def test_halves_hold_the_weights():
    """As kernels have them. Where one is more than a half, it is an even number of steps."""
    for sigma in np.linspace(0.01, 2.66, 200):
        op = GaussianBlur(sigma=float(sigma))
        ((column, row),) = op.weights(constant_of(op, Spec(1, 8, 8, 3, "uint8")).p)
        assert column is row
        assert column.sum(dtype=np.float64) == 1
        assert (column * 4096 == np.rint(column * 4096)).all()
        assert (column.astype(np.float16) == column).all()


@pytest.mark.parametrize(
    ("op", "dtype", "fixed"),
    [
        (GaussianBlur(window_size=17), "uint8", True),
        (GaussianBlur(window_size=19), "uint8", False),
        (GaussianBlur(sigma=1.0), "int16", False),
        (GaussianBlur(sigma=1.0, dtype="float32"), "uint8", False),
        (GaussianBlur(sigma=1.0, dtype="uint8"), "float32", False),
        (Sharpen(amount=1.5), "uint8", True),
        (Sharpen(amount=1.6), "uint8", False),
    ],
    ids=repr,
)
def test_bytes_of_bytes_by_small_windows_are_in_fixed_point(op, dtype, fixed):
    assert (constant_of(op, Spec(1, 8, 8, 3, dtype)).p.steps > 0) == fixed


@pytest.mark.parametrize(("border", "channels"), combined(["reflect", "constant", "wrap"], [1, 2, 3, 4, 5]))
def test_products_of_matrices_are_the_references(emulated, channels, border):
    """Over the edges of tiles and of strips, of whole words and of others, from images smaller than a tile on."""
    rng = np.random.default_rng(channels)
    for height, width in ((1, 2), (5, 3), (45, 72), (18, 37)):
        x = rng.integers(0, 256, (height, width, channels), dtype=np.uint8)
        for op in (
            GaussianBlur(window_size=17, sigma=5.0, pad_mode=border, fill_value=FILL),
            Sharpen(amount=1.3, sigma=1.2, pad_mode=border, fill_value=FILL),
        ):
            for given in (x, x[:, ::-1]):
                compare(
                    apply(op, given, backend="cuda", device=emulated), apply(op, given, backend="reference")
                )


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize(
    ("architecture", "channels"),
    [("sm_75", 0), deep("sm_75", 1), deep("sm_75", 2), deep("sm_75", 4), deep("sm_90", 0)],
)
def test_kernels_have_room_for_any_number_of_channels(architecture, channels):
    """What they see of a strip, and keep of it, in shared memory."""
    assert_compiles_well(source_of(Sharpen), architecture, defines_of(Sharpen(), "uint8", "uint8", channels))


def test_one_call_may_be_in_fixed_point_and_not(place):
    x = np.random.default_rng(3).integers(0, 256, (5, 40, 44, 3), dtype=np.uint8)
    for op in (
        GaussianBlur(sigma=per_frame([0.0, 0.6, 2.6, 2.8, 9.0])),
        GaussianBlur(sigma=1.5, p=0.5, per_frame=True, seed=2),
        Sharpen(amount=per_frame([0.0, 1.0, 1.5, 2.0, 5.0])),
    ):
        compare(place(op, x), apply(op, x, backend="reference"), place.tolerance(op))
