"""Upload of surfaces decoded on the CPU, in the codec's format: half the bytes of RGB frames."""

from __future__ import annotations

from collections import deque
from functools import cache, lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ...kernel import load_cupy
from ..convert.surface import Plane, Surface, SurfaceFormat
from ..finalizers import Finalizer
from .device_surface import DeviceSurface, SurfaceShape
from .memory import retry_when_full

__all__ = ["Uploader", "forget_uploads"]

_ALIGNED = 256
_KEPT_BYTES = 32 << 20  # of each size
_LIES = 256  # that are remembered


class Uploader:
    """Copies surfaces to a GPU, through page-locked memory that all who upload there use again and again.

    Args:
        device: the GPU's number.
    """

    def __init__(self, device: int) -> None:
        self._cupy = load_cupy()
        self._free = _free(device)

    def __call__(self, surface: Surface, stream: Any) -> DeviceSurface:
        """The surface on the GPU, once the stream gets there.

        Its buffers are used anew when the last reference to it is gone; until then the stream must be done with it.

        Raises:
            DeviceMemoryError: the GPU is full.
        """
        lie = _lie(surface.format, tuple([plane.shape for plane in surface.planes]))
        buffers = self._buffers(lie.size)
        for target, plane in zip(buffers.planes(lie), surface.planes, strict=True):
            np.copyto(target, plane)
        buffers.device.copy_from_host_async(buffers.address, lie.used, stream)
        first = int(buffers.device.ptr)
        planes = tuple([first + start for start in lie.starts])
        return lie.shape.surface(surface.number, planes, Finalizer(self._free[buffers.size].append, buffers))

    def _buffers(self, size: int) -> _Buffers:
        try:
            return self._free[size].pop()
        except IndexError:  # to look first would not do: another thread may take the last ones
            return _Buffers(self._cupy, size)


@cache
def _free(device: int) -> _Free:  # noqa: ARG001  there is one for each
    """What no one uses on a GPU at the moment."""
    return _Free()


def forget_uploads(device: int) -> None:
    """Give back what no one uses on a GPU at the moment."""
    for free in list(_free(device).values()):
        free.clear()


class _Lie(NamedTuple):
    """Where the planes of surfaces of one kind lie in a buffer.

    Attributes:
        starts: where each begins.
        used: bytes of all.
        size: of the buffer; one of few, for what is kept must not grow with every new one.
        shape: how they are to be read there.
        planes: the shape of each in samples.
    """

    starts: tuple[int, ...]
    used: int
    size: int
    shape: SurfaceShape
    planes: tuple[tuple[int, ...], ...]


@lru_cache(_LIES)
def _lie(form: SurfaceFormat, planes: tuple[tuple[int, ...], ...]) -> _Lie:
    sample_bytes = 1 if form.bits <= 8 else 2
    pitches = [_rounded(columns * sample_bytes) for _, columns in planes]
    ends = list(accumulate(pitch * rows for pitch, (rows, _) in zip(pitches, planes, strict=True)))
    height, width = planes[0]
    shape = SurfaceShape(pitches[0], width, height, form, chroma_pitch=pitches[-1])
    return _Lie((0, *ends[:-1]), ends[-1], 1 << (ends[-1] - 1).bit_length(), shape, planes)


class _Buffers:
    """Page-locked memory of the host, and as much of the GPU.

    Attributes:
        size: bytes of each.
        address: of the host's.
        device: the GPU's.
    """

    def __init__(self, cupy: Any, size: int) -> None:
        self.size = size
        self._pinned = cupy.cuda.alloc_pinned_memory(size)
        self._host = np.frombuffer(self._pinned, np.uint8, size)
        self.address = int(self._host.ctypes.data)
        self.device = retry_when_full(partial(cupy.cuda.alloc, size), "a surface", size)
        self._lie: _Lie | None = None
        self._planes: list[Plane] = []

    def planes(self, lie: _Lie) -> list[Plane]:
        """The host's memory as planes; mostly those of the surface before."""
        if self._lie is not lie:
            dtype = np.dtype(np.uint8 if lie.shape.sample_bytes == 1 else np.uint16)
            pitches = [lie.shape.pitch, *[lie.shape.chroma_pitch] * (len(lie.planes) - 1)]
            self._planes = [
                np.ndarray(shape, dtype, self._host, start, (pitch, dtype.itemsize))
                for shape, start, pitch in zip(lie.planes, lie.starts, pitches, strict=True)
            ]
            self._lie = lie
        return self._planes


class _Free(dict[int, deque[_Buffers]]):
    """Buffers by their size; of each there are no more than are worth keeping: those used longest ago go."""

    def __missing__(self, size: int) -> deque[_Buffers]:
        return self.setdefault(size, deque(maxlen=max(1, _KEPT_BYTES // size)))


def _rounded(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
