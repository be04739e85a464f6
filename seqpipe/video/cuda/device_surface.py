"""DeviceSurface: a decoded frame in device memory, with its planes' addresses and format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...cached import cached_property
from ...errors import ParameterError
from ..convert.surface import SurfaceFormat

__all__ = ["DeviceSurface", "SurfaceShape", "at_once"]

# Each launch takes Python dozens of µs, a 1080p frame the GPU 6 and an engine 1,000: many small frames are worth one.
# Of large ones each more costs every session memory, at 1080p 12 MiB: of the pictures that a decoder hands over, some
# are being converted, some gathered, and some have just come. Nor may these be too many: an H200 made decoders with 48
# for them, and refused those with 64: 67 or more, with what they decode into.
_MOST_AT_ONCE = 8
_PIXELS_AT_ONCE = 2 << 20


def at_once(width: int, height: int) -> int:
    """How many frames of a size are converted by one launch."""
    return min(max(_PIXELS_AT_ONCE // (width * height), 1), _MOST_AT_ONCE)


@dataclass(frozen=True)
class SurfaceShape:
    """What the surfaces of a stream have in common.

    Attributes:
        pitch: bytes from one row of the first plane to the next; the last row is as long.
        width: columns of the picture in pixels.
        height: rows of the picture in pixels.
        format: how samples are to be read; a sample is one byte up to 8 bits, else two.
        interleaved: whether Cb and Cr share a plane, as in NV12 and P016.
        shift: bits that 16-bit samples are shifted up by: 6 for 10 bits in P016.
        chroma_pitch: the same as pitch for the other planes; 0 where it is the same.
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
        """Bytes of a sample."""
        return 1 if self.format.bits <= 8 else 2

    @cached_property
    def plane_count(self) -> int:
        """How many planes there are."""
        return 1 if self.format.chroma == "gray" else 2 if self.interleaved else 3

    @cached_property
    def chroma_bytes(self) -> int:
        """What the addresses and rows of chroma planes are multiples of."""
        return self.sample_bytes * (2 if self.interleaved else 1)

    def surface(self, number: int, planes: tuple[int, ...], owner: object = None) -> DeviceSurface:
        """A surface.

        Args:
            number: its number in presentation order.
            planes: addresses of the planes: (Y, CbCr) where chroma is interleaved, else (Y, Cb, Cr), (Y,) for gray
                or (R, G, B).
            owner: what keeps the memory as it is for as long as the surface is referred to.

        Raises:
            ParameterError: the planes do not go with the format, or a pair of chroma samples is not aligned.
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
        # powers of two divide a bitwise or where they divide all of its parts
        if combined % self.chroma_bytes or self.pitch % self.sample_bytes:
            raise ParameterError(
                f"planes at {', '.join(map(hex, planes))} with rows of {self.pitch} and {self.chroma_pitch} bytes",
                allowed=f"chroma planes and their rows that begin at multiples of {self.chroma_bytes} bytes",
            )
        return DeviceSurface(number, planes, self, owner)


class DeviceSurface(NamedTuple):
    """One decoded frame in device memory; made by :meth:`SurfaceShape.surface`.

    Attributes:
        number: its number in presentation order.
        planes: addresses of the planes.
        shape: how they are to be read.
        owner: what keeps the memory as it is for as long as the surface is referred to.
    """

    number: int
    planes: tuple[int, ...]
    shape: SurfaceShape
    owner: object
