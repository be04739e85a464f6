"""Arrays of packets and pending frames, as the C feeder reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from ...array import BoolArray, IntArray
from ...core.native import buffer_of
from ..bitstream.elementary import ElementaryStream
from .feeder import PacketBatch

__all__ = ["PacketArrays", "PendingFrames"]

# Forms of a packet, see feeder.c.
_READY, _LENGTH_PREFIXED, _UNSUPPORTED = 0, 1, 6
# Flags of a packet, see fused_run.c.
_WANTED, _TRACKED, _UNDECODABLE = 1, 2, 4
_LENGTH_BYTES = 4


class PacketArrays:
    """Packets as C arrays; C replaces length prefixes of 4 bytes by start codes.

    Args:
        numbers: packet numbers.
        data: bytes of the packets.
        wanted: whether each packet's frame is wanted.
        stream: form of the packets.
    """

    def __init__(
        self, numbers: Iterable[int], data: Seq[bytes], wanted: Iterable[bool], stream: ElementaryStream
    ) -> None:
        count = len(data)
        integers = _array(ctypes.c_int64, count)
        self._data = _array(ctypes.c_char_p, count)(*data)
        self._sizes = integers(*map(len, data))
        self._numbers, self._wanted = integers(*numbers), bytes(wanted)
        prefixed = _LENGTH_PREFIXED if stream.lengths == _LENGTH_BYTES else _UNSUPPORTED
        self._forms = _array(ctypes.c_uint8, count)(*[prefixed if stream.lengths else _READY] * count)
        self._roles = stream.roles(data)

    @classmethod
    def of(cls, batch: PacketBatch) -> PacketArrays:
        """Return the arrays of a batch.

        Raises:
            DecodeError: decoding starts with the first packet, and this is malformed.
        """
        numbers, data, _, wanted = zip(*batch.packets, strict=True)
        arrays = cls(numbers, data, wanted, batch.stream)
        if batch.first:
            arrays.replace(0, batch.payload(0))
        return arrays

    def replace(self, index: int, payload: bytes) -> None:
        """Replace a packet by the form that the parser takes."""
        self._data[index], self._sizes[index], self._forms[index] = payload, len(payload), _READY

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the C functions."""
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
    """Frames and reports that a fused run has to produce.

    Args:
        wanted: indices of the packets whose frames are wanted.
        targets: for each of these, all target frames: the address, and the index of the painting's conversion.
        tracked: for each packet, whether the decoder must report the state of its frame.
        undecodable: for each packet, whether its frame cannot be decoded and may be reported as damaged.
    """

    def __init__(
        self,
        wanted: IntArray,
        targets: Seq[Seq[tuple[int, int]]],
        tracked: BoolArray,
        undecodable: BoolArray,
    ) -> None:
        self._flags = tracked * np.uint8(_TRACKED) | undecodable * np.uint8(_UNDECODABLE)
        self._flags[wanted] |= _WANTED
        self._begins = np.zeros(len(tracked) + 1, np.int64)
        self._begins[wanted + 1] = list(map(len, targets))
        np.cumsum(self._begins, out=self._begins)
        values = chain.from_iterable(chain.from_iterable(targets))
        self._targets = np.fromiter(values, np.uint64, 2 * int(self._begins[-1]))

    @property
    def wanted(self) -> Iterable[bool]:
        """Whether each packet's frame is wanted."""
        wanted: list[bool] = (self._flags & _WANTED).tolist()
        return wanted

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Arguments of the C function, which clears the flags of what it has produced."""
        return buffer_of(self._flags), buffer_of(self._begins), buffer_of(self._targets)


@cache
def _array(kind: Any, count: int) -> Callable[..., Any]:
    """Return a ctypes array type, memoized: creating the type takes longer than filling an array."""
    array: Callable[..., Any] = kind * count
    return array
