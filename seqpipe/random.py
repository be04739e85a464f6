"""Random numbers that depend only on (seed, name, epoch, index), for single samples and for batches.

No state is shared, so threads, batch size, rank, resuming and the order of calls cannot change a draw: each sample has
a Philox stream of its own (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), and a shuffled epoch is
a keyed bijection, evaluated where it is needed.

Positioning a NumPy generator costs as much as drawing ten numbers, and one call of its methods as much as a sum of a
thousand. For a batch, one call of ``philox.c`` generates the words of all samples and NumPy converts them, one row a
sample. Where the samples' streams would advance by different numbers of words (rejection sampling),
:class:`DivergedStreamsError` is raised, and the caller draws each sample with its own generator.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import operator
from array import array
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from .array import FloatArray, IntArray
from .core.native import buffer_of, load_functions
from .errors import ParameterError

__all__ = [
    "BatchGenerator",
    "DivergedStreamsError",
    "Permutation",
    "ScalarGenerator",
    "Steps",
    "draw_steps",
    "generator_at",
    "key_of",
    "new_seed",
    "random_words",
    "stream",
    "stream_index",
    "streams",
]

_ROUNDS: Final = 8
_WORD: Final = (1 << 64) - 1
# Below this size a Feistel network has too few bits to make all orders equally likely (8 rounds over 4 bits
# fail a chi-square test of the 120 orders of 5), and a table is small.
_MAX_TABLE_SIZE: Final = 1024
_MAX_IDLE: Final = 64
_BLOCK: Final = 4  # words for each counter value
_EMPTY_BUFFER: Final = (0,) * _BLOCK
_HALVES: Final = 1 << 32
_LOW: Final = _HALVES - 1
_WORD_TYPE: Final = np.dtype("<u8")  # little-endian, so that viewing as _HALF gives the lower half first
_HALF: Final = np.dtype("<u4")
_UNUSED: Final = np.uint64(11)  # low bits of a word beyond the 53 of a float64
_UNIT: Final = 2.0**-53
_UNUSED_HALF: Final = np.uint32(8)  # low bits of half a word beyond the 24 of a float32
_UNIT_HALF: Final = np.float32(2.0**-24)

_Words: TypeAlias = npt.NDArray[np.uint64]

Steps: TypeAlias = tuple[int, ...]
"""The draws of one sample in order: 0 for a float in [0, 1), n > 0 for an integer in [0, n) with n up to 2³², and
-n for n skipped words."""

# Generators for reuse by streams(), since creating one costs as much as ten draws; pop() gives each thread its own.
_idle: list[np.random.Generator] = []


def stream_index(value: Any, what: str, name: str) -> int:
    """Return an epoch or a sample's index as an ``int``.

    Numbers outside of 64 bits are refused, since they would alias the streams of other samples.
    """
    if type(value) is int and 0 <= value <= _WORD:
        return value
    try:
        number = operator.index(value)
        allowed = 0 <= number <= _WORD and not isinstance(value, bool)
    except (TypeError, ValueError):
        allowed = False
    if not allowed:
        raise ParameterError(
            f"{what}={value!r} is not valid", source=name, allowed="an integer from 0 to 2**64 - 1"
        )
    return number


def stream(seed: int, name: str, epoch: int = 0, index: int = 0) -> np.random.Generator:
    """Return the generator of one name for one sample of one epoch."""
    high = stream_index(index, "index", name), stream_index(epoch, "epoch", name)
    # Draws advance the two low words of the counter; the two high ones keep the streams of samples apart.
    counter = np.array([0, 0, *high], dtype=np.uint64)
    return np.random.Generator(_philox()(_Key(key_of(seed, name)), counter=counter))


class _Key:
    """A Philox key in the place of a seed.

    Given as ``key``, NumPy also asks the system for a random seed and does not use it. That takes three times as long
    as the rest, and releases the GIL, which threads that decode then take.

    Args:
        words: two uint64.
    """

    def __init__(self, words: _Words) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> _Words:  # noqa: ARG002  always two uint64
        """Return the key; see ``numpy.random.bit_generator.ISeedSequence``."""
        return self._words


@cache
def _philox() -> Any:
    """Return NumPy's Philox, which accepts a :class:`_Key`; ``import seqpipe`` does not load ``numpy.random``."""
    from numpy.random.bit_generator import ISeedSequence

    ISeedSequence.register(_Key)
    return np.random.Philox


def streams(seed: int, name: str, epoch: int, indices: Iterable[int]) -> Iterator[np.random.Generator]:
    """Yield the generator of :func:`stream` for each of several samples, at a fraction of its cost.

    All samples share one generator object, so each is valid only until the next one is yielded.
    """
    with _borrowed() as generator:
        bits = generator.bit_generator
        counter = [0, 0, 0, epoch]
        state = _state_at(key_of(seed, name).tolist(), counter)
        for index in indices:
            counter[2] = index
            bits.state = state
            yield generator


@contextmanager
def generator_at(key: Seq[int], counter: Seq[int]) -> Iterator[np.random.Generator]:
    """Yield a generator with a given Philox key and counter, at a fraction of the cost of a new one."""
    with _borrowed() as generator:
        generator.bit_generator.state = _state_at(key, counter)
        yield generator


@contextmanager
def _borrowed() -> Iterator[np.random.Generator]:
    """Yield a generator in an undefined state, and keep it for reuse afterwards."""
    try:
        generator = _idle.pop()
    except IndexError:
        generator = stream(0, "")
    try:
        yield generator
    finally:
        if len(_idle) < _MAX_IDLE:
            _idle.append(generator)


def _state_at(key: Seq[int], counter: Seq[int]) -> dict[str, Any]:
    """Return the state of a generator at a counter, with an empty buffer."""
    return {
        "bit_generator": "Philox",
        "state": {"counter": counter, "key": key},
        "buffer": _EMPTY_BUFFER,
        "buffer_pos": len(_EMPTY_BUFFER),
        "has_uint32": 0,
        "uinteger": 0,
    }


class Permutation:
    """A pseudo-random permutation of ``range(size)`` in O(1) memory, the same in every process.

    A balanced Feistel network over the smallest even number of bits that holds ``size``, restricted to ``range(size)``
    by cycle walking (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Up to a size of 1024, a table
    from a Fisher-Yates shuffle.

    Args:
        size: number of elements, 0 or more.
        seed: the user's seed.
        name: name of the stream.
        epoch: the epoch; every epoch has another order.
    """

    def __init__(self, size: int, seed: int, name: str = "shuffle", epoch: int = 0) -> None:
        if size < 0:
            raise ParameterError(f"size={size} is not valid", allowed="a whole number of at least 0")
        self.size = size
        rng = stream(seed, name, epoch)
        self._table: IntArray | None = (
            rng.permutation(size).astype(np.int64) if size <= _MAX_TABLE_SIZE else None
        )
        self._half = (max(size - 1, 1).bit_length() + 1) // 2
        self._mask = np.uint64((1 << self._half) - 1)
        self._keys = rng.integers(0, _WORD, size=_ROUNDS, dtype=np.uint64, endpoint=True)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: IntArray) -> IntArray: ...
    def __getitem__(self, position: int | IntArray) -> int | IntArray:
        """Return the element at a position, or at each of an array of positions, from 0 to ``size - 1``."""
        positions = np.atleast_1d(np.asarray(position, dtype=np.int64))
        if positions.size and (positions.min() < 0 or positions.max() >= self.size):
            bad = positions[(positions < 0) | (positions >= self.size)][0]
            allowed = f"0 to {self.size - 1}" if self.size else "none, the permutation is empty"
            raise ParameterError(f"position={bad} is not valid", allowed=allowed)
        result = self._walk_cycles(positions) if self._table is None else self._table[positions]
        return int(result[0]) if np.ndim(position) == 0 else result

    def _walk_cycles(self, positions: IntArray) -> IntArray:
        values = self._encrypt(positions.astype(np.uint64))
        while (outside := values >= np.uint64(self.size)).any():
            values[outside] = self._encrypt(values[outside])
        return values.astype(np.int64)

    def _encrypt(self, values: _Words) -> _Words:
        half = np.uint64(self._half)
        left, right = values >> half, values & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return (left << half) | right


def _mix(x: _Words) -> _Words:
    """Apply the finalizer of splitmix64 (Steele, Lea and Flood, 2014): every input bit affects every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lru_cache(maxsize=1024)
def key_of(seed: int, name: str) -> _Words:
    """Return the Philox key of a seed and a name: two uint64, read-only."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=16).digest()
    key = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    key.flags.writeable = False
    return key


def new_seed() -> int:
    """Return a number of 31 bits from the system, another one for each call, for users who state no seed."""
    import secrets  # here, since few programs draw a seed

    return secrets.randbits(31)


class DivergedStreamsError(Exception):
    """The samples' streams would advance by different numbers of words, or the draw is not supported for batches."""


class BatchGenerator:
    """A generator for several samples; each sample gets the values of its own :func:`seqpipe.random.stream`.

    Results have a leading axis of samples. The methods are the subset of :class:`numpy.random.Generator` that operators
    need; they raise :class:`DivergedStreamsError` for draws that cannot be batched.

    Args:
        seed: the user's seed.
        name: name of the stream, such as an operator's name.
        epoch: the epoch.
        indices: the samples' indices.
    """

    def __init__(self, seed: int, name: str, epoch: int, indices: Seq[int]) -> None:
        self._key = seed, name, epoch, indices
        self._words = np.empty((len(indices), 0), _WORD_TYPE)
        self._used = 0
        self._split = False  # whether the samples' streams were handed out, so that no common position exists
        self._kept: int | None = None  # index of the unused half word that integers() left over

    def words(self, count: int) -> _Words:
        """Return the first words of each sample, as :func:`random_words`; no other method may be called after it."""
        self._split = True
        return random_words(*self._key, count)

    def draw(self, steps: Steps) -> list[list[float]]:
        """Draw the same steps for each sample; see :func:`draw_steps`."""
        columns = []
        for step in steps:
            if step < 0:
                self._advance(-step)
            else:
                columns.append(self.integers(step) if step else self.random())
        return np.stack(columns, axis=1).tolist() if columns else [[] for _ in self._words]

    def each(self, expected: int) -> list[ScalarGenerator]:
        """Return one generator a sample, at its stream's start; no other method may be called after it.

        Args:
            expected: words generated in advance for each sample; more are generated on demand.
        """
        words = self.words(expected).tolist()
        return [
            ScalarGenerator(chain(own, self._words_after(sample, len(own))).__next__)
            for sample, own in enumerate(words)
        ]

    def _words_after(self, sample: int, skipped: int) -> Iterator[int]:
        seed, name, epoch, indices = self._key
        draw = stream(seed, name, epoch, indices[sample]).bit_generator.random_raw
        draw(skipped, output=False)
        while True:
            yield draw()

    @property
    def bit_generator(self) -> BatchGenerator:
        """The source of raw words, :meth:`random_raw`, under the name that NumPy's generators have for it."""
        return self

    def random_raw(self) -> _Words:
        """Return the next word of each sample, uint64 ``(samples,)``."""
        begin = self._advance(1)
        return self._words[:, begin]

    def random(self, size: int | tuple[int, ...] | None = None, dtype: type = np.float64) -> npt.NDArray[Any]:
        """Draw floats in [0, 1); see :meth:`numpy.random.Generator.random`. A float32 consumes half a word."""
        shape = _shape(size)
        if dtype is np.float32:
            halves = self._halves(math.prod(shape))
            parts = (halves >> _UNUSED_HALF).astype(np.float32) * _UNIT_HALF
            return parts.reshape(len(parts), *shape)
        begin = self._advance(math.prod(shape))
        numbers: FloatArray = np.multiply(self._words[:, begin : self._used] >> _UNUSED, _UNIT)
        return numbers.reshape(len(numbers), *shape)

    def uniform(self, low: Any, high: Any, size: int | tuple[int, ...] | None = None) -> FloatArray:
        """Draw floats in [``low``, ``high``); see :meth:`numpy.random.Generator.uniform`."""
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
        """Draw integers; see :meth:`numpy.random.Generator.integers`.

        Lemire's method ("Fast random integer generation in an interval", 2019): half a word times the count, upper 32
        bits. It rejects a few products to stay unbiased.

        Raises:
            DivergedStreamsError: a product was rejected, the range has more than 2³² numbers, or bounds are tuples.
        """
        first, end = (0, low) if high is None else (low, high)
        if isinstance(first, tuple) or isinstance(end, tuple):
            raise DivergedStreamsError
        count = end - first + endpoint
        if not 0 < count <= _HALVES:
            raise DivergedStreamsError
        shape = _shape(size)
        if count == 1 or 0 in shape:
            return np.full((len(self._words), *shape), first)
        numbers = self._halves(math.prod(shape))
        if count < _HALVES:
            products = np.multiply(numbers, np.uint64(count), dtype=_WORD_TYPE)
            parts, biased = products.view(_HALF), _HALVES % count
            if biased and parts[:, ::2].min() < biased:
                raise DivergedStreamsError
            numbers = parts[:, 1::2]
        whole: IntArray = numbers.astype(np.int64)
        if first:
            whole += first
        return whole.reshape(len(whole), *shape)

    def _advance(self, count: int) -> int:
        """Consume ``count`` words of each sample; return the column of the first."""
        if self._split:
            raise DivergedStreamsError
        begin, self._used = self._used, self._used + count
        if self._used > self._words.shape[1]:
            self._words = random_words(*self._key, self._used)
        return begin

    def _halves(self, count: int) -> npt.NDArray[np.uint32]:
        """Consume half words, the lower half of a word first, beginning with one that an earlier call left over."""
        kept = self._kept
        if not count:
            return self._words.view(_HALF)[:, :0]
        more = count - (kept is not None)
        begin = 2 * self._advance((more + 1) // 2)
        self._kept = 2 * self._used - 1 if more % 2 else None
        halves = self._words.view(_HALF)
        result = halves[:, begin : begin + more]
        if kept is None:
            return result
        return halves[:, kept, None] if not more else np.concatenate([halves[:, kept, None], result], axis=1)


def _shape(size: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return () if size is None else size if isinstance(size, tuple) else (size,)


def random_words(seed: int, name: str, epoch: int, indices: Seq[int], count: int) -> _Words:
    """Return the first words of several samples, uint64 ``(samples, words)``, ``count`` rounded up to whole blocks."""
    blocks = -(-count // _BLOCK)
    native = _native()
    if native is None:
        raw = [rng.bit_generator.random_raw(blocks * _BLOCK) for rng in streams(seed, name, epoch, indices)]
        return np.array(raw, _WORD_TYPE).reshape(len(raw), -1)
    out = np.empty((len(indices), blocks * _BLOCK), _WORD_TYPE)
    native.seqpipe_words(_packed_key(seed, name, epoch, indices), len(indices), blocks, buffer_of(out))
    return out


def _packed_key(seed: int, name: str, epoch: int, indices: Seq[int]) -> bytes:
    """Pack key and counters of the samples' streams for ``philox.c``."""
    return array("Q", (*_key_words(seed, name), epoch, *indices)).tobytes()


@lru_cache(maxsize=1024)
def _key_words(seed: int, name: str) -> tuple[int, ...]:
    return tuple(key_of(seed, name).tolist())


def draw_steps(seed: int, name: str, epoch: int, indices: Seq[int], steps: Steps) -> list[Seq[float]]:
    """Draw the same steps for several samples, each from the start of its stream."""
    native = _native()
    if native is None:
        rows = [ScalarGenerator.of(rng).draw(steps) for rng in streams(seed, name, epoch, indices)]
        return list(zip(*rows, strict=True))
    packed, count = _packed(steps)
    out = (ctypes.c_double * (len(indices) * count))()
    native.seqpipe_drawn(_packed_key(seed, name, epoch, indices), len(indices), packed, out)
    return [out[number::count] for number in range(count)]


@lru_cache(maxsize=256)
def _packed(steps: Steps) -> tuple[bytes, int]:
    """Pack steps for ``philox.c``; return them with the number of values that they draw."""
    return array("q", (len(steps), *steps)).tobytes(), sum(step >= 0 for step in steps)


@cache
def _native() -> Any:
    """The functions of ``philox.c``; None without a C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    functions = {"words": (pointer, count, count, pointer), "drawn": (pointer, count, pointer, pointer)}
    return load_functions(f"{__package__}.core", "philox.c", functions, quick=True)


class ScalarGenerator:
    """Python numbers from one stream, one by one: the values of NumPy's generator without its overhead for a call.

    Args:
        word: returns the next word of 64 random bits.
    """

    __slots__ = ("_half", "_word")

    def __init__(self, word: Callable[[], int]) -> None:
        self._word = word
        self._half: int | None = None

    @classmethod
    def of(cls, rng: np.random.Generator) -> ScalarGenerator:
        """Draw from the words of a NumPy generator, which must hold no unused half word."""
        return cls(rng.bit_generator.random_raw)

    def random(self) -> float:
        """Draw a float in [0, 1); see :meth:`numpy.random.Generator.random`."""
        return (self._word() >> 11) * _UNIT

    def below(self, count: int) -> int:
        """Draw an integer in [0, ``count``), with ``count`` up to 2³²; see :meth:`BatchGenerator.integers`."""
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

    def draw(self, steps: Steps) -> list[float]:
        """Draw the next values in the given steps."""
        result = []
        for step in steps:
            if step < 0:
                for _ in range(-step):
                    self._word()
            else:
                result.append(self.below(step) if step else self.random())
        return result
