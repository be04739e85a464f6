"""Numbers for noise: for every value of every frame its own, from a counter instead of a state.

The random bits of a value are those of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011) for the counter (pixel, channel // 4, frame, 0), word channel % 4. What is made of them uses additions,
products, quotients and square roots of float32 only, each rounded, so that kernels give the same bits: see noise.cuh.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..native import load_native, memory
from ._kernel import with_fields
from ._op import Op
from ._spec import Spec

__all__ = [
    "ASK",
    "BITS_OF_COUNTS",
    "Bits",
    "Floats",
    "Noise",
    "bits_of",
    "counts_of_levels",
    "normal",
    "philox",
    "poisson",
    "uniform",
]

Bits = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

_FACTORS: Final = 0xD2511F53, 0xCD9E8D57
_STEPS: Final = 0x9E3779B9, 0xBB67AE85
_LOW: Final = 0xFFFFFFFF
_CHUNK: Final = 16384  # pixels whose numbers are made together, and stay in the cache
_SQRT2: Final = np.float32(1.41421356)
_LN2: Final = np.float32(0.693147182)
BITS_OF_COUNTS: Final = 10
"""Of the random bits, the highest ones, by which :func:`counts_of_levels` knows counts."""
ASK: Final = 255
"""In the table of :func:`counts_of_levels`: those bits do not tell, the count is to be found from all of them."""
_LEAST: Final = np.float32(1e-10)  # probability, from which on no more are added up
_FEW: Final = np.float32(10)  # events, from which the normal expansion takes the place of adding up

# Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), in single precision
_CENTRAL: Final = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_TAIL: Final = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
_EXP: Final = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0)


class Noise(Op, register=False):
    """An operator that draws for every value: of each sample a key, of which all numbers of its frames follow."""

    frames_alike: ClassVar[bool] = False
    samples_together: ClassVar[bool] = True

    @classmethod
    def block_dtype(cls) -> np.dtype[Any]:
        """A row with the key and the number of the frame."""
        return with_fields(super().block_dtype(), ("key", np.int32, (2,)), ("frame", np.int32))

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:
        """What is drawn for any operator, and the key."""
        # those of rng.integers(-(2**31), 2**31, 2), of a generator that has not drawn yet; at a third of the time
        words = np.array(rng.bit_generator.random_raw(), "<u8", ndmin=1)
        key = words.view("<u4").astype(np.int64).reshape(-1, 2) - 2**31
        return {**super().sample(rng, spec), "key": key, "frame": np.arange(spec.frames)[None]}

    def noisy(self, x: Array, p: Any, change: Callable[[Any, Bits, Bits], Array]) -> Array:
        """Images, each value changed by its random bits.

        Args:
            x: images ``(1, H, W, C)`` of any type, for there is a row of parameters for each frame.
            p: the parameters.
            change: of values ``(pixels, C)``, their bits, and those of the first channel, which are the pixel's own.
        """
        *_, channels = x.shape
        pixels = np.ascontiguousarray(x).reshape(-1, channels)
        out = np.empty(pixels.shape, np.float32)
        for start in range(0, len(pixels), _CHUNK):
            part = slice(start, min(start + _CHUNK, len(pixels)))
            bits = bits_of(p, range(part.start, part.stop), channels)
            out[part] = change(pixels[part], bits, bits[:, :1])
        return out.reshape(x.shape)


def bits_of(p: Any, pixels: range, channels: int) -> Bits:
    """The random bits of some pixels of a frame ``(pixels, channels)``.

    Args:
        p: the parameters: the key and the number of the frame.
        pixels: their numbers, one after the other.
        channels: how many values each has.
    """
    native = _native()
    if native is None:
        numbers = np.arange(pixels.start, pixels.stop, dtype=np.uint64)
        words = [philox((numbers, group, p.frame, 0), p.key) for group in range(-(-channels // 4))]
        return np.stack([word for four in words for word in four][:channels], axis=-1)
    found = np.empty((len(pixels), channels), np.uint32)
    key = (int(word) & _LOW for word in p.key)
    native(*key, p.frame, pixels.start, len(pixels), channels, memory(found))
    return found


@cache
def _native() -> Any:
    """``noise_bits.c``; None where there is no C compiler."""
    library = load_native(__package__, "noise_bits.c")
    if library is None:
        return None
    word, count = ctypes.c_uint32, ctypes.c_int64
    function = library.seqpipe_noise_bits
    function.restype, function.argtypes = None, (word, word, word, word, count, count, ctypes.c_void_p)
    return function


def philox(counter: tuple[Any, Any, Any, Any], key: Any) -> tuple[Bits, Bits, Bits, Bits]:
    """The four words of Philox4x32-10.

    Args:
        counter: four words of 32 bits, each a number or an array of uint64.
        key: two words of 32 bits; negative ones stand for the same bits.
    """
    low, high = (int(word) & _LOW for word in key)
    keys = [((low + n * _STEPS[0]) & _LOW, (high + n * _STEPS[1]) & _LOW) for n in range(10)]
    words: list[Any] = [word if isinstance(word, int) else np.asarray(word, np.uint64) for word in counter]
    # in the first two rounds, what is the same for all is found once, and with Python's numbers
    for first, second in keys[:2]:
        one, other = words[0] * _FACTORS[0], words[2] * _FACTORS[1]
        words = [(other >> 32) ^ words[1] ^ first, other & _LOW, (one >> 32) ^ words[3] ^ second, one & _LOW]
    arrays = np.empty((6, *np.broadcast_shapes(*map(np.shape, words))), np.uint64)
    a, b, c, d, p, q = (arrays[n, ...] for n in range(6))
    for into, word in zip((a, b, c, d), words, strict=True):
        into[...] = word
    factors, low_bits, upper = np.array(_FACTORS, np.uint64), np.uint64(_LOW), np.uint64(32)
    for first, second in np.array(keys[2:], np.uint64):
        np.multiply(a, factors[0], out=p)
        np.multiply(c, factors[1], out=q)
        np.bitwise_xor(np.right_shift(q, upper, out=a), b, out=a)
        np.bitwise_xor(np.right_shift(p, upper, out=c), d, out=c)
        np.bitwise_xor(a, first, out=a)
        np.bitwise_xor(c, second, out=c)
        np.bitwise_and(q, low_bits, out=b)
        np.bitwise_and(p, low_bits, out=d)
    w, x, y, z = (word.astype(np.uint32) for word in (a, b, c, d))
    return w, x, y, z


def uniform(bits: Bits) -> Floats:
    """Numbers above 0 and below 1: the middles of 2²⁴ steps."""
    return ((bits >> np.uint32(8)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-24)


def normal(bits: Bits) -> Floats:
    """Numbers of the standard normal distribution, by its inverse; the lowest bit is the sign."""
    outside = (bits >> np.uint32(1)).view(np.int32).astype(np.float32)  # as signed, which is quicker
    outside += np.float32(0.5)
    outside *= np.float32(2.0**-31)
    w = np.float32(2) - outside
    w *= outside
    w = _log(w)
    np.negative(w, out=w)
    far = np.nonzero(w >= np.float32(5))
    found = _polynomial(_CENTRAL, w - np.float32(2.5))
    found[far] = _polynomial(_TAIL, np.sqrt(w[far]) - np.float32(3))
    np.subtract(np.float32(1), outside, out=outside)
    found *= outside
    found *= _SQRT2
    signs = found.view(np.uint32)
    signs ^= bits << np.uint32(31)
    return found


def poisson(mean: Floats, bits: Bits) -> Floats:
    """Numbers of the Poisson distribution.

    For means below 10 by adding up probabilities; else by the expansion of its inverse round the normal one (Giles,
    "Algorithm 955", 2016), of which less than 0.05 % are one off.

    Args:
        mean: above 0.
        bits: of the same shape.
    """
    few = mean < _FEW
    found = np.empty_like(mean)
    found[few] = _counted(mean[few], uniform(bits[few]))
    found[~few] = _expanded(mean[~few], normal(bits[~few]))
    return found


@lru_cache(maxsize=16)
def counts_of_levels(factor: float) -> npt.NDArray[np.uint8]:
    """What :func:`poisson` gives for levels of 8 bits divided by a factor, by the highest bits of the random ones.

    Returns:
        ``(256 << BITS_OF_COUNTS,)``, by level and then by bits; ``ASK`` where it depends on the other bits as well, or
        the mean is not below 10.
    """
    mean = np.arange(256, dtype=np.float32) / np.float32(factor)
    few = (mean > 0) & (mean < _FEW)
    mean = np.where(few, mean, np.float32(1))
    probability = _exp(-mean)
    total, totals = probability.copy(), []
    while (going := few & (probability > _LEAST)).any():
        totals.append(np.where(going, total, np.float32(np.inf)))
        probability *= mean / np.float32(len(totals))
        total += probability
    first = np.arange(1 << BITS_OF_COUNTS, dtype=np.uint32) << np.uint32(32 - BITS_OF_COUNTS)
    ends = uniform(first), uniform(first + np.uint32((1 << (32 - BITS_OF_COUNTS)) - 1))
    table = np.full((256, len(first)), ASK, np.uint8)
    table[0] = 0
    steps = np.array(totals, np.float32).reshape(-1, 256)
    for level in np.flatnonzero(few):
        least, most = (np.searchsorted(steps[:, level], end) for end in ends)
        table[level] = np.where(least == most, least, ASK)
    return table.ravel()


def _counted(mean: Floats, place: Floats) -> Floats:
    """How many events have to be allowed for until the probability reaches a place."""
    found = np.zeros_like(mean)
    probability = _exp(-mean)
    total = probability.copy()
    at = np.flatnonzero((total < place) & (probability > _LEAST))
    while at.size:
        found[at] += np.float32(1)
        probability[at] *= mean[at] / found[at]
        total[at] += probability[at]
        at = at[(total[at] < place[at]) & (probability[at] > _LEAST)]
    return found


def _expanded(mean: Floats, w: Floats) -> Floats:
    root, square = np.sqrt(mean), w * w
    first = mean + root * w + (np.float32(1 / 3) + square * np.float32(1 / 6))
    second = (w * np.float32(-1 / 36) - square * w * np.float32(1 / 72)) / root
    third = np.float32(-8 / 405) + square * np.float32(7 / 810) + square * square * np.float32(1 / 270)
    found: Floats = np.fmax(np.floor(first + second + third / mean), np.float32(0))
    return found


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    """By Horner's rule, the highest power first."""
    found = x * np.float32(coefficients[0])
    for coefficient in coefficients[1:-1]:
        found += np.float32(coefficient)
        found *= x
    found += np.float32(coefficients[-1])
    return found


def _log(x: Floats) -> Floats:
    """The natural logarithm of normal numbers: of their exponent, and of the rest by the series of atanh."""
    bits = x.view(np.int32)
    # of a fraction above the square root of 2, the power of 2 is the next one
    exponent = ((bits + np.int32(0x800000 - 0x3504F4)) >> np.int32(23)) - np.int32(127)
    rest = (bits - (exponent << np.int32(23))).view(np.float32)
    below = rest - np.float32(1)
    rest += np.float32(1)
    s = np.divide(below, rest, out=below)
    series = _polynomial((2 / 9, 2 / 7, 2 / 5, 2 / 3, 2.0), s * s)
    series *= s
    found = exponent.astype(np.float32)
    found *= _LN2
    found += series
    return found


def _exp(x: Floats) -> Floats:
    """The exponential function of numbers from -80 to 0: a power of 2, and the rest by its series."""
    power = np.rint(x * np.float32(1.44269502))
    rest = x - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)  # ln 2 in two parts
    scale: Floats = ((power.astype(np.int32) + 127) << 23).view(np.float32)
    return _polynomial(_EXP, rest) * scale
