"""Decoded frame in device memory: the addresses of its planes and their format."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ...core.cached import cached_property
from ...core.finalizers import Finalizer
from ...core.kernel import load_cupy
from ...errors import ParameterError
from ..convert.surface import Plane, Surface, SurfaceFormat
from .memory import retry_when_full

__all__ = ["DeviceSurface", "SurfaceShape", "Uploader", "frames_per_launch", "free_uploads"]

# A launch takes dozens of µs of Python; a 1080p frame takes 6 µs of the GPU and 1,000 µs of an engine, so small frames
# are converted several at once. Each additional frame per launch costs every session three mapped frames (converted,
# gathered, just decoded), 12 MiB at 1080p. Their number is limited: an H200 created decoders with 48 output surfaces
# and refused those with 64.
_MOST_PER_LAUNCH = 8
_PIXELS_PER_LAUNCH = 2 << 20


def frames_per_launch(width: int, height: int) -> int:
    """Return the number of frames of a size that one launch converts."""
    return min(max(_PIXELS_PER_LAUNCH // (width * height), 1), _MOST_PER_LAUNCH)


@dataclass(frozen=True)
class SurfaceShape:
    """Memory layout and format that the surfaces of a stream share.

    Attributes:
        pitch: bytes per row of the first plane, also of its last row.
        width: frame width in pixels.
        height: frame height in pixels.
        format: sample format; a sample takes one byte up to 8 bits, else two.
        interleaved: whether Cb and Cr share a plane, as in NV12 and P016.
        shift: left shift of 16-bit samples in bits: 6 for 10 bits in P016.
        chroma_pitch: bytes per row of the other planes; 0 for the same as ``pitch``.
    """

    pitch: int
    width: int
    height: int
    format: SurfaceFormat
    interleaved: bool = False
    shift: int = 0
    chroma_pitch: int = 0

    def __post_init__(self) -> None:
        if not self.chroma_pitch:
            object.__setattr__(self, "chroma_pitch", self.pitch)

    @cached_property
    def sample_bytes(self) -> int:
        """Bytes per sample."""
        return 1 if self.format.bits <= 8 else 2

    @cached_property
    def plane_count(self) -> int:
        """Number of planes."""
        return 1 if self.format.chroma == "gray" else 2 if self.interleaved else 3

    @cached_property
    def chroma_bytes(self) -> int:
        """Required alignment of the chroma planes' addresses and rows in bytes."""
        return self.sample_bytes * (2 if self.interleaved else 1)

    def surface(self, number: int, planes: tuple[int, ...], owner: object = None) -> DeviceSurface:
        """Create a surface.

        Args:
            number: frame number in presentation order.
            planes: addresses of the planes: (Y, CbCr) where chroma is interleaved, else (Y, Cb, Cr), (Y,) for gray
                or (R, G, B).
            owner: object that keeps the memory valid while the surface references it.
        """
        if len(planes) != self.plane_count:
            raise ParameterError(
                f"a surface of {self.format.name} with {len(planes)} planes",
                allowed=f"{self.plane_count} planes",
                advice="Interleaved chroma is one plane, gray has no chroma",
            )
        combined = self.chroma_pitch
        for plane in planes[1:]:
            combined |= plane
        # A power of two divides a bitwise or exactly if it divides all operands.
        if combined % self.chroma_bytes or self.pitch % self.sample_bytes:
            raise ParameterError(
                f"planes at {', '.join(map(hex, planes))} with rows of {self.pitch} and {self.chroma_pitch} bytes",
                allowed=f"chroma planes and rows at multiples of {self.chroma_bytes} bytes",
            )
        return DeviceSurface(number, planes, self, owner)


class DeviceSurface(NamedTuple):
    """Decoded frame in device memory; created by :meth:`SurfaceShape.surface`.

    Attributes:
        number: frame number in presentation order.
        planes: addresses of the planes.
        shape: memory layout and format.
        owner: object that keeps the memory valid while the surface references it.
    """

    number: int
    planes: tuple[int, ...]
    shape: SurfaceShape
    owner: object


_ALIGNMENT = 256
_IDLE_BYTES = 32 << 20  # per buffer size
_CACHED_LAYOUTS = 256


class Uploader:
    """Copies surfaces to a GPU through page-locked buffers, which all uploaders of the GPU share.

    Args:
        device: the GPU's number.
    """

    def __init__(self, device: int) -> None:
        self._cupy = load_cupy()
        self._free = _free(device)

    def __call__(self, surface: Surface, stream: Any) -> DeviceSurface:
        """Queue the copy of a surface on a stream, and return the surface on the GPU.

        Its buffers are reused when the last reference to it is dropped; the stream must have completed by then.
        """
        layout = _layout(surface.format, tuple([plane.shape for plane in surface.planes]))
        buffers = self._buffers(layout.size)
        for target, plane in zip(buffers.planes(layout), surface.planes, strict=True):
            np.copyto(target, plane)
        buffers.device.copy_from_host_async(buffers.address, layout.used, stream)
        first = int(buffers.device.ptr)
        planes = tuple([first + start for start in layout.starts])
        return layout.shape.surface(
            surface.number, planes, Finalizer(self._free[buffers.size].append, buffers)
        )

    def _buffers(self, size: int) -> _Buffers:
        """Return a free pair of buffers of a size, or create one."""
        try:
            return self._free[size].pop()
        except IndexError:  # no check beforehand: another thread may take the last one
            return _Buffers(self._cupy, size)


@cache
def _free(device: int) -> _Free:  # noqa: ARG001  there is one for each
    """Return the idle buffers of a GPU."""
    return _Free()


def free_uploads(device: int) -> None:
    """Free the idle buffers of a GPU."""
    for free in list(_free(device).values()):
        free.clear()


class _Layout(NamedTuple):
    """Layout of a surface's planes in a buffer.

    Attributes:
        starts: offset of each plane.
        used: bytes of all planes.
        size: size of the buffer, a power of two, so that there are few different sizes.
        shape: shape of the surface on the GPU.
        planes: shape of each plane in samples.
    """

    starts: tuple[int, ...]
    used: int
    size: int
    shape: SurfaceShape
    planes: tuple[tuple[int, ...], ...]


@lru_cache(_CACHED_LAYOUTS)
def _layout(form: SurfaceFormat, planes: tuple[tuple[int, ...], ...]) -> _Layout:
    """Return positions and pitches of planes in one buffer."""
    sample_bytes = 1 if form.bits <= 8 else 2
    pitches = [_aligned(columns * sample_bytes) for _, columns in planes]
    ends = list(accumulate(pitch * rows for pitch, (rows, _) in zip(pitches, planes, strict=True)))
    height, width = planes[0]
    shape = SurfaceShape(pitches[0], width, height, form, chroma_pitch=pitches[-1])
    return _Layout((0, *ends[:-1]), ends[-1], 1 << (ends[-1] - 1).bit_length(), shape, planes)


class _Buffers:
    """Page-locked host buffer and GPU buffer of the same size.

    Attributes:
        size: size in bytes.
        address: address of the host buffer.
        device: the GPU buffer.
    """

    def __init__(self, cupy: Any, size: int) -> None:
        self.size = size
        self._pinned = cupy.cuda.alloc_pinned_memory(size)
        self._host = np.frombuffer(self._pinned, np.uint8, size)
        self.address = int(self._host.ctypes.data)
        self.device = retry_when_full(partial(cupy.cuda.alloc, size), "a surface", size)
        self._layout: _Layout | None = None
        self._planes: list[Plane] = []

    def planes(self, layout: _Layout) -> list[Plane]:
        """Return views of the host buffer as planes, cached for consecutive surfaces of one layout."""
        if self._layout is not layout:
            dtype = np.dtype(np.uint8 if layout.shape.sample_bytes == 1 else np.uint16)
            pitches = [layout.shape.pitch, *[layout.shape.chroma_pitch] * (len(layout.planes) - 1)]
            self._planes = [
                np.ndarray(shape, dtype, self._host, start, (pitch, dtype.itemsize))
                for shape, start, pitch in zip(layout.planes, layout.starts, pitches, strict=True)
            ]
            self._layout = layout
        return self._planes


class _Free(dict[int, deque[_Buffers]]):
    """Idle buffers by size, up to a limit of bytes per size; the least recently used are dropped."""

    def __missing__(self, size: int) -> deque[_Buffers]:
        return self.setdefault(size, deque(maxlen=max(1, _IDLE_BYTES // size)))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
