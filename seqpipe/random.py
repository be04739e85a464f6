"""Random numbers that depend only on (seed, name, epoch, index).

No state is shared, so threads, batch size, rank, resuming and the order of calls cannot change a draw: each sample has
a Philox stream of its own (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), and a shuffled epoch is
a keyed bijection, evaluated where it is needed.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from .array import IntArray
from .errors import ParameterError

__all__ = [
    "Permutation",
    "generator_at",
    "key_of",
    "new_seed",
    "stream",
    "stream_index",
    "streams",
]

_ROUNDS: Final = 8
_WORD: Final = (1 << 64) - 1
# Below this size a Feistel network has too few bits to make all orders equally likely (8 rounds over 4 bits
# fail a chi-square test of the 120 orders of 5), and a table is small.
_TABLE: Final = 1024
_MAX_IDLE: Final = 64
_EMPTY_BUFFER: Final = (0, 0, 0, 0)

_KeyWords: TypeAlias = npt.NDArray[np.uint64]

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

    def __init__(self, words: _KeyWords) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> _KeyWords:  # noqa: ARG002  always two uint64
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
        self._table: IntArray | None = rng.permutation(size).astype(np.int64) if size <= _TABLE else None
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

    def _encrypt(self, values: _KeyWords) -> _KeyWords:
        half = np.uint64(self._half)
        left, right = values >> half, values & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right ^ key) & self._mask)
        return (left << half) | right


def _mix(x: _KeyWords) -> _KeyWords:
    """Apply the finalizer of splitmix64 (Steele, Lea and Flood, 2014): every input bit affects every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lru_cache(maxsize=1024)
def key_of(seed: int, name: str) -> _KeyWords:
    """Return the Philox key of a seed and a name: two uint64, read-only."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=16).digest()
    key = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    key.flags.writeable = False
    return key


def new_seed() -> int:
    """Return a number of 31 bits from the system, another one for each call, for users who state no seed."""
    import secrets  # here, since few programs draw a seed

    return secrets.randbits(31)
