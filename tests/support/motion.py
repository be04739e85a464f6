"""Pairs of frames whose motion is known: a smooth texture, or a photograph, moved by a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

__all__ = ["SCENES", "epe", "inner", "moved", "shifted_video", "texture"]

Places = tuple[NDArray[np.float64], NDArray[np.float64]]
Inverse = Callable[[NDArray[np.float64], NDArray[np.float64]], Places]


def texture(height: int, width: int, seed: int = 1) -> NDArray[np.float32]:
    """A picture with detail of several sizes, none smaller than a pixel, uint8's range."""
    rng = np.random.default_rng(seed)
    layers = [
        (one := cv2.GaussianBlur(rng.standard_normal((height, width)), (0, 0), sigma)) / one.std()
        for sigma in (1.5, 4.0, 12.0)
    ]
    whole = sum(layers)
    return np.clip(128 + 40 * whole / whole.std(), 0, 255).astype(np.float32)


def _affine(matrix: NDArray[np.float64], shift: tuple[float, float] = (0, 0)) -> Inverse:
    def forward(x: NDArray[np.float64], y: NDArray[np.float64]) -> Places:
        return matrix[0, 0] * x + matrix[0, 1] * y + shift[0], matrix[1, 0] * x + matrix[1, 1] * y + shift[1]

    return forward


def _swirl(x: NDArray[np.float64], y: NDArray[np.float64]) -> Places:
    """A rotation about the centre that fades with the distance from it."""
    turn = 0.04 * np.exp(-(x**2 + y**2) / 90**2)
    return np.cos(turn) * x - np.sin(turn) * y, np.sin(turn) * x + np.cos(turn) * y


_ANGLE = np.deg2rad(0.8)
SCENES: dict[str, Inverse] = {
    "translation": _affine(np.eye(2), (5.0, -3.0)),
    "subpixel": _affine(np.eye(2), (-2.25, 1.5)),
    "rotation": _affine(np.array([[np.cos(_ANGLE), -np.sin(_ANGLE)], [np.sin(_ANGLE), np.cos(_ANGLE)]])),
    "zoom": _affine(1.012 * np.eye(2)),
    "swirl": _swirl,
}
"""Where a place of the first frame, from its centre, is in the second one."""


def moved(picture: NDArray[np.float32], scene: str, margin: int = 24) -> tuple[NDArray[np.uint8], ...]:
    """The first frame, the second one, and the flow from the first to the second.

    The second frame is the picture; each pixel of the first one is taken from where it goes, so that the flow is exact.
    """
    height, width = (side - 2 * margin for side in picture.shape)
    y, x = np.mgrid[:height, :width].astype(np.float64)
    middle = (width - 1) / 2, (height - 1) / 2
    to_x, to_y = SCENES[scene](x - middle[0], y - middle[1])
    to_x, to_y = to_x + middle[0], to_y + middle[1]
    places = ((place + margin).astype(np.float32) for place in (to_x, to_y))
    first = cv2.remap(picture, *places, cv2.INTER_CUBIC)
    second = picture[margin:-margin, margin:-margin]
    frames = (np.clip(np.rint(one), 0, 255).astype(np.uint8) for one in (first, second))
    return *frames, np.stack([to_x - x, to_y - y], -1).astype(np.float32)


def inner(field: NDArray[np.float32], border: int = 16) -> NDArray[np.float32]:
    """A field without its border, which comes and goes."""
    return field[..., border:-border, border:-border, :]


def epe(flow: NDArray[np.float32], wanted: NDArray[np.float32]) -> float:
    """The mean end-point error in pixels."""
    return float(np.linalg.norm(flow.astype(np.float64) - wanted, axis=-1).mean())


def shifted_video(path: Path, shifts: Sequence[int]) -> str:
    """A video of 160×96 pixels at 25 Hz of a texture, shifted by so many pixels in each frame; returns its path."""
    picture = texture(96, 160 + max(shifts)).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "18"})
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        for number, shift in enumerate(shifts):
            luma = picture[:, shift : shift + 160]
            frame = av.VideoFrame.from_ndarray(np.repeat(luma[..., None], 3, -1), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return str(path)
