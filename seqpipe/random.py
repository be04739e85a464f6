"""Randomness that depends on nothing but (seed, name, epoch, index).

Threads, batch size, rank, resuming and the order of calls cannot change a draw, because there is no state to
share: every draw has a Philox stream of its own (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", 2011), and a shuffled epoch is a keyed bijection that is evaluated where it is needed.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from .array import IntArray
from .errors import ParameterError

__all__ = ["Permutation", "key_of", "place_number", "placed", "stream", "streams"]

_ROUNDS: Final = 8
_WORD: Final = (1 << 64) - 1
# Below this size a Feistel network has too few bits to make all orders equally likely (8 rounds over 4 bits
# fail a chi-square test of the 120 orders of 5), and a table costs nothing.
_TABLE: Final = 1024
_MOST_IDLE: Final = 64
_NOTHING: Final = (0, 0, 0, 0)

_KeyWords: TypeAlias = npt.NDArray[np.uint64]

# generators that nobody uses now: to make one takes as long as to draw ten numbers. Each thread takes its own
_idle: list[np.random.Generator] = []


def place_number(value: Any, what: str, name: str) -> int:
    """An epoch or an index as an ``int``.

    Negative ones are refused, and those beyond 64 bits: their streams would be those of other places.

    Args:
        value: what was given: an ``int``, or a whole number of NumPy or torch.
        what: which of both it is.
        name: what draws.

    Raises:
        ParameterError: it is none, or out of bounds.
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
    """The random numbers of one operator for one sample of one epoch.

    Args:
        seed: the user's seed, any integer.
        name: what draws, for example an operator's name; different names draw independently.
        epoch: the epoch, 0 or more.
        index: the sample's index within its dataset, 0 or more.

    Returns:
        A generator at the start of its own Philox stream of 2¹²⁸ numbers.

    Raises:
        ParameterError: the epoch or the index is not a whole number from 0 to 2⁶⁴ - 1.
    """
    place = place_number(index, "index", name), place_number(epoch, "epoch", name)
    # Draws advance the two low counter words; the two high ones hold the place, so no two places overlap.
    counter = np.array([0, 0, *place], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key_of(seed, name)))


def streams(seed: int, name: str, epoch: int, indices: Iterable[int]) -> Iterator[np.random.Generator]:
    """The random numbers of several samples, those of :func:`stream`, at a twentieth of the cost.

    Each generator is good until the next one is asked for, or until there is none left: it is then the same object at
    another place.

    Args:
        seed: the user's seed, any integer.
        name: what draws.
        epoch: the epoch, as :func:`place_number` gives it.
        indices: the samples' indices, likewise.
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
def placed(key: Seq[int], counter: Seq[int]) -> Iterator[np.random.Generator]:
    """The random numbers of a key from a place on: those of a new generator, at a fraction of its cost.

    Args:
        key: two words of 64 bits.
        counter: four of them, the least significant one first.

    Yields:
        A generator that is good within the context.
    """
    with _borrowed() as generator:
        generator.bit_generator.state = _state_at(key, counter)
        yield generator


@contextmanager
def _borrowed() -> Iterator[np.random.Generator]:
    """A generator at no place in particular."""
    try:
        generator = _idle.pop()
    except IndexError:
        generator = stream(0, "")
    try:
        yield generator
    finally:
        if len(_idle) < _MOST_IDLE:
            _idle.append(generator)


def _state_at(key: Seq[int], counter: Seq[int]) -> dict[str, Any]:
    """What a generator is set to: at the place of its counter, with nothing left of what was drawn before."""
    return {
        "bit_generator": "Philox",
        "state": {"counter": counter, "key": key},
        "buffer": _NOTHING,
        "buffer_pos": len(_NOTHING),
        "has_uint32": 0,
        "uinteger": 0,
    }


class Permutation:
    """A pseudo-random order of ``range(size)`` in O(1) memory, the same in every process.

    A balanced Feistel network over the smallest even number of bits that holds ``size``, made to fit by
    walking its cycles until a value lies below ``size`` (Black and Rogaway, "Ciphers with arbitrary finite
    domains", 2002). Up to a size of 1024 it is a table, shuffled by the method of Fisher and Yates.

    Args:
        size: how many there are, 0 or more.
        seed: the user's seed.
        name: what is shuffled.
        epoch: the epoch; every epoch has an order of its own.
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
        """What stands at a position, or at each of an array of positions, each from 0 to ``size - 1``."""
        places = np.atleast_1d(np.asarray(position, dtype=np.int64))
        if places.size and (places.min() < 0 or places.max() >= self.size):
            bad = places[(places < 0) | (places >= self.size)][0]
            allowed = f"0 to {self.size - 1}" if self.size else "none, there is nothing to shuffle"
            raise ParameterError(f"position={bad} is not valid", allowed=allowed)
        result = self._walk(places) if self._table is None else self._table[places]
        return int(result[0]) if np.ndim(position) == 0 else result

    def _walk(self, places: IntArray) -> IntArray:
        values = self._encrypt(places.astype(np.uint64))
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
    """The finaliser of splitmix64 (Steele, Lea and Flood, 2014): every input bit reaches every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@lru_cache(maxsize=1024)
def key_of(seed: int, name: str) -> _KeyWords:
    """The key of all streams of a seed and a name: two words."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=16).digest()
    key = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    key.flags.writeable = False
    return key
