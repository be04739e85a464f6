"""Operators on arrays of any axes, and on points: the same from both, to the last bit or the last but one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqpipe import fn
from tests.peers.dali import given

__all__ = ["ARRAYS", "OfArrays"]

_TURN: Final = ((0.9, -0.1), (0.2, 1.1))


class OfArrays(NamedTuple):
    """An operator, what it is given, and its arguments."""

    operator: str
    inputs: tuple[NDArray[Any], ...]
    arguments: Mapping[str, Any]

    def ours(self) -> NDArray[Any]:
        """What we make of it."""
        return np.asarray(getattr(fn, self.operator)(*self.inputs, **self.arguments))

    def asked(self) -> dict[str, Any]:
        """As the worker is given it."""
        flat = ("M", "MT")  # rows one after the other there
        arguments = {
            name: tuple(part for row in value for part in row) if name in flat else value
            for name, value in self.arguments.items()
        }
        return {
            "operator": self.operator,
            "inputs": [[array] for array in self.inputs],
            "layouts": [None] * len(self.inputs),
            "arguments": arguments,
            "per_sample": {},
            "per_frame": {},
        }


def _all() -> Iterator[OfArrays]:
    image, floats = given("image"), given("floats")
    for axis in (0, 1, 2, -1):
        yield OfArrays("cat", (image, image[::-1].copy(), image), {"axis": axis})
        yield OfArrays("stack", (floats, floats[::-1].copy()), {"axis": axis})
    for perm in ((2, 0, 1), (1, 0, 2), (0, 1, 2)):
        yield OfArrays("transpose", (image,), {"perm": perm})
    yield OfArrays("transpose", (image,), {})
    for arguments in (
        {"shape": (67 * 3, -1)},
        {"shape": (31, 67, 9)},
        {"rel_shape": (1.0, -1.0)},
        {"rel_shape": (-1.0, 1 / 3)},
        {"src_dims": (1, 0, 2)},
        {"src_dims": (2, 1, -1, 0)},
        {"src_dims": (1, 2), "rel_shape": (-1.0, 1.0)},
    ):
        yield OfArrays("reshape", (image,), arguments)
    yield OfArrays("squeeze", (image[None, :, None],), {"axes": (0, 2)})
    yield OfArrays("squeeze", (image[:, :1],), {"axes": (1,)})
    labels = np.arange(-1, 6, dtype=np.int32)
    for more in ({}, {"axis": 0}, {"on_value": 3.0, "off_value": 0.5}, {"dtype": "uint8", "on_value": 7.0}):
        yield OfArrays("one_hot", (labels,), {"num_classes": 5, **more})
    points = np.random.default_rng(2).uniform(-100, 100, (50, 2)).astype(np.float32)
    for more in (
        {"T": (1.5, -2.0)},
        {"M": _TURN},
        {"M": _TURN, "T": (1.5, -2.0)},
        {"MT": ((0.0, -1.0, 10.0), (1.0, 0.0, 0.5))},
    ):
        yield OfArrays("coord_transform", (points,), more)
    whole = points.astype(np.int16)
    yield OfArrays("coord_transform", (whole,), {"M": _TURN, "T": (0.33, 0.71), "dtype": "int16"})


ARRAYS: Final = {f"{case.operator}-{n}": case for n, case in enumerate(_all())}
