"""Operators of policies, as Pillow's ``ImageEnhance`` defines them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ..call.backends import apply_table
from ..call.op import Op
from ..core.body import Body
from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import TABLE_DTYPES, put

__all__ = ["MeanContrast", "Sharpness"]

_CHANNELS: Final = 4  # most channels that OpenCV filters together
_LUMA: Final = np.array((0.299, 0.587, 0.114), np.float32)


class MeanContrast(Op, register=False):
    """Change contrast around the mean luma of each frame.

    ``out = mean + contrast * (in - mean)``, where ``mean`` is that of ``0.299 R + 0.587 G + 0.114 B``, rounded to an
    integer like the luma of each pixel.
    """

    contrast: Number = param(1.0, "factor of the distance from the mean", lo=0, identity=1.0)

    dtypes = TABLE_DTYPES
    channels = (3, 1)
    takes_raw = True

    def reference(self, x: Array, p: Any) -> Array:
        """Change each frame around its own mean."""
        return _around(x, namespace(x).array(_means(x), np.float32).reshape(-1, 1, 1, 1), p.contrast)

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute uint8 by a table for each frame."""
        if x.dtype != np.uint8:
            return self.reference(x.astype(np.float32), p)
        tables = [_table(mean, float(p.contrast)) for mean in _means(x)]
        if len(tables) == 1:
            return apply_table(x, tables[0])
        return np.stack([apply_table(frame, table) for frame, table in zip(x, tables, strict=True)])

    body = Body(
        "surveyed",
        """constexpr bool LUMA = true;
__device__ __forceinline__ Real changed(Real value, const Known& known, const Row& row) {
    return (value - known.mean) * row.contrast + known.mean;
}""",
    )


class Sharpness(Op, register=False):
    """Blend images with the result of a 3×3 smoothing filter.

    ``out = smooth + amount * (in - smooth)``, where ``smooth`` is the mean of the window with five times the weight for
    its center, rounded to an integer. Pixels at the border stay unchanged.
    """

    amount: Number = param(1.0, "0 smooths, 1 changes nothing, 2 sharpens", lo=0, identity=1.0)

    dtypes = TABLE_DTYPES
    takes_raw = True

    def reference(self, x: Array, p: Any) -> Array:
        """Sum all nine pixels and four times the center."""
        library = namespace(x)
        height, width = x.shape[1:3]
        out = x.copy()
        if min(height, width) < 3:
            return out
        center = x[:, 1:-1, 1:-1]
        lines = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
        total = lines[:, :, :-2] + lines[:, :, 1:-1] + lines[:, :, 2:] + center * np.float32(4)
        smooth = library.rint(total / np.float32(13))
        out[:, 1:-1, 1:-1] = smooth + (center - smooth) * p.amount
        return out

    def cpu(self, x: Array, p: Any) -> Array:
        """Sum by OpenCV."""
        floats = x.astype(np.float32)
        if x.shape[-1] > _CHANNELS or min(x.shape[1:3]) < 3:
            return self.reference(floats, p)
        import cv2

        inside = slice(1, -1), slice(1, -1)
        for frame in floats:
            smooth = cv2.boxFilter(frame, -1, (3, 3), normalize=False).reshape(frame.shape)
            smooth += frame * np.float32(4)
            smooth /= np.float32(13)
            np.rint(smooth, out=smooth)
            apart = frame - smooth
            apart *= p.amount
            apart += smooth
            frame[inside] = apart[inside]
        return floats

    body = Body("smoothed")


def _around(x: Array, means: Any, contrast: Any) -> Array:
    """Scale the distance of values from their mean."""
    return (x - means) * contrast + means


@lru_cache(maxsize=4096)  # there are 256 means, and policies have few contrasts
def _table(mean: int, contrast: float) -> npt.NDArray[np.uint8]:
    """Return the table of results for uint8."""
    table = np.empty(256, np.uint8)
    put(table, _around(np.arange(256, dtype=np.float32), mean, np.float32(contrast)))
    return table


def _means(x: Array) -> list[int]:
    """Return the rounded mean luma of each frame."""
    library = namespace(x)
    luma = x
    if x.shape[-1] == 3:
        parts = x * library.asarray(_LUMA)
        luma = parts[..., 0] + parts[..., 1]
        luma += parts[..., 2]
        library.rint(luma, luma)
    # integer sums, which double precision holds
    sums = luma.sum(axis=(1, 2) if luma.ndim == 3 else (1, 2, 3), dtype=np.float64).tolist()
    pixels = x.shape[1] * x.shape[2]
    return [math.floor(one / pixels + 0.5) for one in sums]
