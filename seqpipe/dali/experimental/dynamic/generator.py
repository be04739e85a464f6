"""``ndd.random.RNG``: the generator of seeds."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from ....errors import ParameterError
from ....random import new_seed

__all__ = ["RNG", "get_default_rng", "rng_of", "set_seed"]


class RNG:
    """A generator of 32-bit numbers, which operators take as ``rng``: the numbers depend on seed and position only.

    Args:
        seed: the seed; None draws one.
        state: the result of :meth:`get_state` of another generator.
    """

    def __init__(self, seed: int | None = None, state: Any = None) -> None:
        self.seed = new_seed() if seed is None else int(seed)
        if state is not None:
            self.set_state(state)

    def __call__(self) -> int:
        """Return the next number."""
        digest = hashlib.blake2b(f"{self._seed} {self._position}".encode(), digest_size=4).digest()
        self._position += 1
        return int.from_bytes(digest, "little")

    @property
    def seed(self) -> int:
        """The seed; setting it starts the numbers anew."""
        return self._seed

    @seed.setter
    def seed(self, value: int) -> None:
        self._seed, self._position = int(value), 0

    def advance(self, n: int) -> None:
        """Skip numbers.

        Raises:
            ParameterError: the number is negative.
        """
        if n < 0:
            raise ParameterError(f"advance({n})", source="ndd.random.RNG", allowed="0 or more")
        self._position += int(n)

    def clone(self) -> RNG:
        """Return a generator that returns the same numbers."""
        return RNG(state=self.get_state())

    def get_state(self) -> dict[str, int]:
        """Return seed and position."""
        return {"seed": self._seed, "position": self._position}

    def set_state(self, value: Any) -> None:
        """Continue from a state."""
        self._seed, self._position = int(value["seed"]), int(value["position"])

    @property
    def state(self) -> dict[str, int]:
        """Seed and position."""
        return self.get_state()

    @state.setter
    def state(self, value: Any) -> None:
        self.set_state(value)

    def __repr__(self) -> str:
        return f"RNG(seed={self._seed})"


_threads = threading.local()


def get_default_rng() -> RNG:
    """Return the generator of the thread."""
    found: RNG | None = getattr(_threads, "rng", None)
    if found is None:
        found = _threads.rng = RNG()
    return found


def set_seed(seed: int) -> None:
    """Set the seed of the thread's generator."""
    get_default_rng().seed = seed


def rng_of(rng: RNG | None) -> RNG:
    """Return a generator; the thread's for None."""
    return get_default_rng() if rng is None else rng
