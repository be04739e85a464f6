"""Noise against its distributions by SciPy, and its bits against NumPy's and the published answers of Philox."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from seqpipe import fn
from seqpipe.core import philox
from seqpipe.core.native import compiler
from seqpipe.core.philox import random_bits
from seqpipe.ops import GaussianNoise, SaltAndPepperNoise, ShotNoise, Spec, apply
from seqpipe.ops.core.blocks import resolve
from seqpipe.ops.noise import noise, numbers
from seqpipe.ops.noise.numbers import (
    FULL,
    MIN_EXPANDED_MEAN,
    SLOTS,
    counts_of,
    fast_counts,
    fast_normal,
    normal,
    normal_indices,
    poisson,
    tables_of,
    uniform,
)
from tests.support.deep import deep
from tests.support.operators import compare

# counter, key, words: the file kat_vectors of Random123, by the authors of Philox
ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A),
    ),
]
CONSTANTS = {
    32: ((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    64: ((0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)),
}


@pytest.fixture(params=["C", "NumPy"])
def way(request, monkeypatch):
    """With a C compiler, and without."""
    if request.param == "NumPy":
        monkeypatch.setattr(philox, "_native", lambda: None)
        for module in (numbers, noise):
            monkeypatch.setattr(module, "native_noise", lambda: None)
    elif compiler() is None:
        pytest.skip("no C compiler")
    else:
        assert philox._native() is not None
        assert noise.native_noise() is not None
    tables_of.cache_clear()
    return request.param


def plain_philox(counter, key, bits, rounds):
    """The algorithm in whole numbers of any length, for words of 32 or 64 bits."""
    (m0, m1), steps = CONSTANTS[bits]
    mask = (1 << bits) - 1
    a, b, c, d = counter
    for _ in range(rounds):
        p, q = m0 * a, m1 * c
        a, b, c, d = (q >> bits) ^ b ^ key[0], q & mask, (p >> bits) ^ d ^ key[1], p & mask
        key = [(k + step) & mask for k, step in zip(key, steps, strict=True)]
    return a, b, c, d


def words(count, key=(1, 2), frame=0):
    return random_bits(key, frame, range(count))


@pytest.mark.parametrize(("counter", "key", "wanted"), ANSWERS)
def test_philox_gives_the_published_answers(counter, key, wanted):
    assert tuple(map(int, philox.philox(counter, key))) == wanted
    assert plain_philox(counter, key, 32, 7) == wanted
    signed = np.array(key, np.uint32).view(np.int32)
    assert tuple(map(int, philox.philox(counter, signed))) == wanted


def test_philox_is_numpys_for_its_length_of_words_and_its_rounds():
    """NumPy's has words of 64 bits and ten rounds; the same lines of the test judge both."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        counter, key = rng.integers(1, 2**63, 4), rng.integers(0, 2**63, 2)
        found = np.random.Philox(counter=counter - [1, 0, 0, 0], key=key).random_raw(4)
        assert plain_philox(counter.tolist(), key.tolist(), 64, 10) == tuple(map(int, found))
        short, short_key = (counter >> 31).tolist(), (key >> 31).tolist()
        assert plain_philox(short, short_key, 32, 7) == tuple(map(int, philox.philox(short, short_key)))


def test_bits_are_those_of_the_counter(way):
    """Of any numbers, keys that are negative as whole numbers of 32 bits, and frames."""
    for begin, frame, key in ((0, 0, (1, 2)), (2**33 - 7, 5, (-(2**31), -1)), (12345, 2**31 - 1, (7, -9))):
        unsigned = [word & 0xFFFFFFFF for word in key]
        for first, count in ((begin, 1), (begin, 19), (begin + 1, 2), (begin + 2, 2), (begin + 3, 6)):
            found = random_bits(key, frame, range(first, first + count))
            for number, bits in zip(range(first, first + count), found, strict=True):
                assert plain_philox((number // 4, 0, frame, 0), unsigned, 32, 7)[number % 4] == bits


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
def test_values_have_the_bits_of_their_places(anywhere, channels):
    """Of images of odd sizes: those that lie one after the other, and those that are turned round."""
    x = np.zeros((2, 5, 7, channels), np.float32)
    rows = resolve(GaussianNoise(stddev=1.0, seed=3), [Spec(*x.shape, "float32")], 2, [11]).rows
    wanted = np.array(
        [normal(words(x[0].size, row["key"], row["frame"])).reshape(x[0].shape) for row in rows]
    )
    compare(anywhere(GaussianNoise(stddev=1.0, seed=3), x, index=11, epoch=2), wanted)
    turned = x.transpose(0, 2, 1, 3)[:, ::-1]
    found = anywhere(GaussianNoise(stddev=1.0, seed=3), turned, index=11, epoch=2)
    compare(found.reshape(x.shape), wanted)
    rows = resolve(SaltAndPepperNoise(prob=0.4, seed=3), [Spec(*x.shape, "float32")], 2, [11]).rows
    places = np.array([uniform(words(35, row["key"], row["frame"])).reshape(5, 7, 1) for row in rows])
    found = anywhere(SaltAndPepperNoise(prob=0.4, seed=3), x, index=11, epoch=2)
    compare(found, np.where(places < 0.2, 1, np.where(places < 0.4, -1, x)).astype(np.float32))


def test_a_long_image_is_worked_on_in_parts_of_whole_pixels(monkeypatch, anywhere):
    """And no value is told from where the part began."""
    x = np.random.default_rng(0).integers(0, 256, (2, 37, 41, 3), dtype=np.uint8)
    for op in (GaussianNoise(stddev=9.0), ShotNoise(), SaltAndPepperNoise(prob=0.4)):
        monkeypatch.setattr(noise, "_CHUNK", 1 << 20)
        whole = anywhere(op, x)
        monkeypatch.setattr(noise, "_CHUNK", 101)
        compare(anywhere(op, x), whole)


def test_straight_parts_meet_on_the_inverse_of_the_normal_distribution():
    """No number is so near to the middle of two steps that another library's logarithm could make another one."""
    outside = np.concatenate([2.0**power * (1 + np.arange(64) / 64) for power in range(-23, 0)] + [[1.0]])
    exact = -special.ndtri(outside / 2) * 2**20
    assert normal_indices() == tuple(np.rint(exact).astype(int).tolist())
    assert np.abs(np.abs(exact[:-1] - np.floor(exact[:-1])) - 0.5).min() > 1e-3


def test_normal_numbers_are_the_inverse_of_their_distribution():
    """Also at the farthest places, on both sides; the lower 9 bits tell nothing."""
    ends = np.array([0, 511, 512, 1023, 2**31 - 1, 2**31, 2**32 - 512, 2**32 - 1], np.uint32)
    bits = np.concatenate([words(100_000), ends])
    place = (bits >> 9).astype(np.float64) * 512 + 256
    place -= 2.0**32 * (place >= 2**31)
    wanted = -special.ndtri(np.abs(place) / 2**32) * np.sign(place)
    found = normal(bits)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1.4e-5)
    compare(fast_normal(bits), found)
    compare(normal(bits ^ np.uint32(511)), found)
    assert found.max() == -found.min() > 5.29


@pytest.mark.parametrize("count", [1 << 20, deep(1 << 24)])
def test_normal_numbers_are_as_often_far_from_0_as_they_should(count):
    """In all quantiles, up to 5 standard deviations; the first four moments, too."""
    found = fast_normal(words(count)).astype(np.float64)
    for far in (0.5, 1.0, 2.0, 3.0, 4.0, 4.5, 5.0):
        for side in (found > far, found < -far):
            assert stats.binomtest(int(side.sum()), count, stats.norm.sf(far)).pvalue > 1e-4, far
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((found**power).mean() - moment) < 4 * np.sqrt(spread / count)
    edges = stats.norm.ppf(np.arange(1, 1000) / 1000)
    assert stats.chisquare(np.bincount(np.searchsorted(edges, found), minlength=1000)).pvalue > 1e-4


@pytest.mark.deep
def test_words_of_a_counter_know_nothing_of_each_other():
    """Nor do those of neighboring counters, frames and keys: neither they nor their squares, nor single bits."""
    count = 1 << 20
    bits = words(count)
    one = normal(bits).astype(np.float64)
    others = [np.roll(bits, -lag) for lag in (1, 2, 3, 4, 5, 8, 12, 1020)]
    others += [words(count, frame=1), words(count, key=(2, 2)), words(count, key=(1, 3))]
    for other_bits in others:
        other = normal(other_bits).astype(np.float64)
        for a, b in ((one, other), (one**2 - 1, other**2 - 1), (one**2 - 1, other)):
            assert abs((a * b).mean()) < 4.5 * a.std() * b.std() / np.sqrt(count)
        both = np.unpackbits((bits ^ other_bits).view(np.uint8).reshape(-1, 4), axis=1)
        assert np.abs(both.mean(axis=0) - 0.5).max() < 4.5 * 0.5 / np.sqrt(count)
    cells = np.histogram2d(bits[0::2], bits[1::2], bins=64, range=[[0, 2**32]] * 2)[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def test_uniform_numbers_are_the_middles_of_equal_steps():
    bits = np.array([0, 255, 256, 2**31, 2**32 - 1], np.uint32)
    steps = np.array([0, 0, 1, 2**23, 2**24 - 1]) + 0.5
    np.testing.assert_allclose(uniform(bits), steps * 2.0**-24, rtol=6e-8)
    assert 0 < uniform(bits).min() < uniform(bits).max() <= 1


@pytest.mark.parametrize("mean", [0.001, 0.7, 5.0, 10.0, 12.99, 13.0, 31.0, 1000.0])
def test_poisson_numbers_have_their_probabilities(mean):
    count = 400_000
    found = poisson(np.full(count, mean, np.float32), words(count))
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


@pytest.mark.parametrize("factor", [9.7, 19.62, 20.0, 64.0, 300.0, 1e9])
def test_tables_have_the_probabilities_of_counts(way, factor):
    """Added up over all slots, for each level of which few are expected."""
    tables = tables_of(factor)
    own, other, slots = tables >> 6, tables & 63, np.arange(SLOTS)
    for level in range(256):
        mean = np.float32(level) / np.float32(factor)
        if not mean < MIN_EXPANDED_MEAN:
            break
        found = np.bincount(slots, own[level], 64)
        found += np.bincount(other[level], 2**26 - own[level].astype(np.int64), 64)
        off = found[:SLOTS] / 2**26 / SLOTS - stats.poisson.pmf(slots, float(mean))
        assert np.abs(off).sum() < 2e-6
        assert not found[SLOTS:].any()
    assert not other[0].any()
    assert stats.poisson.sf(SLOTS - 1, MIN_EXPANDED_MEAN) < 2 * stats.norm.sf(5)


def test_tables_are_the_same_with_and_without_c(monkeypatch):
    factors = [0.3, 7.0, 19.62, 20.0, 333.0, 1e30]
    found = [tables_of.__wrapped__(factor) for factor in factors]
    for factor in factors:
        places = numbers._indices_of(factor)
        assert (places.sum(axis=1, dtype=np.uint64) == SLOTS * FULL).all()
    monkeypatch.setattr(numbers, "native_noise", lambda: None)
    for factor, table in zip(factors, found, strict=True):
        compare(tables_of.__wrapped__(factor), table)


@pytest.mark.parametrize("factor", [3.0, 20.0])
def test_counts_of_levels_have_their_probabilities(factor):
    """Levels with tables, and without."""
    count = 400_000
    for level in (1, 20, 38, 39, 100, 255):
        levels = np.full(count, level, np.uint8)
        found = counts_of(levels, np.float32(factor), words(count))
        compare(fast_counts(levels, np.float32(factor), words(count)), found)
        seen = np.bincount(found.astype(int), minlength=130)
        expected = stats.poisson.pmf(np.arange(len(seen)), level / factor) * count
        used = expected > 5
        chi = ((seen - expected)[used] ** 2 / expected[used]).sum()
        assert chi < stats.chi2.isf(1e-4, used.sum())


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_gaussian_noise_is_gaussian(channels):
    x = np.full((3, 200, 150, channels), 7.0, np.float32)
    found = (fn.gaussian_noise(x, mean=2.0, stddev=3.0, seed=11) - 9) / 3
    assert stats.kstest(found.ravel(), "norm").pvalue > 0.001
    for axis in range(4):  # of neighbors, frames and channels none knows of another
        if found.shape[axis] > 1:
            one, other = np.take(found, [0], axis), np.take(found, [1], axis)
            assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(one.size)
            shifted = np.roll(found, 1, axis)
            assert abs(np.corrcoef(found.ravel(), shifted.ravel())[0, 1]) < 5 / np.sqrt(found.size)


def test_shot_noise_has_its_mean_and_variance():
    x = np.repeat(np.array([0.5, 8.0, 100.0, 240.0], np.float32), 40_000).reshape(4, 200, 200, 1)
    found = fn.shot_noise(x, factor=4.0)
    for level, result in zip((0.5, 8.0, 100.0, 240.0), found, strict=True):
        counts = result.ravel() / 4
        assert (counts == np.rint(counts)).all()
        assert abs(counts.mean() - level / 4) < 5 * np.sqrt(level / 4 / counts.size)
        assert counts.var() == pytest.approx(level / 4, rel=0.04)
    compare(fn.shot_noise(-x, factor=4.0), -x)


def test_salt_and_pepper_come_as_often_as_asked():
    x = np.full((4, 200, 200, 3), 100, np.uint8)
    found = fn.salt_and_pepper_noise(x, prob=0.2, salt_vs_pepper=0.75)
    assert ((found == found[..., :1]).all(axis=-1)).all()
    one = found[..., 0].ravel()
    assert stats.binomtest(int((one == 255).sum()), one.size, 0.15).pvalue > 0.001
    assert stats.binomtest(int((one == 0).sum()), one.size, 0.05).pvalue > 0.001
    assert set(np.unique(one)) == {0, 100, 255}
    each = fn.salt_and_pepper_noise(x, prob=0.2, per_channel=True)
    hit = each != 100
    assert stats.binomtest(int(hit.all(axis=-1).sum()), one.size, 0.2**3).pvalue > 0.001


@pytest.mark.parametrize(
    ("dtype", "pepper", "salt"), [("uint8", 0, 255), ("int16", -32768, 32767), ("float32", -1, 1)]
)
def test_salt_and_pepper_are_the_ends_of_the_type(dtype, pepper, salt):
    found = fn.salt_and_pepper_noise(np.full((64, 64), 0.5, np.float32).astype(dtype), prob=1.0)
    assert set(np.unique(found)) == {pepper, salt}


@pytest.mark.parametrize("factor", [0.3, 20.0, 200.0])
def test_counts_on_a_cpu_are_those_of_the_reference(way, factor):
    x = np.random.default_rng(1).integers(0, 256, (200, 330, 2), dtype=np.uint8)
    op = ShotNoise(factor=factor)
    compare(op(x), apply(op, x, backend="reference"))


@pytest.mark.parametrize(
    ("dtype", "level", "stddev"), [("uint8", 120, 50), ("int16", 0, 9000), ("uint16", 30000, 9000)]
)
def test_kernels_give_the_references_whole_numbers(place, dtype, level, stddev):
    """Of noise so strong that each bit of a number counts."""
    x = np.full((60, 90, 3), level, dtype)
    for op in (GaussianNoise(stddev=stddev, mean=0.5), ShotNoise(factor=0.01), ShotNoise(factor=11.0)):
        compare(place(op, x), apply(op, x, backend="reference"))


@pytest.mark.parametrize("factor", [0.4, 3.0, 17.0, 20.0, 300.0])
def test_kernels_find_counts_by_tables(place, factor):
    """Of bytes: of levels of which some photons are expected, of which more are, and of which very many are."""
    x = np.random.default_rng(2).integers(0, 256, (2, 61, 90, 3), dtype=np.uint8)
    op = ShotNoise(factor=factor, seed=6)
    compare(place(op, x), apply(op, x, backend="reference"))


def test_kernels_give_the_references_bits_of_very_strong_noise(place):
    x = np.random.default_rng(3).integers(0, 256, (2, 61, 90, 3), dtype=np.uint8)
    strong = [GaussianNoise(stddev=stddev, mean=100.0) for stddev in (700.0, 2000.0, 2e5)]
    for op in (*strong, ShotNoise(factor=1e-6)):
        compare(place(op, x), apply(op, x, backend="reference"))


def test_kernels_give_the_references_bits_of_floats(emulated):
    """Small and large means, and more than four channels, that share one counter."""
    x = np.random.default_rng(0).uniform(-1, 60, (2, 31, 40, 6)).astype(np.float32)
    for op in (GaussianNoise(mean=0.3, stddev=2.0), ShotNoise(factor=0.7), ShotNoise(factor=9.0)):
        compare(apply(op, x, backend="cuda", device=emulated), apply(op, x, backend="reference"))
