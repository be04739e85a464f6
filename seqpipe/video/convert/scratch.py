"""Scratch memory for intermediate results of a conversion."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from .surface import Plane

__all__ = ["ConversionScratch"]


class ConversionScratch:
    """Arrays by name; arrays of one name share memory whatever their shapes, so only one is valid at a time."""

    def __init__(self) -> None:
        self._memory: dict[str, npt.NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Plane:
        """Return an uninitialized contiguous array."""
        wanted: np.dtype[Any] = np.dtype(dtype)
        size = math.prod(shape) * wanted.itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(wanted).reshape(shape)
