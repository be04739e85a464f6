"""What a window of a surface is to become, in float64 and by Pillow: the judge of conversions that scale windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqpipe.video.convert.color import chroma_offset, gray_matrix, resolve, rgb_matrix
from seqpipe.video.convert.output import OutputSpec, transposed
from seqpipe.video.convert.surface import Surface
from seqpipe.video.probe.info import StreamInfo

from .pictures import on_luma_grid

__all__ = ["exact_window", "scaled_window"]

_PEAKS = {"uint8": 255, "uint16": 65535, "float16": 1, "float32": 1}


def exact_window(surface: Surface, info: StreamInfo, spec: OutputSpec) -> NDArray[np.float64]:
    """The picture HWC before mean and std and before it is rounded; step by step on the upright picture.

    Args:
        surface: the frame.
        info: its stream.
        spec: with a window or a part, and a size.
    """
    color, form = resolve(info), surface.format
    shape = surface.planes[0].shape
    planes = [surface.planes[0].astype(float)]
    for plane in surface.planes[1:]:
        same = form.chroma == "rgb"
        grid = plane.astype(float) if same else on_luma_grid(plane, shape, form, chroma_offset(color, form))
        planes.append(grid)
    matrix = (gray_matrix if spec.color == "GRAY" else rgb_matrix)(color, form, 16)
    made = [_made(plane, info, spec) for plane in planes[: matrix.shape[1] - 1]]
    values = np.stack([*made, np.ones_like(made[0])], axis=-1) @ matrix.T * (_PEAKS[spec.dtype] / 65535)
    return np.clip(values, 0, _PEAKS[spec.dtype])


def _made(plane: NDArray[np.float64], info: StreamInfo, spec: OutputSpec) -> NDArray[np.float64]:
    upright: NDArray[Any] = np.rot90(plane[:, ::-1] if info.flipped else plane, info.rotation_degrees // 90)
    return scaled_window(upright, spec)


def scaled_window(upright: NDArray[Any], spec: OutputSpec) -> NDArray[np.float64]:
    """What a plane of an upright picture becomes.

    Args:
        upright: ``(rows, columns)``.
        spec: with a window or a part, and a size.
    """
    shown = _cut(upright, transposed(spec.crop))
    x, y, width, height = transposed(spec.window) or (0, 0, *shown.shape[::-1])
    assert spec.size is not None
    image = Image.fromarray(np.ascontiguousarray(shown, np.float32), mode="F")
    box = (x, y, x + width, y + height)
    scaled = np.asarray(image.resize(spec.size[::-1], Image.Resampling.BILINEAR, box=box), np.float64)
    part = _cut(scaled, transposed(spec.part))
    return part[:, ::-1] if spec.mirror else part


def _cut(picture: NDArray[Any], box: tuple[int, int, int, int] | None) -> NDArray[Any]:
    x, y, width, height = box or (0, 0, *picture.shape[::-1])
    return picture[y : y + height, x : x + width]
