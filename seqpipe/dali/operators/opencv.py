"""``fn.clahe``, ``debayer``, ``experimental.dilate`` and ``erode``: by OpenCV on the CPU, also of values on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...array import Array
from ...ops import Run
from ..data_node import DataNode
from ..declared import DaliCall, image_layout, operator
from ..value import Value

__all__: list[str] = []

_BY_OPENCV: Final = "OpenCV computes it on the CPU, also with device='gpu'"
_LAYOUTS: Final = ("HW", "HWC", "FHW", "FHWC", "DHW", "DHWC")
_BORDERS: Final = {"constant": 0, "replicate": 1, "reflect": 2, "reflect_101": 4}
"""Border modes of windows, as OpenCV numbers them."""
_TILES: Final = ("BG", "GB", "GR", "RG")
_DEBAYER: Final = {
    **dict.fromkeys(("default", "bilinear_ocv"), "RGB"),
    "edgeaware_ocv": "RGB_EA",
    "vng_ocv": "RGB_VNG",
    "gray_ocv": "GRAY",
}
"""Algorithms, with their names in OpenCV's codes of conversion."""


def _by_image(call: DaliCall, function: Callable[..., Array]) -> DataNode:
    """Return a node that applies a function to each image."""

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        layout = image_layout(value)
        if layout not in _LAYOUTS:
            raise call.fault(
                f"The number of dimensions {value.ndim} does not match any of the allowed layouts "
                f"{', '.join(_LAYOUTS)}: samples of layout {layout!r}"
            )
        arrays = []
        for array, *numbers in zip(value, *values[1:], strict=True):
            images = array.reshape(-1, *array.shape[layout.index("H") :])
            results = [function(np.ascontiguousarray(image), *numbers) for image in images]
            arrays.append(np.stack(results).reshape(*array.shape[: layout.index("H")], *results[0].shape))
        letters = layout if len(layout) == arrays[0].ndim else f"{layout}C"
        return Value.of(arrays, letters if value.layout or letters != layout else "", value.sources)

    return call.on_host(compute)


@operator("clahe", note=_BY_OPENCV)
def _clahe(
    call: DaliCall,
    *,
    clip_limit: Any = None,
    tiles_x: Any = None,
    tiles_y: Any = None,
    bins: Any = 256,
    luma_only: bool = True,
) -> DataNode:
    """``fn.clahe``: local equalization of histograms of uint8 images; of RGB images the lightness, or each channel."""
    if None in (clip_limit, tiles_x, tiles_y):
        raise call.wrong("an argument is missing", allowed="clip_limit, tiles_x and tiles_y")
    if bins != 256:
        raise call.wrong(f"bins={bins!r}", allowed="256")

    def equalize(image: Array) -> Array:
        import cv2

        if image.dtype != np.uint8 or (image.ndim == 3 and image.shape[2] not in (1, 3)):
            raise call.fault(
                f"images of {image.dtype} with {image.shape[2:] or 1} channels",
                allowed="uint8, 1 or 3 channels",
            )
        equalizer = cv2.createCLAHE(float(clip_limit), (int(tiles_x), int(tiles_y)))
        if image.ndim == 2 or image.shape[2] == 1:
            return equalizer.apply(image).reshape(image.shape)
        planes = list(cv2.split(cv2.cvtColor(image, cv2.COLOR_RGB2LAB) if luma_only else image))
        count = 1 if luma_only else 3
        equalized = cv2.merge([*map(equalizer.apply, planes[:count]), *planes[count:]])
        return cv2.cvtColor(equalized, cv2.COLOR_LAB2RGB) if luma_only else equalized

    return _by_image(call, equalize)


@operator("debayer", each={"blue_position": None}, note=f"bilinear by default; {_BY_OPENCV}")
def _debayer(call: DaliCall, *, algorithm: Any = "bilinear_ocv") -> DataNode:
    """``fn.debayer``: RGB images of raw ones, whose 2×2 tiles from the second row and column have one color each.

    ``blue_position`` is the row and the column of blue in a tile, for all samples or for each.
    """
    if not call.settings:
        raise call.wrong("Not all required arguments were specified: blue_position")
    if algorithm == "default_npp":
        raise call.wrong(
            "default_npp algorithm is not supported on CPU", advice=f"Use one of {', '.join(_DEBAYER)}"
        )
    if algorithm not in _DEBAYER:
        raise call.wrong(f"algorithm={algorithm!r} is not valid", allowed=", ".join(_DEBAYER))

    def colored(image: Array, place: Array) -> Array:
        import cv2

        row, column = np.ravel(place).astype(int).tolist()
        fact = ""
        if image.ndim == 3 and image.shape[2] != 1:
            fact = "The debayer operator expects grayscale (i.e. single channel) images"
        elif image.shape[0] % 2 or image.shape[1] % 2:
            fact = "The height and width of the image to debayer must be even"
        elif not 0 <= row <= 1 or not 0 <= column <= 1:
            fact = "The `blue_position` position must lie within 2x2 tile"
        elif image.dtype not in (np.uint8, np.uint16):
            fact = f"images of type {image.dtype}, where uint8 and uint16 are accepted"
        if fact:
            raise call.fault(fact)
        code = getattr(cv2, f"COLOR_Bayer{_TILES[2 * row + column]}2{_DEBAYER[algorithm]}")
        made = cv2.cvtColor(image.reshape(image.shape[:2]), code)
        return made if made.ndim == 3 else cv2.cvtColor(made, cv2.COLOR_GRAY2RGB)

    return _by_image(call, colored)


@operator(
    "experimental.dilate",
    "experimental.erode",
    each={"mask_size": [3, 3], "anchor": [-1, -1]},
    note=_BY_OPENCV,
)
def _morphology(call: DaliCall, *, iterations: int = 1, border_mode: Any = "constant") -> DataNode:
    """``fn.experimental.dilate`` or ``erode``: the extreme of a window around each pixel.

    ``mask_size`` is (width, height), and ``anchor`` the column and the row of the pixel in the window, as in DALI.
    """
    if border_mode not in _BORDERS:
        raise call.wrong(f"border_mode={border_mode!r} is not valid", allowed=", ".join(map(repr, _BORDERS)))

    def extreme(image: Array, sides: Array, anchor_xy: Array) -> Array:
        import cv2

        width, height = np.broadcast_to(np.ravel(sides).astype(int), 2).tolist()
        column, row = np.broadcast_to(np.ravel(anchor_xy).astype(int), 2).tolist()
        result: Array = getattr(cv2, call.row.name.rpartition(".")[2])(
            image,
            np.ones((height, width), np.uint8),
            anchor=(column, row),
            iterations=iterations,
            borderType=_BORDERS[border_mode],
        )
        return result.reshape(image.shape)

    return _by_image(call, extreme)
