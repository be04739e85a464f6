"""Every layout seen as ``(N, F, H, W, C)``, without a copy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..array import Array
from ..layout import check_layout

__all__ = ["DEFAULT_LAYOUTS", "View", "view_of"]

DEFAULT_LAYOUTS: Final = {2: "HW", 3: "HWC", 4: "FHWC", 5: "NFHWC"}
"""The layout of an array that comes without one, by its number of axes."""


class View(NamedTuple):
    """How an array of some layout is seen.

    Attributes:
        axes: the array's axes in the order N, F, H, W, C.
        extend: what adds those that it has not.
        places: for each axis of the array, its place among the five.
        batched: whether it has N.
    """

    axes: tuple[int, ...]
    extend: tuple[Any, ...]
    places: tuple[int, ...]
    batched: bool

    def __call__(self, array: Array) -> Array:
        """The array as ``(N, F, H, W, C)``."""
        return array.transpose(self.axes)[self.extend]

    def shape(self, five: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an array of the layout, of the lengths of the five axes."""
        return tuple(five[place] for place in self.places)


@lru_cache(maxsize=64)
def view_of(layout: str, ndim: int) -> View:
    """How arrays of a layout are seen.

    Raises:
        ParameterError: the layout is unknown or does not fit the number of axes.
    """
    letters = check_layout(layout, ndim).replace("D", "F")
    return View(
        tuple(letters.index(letter) for letter in "NFHWC" if letter in letters),
        tuple(slice(None) if letter in letters else None for letter in "NFHWC"),
        tuple("NFHWC".index(letter) for letter in letters),
        "N" in letters,
    )
