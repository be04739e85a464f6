"""Cases of operators whose results reach beyond their images; both must give the same to the last pixel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tests.peers.dali import Case

__all__ = ["CANVAS"]

_SHADE: Final = {"pad_mode": "constant", "fill_value": (9.0, 80.0, 255.0)}
_PLACES: Final = 12


def _slices() -> Iterator[Case]:
    """Windows within, across and beyond the border, by all ways in which they are said."""
    rng = np.random.default_rng(5)
    for _ in range(_PLACES):
        start, shape = rng.integers((-20, -15), (40, 30)), rng.integers(1, 60, 2)
        first, extent = rng.uniform(-0.2, 0.5, 2), rng.uniform(0.1, 0.8, 2)
        yield from (
            _slice("image", **_SHADE, start=start, shape=shape),
            _slice("sequence", **_SHADE, start=start, end=start + shape, axis_names="HW"),
            _slice("image", **_SHADE, rel_start=first, rel_shape=extent),
            _slice("signed", **_SHADE, rel_start=first, rel_end=first + extent),
            _slice("floats", trim=True, start=start, rel_shape=extent),
            _slice("image", rel_start=np.abs(first), end=(90, 60)),
        )
    yield from (
        _slice("image", rel_start=(0.5, 0.5), rel_shape=(0.5, 0.5)),
        _slice("image", rel_start=(0.1, 0.2)),
        _slice("image", rel_end=(0.7, 0.8)),
    )


def _slice(picture: str, **arguments: Any) -> Case:
    # pixels are whole numbers with DALI
    plain = {
        name: tuple(value.astype(np.float32).tolist()) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }
    whole = {name: tuple(map(int, plain[name])) for name in ("start", "end", "shape") if name in plain}
    return Case("slice", picture, plain, whole)


def _pads() -> Iterator[Case]:
    for picture in ("image", "sequence", "signed", "floats"):
        for arguments in (
            {"shape": (130, 170), "fill_value": 7.0},
            {"axis_names": "WH", "shape": (170, 130), "align": (16, 32)},
            {"axis_names": "W", "align": 50},
            {"shape": (1,), "align": (32,)},
            {"shape": (200, -1), "align": (1, 64)},
        ):
            yield Case("pad", picture, {"axis_names": "HW", **arguments})


def _pastes() -> Iterator[Case]:
    rng = np.random.default_rng(6)
    for least in (0.0, 100.7):
        for _ in range(_PLACES):
            ratio, x, y = (float(np.float32(one)) for one in rng.uniform((1, 0, 0), (2.5, 1, 1)))
            arguments = {"ratio": ratio, "paste_x": x, "paste_y": y, "min_canvas_size": least}
            yield Case(
                "paste",
                "image",
                {**arguments, "fill_value": (9.0, 80.0, 255.0)},
                {"fill_value": (9, 80, 255)},
            )


CANVAS: Final = [*_slices(), *_pads(), *_pastes()]
