"""Cases of reductions, and of what is normalized by them: of whole numbers exact, of floats to the last bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tests.peers.dali import Case, given

__all__ = ["EXACT", "NEAR"]

_AXES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"axis_names": "HW"},
    {"axis_names": "HWC", "keep_dims": True},
    {"axes": (0,)},
)


def _cases(names: tuple[str, ...], pictures: tuple[str, ...]) -> list[Case]:
    return [
        Case(f"reductions.{name}", picture, one) for name in names for picture in pictures for one in _AXES
    ]


def _spreads() -> Iterator[Case]:
    """Around the mean, which DALI must be given."""
    for name in ("std_dev", "variance"):
        for picture in ("image", "sequence", "floats"):
            x = given(picture).astype(np.float64)
            axes = (x.ndim - 3, x.ndim - 2)
            for more in ({}, {"keep_dims": True, "ddof": 1}):
                mean = x.mean(axes, keepdims="keep_dims" in more).astype(np.float32)
                yield Case(f"reductions.{name}", picture, {"axis_names": "HW", **more}, {"mean": mean})


def _normalized() -> Iterator[Case]:
    """By statistics of other axes than a frame's, and of all samples together."""
    for names in ("FHWC", "F", "C", "HC"):
        yield Case("normalize", "sequence", {"axis_names": names})
    yield Case("normalize", "image", {"axes": (0,)})
    yield Case("normalize", "batch", {"axis_names": "FHWC"})
    for names in ("FHW", "HWC"):
        yield Case("normalize", "batch", {"axis_names": names, "batch": True})


EXACT: Final = [
    *_cases(("max", "min"), ("image", "sequence", "signed", "floats")),
    *_cases(("sum",), ("image", "sequence", "signed")),
]
NEAR: Final = [
    *_cases(("mean", "rms"), ("image", "sequence", "signed", "floats")),
    *_cases(("sum", "mean_square"), ("floats",)),
    *_spreads(),
    *_normalized(),
]
