"""Surface: a decoded frame as NumPy planes, in the codec's format.

A surface is what two decoders must agree on bit by bit; everything that rounds (color, scaling) comes after
it.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ...errors import UnreadableSourceError

if TYPE_CHECKING:
    import av
    from av.video.format import VideoFormat
    from av.video.plane import VideoPlane

__all__ = ["AnySurface", "Plane", "Surface", "SurfaceFormat", "surface_format"]

AnySurface: TypeAlias = Any
"""A decoded frame in the codec's own form: a :class:`Surface`, or its counterpart in GPU memory."""

Plane: TypeAlias = npt.NDArray[Any]
"""A 2-D array of uint8 or uint16."""

_NATIVE = "le" if sys.byteorder == "little" else "be"
_SUBSAMPLING = {
    (0, 0): "4:4:4",
    (1, 0): "4:2:2",
    (1, 1): "4:2:0",
    (0, 1): "4:4:0",
    (2, 0): "4:1:1",
    (2, 2): "4:1:0",
}
# two planes, luma and interleaved chroma; the value says whether Cr stands before Cb
_SEMI_PLANAR = {"nv12": False, "nv21": True, "nv16": False, "nv24": False, "nv42": True, "nv20": False}
# the same, with the samples in the high bits of 16
_SEMI_PLANAR_HIGH = {"p010", "p012", "p016", "p210", "p212", "p216", "p410", "p412", "p416"}

# RGB of 16 bits, which swscale shifts up to 8 each: their brightest would stay below white
_SHALLOW = {"rgb444", "bgr444", "rgb555", "bgr555", "rgb565", "bgr565"}


@dataclass(frozen=True)
class SurfaceFormat:
    """How the planes of a surface are to be read.

    Attributes:
        name: FFmpeg's name of the planar format that the planes have, without ``j`` and byte order:
            ``yuv420p10``.
        bits: bits of a sample; its values go from 0 to ``2**bits - 1``.
        chroma: ``"4:2:0"``, ``"4:2:2"``, ``"4:4:4"``, ``"4:4:0"``, ``"4:1:1"``, ``"4:1:0"``, ``"gray"`` or
            ``"rgb"``.
        shift_x: log2 of the luma columns that share one chroma sample.
        shift_y: log2 of the luma rows that share one chroma sample.
    """

    name: str
    bits: int
    chroma: str
    shift_x: int
    shift_y: int


@dataclass(frozen=True)
class Surface:
    """One decoded frame.

    Attributes:
        number: its number in presentation order.
        planes: (Y, Cb, Cr), (Y,) for gray or (R, G, B); read-only 2-D arrays of uint8, or uint16 above 8
            bits, in the machine's byte order, without padding columns and without alpha. A chroma plane of a
            picture of odd size is rounded up.
        format: how to read them.
    """

    number: int
    planes: tuple[Plane, ...]
    format: SurfaceFormat

    @property
    def width(self) -> int:
        """Columns of the picture in pixels."""
        return int(self.planes[0].shape[1])

    @property
    def height(self) -> int:
        """Rows of the picture in pixels."""
        return int(self.planes[0].shape[0])

    @classmethod
    def of(cls, frame: av.VideoFrame, number: int) -> Surface:
        """The surface of a frame that PyAV decoded.

        Planar formats are not copied: their planes are views that keep the frame alive (but rows stored from
        the bottom up are copied). Packed formats, palettes and samples that do not start at bit 0 are brought
        to their planar form without loss. Floating-point, Bayer and XYZ formats become whole numbers of RGB
        or gray as swscale makes them.

        Args:
            frame: the decoded frame, in main memory.
            number: its number in presentation order.

        Raises:
            UnreadableSourceError: swscale cannot read the frame's pixel format.
        """
        layout = _layout(frame.format.name)
        shallow = layout.shallow
        if layout.planar_form is not None:
            frame = _reformatted(frame, layout.planar_form)
            layout = _layout(frame.format.name)
        if layout.swapped is None:
            stored = frame.planes
            planes = [_view(stored[index], layout.dtype, 1) for index in layout.order]
        else:
            planes = _semi_planar(frame, layout)
        if shallow:
            planes = [_filled_up(plane, bits) for plane, bits in zip(planes, shallow, strict=True)]
        return cls(number, tuple(_finished(plane, layout.right_shift) for plane in planes), layout.format)


def surface_format(pixel_format: str) -> SurfaceFormat:
    """The form of the surfaces that frames of a pixel format become.

    Args:
        pixel_format: FFmpeg's name of it.
    """
    return _layout(pixel_format).format


@dataclass(frozen=True)
class _Layout:
    """How a pixel format lies in memory.

    Attributes:
        format: the format of the surface that it becomes.
        order: the frame's plane of each of the surface's planes.
        dtype: of a sample in memory, with its byte order.
        right_shift: bits below the sample.
        swapped: for two-plane formats whether Cr comes before Cb, else None.
        planar_form: the format to be reformatted to first, or None.
        shallow: bits of R, G and B where these leave the low ones of the planar form empty, or ().
    """

    format: SurfaceFormat
    order: tuple[int, ...]
    dtype: np.dtype[Any]
    right_shift: int = 0
    swapped: bool | None = None
    planar_form: str | None = None
    shallow: tuple[int, ...] = ()


@cache
def _layout(name: str) -> _Layout:
    from av.video.format import VideoFormat

    pixels = VideoFormat(name, 64, 64)
    parts = [part for part in pixels.components if not part.is_alpha]
    bits = max((part.bits for part in parts), default=8)
    shift_x = 6 - pixels.chroma_width(64).bit_length() + 1
    shift_y = 6 - pixels.chroma_height(64).bit_length() + 1
    rgb = pixels.is_rgb or pixels.has_palette or name.startswith("xyz")
    chroma = "rgb" if rgb else "gray" if len(parts) == 1 else _SUBSAMPLING.get((shift_x, shift_y), "4:4:4")
    if rgb or chroma == "gray":
        shift_x = shift_y = 0
    stem = name.removesuffix("le").removesuffix("be")
    surface = SurfaceFormat(_planar_name(chroma, bits), bits, chroma, shift_x, shift_y)
    dtype = np.dtype(np.uint8) if bits <= 8 else np.dtype(">u2" if pixels.is_big_endian else "<u2")
    if stem in _SEMI_PLANAR:
        return _Layout(surface, (0, 1), dtype, swapped=_SEMI_PLANAR[stem])
    if stem in _SEMI_PLANAR_HIGH:
        return _Layout(surface, (0, 1), dtype, 16 - bits, swapped=False)
    if _is_planar(pixels, stem):
        return _Layout(surface, tuple(part.plane for part in parts), dtype)
    shallow = tuple(part.bits for part in parts) if stem in _SHALLOW else ()
    return _Layout(surface, (), dtype, planar_form=_planar_form(surface), shallow=shallow)


def _planar_name(chroma: str, bits: int) -> str:
    stem = {"rgb": "gbrp", "gray": "gray"}.get(chroma) or f"yuv{chroma.replace(':', '')}p"
    return stem if bits <= 8 else f"{stem}{bits}"


def _is_planar(pixels: VideoFormat, stem: str) -> bool:
    if (
        pixels.has_palette
        or pixels.is_bit_stream
        or pixels.is_bayer
        or "msb" in stem
        or "f16" in stem
        or "f32" in stem
    ):
        return False
    parts = pixels.components
    return len({part.plane for part in parts}) == len(parts) and all(8 <= part.bits <= 16 for part in parts)


def _planar_form(surface: SurfaceFormat) -> str:
    """The planar format that holds every value of a packed one."""
    bits = next(depth for depth in (8, 10, 12, 16) if depth >= min(surface.bits, 16))
    return _planar_name(surface.chroma, bits) + ("" if bits == 8 else _NATIVE)


def _reformatted(frame: av.VideoFrame, form: str) -> av.VideoFrame:
    from .swscale import VideoReformatter, reformat

    try:
        return reformat(VideoReformatter(), frame, form)
    except OSError as error:
        raise UnreadableSourceError(
            f"the pixel format {frame.format.name!r} cannot be brought to planes",
            allowed="formats of whole numbers up to 16 bits, and those that swscale reads",
        ) from error


def _filled_up(plane: Plane, bits: int) -> Plane:
    """The plane with its top ``bits`` repeated below them, so that the brightest is 255."""
    filled: Plane = plane | plane >> bits
    filled.flags.writeable = False
    return filled


def _view(plane: VideoPlane, dtype: np.dtype[Any], parts: int) -> Plane:
    """The plane's pixels as a read-only view, with ``parts`` samples in each of its columns."""
    shape = plane.height, plane.width * parts
    if plane.line_size < 0:
        view = _bottom_up(plane, dtype)[:, : shape[1]]
    else:
        view = np.ndarray(shape, dtype, memoryview(plane), 0, (plane.line_size, dtype.itemsize))
    view.setflags(write=False)
    return view


def _bottom_up(plane: VideoPlane, dtype: np.dtype[Any]) -> Plane:
    """A copy of rows that are stored with the last one first: not every PyAV gives the right buffer for them."""
    stride = -plane.line_size
    last = plane.buffer_ptr - (plane.height - 1) * stride
    stored = (ctypes.c_uint8 * (plane.height * stride)).from_address(last)
    rows: Plane = np.frombuffer(memoryview(stored), dtype).reshape(plane.height, -1)
    return rows[::-1].copy()


def _semi_planar(frame: av.VideoFrame, layout: _Layout) -> list[Plane]:
    both = _view(frame.planes[1], layout.dtype, 2)
    chroma = [both[:, 0::2], both[:, 1::2]]
    return [_view(frame.planes[0], layout.dtype, 1), *(reversed(chroma) if layout.swapped else chroma)]


def _finished(plane: Plane, right_shift: int) -> Plane:
    """The plane in the machine's byte order with its values down at bit 0; itself if it is so already."""
    if plane.dtype.isnative and not right_shift:
        return plane
    native = plane.astype(plane.dtype.newbyteorder("="))
    if right_shift:
        native >>= right_shift
    native.flags.writeable = False
    return native
