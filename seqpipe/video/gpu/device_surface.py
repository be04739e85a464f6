"""DeviceSurface: where a decoded frame lies in device memory, and how it is to be read."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import ParameterError
from ..surface import SurfaceFormat

__all__ = ["DeviceSurface", "at_once"]

# Each launch takes Python some 100 µs, a 1080p frame the card 10 and an engine 500: of small frames many are worth one,
# and of large ones each more costs every session memory.
_MOST_AT_ONCE = 16
_PIXELS_AT_ONCE = 4 << 20


def at_once(width: int, height: int) -> int:
    """How many frames of a size are converted by one launch."""
    return min(max(_PIXELS_AT_ONCE // (width * height), 1), _MOST_AT_ONCE)


@dataclass(frozen=True)
class DeviceSurface:
    """One decoded frame in device memory.

    Attributes:
        number: its number in presentation order.
        planes: addresses of the planes: (Y, CbCr) where chroma is interleaved, else (Y, Cb, Cr), (Y,) for gray
            or (R, G, B).
        pitch: bytes from one row of the first plane to the next; the last row is as long.
        width: columns of the picture in pixels.
        height: rows of the picture in pixels.
        format: how samples are to be read; a sample is one byte up to 8 bits, else two.
        interleaved: whether Cb and Cr share a plane, as in NV12 and P016.
        shift: bits that 16-bit samples are shifted up by: 6 for 10 bits in P016.
        chroma_pitch: the same as pitch for the other planes; 0 where it is the same.
        owner: what keeps the memory as it is for as long as the surface is referred to.

    Raises:
        ParameterError: the planes do not go with the format, or a pair of chroma samples is not aligned.
    """

    number: int
    planes: tuple[int, ...]
    pitch: int
    width: int
    height: int
    format: SurfaceFormat
    interleaved: bool = False
    shift: int = 0
    chroma_pitch: int = 0
    owner: object = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.chroma_pitch:
            object.__setattr__(self, "chroma_pitch", self.pitch)
        expected = 1 if self.format.chroma == "gray" else 2 if self.interleaved else 3
        if len(self.planes) != expected:
            raise ParameterError(
                f"a surface of {self.format.name} with {len(self.planes)} planes",
                allowed=f"{expected} planes",
                advice="Interleaved chroma is one plane, gray has no chroma",
            )
        pair = self.sample_bytes * (2 if self.interleaved else 1)
        if self.pitch % self.sample_bytes or any(
            part % pair for part in (self.chroma_pitch, *self.planes[1:])
        ):
            raise ParameterError(
                f"planes at {', '.join(map(hex, self.planes))} with rows of {self.pitch} and "
                f"{self.chroma_pitch} bytes",
                allowed=f"chroma planes and their rows that begin at multiples of {pair} bytes",
            )

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample."""
        return 1 if self.format.bits <= 8 else 2
