"""Counter-based random bits for noise: Philox4x32-7, a pure function of key and counter.

Of the 32-bit variants of Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), seven rounds are
the fastest that pass BigCrush. Sampling of operators' parameters uses NumPy's Philox with ten rounds instead; see
:mod:`seqpipe.random`.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .native import buffer_of, load_functions

__all__ = ["Bits", "philox", "random_bits"]

Bits = npt.NDArray[np.uint32]

_ROUNDS: Final = 7
_FACTORS: Final = 0xD2511F53, 0xCD9E8D57
_STEPS: Final = 0x9E3779B9, 0xBB67AE85
_LOW: Final = 0xFFFFFFFF


def random_bits(key: Any, frame: int, numbers: range) -> Bits:
    """Return one random word for each of a range of numbers, uint32."""
    native = _native()
    if native is None:
        first, end = numbers.start // 4, -(-numbers.stop // 4)
        words = np.stack(philox((np.arange(first, end, dtype=np.uint64), 0, frame, 0), key), axis=-1)
        return words.reshape(-1)[numbers.start - 4 * first : numbers.stop - 4 * first]
    result = np.empty(len(numbers), np.uint32)
    native.seqpipe_bits(
        int(key[0]) & _LOW, int(key[1]) & _LOW, frame, numbers.start, len(result), buffer_of(result)
    )
    return result


@cache
def _native() -> Any:
    """The functions of ``philox.c``; None without a C compiler."""
    word, count = ctypes.c_uint32, ctypes.c_int64
    return load_functions(
        __package__, "philox.c", {"bits": (word, word, word, count, count, ctypes.c_void_p)}
    )


def philox(counter: tuple[Any, Any, Any, Any], key: Any) -> tuple[Bits, Bits, Bits, Bits]:
    """Return the four random words of a counter."""
    low, high = (int(word) & _LOW for word in key)
    keys = [((low + n * _STEPS[0]) & _LOW, (high + n * _STEPS[1]) & _LOW) for n in range(_ROUNDS)]
    words: list[Any] = [word if isinstance(word, int) else np.asarray(word, np.uint64) for word in counter]
    # the first two rounds compute scalar words as Python integers, before they are broadcast
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
