"""Decoded frame in device memory: the addresses of its planes and their format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...core.cached import cached_property
from ...errors import ParameterError
from ..convert.surface import SurfaceFormat

__all__ = ["DeviceSurface", "SurfaceShape", "frames_per_launch"]

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

        Raises:
            ParameterError: the number of planes does not match the format, or chroma is not aligned.
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
