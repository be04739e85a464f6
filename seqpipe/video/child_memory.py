"""Memory that a process and its child share: where the child leaves pictures, and how it learns that they were used."""

from __future__ import annotations

import mmap
import os
from collections import defaultdict, deque
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .surface import Plane, Surface, SurfaceFormat

__all__ = ["Lent", "Room", "SharedPictures", "Slots"]

_BYTES: Final = 512 << 20
"""Of addresses; memory is taken as it is used, so what is never needed costs nothing."""
_ALIGNED: Final = 64


class Room(NamedTuple):
    """A part of the shared memory.

    Attributes:
        offset: where it begins.
        size: bytes; a power of two, so that few kinds of rooms fit all pictures.
    """

    offset: int
    size: int


class _PlaneAt(NamedTuple):
    """Where in its room a plane lies."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


class Lent(NamedTuple):
    """A picture in the shared memory, as a message tells of it.

    Attributes:
        room: where it is.
        planes: where in it.
        format: how to read them.
    """

    room: Room
    planes: tuple[_PlaneAt, ...]
    format: SurfaceFormat


class Slots:
    """The child's side: finds room for pictures; what was used last is used first, so that few pages are touched.

    Args:
        memory: the shared memory.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._free: defaultdict[int, list[Room]] = defaultdict(list)
        self._end = 0

    def put(self, surface: Surface) -> Lent | None:
        """Copy a picture into the shared memory; None if there is no room."""
        places, size = [], 0
        for plane in surface.planes:
            places.append(_PlaneAt(size, plane.shape, plane.dtype.str))
            size += -(-plane.nbytes // _ALIGNED) * _ALIGNED
        room = self._room(1 << max(size - 1, _ALIGNED).bit_length())
        if room is None:
            return None
        lent = Lent(room, tuple(places), surface.format)
        for target, plane in zip(_views(self._bytes, lent), surface.planes, strict=True):
            np.copyto(target, plane)
        return lent

    def take_back(self, rooms: list[Room]) -> None:
        """Use rooms again."""
        for room in rooms:
            self._free[room.size].append(room)

    def _room(self, size: int) -> Room | None:
        if free := self._free[size]:
            return free.pop()
        if self._end + size > len(self._bytes):
            return None
        self._end += size
        return Room(self._end - size, size)


class SharedPictures:
    """The parent's side: pictures as views of the shared memory, which is given back when they are forgotten.

    Raises:
        OSError: the system has no such memory to give.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("seqpipe")
        try:
            os.ftruncate(self.descriptor, _BYTES)
            memory = mmap.mmap(self.descriptor, _BYTES)
        except OSError:
            self.close()
            raise
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._used: deque[Room] = deque()

    def borrow(self, lent: Lent) -> tuple[Plane, ...]:
        """The planes of a picture; any thread may forget them."""
        return tuple(_views(np.asarray(_Lease(self._bytes, lent.room, self._used)), lent, of_room=True))

    def used(self) -> list[Room]:
        """The rooms of pictures that were forgotten since it was asked last."""
        rooms = []
        while self._used:
            rooms.append(self._used.popleft())
        return rooms

    def close(self) -> None:
        """Close the descriptor; the memory lives as long as pictures in it do."""
        os.close(self.descriptor)


class _Lease:
    """The memory of a room, for NumPy: its arrays hold it for as long as one of them lives."""

    __slots__ = ("__array_interface__", "_bytes", "_room", "_used")

    def __init__(self, whole: npt.NDArray[np.uint8], room: Room, used: deque[Room]) -> None:
        self._bytes, self._room, self._used = whole, room, used
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": (room.size,),
            "typestr": "|u1",
            "data": (whole.ctypes.data + room.offset, True),
        }

    def __del__(self) -> None:
        self._used.append(self._room)


def _views(memory: npt.NDArray[np.uint8], lent: Lent, *, of_room: bool = False) -> list[Plane]:
    """The planes of a picture as views of its room, or of all the memory."""
    start = 0 if of_room else lent.room.offset
    views = []
    for place in lent.planes:
        dtype = np.dtype(place.dtype)
        begin = start + place.offset
        end = begin + int(np.prod(place.shape)) * dtype.itemsize
        views.append(memory[begin:end].view(dtype).reshape(place.shape))
    return views
