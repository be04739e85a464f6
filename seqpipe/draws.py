"""Numbers of several streams at once, and single whole numbers of one: as NumPy's generator gives them, in less time.

To place a generator takes as long as to draw ten numbers, and to ask it for one as long as a sum of a thousand. Here
the words of all samples of a call are made by one call of ``philox.c``, and their numbers by NumPy's arrays: a row for
each sample. Where samples need different steps, :class:`UnevenError` says so, and each is drawn by its own generator.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from .array import FloatArray, IntArray
from .native import load_functions, memory
from .random import key_of, stream, streams

__all__ = ["Draws", "Numbers", "Steps", "UnevenError", "drawn_of", "numbers_of", "words_of"]

Steps: TypeAlias = tuple[int, ...]
"""What a sample draws, one after the other: 0 is a number from 0 up to 1, what is above it a whole number below that
count, of 2³² at most, and what is below 0 passes as many words."""

_BLOCK: Final = 4  # words that a counter gives
_HALVES: Final = 1 << 32
_LOW: Final = _HALVES - 1
_WORD: Final = np.dtype("<u8")  # its lower half is the first one in memory
_HALF: Final = np.dtype("<u4")
_UNUSED: Final = np.uint64(11)  # bits of a word that a number from 0 to 1 has no room for
_UNIT: Final = 2.0**-53
_UNUSED_HALF: Final = np.uint32(8)  # likewise of half a word, and of float32
_UNIT_HALF: Final = np.float32(2.0**-24)

_RandomWords = npt.NDArray[np.uint64]


class UnevenError(Exception):
    """The next numbers of some streams are not as many steps away as those of others, or are not known here."""


class Draws:
    """The random numbers of several samples: those of :func:`seqpipe.random.stream` for each, in its order.

    What is drawn has an axis of the samples before the others. The methods are those of NumPy's generator, as far as
    operators need them, and raise :class:`UnevenError` for what they cannot do.

    Args:
        seed: the user's seed.
        name: what draws.
        epoch: the epoch.
        indices: the samples' indices.
    """

    def __init__(self, seed: int, name: str, epoch: int, indices: Seq[int]) -> None:
        self._place = seed, name, epoch, indices
        self._words = np.empty((len(indices), 0), _WORD)
        self._used = 0
        self._apart = False  # whether each sample goes on by itself
        self._kept: int | None = None  # the half of a word that whole numbers have left over

    def words(self, count: int) -> _RandomWords:
        """The first words of each sample, as :func:`words_of` gives them; samples then go on by themselves."""
        self._apart = True
        return words_of(*self._place, count)

    def in_steps(self, steps: Steps) -> list[list[float]]:
        """What each sample draws in some steps; see :func:`drawn_of`."""
        columns = []
        for step in steps:
            if step < 0:
                self._passed(-step)
            else:
                columns.append(self.integers(step) if step else self.random())
        return np.stack(columns, axis=1).tolist() if columns else [[] for _ in self._words]

    def each(self, expected: int) -> list[Numbers]:
        """The numbers of each sample from the beginning, one by one, and then no others; so many words are at hand."""
        words = self.words(expected).tolist()
        return [Numbers(chain(own, self._later(place, len(own))).__next__) for place, own in enumerate(words)]

    def _later(self, place: int, passed: int) -> Iterator[int]:
        """The words of a sample after some."""
        seed, name, epoch, indices = self._place
        draw = stream(seed, name, epoch, indices[place]).bit_generator.random_raw
        draw(passed, output=False)
        while True:
            yield draw()

    @property
    def bit_generator(self) -> Draws:
        """What gives words, as a generator's does: :meth:`random_raw`."""
        return self

    def random_raw(self) -> _RandomWords:
        """The next word of each sample."""
        begin = self._passed(1)
        return self._words[:, begin]

    def random(self, size: int | tuple[int, ...] | None = None, dtype: type = np.float64) -> npt.NDArray[Any]:
        """Numbers from 0 up to 1; see :meth:`numpy.random.Generator.random`. Those of float32 take half a word."""
        shape = _shape(size)
        if dtype is np.float32:
            halves = self._halves(math.prod(shape))
            parts = (halves >> _UNUSED_HALF).astype(np.float32) * _UNIT_HALF
            return parts.reshape(len(parts), *shape)
        begin = self._passed(math.prod(shape))
        numbers: FloatArray = np.multiply(self._words[:, begin : self._used] >> _UNUSED, _UNIT)
        return numbers.reshape(len(numbers), *shape)

    def uniform(self, low: Any, high: Any, size: int | tuple[int, ...] | None = None) -> FloatArray:
        """Numbers from ``low`` up to ``high``; see :meth:`numpy.random.Generator.uniform`."""
        least, most = (np.asarray(end, np.float64) if isinstance(end, tuple) else end for end in (low, high))
        numbers: FloatArray = least + (most - least) * self.random(size)
        return numbers

    def integers(
        self,
        low: Any,
        high: Any = None,
        size: int | tuple[int, ...] | None = None,
        *,
        endpoint: bool = False,
    ) -> IntArray:
        """Whole numbers; see :meth:`numpy.random.Generator.integers`.

        Each is a half of a word, times their count, without its lower half: Lemire, "Fast random integer generation in
        an interval", 2019. Of the few that would make some numbers likelier, another one would have to be drawn.

        Raises:
            UnevenError: one of these was drawn, there are more than 2³² numbers, or ranges of their own.
        """
        first, end = (0, low) if high is None else (low, high)
        if isinstance(first, tuple) or isinstance(end, tuple):
            raise UnevenError
        count = end - first + endpoint
        if not 0 < count <= _HALVES:
            raise UnevenError
        shape = _shape(size)
        if count == 1 or 0 in shape:
            return np.full((len(self._words), *shape), first)
        numbers = self._halves(math.prod(shape))
        if count < _HALVES:
            products = np.multiply(numbers, np.uint64(count), dtype=_WORD)
            parts, uneven = products.view(_HALF), _HALVES % count
            if uneven and parts[:, ::2].min() < uneven:
                raise UnevenError
            numbers = parts[:, 1::2]
        whole: IntArray = numbers.astype(np.int64)
        if first:
            whole += first
        return whole.reshape(len(whole), *shape)

    def _passed(self, count: int) -> int:
        """Pass so many words of each sample; returns the first of them."""
        if self._apart:
            raise UnevenError
        begin, self._used = self._used, self._used + count
        if self._used > self._words.shape[1]:
            self._words = words_of(*self._place, self._used)
        return begin

    def _halves(self, count: int) -> npt.NDArray[np.uint32]:
        """Halves of words, the lower one first: what is kept, and the next ones."""
        kept = self._kept
        if not count:
            return self._words.view(_HALF)[:, :0]
        more = count - (kept is not None)
        begin = 2 * self._passed((more + 1) // 2)
        self._kept = 2 * self._used - 1 if more % 2 else None
        halves = self._words.view(_HALF)
        found = halves[:, begin : begin + more]
        if kept is None:
            return found
        return halves[:, kept, None] if not more else np.concatenate([halves[:, kept, None], found], axis=1)


def _shape(size: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if size is None else size if isinstance(size, tuple) else (size,)


def words_of(seed: int, name: str, epoch: int, indices: Seq[int], count: int) -> _RandomWords:
    """The first random words of several samples ``(samples, words)``: of so many or some more, up to a whole block."""
    blocks = -(-count // _BLOCK)
    native = _native()
    if native is None:
        raw = [rng.bit_generator.random_raw(blocks * _BLOCK) for rng in streams(seed, name, epoch, indices)]
        return np.array(raw, _WORD).reshape(len(raw), -1)
    out = np.empty((len(indices), blocks * _BLOCK), _WORD)
    native.seqpipe_words(_place(seed, name, epoch, indices), len(indices), blocks, memory(out))
    return out


def numbers_of(seed: int, name: str, epoch: int, indices: Seq[int], count: int) -> list[Seq[float]]:
    """The first numbers from 0 up to 1 of several samples: the first one of each, then the second, up to so many."""
    native = _native()
    if native is None:
        drawn = [[rng.random() for _ in range(count)] for rng in streams(seed, name, epoch, indices)]
        return list(zip(*drawn, strict=True))
    blocks = -(-count // _BLOCK)
    out = (ctypes.c_double * (len(indices) * blocks * _BLOCK))()
    native.seqpipe_numbers(_place(seed, name, epoch, indices), len(indices), blocks, out)
    return [out[number :: blocks * _BLOCK] for number in range(count)]


def _place(seed: int, name: str, epoch: int, indices: Seq[int]) -> bytes:
    """The places of samples, as the functions of ``philox.c`` take them."""
    return array("Q", (*_key(seed, name), epoch, *indices)).tobytes()


@lru_cache(maxsize=1024)
def _key(seed: int, name: str) -> tuple[int, ...]:
    """The key of a seed and a name, in Python's numbers."""
    return tuple(key_of(seed, name).tolist())


def drawn_of(seed: int, name: str, epoch: int, indices: Seq[int], steps: Steps) -> list[list[float]]:
    """What each of several samples draws in the same steps, from the beginning; whole numbers may be floats."""
    native = _native()
    if native is None:
        return [Numbers.of(rng).in_steps(steps) for rng in streams(seed, name, epoch, indices)]
    packed, count = _packed(steps)
    out = (ctypes.c_double * (len(indices) * count))()
    native.seqpipe_drawn(_place(seed, name, epoch, indices), len(indices), packed, out)
    return [out[place * count : (place + 1) * count] for place in range(len(indices))]


@lru_cache(maxsize=256)
def _packed(steps: Steps) -> tuple[bytes, int]:
    """Steps as C takes them, and how many numbers they give."""
    return array("q", (len(steps), *steps)).tobytes(), sum(step >= 0 for step in steps)


@cache
def _native() -> Any:
    """What ``philox.c`` has for it; None where there is no C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    arguments = pointer, count, count, pointer
    drawn = pointer, count, pointer, pointer
    functions = {"words": arguments, "numbers": arguments, "drawn": drawn}
    return load_functions(__package__, "philox.c", functions, quick=True)


class Numbers:
    """The numbers of one sample, one by one: those of a generator, in a fraction of the time, for they are Python's.

    Args:
        word: gives the next random word.
    """

    __slots__ = ("_half", "_word")

    def __init__(self, word: Callable[[], int]) -> None:
        self._word = word
        self._half: int | None = None

    @classmethod
    def of(cls, rng: np.random.Generator) -> Numbers:
        """Those of a generator that has not drawn whole numbers yet."""
        return cls(rng.bit_generator.random_raw)

    def random(self) -> float:
        """A number from 0 up to 1; see :meth:`numpy.random.Generator.random`."""
        return (self._word() >> 11) * _UNIT

    def below(self, count: int) -> int:
        """A whole number from 0 to ``count - 1``, of 2³² at most; see :meth:`Draws.integers`."""
        if count == 1:
            return 0
        while True:
            half = self._half
            if half is None:
                word = self._word()
                half, self._half = word & _LOW, word >> 32
            else:
                self._half = None
            product = half * count
            if product & _LOW >= _HALVES % count:
                return product >> 32

    def in_steps(self, steps: Steps) -> list[float]:
        """The next numbers, in some steps."""
        found = []
        for step in steps:
            if step < 0:
                for _ in range(-step):
                    self._word()
            else:
                found.append(self.below(step) if step else self.random())
        return found
