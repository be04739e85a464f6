"""Color matrices from a stream's tags, used by the CPU conversion and by the CUDA kernel.

Luma weights and quantization are those of ITU-R BT.601-7 (2.5), BT.709-6 (3 and 4) and BT.2020-2 (tables 4
and 5); the codes of the tags and the general equations are those of ITU-T H.273 (8.3, table 4). For code
values of ``n`` bits:

    limited range   Y' = 219·2^(n-8)·E'y + 16·2^(n-8)      Cb = 224·2^(n-8)·E'cb + 2^(n-1)
    full range      Y' = (2^n - 1)·E'y                     Cb = (2^n - 1)·E'cb + 2^(n-1)

with E'y in 0…1 and E'cb, E'cr in -½…½. Results are full range: 0…2^m - 1 for outputs of ``m`` bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...array import FloatArray
from ...errors import SourceError
from ..probe.info import StreamInfo
from .output import Color
from .surface import SurfaceFormat

__all__ = [
    "GBR",
    "LUMA_WEIGHTS",
    "UNSPECIFIED",
    "YCGCO",
    "ColorSpec",
    "chroma_offset",
    "gray_matrix",
    "is_rgb",
    "luma_weights",
    "output_matrix",
    "resolve",
    "rgb_matrix",
]

UNSPECIFIED: Final = 2
GBR: Final = 0
YCGCO: Final = 8

LUMA_WEIGHTS: Final[dict[int, tuple[float, float]]] = {
    1: (0.2126, 0.0722),  # BT.709, sRGB
    4: (0.30, 0.11),  # FCC 73.682
    5: (0.299, 0.114),  # BT.470 BG, that is BT.601 with 625 lines
    6: (0.299, 0.114),  # BT.601 with 525 lines
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020 non-constant luminance
    10: (0.2627, 0.0593),  # BT.2020 constant luminance, read as non-constant, as FFmpeg does
}
"""(Kr, Kb) by the matrix coefficients of H.273."""

_RESERVED = frozenset({UNSPECIFIED, 3})
_SD_LINES = 576
# Codecs of still images, which are full range by default.
_FULL_RANGE_CODECS = frozenset(
    {"bmp", "gif", "jpeg2000", "jpegls", "ljpeg", "mjpeg", "mjpegb", "png", "tiff", "webp"}
)
# Codecs whose chroma samples are centered between luma samples by default, as in JPEG.
_CENTERED_CODECS = frozenset({"flv1", "h261", "h263", "mjpeg", "mjpegb", "mpeg1video", "theora"})
# FFmpeg's chroma locations as a position between the first (0) and the last (1) luma sample that share a chroma sample.
_LOCATIONS: Final[dict[int, tuple[float, float]]] = {
    1: (0.0, 0.5),  # left
    2: (0.5, 0.5),  # center
    3: (0.0, 0.0),  # top left
    4: (0.5, 0.0),  # top
    5: (0.0, 1.0),  # bottom left
    6: (0.5, 1.0),  # bottom
}


@dataclass(frozen=True)
class ColorSpec:
    """Color interpretation of a stream's code values, with every unspecified tag resolved.

    Attributes:
        matrix: matrix coefficients of H.273, never 2.
        full_range: whether code values fill 0…2^n - 1. RGB surfaces are always read as full range.
        chroma_x: position of a chroma sample between the first (0) and the last (1) luma column that share it.
        chroma_y: the same for rows.
    """

    matrix: int
    full_range: bool
    chroma_x: float
    chroma_y: float


def resolve(info: StreamInfo) -> ColorSpec:
    """Resolve the color tags of a stream, with a default for each tag that is missing.

    * matrix: BT.601 for up to 576 rows, else BT.709; also for code 0 (RGB) with subsampled chroma, which is invalid;
    * range: limited, but full for formats named ``yuvj*`` and for codecs of still images;
    * chroma location: left, the default of MPEG-2 and later codecs; center for MPEG-1, H.261, H.263, JPEG and Theora.
    """
    matrix = info.matrix
    if matrix in _RESERVED or (matrix == GBR and info.chroma not in ("4:4:4", "rgb")):
        matrix = 6 if info.height <= _SD_LINES else 1
    full = info.full_range
    if full is None:
        full = info.pixel_format.startswith("yuvj") or info.codec in _FULL_RANGE_CODECS
    default = _LOCATIONS[2] if info.codec in _CENTERED_CODECS else _LOCATIONS[1]
    chroma_x, chroma_y = _LOCATIONS.get(info.chroma_location, default)
    return ColorSpec(matrix, full, chroma_x, chroma_y)


def chroma_offset(spec: ColorSpec, surface: SurfaceFormat) -> tuple[float, float]:
    """Return the (x, y) offset of the first chroma sample's center from the first luma sample's, in luma samples."""
    return (
        spec.chroma_x * ((1 << surface.shift_x) - 1),
        spec.chroma_y * ((1 << surface.shift_y) - 1),
    )


def is_rgb(spec: ColorSpec, surface: SurfaceFormat) -> bool:
    """Return whether the planes are R, G and B: RGB pixel formats, and 4:4:4 tagged as RGB."""
    return surface.chroma == "rgb" or (spec.matrix == GBR and surface.chroma == "4:4:4")


def luma_weights(matrix: int) -> tuple[float, float]:
    """Return (Kr, Kb) of a matrix."""
    if matrix not in LUMA_WEIGHTS:
        raise SourceError(
            f"matrix coefficients {matrix} of H.273 are not supported",
            allowed=", ".join(str(code) for code in sorted({*LUMA_WEIGHTS, GBR, UNSPECIFIED, YCGCO})),
            advice="Ask for color='YCbCr' or color='GRAY', which need no matrix",
        )
    return LUMA_WEIGHTS[matrix]


def rgb_matrix(spec: ColorSpec, surface: SurfaceFormat, out_bits: int) -> FloatArray:
    """Return the 3x4 matrix from a surface's code values to full-range RGB.

    Its columns are the surface's planes, (Y, Cb, Cr) or (R, G, B), and the offset. For gray surfaces it is 3x2: Y and
    the offset.
    """
    peak = float(2**out_bits - 1)
    if surface.chroma == "rgb":
        return np.hstack([np.eye(3) * (peak / (2**surface.bits - 1)), np.zeros((3, 1))])
    if surface.chroma == "gray":
        return np.repeat(gray_matrix(spec, surface, out_bits), 3, axis=0)
    if is_rgb(spec, surface):
        return _green_blue_red(spec, surface, peak)
    linear = _ycgco() if spec.matrix == YCGCO else _from_weights(*luma_weights(spec.matrix))
    scale, offset = _quantization(spec, surface)
    matrix = peak * linear * scale
    return np.hstack([matrix, -(matrix @ offset)[:, None]])


def gray_matrix(spec: ColorSpec, surface: SurfaceFormat, out_bits: int) -> FloatArray:
    """Return the row from a surface's code values to full-range luma.

    It is 1x2, from (Y, 1), but 1x4 where the planes are colors, (R, G, B, 1) or (G, B, R, 1): their luma uses the
    weights of the stream's matrix tag, or of BT.709.
    """
    peak = float(2**out_bits - 1)
    if is_rgb(spec, surface):
        kr, kb = LUMA_WEIGHTS.get(spec.matrix, LUMA_WEIGHTS[1])
        return np.array([[kr, 1 - kr - kb, kb]]) @ rgb_matrix(spec, surface, out_bits)
    scale, offset = _quantization(spec, surface)
    return np.array([[peak * scale[0], -peak * scale[0] * offset[0]]])


def _quantization(spec: ColorSpec, surface: SurfaceFormat) -> tuple[FloatArray, FloatArray]:
    """Return scale and offset per component: a value is (code - offset) * scale."""
    unit = 2.0 ** (surface.bits - 8)
    middle = 128 * unit
    if spec.full_range:
        peak = 2.0**surface.bits - 1
        return np.full(3, 1 / peak), np.array([0.0, middle, middle])
    return 1 / (np.array([219.0, 224.0, 224.0]) * unit), np.array([16 * unit, middle, middle])


def _from_weights(kr: float, kb: float) -> FloatArray:
    """R'G'B' from E'y, E'cb, E'cr: the inverse of the equations of H.273, 8.3."""
    kg = 1 - kr - kb
    return np.array(
        [
            [1.0, 0.0, 2 * (1 - kr)],
            [1.0, -2 * kb * (1 - kb) / kg, -2 * kr * (1 - kr) / kg],
            [1.0, 2 * (1 - kb), 0.0],
        ]
    )


def _ycgco() -> FloatArray:
    """R'G'B' from E'y, E'cg, E'co: the inverse of the equations of H.273, 8.3."""
    return np.array([[1.0, -1.0, 1.0], [1.0, 1.0, 0.0], [1.0, -1.0, -1.0]])


def _green_blue_red(spec: ColorSpec, surface: SurfaceFormat, peak: float) -> FloatArray:
    """Return the matrix for RGB stored in the planes Y, Cb, Cr as G, B, R."""
    scale, offset = _quantization(spec, surface)
    order = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    matrix = order * (peak * scale[0])
    return np.hstack([matrix, np.full((3, 1), -peak * scale[0] * offset[0])])


def output_matrix(color: ColorSpec, wanted: Color, form: SurfaceFormat, bits: int) -> FloatArray:
    """Return the matrix from planes to channels: one row per channel, one column per plane and one for the offset."""
    if wanted == "YCbCr":
        return _code_values(color, form)
    make = gray_matrix if wanted == "GRAY" else rgb_matrix
    matrix = make(color, form, bits)
    return matrix[::-1].copy() if wanted == "BGR" else matrix.copy()


def _code_values(color: ColorSpec, form: SurfaceFormat) -> FloatArray:
    """Return the matrix that keeps a stream's code values."""
    if is_rgb(color, form):
        raise SourceError(
            "the stream is coded as RGB and has no YCbCr code values",
            allowed="color='RGB', 'BGR' or 'GRAY'",
        )
    middle = float(1 << (form.bits - 1))
    return np.array([[1.0, 0.0], [0.0, middle], [0.0, middle]]) if form.chroma == "gray" else np.eye(3, 4)
