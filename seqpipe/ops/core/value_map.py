"""ValueMap: an affine map of values that a reader's conversion can apply instead of the operator."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["ValueMap"]


class ValueMap(NamedTuple):
    """``out = scale * (in - mean) / sqrt(stddev ** 2 + epsilon) + shift``, cast to a dtype.

    Attributes:
        dtype: dtype of the result.
        mean: mean, one number or one for each channel.
        stddev: standard deviation, one number or one for each channel.
        scale: factor of the quotient; a distribution if the parameter is sampled.
        shift: added to the product; a distribution if the parameter is sampled.
        epsilon: added to the variance.
    """

    dtype: str
    mean: tuple[float, ...] = (0.0,)
    stddev: tuple[float, ...] = (1.0,)
    scale: Any = 1.0
    shift: Any = 0.0
    epsilon: float = 0.0
