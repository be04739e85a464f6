"""Base class of noise operators: stateless random bits for every value of every frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from ...array import Array
from ...philox import Bits, random_bits
from ..call.op import Op
from ..core.spec import Spec
from ..cuda.kernel import with_fields

__all__ = ["Noise"]

_LOW: Final = 0xFFFFFFFF
_HALF: Final = 1 << 31
_FIRST: Final = np.zeros((1, 1), np.int64)
_CHUNK: Final = 16384  # pixels whose numbers are made together, and stay in the cache


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
        """Images, each value changed by its random bits.

        The number of a value, which its bits are those of, is its place among all values of its frame, as they come
        pixel by pixel; that of a pixel its place among the pixels.

        Args:
            x: images ``(1, H, W, C)`` of any type, for there is a row of parameters for each frame.
            p: the parameters.
            change: of values ``(pixels, C)`` and their bits, ``(pixels, 1)`` where pixels have them.
            each: whether each value has bits of its own, instead of each pixel.
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
