"""Surfaces: decoded frames as NumPy planes, in the codec's format; and the scratch memory of their conversion.

Decoders must agree on surfaces bit by bit; all operations that round (color, scaling) are applied to them later.
"""

from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

from ...errors import UnreadableSourceError

if TYPE_CHECKING:
    import av
    from av.video.format import VideoFormat
    from av.video.plane import VideoPlane

__all__ = [
    "AnySurface",
    "ConversionScratch",
    "Plane",
    "Surface",
    "SurfaceFormat",
    "VideoReformatter",
    "has_alpha",
    "reformat",
    "reformat_colors",
    "surface_format",
]

_MAJOR: Final = int(av.__version__.partition(".")[0])


def _options() -> dict[str, Any]:
    """Return the arguments of PyAV's reformatter for its version."""
    # PyAV 17 introduced threads, 18 the flag; before 18 bilinear results may differ by 1.
    options: dict[str, Any] = {"interpolation": Interpolation.BILINEAR}
    if _MAJOR >= 17:
        options["threads"] = 1
    if _MAJOR >= 18:
        options["interpolation"] |= Interpolation.ACCURATE_RND
    return options


_OPTIONS: Final = _options()


def reformat(
    reformatter: VideoReformatter, frame: av.VideoFrame, form: str, size: tuple[int, int] | None = None
) -> av.VideoFrame:
    """Convert a frame to another pixel format, and scale it to (width, height) if a size is given."""
    width, height = size or (frame.width, frame.height)
    return reformatter.reformat(frame, width, height, form, **_OPTIONS)


def reformat_colors(reformatter: VideoReformatter, frame: av.VideoFrame, form: str) -> av.VideoFrame:
    """Convert an RGB or gray frame to YCbCr of BT.709 and limited range."""
    return reformatter.reformat(
        frame,
        format=form,
        dst_colorspace=Colorspace.ITU709,
        src_color_range=ColorRange.JPEG,
        dst_color_range=ColorRange.MPEG,
        **_OPTIONS,
    )


AnySurface: TypeAlias = Any
"""A decoded frame in the codec's format: a :class:`Surface`, or its counterpart in GPU memory."""

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
# Two planes, luma and interleaved chroma; the value says whether Cr precedes Cb.
_SEMI_PLANAR = {"nv12": False, "nv21": True, "nv16": False, "nv24": False, "nv42": True, "nv20": False}
# The same with samples in the high bits of 16.
_SEMI_PLANAR_HIGH = {"p010", "p012", "p016", "p210", "p212", "p216", "p410", "p412", "p416"}

# RGB in 16 bits, which swscale shifts left to 8 bits per channel, so that their maximum stays below 255.
_SHALLOW = {"rgb444", "bgr444", "rgb555", "bgr555", "rgb565", "bgr565"}


@dataclass(frozen=True)
class SurfaceFormat:
    """Sample format of a surface's planes.

    Attributes:
        name: FFmpeg's name of the planar format of the planes, without ``j`` and byte order: ``yuv420p10``.
        bits: bits per sample; values are 0 to ``2**bits - 1``.
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
    """Decoded frame in main memory.

    Attributes:
        number: frame number in presentation order.
        planes: (Y, Cb, Cr), (Y,) for gray or (R, G, B); read-only 2-D arrays of uint8, or uint16 above 8 bits, in
            native byte order, without padding columns and without alpha. The chroma size of odd frame sizes is rounded
            up.
        format: sample format.
        frame: the decoded frame, if its pixel format has alpha.
    """

    number: int
    planes: tuple[Plane, ...]
    format: SurfaceFormat
    frame: av.VideoFrame | None = None

    @property
    def width(self) -> int:
        """Frame width in pixels."""
        return int(self.planes[0].shape[1])

    @property
    def height(self) -> int:
        """Frame height in pixels."""
        return int(self.planes[0].shape[0])

    @classmethod
    def of(cls, frame: av.VideoFrame, number: int) -> Surface:
        """Create the surface of a frame decoded by PyAV.

        Planar formats are not copied: their planes are views that keep the frame alive (bottom-up rows are copied).
        Packed formats, palettes and samples that do not start at bit 0 are converted to a planar format without loss.
        swscale converts floating-point, Bayer and XYZ formats to integer RGB or gray.
        """
        layout = _layout(frame.format.name)
        shallow, stored_frame = layout.shallow, frame if layout.has_alpha else None
        if layout.planar_form is not None:
            frame = _reformatted(frame, layout.planar_form)
            layout = _layout(frame.format.name)
        if layout.swapped is None:
            stored = frame.planes
            planes = [_view(stored[index], layout.dtype, 1) for index in layout.order]
        else:
            planes = _semi_planar(frame, layout)
        if shallow:
            planes = [_expand_bits(plane, bits) for plane, bits in zip(planes, shallow, strict=True)]
        native = tuple(_native(plane, layout.right_shift) for plane in planes)
        return cls(number, native, layout.format, stored_frame)

    def alpha(self) -> Surface | None:
        """Return the alpha samples as a gray surface; None if the pixel format has none."""
        frame = self.frame
        if frame is None:
            return None
        name = frame.format.name
        if name.startswith("ya"):  # gray and alpha, interleaved
            plane = _view(frame.planes[0], _layout(name).dtype, 2)[:, 1::2]
        else:
            if (form := _layout(name).planar_form) is not None:
                frame = _reformatted(frame, form.replace("gbrp", "gbrap").replace("yuv", "yuva"))
            layout = _layout(frame.format.name)
            (component,) = (component for component in frame.format.components if component.is_alpha)
            plane = _view(frame.planes[component.plane], layout.dtype, 1)
        bits = _layout(frame.format.name).format.bits
        return Surface(
            self.number, (_native(plane, 0),), SurfaceFormat(_planar_name("gray", bits), bits, "gray", 0, 0)
        )


def surface_format(pixel_format: str) -> SurfaceFormat:
    """Return the surface format of frames of a pixel format."""
    return _layout(pixel_format).format


def has_alpha(pixel_format: str) -> bool:
    """Return whether frames of a pixel format may have alpha."""
    return _layout(pixel_format).has_alpha


@dataclass(frozen=True)
class _Layout:
    """Memory layout of a pixel format.

    Attributes:
        format: format of the resulting surface.
        order: index of the frame's plane for each of the surface's planes.
        dtype: type of a sample in memory, with its byte order.
        right_shift: number of bits below the sample.
        swapped: for two-plane formats whether Cr precedes Cb, else None.
        planar_form: pixel format to convert to first, or None.
        shallow: bits of R, G and B if fewer than those of the planar format, else ().
        has_alpha: whether there are samples of alpha; those of a palette are its colors' own.
    """

    format: SurfaceFormat
    order: tuple[int, ...]
    dtype: np.dtype[Any]
    right_shift: int = 0
    swapped: bool | None = None
    planar_form: str | None = None
    shallow: tuple[int, ...] = ()
    has_alpha: bool = False


@cache
def _layout(name: str) -> _Layout:
    """Return the memory layout of a pixel format."""
    from av.video.format import VideoFormat

    pixels = VideoFormat(name, 64, 64)
    colors = [component for component in pixels.components if not component.is_alpha]
    bits = max((component.bits for component in colors), default=8)
    shift_x = 6 - pixels.chroma_width(64).bit_length() + 1
    shift_y = 6 - pixels.chroma_height(64).bit_length() + 1
    rgb = pixels.is_rgb or pixels.has_palette or name.startswith("xyz")
    chroma = "rgb" if rgb else "gray" if len(colors) == 1 else _SUBSAMPLING.get((shift_x, shift_y), "4:4:4")
    if rgb or chroma == "gray":
        shift_x = shift_y = 0
    stem = name.removesuffix("le").removesuffix("be")
    surface = SurfaceFormat(_planar_name(chroma, bits), bits, chroma, shift_x, shift_y)
    dtype = np.dtype(np.uint8) if bits <= 8 else np.dtype(">u2" if pixels.is_big_endian else "<u2")
    if stem in _SEMI_PLANAR:
        return _Layout(surface, (0, 1), dtype, swapped=_SEMI_PLANAR[stem])
    if stem in _SEMI_PLANAR_HIGH:
        return _Layout(surface, (0, 1), dtype, 16 - bits, swapped=False)
    has_alpha = pixels.has_palette or len(colors) < len(pixels.components)
    if _is_planar(pixels, stem):
        return _Layout(surface, tuple(component.plane for component in colors), dtype, has_alpha=has_alpha)
    shallow = tuple(component.bits for component in colors) if stem in _SHALLOW else ()
    return _Layout(
        surface, (), dtype, planar_form=_planar_form(surface), shallow=shallow, has_alpha=has_alpha
    )


def _planar_name(chroma: str, bits: int) -> str:
    stem = {"rgb": "gbrp", "gray": "gray"}.get(chroma) or f"yuv{chroma.replace(':', '')}p"
    return stem if bits <= 8 else f"{stem}{bits}"


def _is_planar(pixels: VideoFormat, stem: str) -> bool:
    """Return whether each component has a plane of its own with whole samples."""
    if (
        pixels.has_palette
        or pixels.is_bit_stream
        or pixels.is_bayer
        or "msb" in stem
        or "f16" in stem
        or "f32" in stem
    ):
        return False
    components = pixels.components
    return len({component.plane for component in components}) == len(components) and all(
        8 <= component.bits <= 16 for component in components
    )


def _planar_form(surface: SurfaceFormat) -> str:
    """Return the planar format that represents all values of a packed one."""
    bits = next(depth for depth in (8, 10, 12, 16) if depth >= min(surface.bits, 16))
    return _planar_name(surface.chroma, bits) + ("" if bits == 8 else _NATIVE)


def _reformatted(frame: av.VideoFrame, form: str) -> av.VideoFrame:
    """Convert a frame to another pixel format."""
    from .surface import VideoReformatter, reformat

    try:
        return reformat(VideoReformatter(), frame, form)
    except OSError as error:
        raise UnreadableSourceError(
            f"the pixel format {frame.format.name!r} cannot be converted to planes",
            allowed="integer formats up to 16 bits, and those that swscale reads",
        ) from error


def _expand_bits(plane: Plane, bits: int) -> Plane:
    """Replicate the top ``bits`` of samples into the bits below them, so that the maximum becomes 255."""
    filled: Plane = plane | plane >> bits
    filled.flags.writeable = False
    return filled


def _view(plane: VideoPlane, dtype: np.dtype[Any], interleaved: int) -> Plane:
    """Return the plane's samples as a read-only view, with ``parts`` samples per column."""
    shape = plane.height, plane.width * interleaved
    if plane.line_size < 0:
        view = _bottom_up(plane, dtype)[:, : shape[1]]
    else:
        view = np.ndarray(shape, dtype, memoryview(plane), 0, (plane.line_size, dtype.itemsize))
    view.setflags(write=False)
    return view


def _bottom_up(plane: VideoPlane, dtype: np.dtype[Any]) -> Plane:
    """Copy rows that are stored bottom-up: not every PyAV version exposes the right buffer for them."""
    stride = -plane.line_size
    last = plane.buffer_ptr - (plane.height - 1) * stride
    stored = (ctypes.c_uint8 * (plane.height * stride)).from_address(last)
    rows: Plane = np.frombuffer(memoryview(stored), dtype).reshape(plane.height, -1)
    return rows[::-1].copy()


def _semi_planar(frame: av.VideoFrame, layout: _Layout) -> list[Plane]:
    both = _view(frame.planes[1], layout.dtype, 2)
    chroma = [both[:, 0::2], both[:, 1::2]]
    return [_view(frame.planes[0], layout.dtype, 1), *(reversed(chroma) if layout.swapped else chroma)]


def _native(plane: Plane, right_shift: int) -> Plane:
    """Return the plane in native byte order with values shifted right; itself if nothing changes."""
    if plane.dtype.isnative and not right_shift:
        return plane
    native = plane.astype(plane.dtype.newbyteorder("="))
    if right_shift:
        native >>= right_shift
    native.flags.writeable = False
    return native


class ConversionScratch:
    """Memory for intermediate results: arrays of one name share it whatever their shapes, so only one is valid."""

    def __init__(self) -> None:
        self._memory: dict[str, npt.NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Plane:
        """Return an uninitialized contiguous array."""
        wanted: np.dtype[Any] = np.dtype(dtype)
        size = math.prod(shape) * wanted.itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < size:
            memory = self._memory[name] = np.empty(size, np.uint8)
        return memory[:size].view(wanted).reshape(shape)
