"""Base class of noise operators: stateless random bits for every value of every frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from ...array import Array
from ...core.philox import Bits, random_bits
from ..call.op import Op
from ..core.spec import Spec
from ..cuda.kernel import with_fields

__all__ = ["Noise"]

_LOW: Final = 0xFFFFFFFF
_HALF: Final = 1 << 31
_FIRST: Final = np.zeros((1, 1), np.int64)
_CHUNK: Final = 16384  # pixels that are processed together and stay in the cache


class Noise(Op, register=False):
    """Base of operators that use random bits for every value, derived from a sampled key for each sample."""

    frames_alike: ClassVar[bool] = False
    samples_together: ClassVar[bool] = True

    @classmethod
    def block_dtype(cls) -> np.dtype[Any]:
        """Return the dtype of a row with the key and the index of the frame."""
        return with_fields(super().block_dtype(), ("key", np.int32, (2,)), ("frame", np.int32))

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:
        """Sample the parameters, and the key."""
        drawn = super().sample(rng, spec) if self.distributions else {}
        word: Any = rng.bit_generator.random_raw()
        if isinstance(word, int):
            drawn["key"] = (word & _LOW) - _HALF, (word >> 32) - _HALF
        else:
            words = np.ascontiguousarray(word, "<u8")
            drawn["key"] = words.view("<u4").astype(np.int64).reshape(-1, 2) - _HALF
        drawn["frame"] = np.arange(spec.frames)[None] if spec.frames > 1 else _FIRST
        return drawn

    def noisy(self, x: Array, p: Any, change: Callable[[Any, Bits], Array], *, each: bool = True) -> Array:
        """Change each value of images by its random bits.

        Bits depend on the index of a value among all values of its frame in memory order, or on the index of its pixel.

        Args:
            x: images ``(1, H, W, C)`` of any dtype; there is a row of parameters for each frame.
            p: parameters.
            change: function of values ``(pixels, C)`` and their bits, which are ``(pixels, 1)`` if they belong to
                pixels.
            each: whether each value has its own bits, instead of each pixel.
        """
        *_, channels = x.shape
        pixels = np.ascontiguousarray(x).reshape(-1, channels)
        of_pixel = channels if each else 1
        made = []
        for start in range(0, len(pixels), _CHUNK):
            part = pixels[start : start + _CHUNK]
            bits = random_bits(p.key, p.frame, range(start * of_pixel, (start + len(part)) * of_pixel))
            made.append(change(part, bits.reshape(-1, of_pixel)))
        return (made[0] if len(made) == 1 else np.concatenate(made)).reshape(x.shape)
