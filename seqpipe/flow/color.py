"""Visualization of flow by the color wheel of the Middlebury benchmark."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ..array import Array, namespace
from ..errors import ParameterError
from .values import apply_to, flow_array

__all__ = ["to_rgb"]

X = TypeVar("X")

# steps from each color of the wheel to the next: red, yellow, green, cyan, blue, magenta, red (Baker et al., 2007)
_STEPS: Final = (15, 6, 4, 11, 13, 6)
_CORNERS: Final = ((1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 1, 1), (0, 0, 1), (1, 0, 1), (1, 0, 0))
_BEYOND: Final = 0.75  # brightness of vectors longer than max_motion


def to_rgb(flow: X, max_motion: float | None = None) -> X:
    """Convert flow to colors: the hue shows the direction, the saturation the length; zero motion is white.

    Args:
        flow: ``(…, h, w, 2)``, a NumPy, CuPy or torch array or a Sequence.
        max_motion: length in pixels that has full saturation; longer vectors are darker. By default the greatest length
            in ``flow``, so that all frames of a sequence share one scale.

    Returns:
        uint8 ``(…, h, w, 3)``, of the same type as ``flow``. Unknown vectors (NaN) are black.

    Raises:
        ParameterError: ``flow`` is not a flow, or ``max_motion`` is not above 0.
    """
    if max_motion is not None and not 0 < max_motion < float("inf"):
        raise ParameterError(
            f"max_motion={max_motion!r} is not valid", source="to_rgb", allowed="a number of pixels above 0"
        )
    return apply_to(flow, partial(_colored, max_motion=max_motion))


@lru_cache(maxsize=1)
def _wheel() -> npt.NDArray[np.float32]:
    """Return the colors by direction, ``(55, 3)`` from 0 to 1."""
    parts = [
        np.linspace(first, last, steps, endpoint=False)
        for steps, first, last in zip(_STEPS, _CORNERS[:-1], _CORNERS[1:], strict=True)
    ]
    return np.concatenate(parts).astype(np.float32)


def _colored(flow: Array, max_motion: float | None) -> Array:
    array = flow_array(flow, "to_rgb").astype(np.float32)
    library: Any = namespace(array)
    u, v = array[..., 0], array[..., 1]
    length = library.sqrt(u * u + v * v)
    known = library.isfinite(length)
    if max_motion is None:
        longest = float(length[known].max()) if bool(known.any()) else 0.0
        max_motion = longest or 1.0
    length = library.where(known, length / np.float32(max_motion), 0)
    angle = library.arctan2(library.where(known, -v, 0), library.where(known, -u, 0)) / np.float32(np.pi)
    wheel = library.asarray(_wheel())
    position = (angle + 1) / 2 * (len(wheel) - 1)
    low = library.floor(position).astype(np.int32)
    fraction = (position - low)[..., None]
    color = (1 - fraction) * wheel[low] + fraction * wheel[(low + 1) % len(wheel)]
    length = length[..., None]
    color = library.where(length <= 1, 1 - length * (1 - color), color * np.float32(_BEYOND))
    return library.where(known[..., None], library.floor(255 * color), 0).astype(np.uint8)
