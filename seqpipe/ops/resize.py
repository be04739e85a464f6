"""Operators that change the size of images."""

from __future__ import annotations

from typing import Any

from ._mapping import Mapping
from ._sized import Sized, scaling

__all__ = ["Resize"]


class Resize(Sized):
    """Resample images to a size."""

    examples = (
        {"size": (4, 9)},
        {"resize_shorter": 8, "interp_type": "cubic"},
        {"size": (11, 3), "interp_type": "lanczos3", "dtype": "float32"},
        {"resize_x": 3, "antialias": False},
        {"size": (3, 5), "mode": "not_larger", "interp_type": "area"},
        {"size": (3, 5), "mode": "not_smaller", "interp_type": "gaussian"},
        {"resize_longer": 4, "interp_type": "nearest"},
    )
    errors = (
        (
            {},
            "resize: no size is given; allowed: one of size, resize_x or resize_y, resize_shorter, resize_longer",
        ),
        ({"size": (4, 4), "resize_x": 3}, "resize: size and resize_x or resize_y given; allowed: one of"),
        ({"resize_shorter": 4, "mode": "stretch"}, "mode='stretch' with resize_shorter; allowed: 'default'"),
        (
            {"size": (4, 4), "interp_type": "sinc"},
            "interp_type='sinc' is not valid; allowed: 'nearest', 'linear'",
        ),
        ({"resize_x": 0}, "resize_x=0 is not valid; allowed: a whole number of at least 1"),
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:  # noqa: ARG002  the same for all rows
        """Where the pixels of the result come from: all of the images."""
        rows, columns = self.size_of(height, width)
        return Mapping(scaling(0, width / columns, 0, height / rows), rows, columns)
