"""Surfaces that the CPU has decoded, brought to the card as they are: half the bytes of their RGB pictures."""

from __future__ import annotations

from collections import defaultdict
from functools import cache, partial
from typing import Any

import numpy as np

from ...kernel import load_cupy
from ..surface import Surface
from .device_surface import DeviceSurface
from .memory import with_room

__all__ = ["Uploader", "forget_uploads"]

_ALIGNED = 256
_KEPT_BYTES = 32 << 20  # of each size


class Uploader:
    """Copies surfaces to a card, through page-locked memory that all who upload there use again and again.

    Args:
        device: the card's number.
    """

    def __init__(self, device: int) -> None:
        self._cupy = load_cupy()
        self._free = _free(device)

    def __call__(self, surface: Surface, stream: Any) -> DeviceSurface:
        """The surface on the card, once the stream gets there.

        Its buffers are used anew when the last reference to it is gone; until then the stream must be done with it.

        Raises:
            DeviceMemoryError: the card is full.
        """
        pitches = [_rounded(plane.shape[1] * plane.itemsize) for plane in surface.planes]
        sizes = [pitch * plane.shape[0] for pitch, plane in zip(pitches, surface.planes, strict=True)]
        buffers = self._buffers(sum(sizes))
        starts = np.cumsum([0, *sizes]).tolist()
        for plane, pitch, start, size in zip(surface.planes, pitches, starts, sizes, strict=False):
            rows = buffers.host[start : start + size].reshape(-1, pitch).view(plane.dtype)
            np.copyto(rows[:, : plane.shape[1]], plane)
        buffers.device.copy_from_host_async(buffers.host.ctypes.data, starts[-1], stream)
        return DeviceSurface(
            number=surface.number,
            planes=tuple(int(buffers.device.ptr) + start for start in starts[:-1]),
            pitch=pitches[0],
            width=surface.width,
            height=surface.height,
            format=surface.format,
            chroma_pitch=pitches[-1],
            owner=_Lease(buffers, self._free[buffers.size]),
        )

    def _buffers(self, size: int) -> _Buffers:
        size = 1 << (size - 1).bit_length()  # few sizes: what is kept must not grow with every new one
        try:
            return self._free[size].pop()
        except IndexError:  # to look first would not do: another thread may take the last ones
            return _Buffers(self._cupy, size)


@cache
def _free(device: int) -> defaultdict[int, list[_Buffers]]:  # noqa: ARG001  there is one for each
    """What no one uses on a card at the moment, by its size."""
    return defaultdict(list)


def forget_uploads(device: int) -> None:
    """Give back what no one uses on a card at the moment."""
    for free in list(_free(device).values()):
        free.clear()


class _Buffers:
    """Page-locked memory of the host, and as much of the card."""

    def __init__(self, cupy: Any, size: int) -> None:
        self.size = size
        self._pinned = cupy.cuda.alloc_pinned_memory(size)
        self.host = np.frombuffer(self._pinned, np.uint8, size)
        self.device = with_room(partial(cupy.cuda.alloc, size), "a surface", size)


class _Lease:
    """Gives buffers back when it is forgotten."""

    def __init__(self, buffers: _Buffers, free: list[_Buffers]) -> None:
        self._buffers, self._free = buffers, free

    def __del__(self) -> None:
        if len(self._free) < max(1, _KEPT_BYTES // self._buffers.size):
            self._free.append(self._buffers)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
