"""Packet arrays in the form that the C feeder takes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ...array import BoolArray, IntArray
from ...native import buffer_of
from ..bitstream.elementary import ElementaryStream
from .feeder import PacketBatch

__all__ = ["PacketArrays", "PendingFrames"]

# as feeder.c has them
_AS_IT_IS, _MARKED, _NOT_PLAIN = 0, 1, 6
# as whole_run.c has them
_WANTED, _AWAITED, _UNDECODABLE = 1, 2, 4
_LENGTH_BYTES = 4


class PacketArrays:
    """Some packets; C puts start codes in the place of lengths that are as long.

    Args:
        numbers: of the packets.
        data: their bytes.
        wanted: for each, whether its picture is to be handed over.
        stream: which form they have.
    """

    def __init__(
        self, numbers: Iterable[int], data: Seq[bytes], wanted: Iterable[bool], stream: ElementaryStream
    ) -> None:
        count = len(data)
        integers = _array(ctypes.c_int64, count)
        self._data = _array(ctypes.c_char_p, count)(*data)
        self._sizes = integers(*map(len, data))
        self._numbers, self._wanted = integers(*numbers), bytes(wanted)
        marked = _MARKED if stream.lengths == _LENGTH_BYTES else _NOT_PLAIN
        self._forms = _array(ctypes.c_uint8, count)(*[marked if stream.lengths else _AS_IT_IS] * count)
        self._roles = stream.roles(data)

    @classmethod
    def of(cls, batch: PacketBatch) -> PacketArrays:
        """The packets of a batch.

        Raises:
            DecodeError: decoding starts with the first packet, which is not what the container promises.
        """
        numbers, data, _, wanted = zip(*batch.packets, strict=True)
        arrays = cls(numbers, data, wanted, batch.stream)
        if batch.first:
            arrays.replace(0, batch.payload(0))
        return arrays

    def replace(self, place: int, payload: bytes) -> None:
        """Give a packet as the parser takes it."""
        self._data[place], self._sizes[place], self._forms[place] = payload, len(payload), _AS_IT_IS

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What C is told of them."""
        return (
            len(self._wanted),
            self._data,
            self._sizes,
            self._numbers,
            self._wanted,
            self._forms,
            self._roles,
        )


class PendingFrames:
    """What is to come of the packets of a whole run.

    Args:
        wanted: the places of those whose pictures are wanted.
        addresses: for each of these, all places where it is painted.
        decoded: of which packets it has to become known how decoding went.
        undecodable: which are fed for their place only.
    """

    def __init__(
        self, wanted: IntArray, addresses: Seq[Seq[int]], decoded: BoolArray, undecodable: BoolArray
    ) -> None:
        self._left = decoded * np.uint8(_AWAITED) | undecodable * np.uint8(_UNDECODABLE)
        self._left[wanted] |= _WANTED
        self._begins = np.zeros(len(decoded) + 1, np.int64)
        self._begins[wanted + 1] = list(map(len, addresses))
        np.cumsum(self._begins, out=self._begins)
        self._outs = np.fromiter(chain.from_iterable(addresses), np.uint64, int(self._begins[-1]))

    @property
    def wanted(self) -> Iterable[bool]:
        """Whether each packet's picture is wanted."""
        wanted: list[bool] = (self._left & _WANTED).tolist()
        return wanted

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What C is told of it; it strikes out what has come."""
        return buffer_of(self._left), buffer_of(self._begins), buffer_of(self._outs)


@cache
def _array(kind: Any, count: int) -> Callable[..., Any]:
    """The type of an array; ctypes makes it anew where nobody keeps it, and that takes longer than to fill it."""
    made: Callable[..., Any] = kind * count
    return made
