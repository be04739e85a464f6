"""Surfaces and stream headers made for tests, and the exact arithmetic that conversions are judged by."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqpipe.video.convert.color import ColorSpec, chroma_offset, rgb_matrix
from seqpipe.video.convert.converter import Converter
from seqpipe.video.convert.output import OutputSpec, transposed
from seqpipe.video.convert.surface import Surface, SurfaceFormat
from seqpipe.video.probe.info import StreamInfo

__all__ = [
    "assert_rounded",
    "differences",
    "exact_rgb",
    "frame_info",
    "made",
    "on_luma_grid",
    "pattern",
    "picture",
    "stored_name",
    "surface_format",
    "xy_output",
]

_SHIFTS = {
    "4:4:4": (0, 0),
    "4:2:2": (1, 0),
    "4:2:0": (1, 1),
    "4:4:0": (0, 1),
    "4:1:1": (2, 0),
    "4:1:0": (2, 2),
}


def xy_output(**fields: Any) -> OutputSpec:
    """An output whose sizes are (width, height) and whose boxes are (x, y, width, height), as the judges have them."""
    boxes = ("crop", "window", "size", "part")
    return OutputSpec(
        **{name: transposed(value) if name in boxes else value for name, value in fields.items()}
    )


def surface_format(chroma: str = "4:2:0", bits: int = 8) -> SurfaceFormat:
    """The planar format of that chroma and depth."""
    stem = {"rgb": "gbrp", "gray": "gray"}.get(chroma) or f"yuv{chroma.replace(':', '')}p"
    return SurfaceFormat(stem if bits == 8 else f"{stem}{bits}", bits, chroma, *_SHIFTS.get(chroma, (0, 0)))


def frame_info(width: int, height: int, form: SurfaceFormat | None = None, **changes: Any) -> StreamInfo:
    """Headers of a stream: BT.709, limited range, chroma on the left, not rotated, unless changed."""
    form = form or surface_format()
    values: dict[str, Any] = {
        "source": "made.mp4",
        "container": "mp4",
        "codec": "h264",
        "profile": None,
        "pixel_format": form.name,
        "bit_depth": form.bits,
        "chroma": form.chroma,
        "width": width,
        "height": height,
        "sample_aspect_ratio": Fraction(1),
        "rotation_degrees": 0,
        "flipped": False,
        "matrix": 1,
        "full_range": False,
        "primaries": 2,
        "transfer": 2,
        "chroma_location": 1,
        "average_rate": None,
        "real_rate": None,
        "time_base": Fraction(1, 1000),
        "start_s": 0.0,
        "duration_s": 1.0,
        "frame_count": 1,
        "declared_frames": 1,
        "has_b_frames": False,
        "has_audio": False,
    }
    return StreamInfo(**{**values, **changes})


def pattern(width: int, height: int, seed: int = 0) -> NDArray[np.float64]:
    """RGB in 0…1 with smooth gradients, hard edges in all colors, and a little noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([0.5 + 0.45 * np.sin(x / 23 + k) * np.cos(y / (17 + 3 * k)) for k in range(3)], axis=-1)
    for _ in range(25):
        left, top = rng.integers(0, max(1, width - 4)), rng.integers(0, max(1, height - 4))
        rgb[top : top + rng.integers(2, 30), left : left + rng.integers(2, 30)] = rng.random(3)
    return np.clip(rgb + rng.normal(0, 0.01, rgb.shape), 0, 1)


def picture(width: int, height: int, form: SurfaceFormat, color: ColorSpec, seed: int = 0) -> Surface:
    """The pattern as a surface, its chroma averaged over the luma samples that share it."""
    rgb = pattern(width, height, seed)
    if form.chroma == "rgb":
        planes = [rgb[..., k] * (2**form.bits - 1) for k in range(3)]
    else:
        full = SurfaceFormat("", form.bits, "4:4:4" if form.chroma != "gray" else "gray", 0, 0)
        to_rgb = rgb_matrix(color, SurfaceFormat("", form.bits, "4:4:4", 0, 0), 8)
        codes = (rgb * 255 - to_rgb[:, 3]) @ np.linalg.inv(to_rgb[:, :3]).T
        planes = [codes[..., k] for k in range(1 if full.chroma == "gray" else 3)]
        planes[1:] = [_averaged(plane, 1 << form.shift_x, 1 << form.shift_y) for plane in planes[1:]]
    dtype = np.uint8 if form.bits == 8 else np.uint16
    coded = tuple(np.clip(np.rint(plane), 0, 2**form.bits - 1).astype(dtype) for plane in planes)
    for plane in coded:
        plane.flags.writeable = False
    return Surface(0, coded, form)


def on_luma_grid(
    plane: NDArray[Any], shape: tuple[int, int], form: SurfaceFormat, offset: tuple[float, float]
) -> NDArray[np.float64]:
    """A chroma plane interpolated linearly to (rows, columns), exactly; ``offset`` in columns and rows."""
    rows = _positions(shape[0], form.shift_y, offset[1])
    columns = _positions(shape[1], form.shift_x, offset[0])
    down = np.stack(
        [np.interp(rows, np.arange(plane.shape[0]), line) for line in plane.T.astype(float)], axis=1
    )
    return np.stack([np.interp(columns, np.arange(plane.shape[1]), line) for line in down])


def exact_rgb(surface: Surface, color: ColorSpec, out_bits: int, *, clip: bool = True) -> NDArray[np.float64]:
    """RGB in float64: linear chroma, then the matrix, no rounding anywhere."""
    form = surface.format
    shape = surface.planes[0].shape
    offset = chroma_offset(color, form)
    planes = [surface.planes[0].astype(float)]
    planes += [on_luma_grid(p, (shape[0], shape[1]), form, offset) for p in surface.planes[1:]]
    mixed = np.stack([*planes, np.ones(shape)], axis=-1) @ rgb_matrix(color, form, out_bits).T
    return np.clip(mixed, 0, 2**out_bits - 1) if clip else mixed


def _positions(count: int, shift: int, offset: float) -> NDArray[np.float64]:
    positions: NDArray[np.float64] = (np.arange(count) - offset) / (1 << shift)
    return positions


def _averaged(plane: NDArray[np.float64], columns: int, rows: int) -> NDArray[np.float64]:
    height, width = plane.shape
    padded = np.pad(plane, ((0, -height % rows), (0, -width % columns)), mode="edge")
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    averaged: NDArray[np.float64] = blocks.mean(axis=(1, 3))
    return averaged


def made(surface: Surface, info: StreamInfo, **output: Any) -> NDArray[Any]:
    """The picture that a fresh converter makes."""
    converter = Converter(info, xy_output(**output))
    out = np.full(converter.shape, 77, converter.dtype)
    converter(surface, out)
    return out


def stored_name(surface: Surface) -> str:
    """FFmpeg's name of the surface's format, 16-bit samples little endian."""
    return surface.format.name + ("le" if surface.format.bits > 8 else "")


def assert_rounded(found: NDArray[Any], wanted: NDArray[np.float64], doubt: float = 1e-3) -> None:
    """Each value is the wanted one rounded half to even; either neighbor where a half is within ``doubt``."""
    assert found.shape == wanted.shape
    doubtful = np.abs(wanted - np.floor(wanted) - 0.5) < doubt
    apart = np.abs(found - np.rint(wanted))
    assert apart[~doubtful].max(initial=0) == 0
    assert apart.max(initial=0) <= 1


def differences(left: NDArray[Any], right: NDArray[Any]) -> tuple[float, float, float]:
    """Mean, 99.9th percentile and maximum of the differences."""
    apart = np.abs(left.astype(float) - right)
    return float(apart.mean()), float(np.quantile(apart, 0.999)), float(apart.max())
