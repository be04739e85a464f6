"""Crop, flip, pad, paste and slice: operators that move whole pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ...array import Array
from ...core.padding import FILL_MODES, PAD_MODES, FillMode, PadMode
from ..call.inputs import CallInput
from ..call.op import Op
from ..core.declaration import Declaration
from ..core.distributions import Flag, Number
from ..core.parameters import ANY, at_most_one, param
from .base import MAX_OFFSET, Canvas, CanvasWindow, Geometry
from .mapping import Mapping, Windowed, scaling

__all__ = ["Crop", "Flip", "Pad", "Paste", "Slice"]

_MAX_NUMPY_VALUES: Final = 2048  # up to so many values, NumPy flips faster than OpenCV
_CHANNELS: Final = 128  # most channels of OpenCV: 128 since version 5, 512 before


class Crop(Windowed, Geometry):
    """Crop a window out of images."""

    keeps_size = False
    whole_pixels = True
    converted = ("moving",)
    examples = (
        {"crop": (3, 4)},
        {"crop": (2, 5), "crop_pos_x": (0.0, 1.0), "crop_pos_y": (0.0, 1.0), "seed": 2},
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`.

        Raises:
            ParameterError: the window is larger than the images.
        """
        return self.window_of(p, height, width)

    def reference(self, x: Array, p: Any) -> Array:
        """Return the window."""
        window = self.mapping(p, *x.shape[1:3])
        left, top = window.matrix[:2, 2].astype(int)
        return x[:, top : top + window.height, left : left + window.width]


class Flip(Geometry):
    """Mirror images left to right, top to bottom, or both."""

    horizontal: Flag = param(True, "mirror left to right", identity=False)
    vertical: Flag = param(False, "mirror top to bottom", identity=False)

    whole_pixels = True
    maps_rows = True
    converted = ("moving",)
    examples = (
        {},
        {"horizontal": False, "vertical": True},
        {"horizontal": True, "vertical": True},
        {"p": 0.5, "seed": 3},
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`."""
        across, down = 1 - 2 * p.horizontal, 1 - 2 * p.vertical
        return Mapping(scaling(width * p.horizontal, across, height * p.vertical, down), height, width)

    def reference(self, x: Array, p: Any) -> Array:
        """Reverse rows and columns."""
        return x[:, :: -1 if p.vertical else 1, :: -1 if p.horizontal else 1]

    def cpu(self, x: Array, p: Any) -> Array:
        """Reverse columns by OpenCV, with the bytes of a pixel as channels."""
        pixel = x.shape[-1] * x.itemsize
        if not p.horizontal or x.size < _MAX_NUMPY_VALUES or not x.flags.c_contiguous or pixel > _CHANNELS:
            return self.reference(x, p)
        import cv2

        lines = x.view(np.uint8).reshape(-1, x.shape[-2], pixel)
        flipped = cv2.flip(lines, 1).view(x.dtype).reshape(x.shape)
        return flipped[:, ::-1] if p.vertical else flipped

    def inverse(self) -> Op:
        """Return the operator itself."""
        return self


_Pair: TypeAlias = tuple[int, int]


class Pad(Canvas):
    """Enlarge images to a size, to a multiple of a number, or to the largest size of the inputs.

    As in DALI, images larger than ``shape`` keep their size, and without ``shape`` all images of a list or batch get
    the size of the largest. ``align`` applies to the size that follows from ``shape``.
    """

    axis_names: Literal["HW", "WH", "H", "W"] = param(
        "HW", "axes to pad, in the order of the other arguments", choices=("HW", "WH", "H", "W")
    )
    shape: tuple[int, ...] | None = param(
        None,
        "minimum extent of each axis, or one for all; -1 for the extent of the largest image; None for -1",
        kind=int,
        unit="pixels",
        lo=-1,
        size=ANY,
    )
    align: tuple[int, ...] | None = param(
        None,
        "multiple that the extent of each axis is rounded up to, or one for all; None for 1",
        kind=int,
        unit="pixels",
        lo=1,
        size=ANY,
    )
    pad_mode: FillMode = param("constant", "how pixels outside of the images are filled", choices=FILL_MODES)
    pad_pos_x: Number = param(0.0, "horizontal position of the image, from 0 (left) to 1 (right)", lo=0, hi=1)
    pad_pos_y: Number = param(0.0, "vertical position of the image, from 0 (top) to 1 (bottom)", lo=0, hi=1)

    examples = (
        {"shape": (8, 9), "fill_value": 300.0},
        {
            "axis_names": "WH",
            "shape": (1, 8),
            "align": (4, 3),
            "pad_mode": "reflect",
            "pad_pos_x": (0.0, 1.0),
            "pad_pos_y": (0.0, 1.0),
            "seed": 2,
        },
        {"shape": (1,), "align": (8,), "pad_mode": "edge", "pad_pos_x": 0.5, "pad_pos_y": 0.5},
        {"shape": (6, -1), "fill_value": (1.0, 2.0, 3.0)},
    )
    errors = (
        ({"shape": (0, 3)}, "shape=0 is not valid; allowed: a whole number of at least 1, or -1"),
        ({"shape": (3, 4, 5)}, "shape has 3 values for the axes HW; allowed: 2, or one for all"),
        ({"axis_names": "W", "align": (2, 2)}, "align has 2 values for the axes W; allowed: 1, or one for"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shape", "align"):
            values = getattr(self, name) or ()
            if len(values) not in (0, 1, len(self.axis_names)):
                raise self.refusal(
                    f"{name} has {len(values)} values for the axes {self.axis_names}",
                    allowed=f"{len(self.axis_names)}, or one for all",
                )
        if 0 in (self.shape or ()):
            raise self.refusal("shape=0 is not valid", allowed="a whole number of at least 1, or -1")

    @property
    def beyond(self) -> FillMode:
        """See :attr:`Canvas.beyond`."""
        return self.pad_mode

    def for_inputs(self, parts: Seq[CallInput]) -> Declaration:
        """Return the operator with the extents of the largest image."""
        shape = self._of_axes(self.shape, -1)
        if -1 not in shape.values() or len(parts) < 2:
            return self
        largest = {"H": max(part.spec.height for part in parts), "W": max(part.spec.width for part in parts)}
        extents = tuple(largest[axis] if extent < 0 else extent for axis, extent in shape.items())
        grown = type(self)(**{**self.settings(), "shape": extents})
        return grown.with_occurrence(self.occurrence)

    def window(self, p: Any, height: int, width: int) -> CanvasWindow:
        """Return the window of the image and the pixels added around it."""
        sides = {"H": height, "W": width}
        shape, align = self._of_axes(self.shape, -1), self._of_axes(self.align, 1)
        size = {axis: -(-max(sides[axis], shape[axis]) // align[axis]) * align[axis] for axis in shape}
        rows, columns = (size.get(axis, sides[axis]) for axis in "HW")
        # rounds halves up, like the crop of that size and position that undoes it
        top = math.floor(float(p.pad_pos_y) * (rows - height) + 0.5)
        left = math.floor(float(p.pad_pos_x) * (columns - width) + 0.5)
        return self.checked((-top, -left, rows, columns))

    def _of_axes(self, values: tuple[int, ...] | None, by_default: int) -> dict[str, int]:
        some = values or (by_default,)
        every = some if len(some) > 1 else some * len(self.axis_names)
        return dict(zip(self.axis_names, every, strict=True))


class Paste(Canvas):
    """Place images on a larger canvas, as in DALI.

    The sides of the canvas are ``floor(ratio * side)``, and at least ``floor(min_canvas_size)``; the image is at
    ``floor(paste * (side of the canvas - side))``. :class:`BboxPaste` moves relative boxes accordingly.
    """

    ratio: Number = param(1.0, "size of the canvas relative to the image", lo=1, identity=1.0, by_frame=False)
    paste_x: Number = param(0.5, "horizontal position of the image, from 0 (left) to 1 (right)", lo=0, hi=1)
    paste_y: Number = param(0.5, "vertical position of the image, from 0 (top) to 1 (bottom)", lo=0, hi=1)
    min_canvas_size: Number = param(
        0.0, "minimum length of the canvas's sides", unit="pixels", lo=0, identity=0.0, by_frame=False
    )

    examples = (
        {"ratio": 1.5, "fill_value": 9.0},
        {
            "ratio": 1.9,
            "paste_x": (0.0, 1.0),
            "paste_y": (0.0, 1.0),
            "fill_value": (9.0, 80.0, 255.0),
            "seed": 4,
        },
        {"min_canvas_size": 12.5, "paste_x": 0.3},
        {"ratio": 2.0},
    )

    def window(self, p: Any, height: int, width: int) -> CanvasWindow:
        """Return the canvas around the image."""
        least = math.floor(p.min_canvas_size)
        # float32 as in DALI: 1.3 times 10 is 13
        with np.errstate(over="ignore"):
            scaled = [np.float32(p.ratio) * np.float32(n) for n in (height, width)]
        if not np.isfinite(scaled).all():
            raise self.refusal(
                f"ratio={float(p.ratio):g} for images of {height}×{width} pixels",
                allowed=f"a canvas of fewer than {MAX_OFFSET} pixels a side",
            )
        rows, columns = (
            max(math.floor(side), least, n) for side, n in zip(scaled, (height, width), strict=True)
        )
        top = math.floor(np.float32(p.paste_y) * np.float32(rows - height))
        left = math.floor(np.float32(p.paste_x) * np.float32(columns - width))
        return self.checked((-top, -left, rows, columns))


class Slice(Canvas):
    """Crop a window by its start and its end or shape, in pixels or relative to the image.

    Pixels and relative values may be mixed, as in DALI. Fractional positions are rounded, halves away from 0; an end
    that follows from a relative shape is rounded as an end. The results of :class:`RandomBboxCrop` are values of
    ``rel_start`` and ``rel_shape``.
    """

    start: Number | None = param(None, "start of the window; None for 0", kind=float, unit="pixels", size=2)
    rel_start: Number | None = param(None, "the same relative to the image's size", kind=float, size=2)
    end: Number | None = param(
        None,
        "end of the window; None for the end of the image",
        kind=float,
        unit="pixels",
        size=2,
        by_frame=False,
    )
    rel_end: Number | None = param(
        None, "the same relative to the image's size", kind=float, size=2, by_frame=False
    )
    shape: Number | None = param(
        None,
        "width and height of the window, instead of an end",
        kind=float,
        unit="pixels",
        lo=1,
        size=2,
        by_frame=False,
    )
    rel_shape: Number | None = param(
        None,
        "the same relative to the image's size, at least one pixel",
        kind=float,
        lo=0,
        size=2,
        by_frame=False,
    )
    axis_names: Literal["WH", "HW"] = param(
        "WH", "order of the numbers in the other arguments", choices=("WH", "HW")
    )
    pad_mode: PadMode = param(
        "none",
        "how pixels outside of the image are filled; none does not allow windows that extend beyond the image",
        choices=PAD_MODES,
    )
    trim: bool = param(False, "whether windows are clipped to the image", drawn=False)

    exclusive = (("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape"))
    examples = (
        {
            "start": ((-3.0, 3.0), (-3.0, 3.0)),
            "shape": (6.0, 4.0),
            "pad_mode": "constant",
            "fill_value": 77.0,
            "seed": 3,
        },
        {"rel_start": (0.2, 0.6), "shape": (4.0, 5.0), "pad_mode": "reflect"},
        {"start": (-2.0, 1.0), "rel_shape": (1.5, 0.5), "axis_names": "HW", "pad_mode": "wrap"},
        {
            "start": (-2.0, -1.0),
            "pad_mode": "constant",
            "fill_value": (1.0, 2.0, 3.0),
        },
        {"start": (-2.0, -1.0), "end": (4.0, 30.0), "trim": True},
        {"rel_start": (0.2, 0.1), "rel_end": (0.7, 0.8)},
    )
    errors = (
        (
            {"pad_mode": "edge", "trim": True},
            "slice: pad_mode and trim given; allowed: one of pad_mode, trim",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trim and self.pad_mode != "none":
            at_most_one(self, "pad_mode", "trim")

    @property
    def beyond(self) -> FillMode:
        """See :attr:`Canvas.beyond`."""
        return "constant" if self.pad_mode == "none" else self.pad_mode

    def window(self, p: Any, height: int, width: int) -> CanvasWindow:
        """Return the window.

        Raises:
            ParameterError: it is empty, or extends beyond the image without a padding mode.
        """
        size = (width, height) if self.axis_names == "WH" else (height, width)
        start, end = self._reach(p, size)
        if self.trim:
            start, end = _within(start, size), _within(end, size)
        elif self.pad_mode == "none" and (min(start) < 0 or end[0] > size[0] or end[1] > size[1]):
            raise self.refusal(
                f"a window from {start} to {end} of images of {height}×{width} pixels",
                allowed=f"from (0, 0) to {size}, in the order {self.axis_names}",
                advice="Choose a pad_mode, or trim=True",
            )
        turn = -1 if self.axis_names == "WH" else 1
        top, left, bottom, right = *start[::turn], *end[::turn]
        return self.checked((top, left, bottom - top, right - left))

    def _reach(self, p: Any, size: _Pair) -> tuple[_Pair, _Pair]:
        """Return rounded start and end of the window, in float32 as in DALI."""
        relative = self.rel_start is not None
        begin = p.start if self.start is not None else _in_pixels(p.rel_start if relative else 0, size)
        start = _rounded(begin)
        if self.shape is not None:
            columns, rows = _rounded(p.shape)
            return start, (start[0] + columns, start[1] + rows)
        if self.rel_shape is not None:
            whole = _in_pixels(p.rel_start + p.rel_shape if relative else p.rel_shape, size)
            first, second = _rounded(whole if relative else begin + whole)
            return start, (max(first, start[0] + 1), max(second, start[1] + 1))
        if self.rel_end is not None:
            return start, _rounded(_in_pixels(p.rel_end, size))
        return start, size if self.end is None else _rounded(p.end)


def _in_pixels(parts: Any, size: _Pair) -> Any:
    return parts * np.array(size, np.float32)


def _rounded(positions: Any) -> _Pair:
    """Round halves away from 0, as DALI does; limited to positions that windows may have."""
    first, second = (
        math.floor(min(abs(position), 2.0**31) + 0.5) * (-1 if position < 0 else 1)
        for position in positions.tolist()
    )
    return first, second


def _within(positions: _Pair, size: _Pair) -> _Pair:
    """Clip positions to the image."""
    first, second = (min(max(position, 0), side) for position, side in zip(positions, size, strict=True))
    return first, second
