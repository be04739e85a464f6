"""What is made of a case by libraries and formulas that are neither ours nor DALI's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import cv2
import numpy as np
import simplejpeg
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from tests.peers.dali import Case, given

__all__ = [
    "Judge",
    "by_cubic_perspective",
    "by_formula",
    "by_libjpeg",
    "by_opencv_perspective",
    "by_pillow",
    "by_scipy_warp",
    "by_window",
    "rounded",
]

Judge: TypeAlias = Callable[[Case, tuple[int, ...]], NDArray[Any]]
"""Of a case and the shape of its result: what that should be."""

_AROUND: Final = 40  # pixels that are repeated around a picture
_LITTLE: Final = 1e-9  # what places may be off in float64
_PILLOW: Final = {
    "linear": Image.Resampling.BILINEAR,
    "cubic": Image.Resampling.BICUBIC,
    "lanczos3": Image.Resampling.LANCZOS,
}


def by_pillow(*, repeats: bool = False, keeps_scale: bool = False) -> Judge:
    """Pillow's resize.

    Args:
        repeats: whether what lies outside is taken to be like the pixels at the border; it is left out otherwise.
        keeps_scale: whether both axes are scaled by that which is asked for, around the middle of the picture, where
            a side of the result had to be rounded.
    """

    def judge(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
        picture, (rows, columns) = given(case.given), shape[:2]
        height, width = picture.shape[:2]
        across, down = float(width), float(height)
        if keeps_scale:
            factor = _scale_of(case)
            across, down = columns / factor, rows / factor
        left, top = (width - across) / 2, (height - down) / 2
        if repeats:
            picture = np.pad(picture, [(_AROUND, _AROUND)] * 2 + [(0, 0)], mode="edge")
            left, top = left + _AROUND, top + _AROUND
        box = (left, top, left + across, top + down)
        kind = _PILLOW[case.arguments.get("interp_type", "linear")]
        planes = [
            # floats, which it does not round between rows and columns
            Image.fromarray(picture[..., n].astype(np.float32)).resize((columns, rows), kind, box=box)
            for n in range(picture.shape[-1])
        ]
        return rounded(np.stack([np.asarray(plane, np.float64) for plane in planes], axis=-1), "uint8")

    return judge


def _scale_of(case: Case) -> float:
    """By how much a case makes pictures larger."""
    height, width = given(case.given).shape[:2]
    side = {"resize_x": width, "resize_y": height, "resize_shorter": min(height, width)}
    ((name, length),) = ((name, side[name]) for name in case.arguments if name in side)
    return float(case.arguments[name] / length)


def by_window(
    curve: Callable[[NDArray[Any]], NDArray[Any]],
    support: float,
    *,
    closed: bool = False,
    repeats: bool = False,
) -> Judge:
    """Weighted sums in float64.

    Args:
        curve: the weights at distances from 0 on.
        support: how far they reach.
        closed: whether they are what the curve says at ``support`` itself; otherwise 0.
        repeats: as with :func:`by_pillow`.
    """

    def matrix(size: int, length: int, *, widened: bool) -> NDArray[np.float64]:
        step = length / size
        wide = max(1.0, step) if widened else 1.0
        center = (np.arange(size) + 0.5) * step
        place = np.arange(-_AROUND, length + _AROUND) + 0.5
        distance = np.abs(center[:, None] - place) / wide
        weight = np.where(distance < support + (_LITTLE if closed else -_LITTLE), curve(distance), 0)
        if repeats:
            weight[:, _AROUND] += weight[:, :_AROUND].sum(axis=1)
            weight[:, -_AROUND - 1] += weight[:, -_AROUND:].sum(axis=1)
        weight = weight[:, _AROUND:-_AROUND]
        found: NDArray[np.float64] = weight / weight.sum(axis=1, keepdims=True)
        return found

    def judge(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
        picture = given(case.given).astype(np.float64)
        widened = case.arguments.get("antialias", True)
        down, along = (matrix(shape[i], picture.shape[i], widened=widened) for i in (0, 1))
        return rounded(np.einsum("yh,xw,hwc->yxc", down, along, picture), "uint8")

    return judge


def by_formula(formula: Callable[..., NDArray[Any]], dtype: str = "uint8", *, away: bool = False) -> Judge:
    """A formula in float64, of the picture and all arguments, rounded half to even, or half away from 0."""

    def judge(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
        values = formula(given(case.given).astype(np.float64), **case.arguments)
        if away:
            values = np.copysign(np.floor(np.abs(values) + 0.5), values)
        return rounded(values, dtype)

    return judge


def rounded(values: NDArray[np.float64], dtype: str) -> NDArray[Any]:
    """As a type, half to even; values outside of it become its limits."""
    if np.dtype(dtype).kind == "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values), limits.min, limits.max).astype(dtype)


def by_scipy_warp(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
    """An affine map from the result to the source by SciPy, places in float64."""
    picture, order = given(case.given), 0 if case.arguments.get("interp_type") == "nearest" else 1
    if case.operator == "rotate":
        turn = math.radians(case.arguments["angle"])
        (height, width), (rows, columns) = picture.shape[:2], shape[:2]
        cosine, sine = math.cos(turn), math.sin(turn)
        matrix = [
            [cosine, -sine, width / 2 - cosine * columns / 2 + sine * rows / 2],
            [sine, cosine, height / 2 - sine * columns / 2 - cosine * rows / 2],
        ]
    else:
        matrix = np.reshape(case.arguments["matrix"], (2, 3)).tolist()
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    places = [matrix[i][0] * x + matrix[i][1] * y + matrix[i][2] - 0.5 for i in (1, 0)]
    fill = case.arguments.get("fill_value")
    mode = {"mode": "nearest"} if fill is None else {"mode": "grid-constant", "cval": fill}
    planes = [
        ndimage.map_coordinates(picture[..., n].astype(np.float64), places, order=order, **mode)
        for n in range(picture.shape[-1])
    ]
    return rounded(np.stack(planes, axis=-1), picture.dtype.name)


def _matrix(case: Case) -> NDArray[np.float64]:
    """A projective map with (0, 0) in the center of the first pixel."""
    to_corner = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    return np.asarray(np.linalg.inv(to_corner) @ np.reshape(case.arguments["matrix"], (3, 3)) @ to_corner)


def by_opencv_perspective(border: str) -> Judge:
    """OpenCV's warpPerspective, bilinear."""
    mode = {"constant": cv2.BORDER_CONSTANT, "replicate": cv2.BORDER_REPLICATE}[border]

    def judge(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        size = shape[1], shape[0]
        return np.asarray(
            cv2.warpPerspective(given(case.given), _matrix(case), size, flags=flags, borderMode=mode)
        )

    return judge


def by_cubic_perspective(a: float) -> Judge:
    """Four by four pixels, weighted by the cubic of Keys in float64, a level outside."""

    def curve(u: NDArray[Any]) -> NDArray[Any]:
        near = ((a + 2) * u - (a + 3)) * u * u + 1
        return np.where(u < 1, near, np.where(u < 2, a * (((u - 5) * u + 8) * u - 4), 0))

    def judge(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
        fill = case.arguments["fill_value"]
        picture = np.pad(
            given(case.given).astype(np.float64), [(_AROUND,) * 2] * 2 + [(0, 0)], constant_values=fill
        )
        y, x = np.mgrid[: shape[0], : shape[1]].astype(np.float64)
        u, v, w = np.tensordot(_matrix(case), np.stack([x, y, np.ones_like(x)]), 1)
        limits = [side + 2 * _AROUND - 3 for side in (shape[1], shape[0])]
        along, down = (np.clip(q / w + _AROUND, 1, limit) for q, limit in zip((u, v), limits, strict=True))
        left, top = np.floor(along).astype(int), np.floor(down).astype(int)
        total = np.zeros(shape)
        for i in range(-1, 3):
            for j in range(-1, 3):
                weight = curve(np.abs(down - top - i)) * curve(np.abs(along - left - j))
                total += weight[..., None] * picture[top + i, left + j]
        return rounded(total, "uint8")

    return judge


def by_libjpeg(*, smooth: bool) -> Judge:
    """libjpeg-turbo's files; read with smoothed colors or without."""

    def judge(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
        _, file = cv2.imencode(
            ".jpg", given(case.given)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, case.arguments["quality"]]
        )
        return simplejpeg.decode_jpeg(file, "RGB", fastdct=False, fastupsample=not smooth)

    return judge
