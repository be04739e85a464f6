"""Noise operators: independent for every value and frame, reproducible for a sample and an epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...core.native import buffer_of
from ...core.philox import Bits, random_bits
from ..call.op import Op, Ranged
from ..core.distributions import Flag, Number
from ..core.parameters import param, with_fields
from ..core.spec import RANGES, Spec
from ..core.traits import Body
from .numbers import (
    Floats,
    counts_of,
    fast_counts,
    fast_normal,
    native_noise,
    normal,
    normal_indices,
    poisson,
    uniform,
)

__all__ = ["GaussianNoise", "SaltAndPepperNoise", "ShotNoise"]

_LOW: Final = 0xFFFFFFFF
_HALF: Final = 1 << 31
_FIRST: Final = np.zeros((1, 1), np.int64)
_CHUNK: Final = 16384  # pixels that are processed together and stay in the cache


class _Noise(Op, register=False):
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
        result = []
        for start in range(0, len(pixels), _CHUNK):
            part = pixels[start : start + _CHUNK]
            bits = random_bits(p.key, p.frame, range(start * of_pixel, (start + len(part)) * of_pixel))
            result.append(change(part, bits.reshape(-1, of_pixel)))
        return (result[0] if len(result) == 1 else np.concatenate(result)).reshape(x.shape)


class GaussianNoise(_Noise, stream="noise_gaussian"):
    """Add normally distributed noise (DALI's ``noise.gaussian``).

    ``out = in + mean + stddev * n``, where ``n`` is sampled for every value by the inverse of the normal distribution.
    """

    mean: Number = param(0.0, "mean of the noise", unit="levels", identity=0.0)
    stddev: Number = param(1.0, "standard deviation of the noise", unit="levels", lo=0, identity=0.0)

    examples = (
        {"stddev": 20.0},
        {"mean": -3.5, "stddev": (0.0, 10.0), "seed": 5},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        return self.noisy(x, p, lambda values, bits: values + (normal(bits) * p.stddev + p.mean))

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute the formula in place."""

        def added(values: Floats, bits: Bits) -> Array:
            result = fast_normal(bits)
            result *= p.stddev
            result += p.mean
            result += values
            return result

        return self.noisy(x, p, added)

    body = Body("noise", "value = value + (normal(bits) * row.stddev + row.mean);", normal_indices)


class ShotNoise(_Noise, stream="noise_shot"):
    """Replace values by photon counts, which is shot noise (DALI's ``noise.shot``).

    ``out = factor * k``, where ``k`` has the Poisson distribution with the mean ``in / factor``; its mean is ``in``,
    its variance ``factor * in``. Values of at most 0 and ``factor=0`` change nothing.
    """

    factor: Number = param(20.0, "value of one photon", unit="levels", lo=0, identity=0.0)

    takes_raw = True
    derived = ("by_level",)
    derived_from = ()
    examples = (
        {},
        {"factor": (0.5, 60.0), "seed": 3},
    )

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the dtype decides
        """Derive whether counts come from tables, which exist for uint8."""
        return {"by_level": spec.dtype == "uint8"}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        if not p.factor > 0:
            return x

        def drawn(values: Floats, bits: Bits) -> Array:
            if p.by_level:
                return counts_of(values.astype(np.uint8), p.factor, bits) * p.factor
            mean = values / p.factor
            some = mean > 0
            result = values.copy()
            result[some] = poisson(mean[some], bits[some]) * p.factor
            return result

        return self.noisy(x, p, drawn)

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute uint8 by tables, without conversion to floats."""
        if not p.by_level or not p.factor > 0:
            return self.reference(x.astype(np.float32), p)

        def drawn(values: npt.NDArray[np.uint8], bits: Bits) -> Array:
            result = fast_counts(values, p.factor, bits)
            result *= p.factor
            return result

        return self.noisy(x, p, drawn)

    body = Body(
        "shot",
        """
    const Real mean = value / row.factor;
    if (row.factor > 0.0f && mean > 0.0f) value = poisson(mean, bits) * row.factor;
""",
        normal_indices,
    )


class SaltAndPepperNoise(Ranged, _Noise, stream="noise_salt_and_pepper"):
    """Replace values by the greatest or the least (DALI's ``noise.salt_and_pepper``)."""

    prob: Number = param(0.05, "probability that a value is replaced", lo=0, hi=1, identity=0.0)
    salt_vs_pepper: Number = param(0.5, "share of replaced values that become salt", unit="of 1", lo=0, hi=1)
    salt_val: Number = param(
        None, "value of salt; None for the maximum of the range", unit="levels", kind=float
    )
    pepper_val: Number = param(
        None,
        "value of pepper; None for the minimum of the range: for a dtype its minimum, -1 for floats",
        unit="levels",
        kind=float,
    )
    per_channel: Flag = param(False, "whether channels are replaced independently, instead of whole pixels")

    takes_raw = True
    derived = ("salt", "pepper", "salted")
    derived_from = ("prob", "salt_vs_pepper", "salt_val", "pepper_val")
    examples = (
        {"prob": 0.3},
        {"prob": (0.0, 0.5), "salt_vs_pepper": 0.25, "per_channel": True, "seed": 7},
        {"prob": 0.5, "salt_val": 200.0, "pepper_val": 50.0},
    )

    @property
    def needs_range(self) -> bool:
        """Whether the range affects the result: by values that are not set."""
        return self.salt_val is None or self.pepper_val is None

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive both values, and the probability of salt."""
        lowest, greatest, _ = self.intensities(spec)
        if self.range in (None, "dtype"):
            lowest = RANGES[spec.dtype][0] if spec.dtype in RANGES else -1
        salt, pepper = rows["salt_val"], rows["pepper_val"]
        return {
            "salt": np.where(np.isnan(salt), greatest, salt),
            "pepper": np.where(np.isnan(pepper), lowest, pepper),
            "salted": rows["prob"] * rows["salt_vs_pepper"],
        }

    def reference(self, x: Array, p: Any) -> Array:
        """Replace by salt below its probability, by pepper above it."""

        def replaced(values: Floats, bits: Bits) -> Array:
            number = uniform(bits)
            return np.where(number < p.salted, p.salt, np.where(number < p.prob, p.pepper, values))

        return self.noisy(x, p, replaced, each=bool(p.per_channel))

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute in C, if there is a C compiler."""
        native = native_noise()
        if native is None:
            return self.reference(x.astype(np.float32), p)

        def replaced(values: Array, bits: Bits) -> Array:
            result = values.astype(np.float32)
            many = result.size // bits.size
            native.seqpipe_salt(
                buffer_of(bits), bits.size, many, p.prob, p.salted, p.salt, p.pepper, buffer_of(result)
            )
            return result

        return self.noisy(x, p, replaced, each=bool(p.per_channel))

    body = Body(
        "noise",
        """
    const Real number = uniform(bits);
    if (number < row.prob) value = number < row.salted ? row.salt : row.pepper;
""",
    )
