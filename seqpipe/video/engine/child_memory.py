"""Memory that a process and its child share: where the child leaves pictures, and how it learns that they were used."""

from __future__ import annotations

import mmap
import os
from collections import defaultdict, deque
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..convert.surface import Plane, Surface, SurfaceFormat
from ..finalizers import Afterwards

__all__ = ["Lent", "Lie", "Room", "SharedPictures", "Slots"]

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

    def view(self, memory: npt.NDArray[np.uint8], start: int = 0) -> Plane:
        """The plane in memory where its room begins at ``start``."""
        return np.ndarray(self.shape, self.dtype, memory, start + self.offset)


class Lie(NamedTuple):
    """How a picture lies in its room: the same for all pictures of a stream, which a message then tells once.

    Attributes:
        planes: where they are.
        format: how to read them.
        size: bytes of the room.
    """

    planes: tuple[_PlaneAt, ...]
    format: SurfaceFormat
    size: int

    @classmethod
    def of(cls, surface: Surface) -> Lie:
        """How such a picture is laid down."""
        places, size = [], 0
        for plane in surface.planes:
            places.append(_PlaneAt(size, plane.shape, plane.dtype.str))
            size += -(-plane.nbytes // _ALIGNED) * _ALIGNED
        return cls(tuple(places), surface.format, 1 << max(size - 1, _ALIGNED).bit_length())


class Lent(NamedTuple):
    """A picture in the shared memory, as a message tells of it.

    Attributes:
        room: where it is.
        lie: how it lies there.
    """

    room: Room
    lie: Lie


class Slots:
    """The child's side: finds room for pictures; what was used last is used first, so that few pages are touched.

    Args:
        memory: the shared memory.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._free: defaultdict[int, list[Room]] = defaultdict(list)
        self._end = self._lent = 0
        self._lie = Lie((), SurfaceFormat("", 0, "", 0, 0), 0)

    def put(self, surface: Surface) -> Lent | None:
        """Copy a picture into the shared memory; None if there is no room."""
        lie = Lie.of(surface)
        if lie == self._lie:
            lie = self._lie  # the very same, so that pickling finds it again
        self._lie = lie
        room = self._room(lie.size)
        if room is None:
            return None
        for place, plane in zip(lie.planes, surface.planes, strict=True):
            np.copyto(place.view(self._bytes, room.offset), plane)
        return Lent(room, lie)

    def take_back(self, rooms: list[Room]) -> None:
        """Use rooms again."""
        for room in rooms:
            self._free[room.size].append(room)
        self._lent -= len(rooms)

    def _room(self, size: int) -> Room | None:
        if not self._lent:  # pictures of another size shall not need memory of their own for good
            self._free.clear()
            self._end = 0
        if free := self._free[size]:
            self._lent += 1
            return free.pop()
        if self._end + size > len(self._bytes):
            return None
        self._end += size
        self._lent += 1
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
        self._address = self._bytes.ctypes.data
        self._used: deque[Room] = deque()

    def borrow(self, lent: Lent) -> tuple[Plane, ...]:
        """The planes of a picture; any thread may forget them."""
        room = np.asarray(_Lease(self._bytes, self._address, lent.room, self._used))
        return tuple(place.view(room) for place in lent.lie.planes)

    def used(self) -> list[Room]:
        """The rooms of pictures that were forgotten since it was asked last."""
        rooms = []
        while self._used:
            rooms.append(self._used.popleft())
        return rooms

    def close(self) -> None:
        """Close the descriptor; the memory lives as long as pictures in it do."""
        os.close(self.descriptor)


class _Lease(Afterwards):
    """The memory of a room, for NumPy: its arrays hold it for as long as one of them lives."""

    __slots__ = ("__array_interface__", "_bytes")
    __array_interface__: dict[str, Any]
    _bytes: npt.NDArray[np.uint8]

    def __new__(cls, whole: npt.NDArray[np.uint8], address: int, room: Room, used: deque[Room]) -> _Lease:
        """A room of all the memory, which begins at an address; it is noted where it is used no longer."""
        self = super().__new__(cls, used.append, room)
        self._bytes = whole
        self.__array_interface__ = {
            "version": 3,
            "shape": (room.size,),
            "typestr": "|u1",
            "data": (address + room.offset, True),
        }
        return self
