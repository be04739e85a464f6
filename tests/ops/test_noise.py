"""Noise against its distributions by SciPy, and its bits against NumPy's and the published answers of Philox."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from seqpipe import fn
from seqpipe.native import compiler
from seqpipe.ops import NoiseGaussian, NoiseSaltAndPepper, NoiseShot, _noise, apply
from seqpipe.ops._noise import normal, philox, poisson, uniform
from tests.support.operators import compare

# counter, key, words: the file kat_vectors of Random123, by the authors of Philox
ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
CONSTANTS = {
    32: ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    64: ((0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)),
}


def plain_philox(counter, key, bits):
    """The algorithm in whole numbers of any length, for words of 32 or 64 bits."""
    (m0, m1), steps = CONSTANTS[bits]
    mask = (1 << bits) - 1
    a, b, c, d = counter
    for _ in range(10):
        p, q = m0 * a, m1 * c
        a, b, c, d = (q >> bits) ^ b ^ key[0], q & mask, (p >> bits) ^ d ^ key[1], p & mask
        key = [(k + step) & mask for k, step in zip(key, steps, strict=True)]
    return a, b, c, d


def words(count, key=(1, 2)):
    return np.concatenate(philox((np.arange(count, dtype=np.uint64), 0, 0, 0), key))


@pytest.mark.parametrize(("counter", "key", "wanted"), ANSWERS)
def test_philox_gives_the_published_answers(counter, key, wanted):
    assert tuple(map(int, philox(counter, key))) == wanted
    assert plain_philox(counter, key, 32) == wanted
    signed = np.array(key, np.uint32).view(np.int32)
    assert tuple(map(int, philox(counter, signed))) == wanted


def test_philox_is_numpys_for_its_length_of_words():
    """NumPy's has words of 64 bits; the same lines of the test judge both."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        counter, key = rng.integers(1, 2**63, 4), rng.integers(0, 2**63, 2)
        found = np.random.Philox(counter=counter - [1, 0, 0, 0], key=key).random_raw(4)
        assert plain_philox(counter.tolist(), key.tolist(), 64) == tuple(map(int, found))
        short, short_key = (counter >> 31).tolist(), (key >> 31).tolist()
        assert plain_philox(short, short_key, 32) == tuple(map(int, philox(short, short_key)))


@pytest.mark.parametrize(
    "native",
    [pytest.param(True, marks=pytest.mark.skipif(compiler() is None, reason="no C compiler")), False],
)
@pytest.mark.parametrize("channels", [1, 3, 4, 5, 9])
def test_bits_are_those_of_the_counter_with_and_without_c(native, channels, monkeypatch):
    """Of any pixels, keys that are negative as whole numbers of 32 bits, and frames."""
    if native:
        assert _noise._native() is not None
    else:
        monkeypatch.setattr(_noise, "_native", lambda: None)
    for begin, frame, key in ((0, 0, (1, 2)), (2**31 - 7, 5, (-(2**31), -1)), (12345, 2**31 - 1, (7, -9))):
        p = SimpleNamespace(key=np.array(key, np.int32), frame=frame)
        found = _noise.bits_of(p, range(begin, begin + 6), channels)
        unsigned = [word & 0xFFFFFFFF for word in key]
        for pixel, row in zip(range(begin, begin + 6), found, strict=True):
            blocks = [plain_philox((pixel, group, frame, 0), unsigned, 32) for group in range(3)]
            assert row.tolist() == [word for four in blocks for word in four][:channels]


def test_normal_numbers_are_the_inverse_of_their_distribution():
    bits = np.concatenate([words(50_000), np.array([0, 1, 2, 3, 2**32 - 1, 2**32 - 2], np.uint32)])
    outside = ((bits >> 1) + 0.5) * 2.0**-31
    wanted = -special.ndtri(outside / 2) * np.where(bits & 1, -1, 1)
    found = normal(bits)
    np.testing.assert_allclose(found[:-6], wanted[:-6], rtol=0, atol=2e-6)
    np.testing.assert_allclose(
        found[-6:], wanted[-6:], rtol=0, atol=3e-3
    )  # one of 2³¹, where the paper's are coarser


def test_uniform_numbers_are_the_middles_of_equal_steps():
    bits = np.array([0, 255, 256, 2**31, 2**32 - 1], np.uint32)
    steps = np.array([0, 0, 1, 2**23, 2**24 - 1]) + 0.5
    np.testing.assert_allclose(uniform(bits), steps * 2.0**-24, rtol=6e-8)
    assert 0 < uniform(bits).min() < uniform(bits).max() <= 1


@pytest.mark.parametrize("mean", [0.001, 0.7, 5.0, 9.99, 10.0, 31.0, 1000.0])
def test_poisson_numbers_have_their_probabilities(mean):
    count = 400_000
    found = poisson(np.full(count, mean, np.float32), words(count // 4))
    lo, hi = stats.poisson.ppf([0.001, 0.999], mean)
    edges = np.unique(np.linspace(lo, hi, 25).round())
    expected = np.diff(stats.poisson.cdf(edges, mean), prepend=0, append=1) * count
    seen = np.bincount(np.searchsorted(edges, found), minlength=len(edges) + 1)
    used = expected > 5
    chi = ((seen - expected)[used] ** 2 / expected[used]).sum()
    assert chi < stats.chi2.isf(1e-4, used.sum())
    assert abs(found.mean() - mean) < 5 * np.sqrt(mean / count)
    assert found.min() >= 0
    assert (found == np.rint(found)).all()


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_gaussian_noise_is_gaussian(channels):
    x = np.full((3, 200, 150, channels), 7.0, np.float32)
    found = (fn.noise_gaussian(x, mean=2.0, stddev=3.0, seed=11) - 9) / 3
    assert stats.kstest(found.ravel(), "norm").pvalue > 0.001
    for axis in range(4):  # of neighbours, frames and channels none knows of another
        if found.shape[axis] > 1:
            one, other = np.take(found, [0], axis), np.take(found, [1], axis)
            assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(one.size)
            shifted = np.roll(found, 1, axis)
            assert abs(np.corrcoef(found.ravel(), shifted.ravel())[0, 1]) < 5 / np.sqrt(found.size)


def test_shot_noise_has_its_mean_and_variance():
    x = np.repeat(np.array([0.5, 8.0, 100.0, 240.0], np.float32), 40_000).reshape(4, 200, 200, 1)
    found = fn.noise_shot(x, factor=4.0)
    for level, one in zip((0.5, 8.0, 100.0, 240.0), found, strict=True):
        counts = one.ravel() / 4
        assert (counts == np.rint(counts)).all()
        assert abs(counts.mean() - level / 4) < 5 * np.sqrt(level / 4 / counts.size)
        assert counts.var() == pytest.approx(level / 4, rel=0.04)
    compare(fn.noise_shot(-x, factor=4.0), -x)


def test_salt_and_pepper_come_as_often_as_asked():
    x = np.full((4, 200, 200, 3), 100, np.uint8)
    found = fn.noise_salt_and_pepper(x, prob=0.2, salt_vs_pepper=0.75)
    assert ((found == found[..., :1]).all(axis=-1)).all()
    one = found[..., 0].ravel()
    assert stats.binomtest(int((one == 255).sum()), one.size, 0.15).pvalue > 0.001
    assert stats.binomtest(int((one == 0).sum()), one.size, 0.05).pvalue > 0.001
    assert set(np.unique(one)) == {0, 100, 255}
    each = fn.noise_salt_and_pepper(x, prob=0.2, per_channel=True)
    hit = each != 100
    assert stats.binomtest(int(hit.all(axis=-1).sum()), one.size, 0.2**3).pvalue > 0.001


@pytest.mark.parametrize(
    ("dtype", "pepper", "salt"), [("uint8", 0, 255), ("int16", -32768, 32767), ("float32", -1, 1)]
)
def test_salt_and_pepper_are_the_ends_of_the_type(dtype, pepper, salt):
    found = fn.noise_salt_and_pepper(np.full((64, 64), 0.5, np.float32).astype(dtype), prob=1.0)
    assert set(np.unique(found)) == {pepper, salt}


def test_the_same_sample_has_the_same_noise_wherever_it_stands(anywhere):
    x = np.full((3, 2, 20, 20, 3), 100, np.uint8)
    for op in (NoiseGaussian(stddev=9.0, seed=4), NoiseShot(factor=8.0), NoiseSaltAndPepper(prob=0.4)):
        found = anywhere(op, x, index=10, epoch=3)
        compare(anywhere(op, x[:1], index=12, epoch=3), found[2:])
        for other in (found[1], anywhere(op, x[0], index=10, epoch=4)):
            assert (found[0] != other).any()
        assert (
            anywhere(type(op)(**{**op.settings(), "seed": 99}), x[0], index=10, epoch=3) != found[0]
        ).any()


@pytest.mark.parametrize("factor", [0.3, 20.0, 200.0])
def test_counts_by_levels_are_those_of_each_value(factor):
    """Images of bytes as large as these go through a table, on a CPU."""
    x = np.random.default_rng(1).integers(0, 256, (200, 330, 2), dtype=np.uint8)
    op = NoiseShot(factor=factor)
    compare(op(x), apply(op, x, backend="reference"))


@pytest.mark.parametrize(
    ("dtype", "level", "stddev"), [("uint8", 120, 50), ("int16", 0, 9000), ("uint16", 30000, 9000)]
)
def test_kernels_find_whole_numbers_by_bounds(place, dtype, level, stddev):
    """Of noise so strong that bounds that are too narrow would give others."""
    x = np.full((60, 90, 3), level, dtype)
    for op in (NoiseGaussian(stddev=stddev, mean=0.5), NoiseShot(factor=0.01), NoiseShot(factor=11.0)):
        compare(place(op, x), apply(op, x, backend="reference"))


@pytest.mark.parametrize("factor", [0.4, 3.0, 17.0, 20.0, 300.0])
def test_kernels_find_counts_by_tables(place, factor):
    """Of bytes: of levels of which some photons are expected, of which more are, and of which very many are."""
    x = np.random.default_rng(2).integers(0, 256, (2, 61, 90, 3), dtype=np.uint8)
    op = NoiseShot(factor=factor, seed=6)
    compare(place(op, x), apply(op, x, backend="reference"))


def test_kernels_make_all_values_anew_where_hardly_any_is_near_enough(place):
    x = np.random.default_rng(3).integers(0, 256, (2, 61, 90, 3), dtype=np.uint8)
    for op in (NoiseGaussian(stddev=2e5, mean=40.0), NoiseShot(factor=1e-6)):
        compare(place(op, x), apply(op, x, backend="reference"))


def test_kernels_make_those_values_anew_that_are_not_near_enough(place):
    """Of noise so strong that near numbers are some steps of a hundred off, and few enough values are left open."""
    x = np.random.default_rng(4).integers(0, 256, (8, 61, 90, 3), dtype=np.uint8)
    for stddev in (700.0, 2000.0):
        op = NoiseGaussian(stddev=stddev, mean=100.0)
        compare(place(op, x), apply(op, x, backend="reference"))


def test_kernels_give_the_references_bits_of_floats(emulated):
    """Small and large means, and more than four channels, that share one counter."""
    x = np.random.default_rng(0).uniform(-1, 60, (2, 31, 40, 6)).astype(np.float32)
    for op in (NoiseGaussian(mean=0.3, stddev=2.0), NoiseShot(factor=0.7), NoiseShot(factor=9.0)):
        compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))
