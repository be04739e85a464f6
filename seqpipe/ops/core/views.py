"""Views of arrays of any layout as ``(N, F, H, W, C)``, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from ...array import Array
from ...errors import ParameterError
from ...layout import check_layout

__all__ = ["View", "view_of"]


class View(NamedTuple):
    """View of an array of some layout as ``(N, F, H, W, C)``.

    Attributes:
        axes: the array's axes in the order N, F, H, W, C; None if they are in this order already.
        extend: index that adds the missing axes; None if none is missing.
        positions: position of each of the array's axes among the five.
        shape: function that selects the shape in the layout from the lengths of the five axes.
        batched: whether the layout has N.
        is_volume: whether the layout has D.
        is_series: whether time points of one volume take the place of N; they share their sampled parameters.
    """

    axes: tuple[int, ...] | None
    extend: tuple[Any, ...] | None
    positions: tuple[int, ...]
    shape: Callable[[tuple[int, ...]], tuple[int, ...]]
    batched: bool
    is_volume: bool = False
    is_series: bool = False

    def __call__(self, array: Array) -> Array:
        """Return the array as ``(N, F, H, W, C)``."""
        ordered = array if self.axes is None else array.transpose(self.axes)
        return ordered if self.extend is None else ordered[self.extend]

    def window(self, rows: slice, columns: slice) -> tuple[slice, ...]:
        """Some rows and columns of an array, as an index."""
        cut = [slice(None)] * len(self.positions)
        cut[self.positions.index(2)], cut[self.positions.index(3)] = rows, columns
        return tuple(cut)


@lru_cache(maxsize=64)
def view_of(layout: str, ndim: int) -> View:
    """Return the view for arrays of a layout.

    Raises:
        ParameterError: the layout is unknown or does not fit the number of axes.
    """
    known = check_layout(layout, ndim)
    is_series = "F" in known and "D" in known
    if is_series and "N" in known:
        raise ParameterError(
            f"layout={known!r} holds several series of volumes",
            allowed="'FDHWC', one series at a time",
            advice="Give the series as a list",
        )
    letters = (known.replace("F", "N") if is_series else known).replace("D", "F")
    axes = tuple(letters.index(letter) for letter in "NFHWC" if letter in letters)
    positions = tuple("NFHWC".index(letter) for letter in letters)
    extend = tuple(slice(None) if letter in letters else None for letter in "NFHWC")
    return View(
        None if axes == tuple(range(ndim)) else axes,
        None if ndim == len(extend) else extend,
        positions,
        itemgetter(*positions),
        "N" in known,
        "D" in known,
        is_series,
    )
