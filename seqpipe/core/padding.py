"""Padding modes of all readers and operators, with their names in other libraries.

=============== ==================== =============================== =================================================
``pad_mode``    after ``a b c d``    NumPy, torchvision, MONAI       DALI, OpenCV
=============== ==================== =============================== =================================================
``"none"``      an error, or skipped                                 ``none``; ``out_of_bounds_policy="error"``
``"constant"``  ``fill_value``       ``constant``                    ``constant``, ``pad``; ``BORDER_CONSTANT``
``"edge"``      ``d d d d``          ``edge``                        ``clamp``, ``edge``; ``BORDER_REPLICATE``
``"reflect"``   ``c b a b``          ``reflect``                     ``reflect_101``; ``BORDER_REFLECT_101``
``"symmetric"`` ``d c b a``          ``symmetric``                   ``reflect_1001``; ``BORDER_REFLECT``
``"wrap"``      ``a b c d``          ``wrap``                        ``wrap``; ``BORDER_WRAP``
=============== ==================== =============================== =================================================

Operators that interpolate (warps, resampling) have only ``fill_value``: a number stands for ``"constant"``, None for
``"edge"``. ``Crop3d`` and ``Pad3d`` are fused with these in the modes ``"constant"`` and ``"edge"`` alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from ..array import IntArray

__all__ = ["FILL_MODES", "PAD_MODES", "FillMode", "PadMode", "indices_at", "source_indices"]

FillMode: TypeAlias = Literal["constant", "edge", "reflect", "symmetric", "wrap"]
"""Modes other than ``"none"``; ``prelude.cuh`` numbers them in this order."""
PadMode: TypeAlias = Literal["none", "constant", "edge", "reflect", "symmetric", "wrap"]
FILL_MODES: Final[tuple[FillMode, ...]] = get_args(FillMode)
PAD_MODES: Final[tuple[PadMode, ...]] = get_args(PadMode)


@lru_cache(maxsize=64)  # most operators pass equal arguments in every call
def source_indices(first: int, count: int, length: int, mode: FillMode) -> IntArray:
    """Return the index that each position along an axis takes its value from, -1 for ``fill_value``; read-only."""
    import numpy as np  # not at the top: the command line's help imports this module, and must not wait for NumPy

    result = indices_at(np.arange(first, first + count), length, mode)
    result.flags.writeable = False
    return result


def indices_at(at: IntArray, length: int, mode: FillMode) -> IntArray:
    """Return the index that each of some positions takes its value from; see :func:`source_indices`."""
    import numpy as np

    if mode == "constant":
        return np.where((at < 0) | (at >= length), -1, at)
    if mode == "edge":
        return at.clip(0, length - 1)
    period = {"wrap": length, "reflect": max(2 * length - 2, 1), "symmetric": 2 * length}[mode]
    within = at % period
    mirrored = period - within - (mode == "symmetric")
    return np.where(within < length, within, mirrored)
