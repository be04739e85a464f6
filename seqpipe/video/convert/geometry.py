"""Output geometry: crop, window, size and orientation of an output frame in a surface, as integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ...errors import ParameterError

__all__ = ["PixelBox", "Placement", "Stretch", "fitted_size", "make_placement"]

PixelBox = tuple[int, int, int, int]
_MAX_FRAME_PX = 1 << 28
Size = tuple[int, int]


class Stretch(NamedTuple):
    """Scaling of the visible samples of one axis to pixels.

    Attributes:
        begin: first visible sample that is scaled.
        length: number of samples that are scaled.
        size: number of pixels that these are scaled to.
        first: first of these pixels that is computed.
        pixels: number of pixels that are computed.
        ends: whether a window is scaled: visible samples around it are in reach of the filter, and samples beyond the
            visible ones have no weight. Otherwise all visible samples are scaled, with the outermost ones repeated.
    """

    begin: int
    length: int
    size: int
    first: int
    pixels: int
    ends: bool


@dataclass(frozen=True)
class Placement:
    """Geometry from a surface to an output frame: crop, scale, crop again, mirror, rotate, in this order.

    Attributes:
        box: (x, y, width, height) of the visible part of the surface.
        size: (width, height) of the output frame, before the rotation.
        flipped: whether it is then mirrored left to right.
        quarter_turns: counter-clockwise quarter turns after that, 0 to 3.
        window: (x, y, width, height) within the box that is scaled, with the samples around it in reach of the filter;
            None if the box is scaled, with its edges repeated.
        scaled: (width, height) that is scaled to; None if that is ``size``.
        at: (x, y) of the output frame within ``scaled``.
    """

    box: PixelBox
    size: Size
    flipped: bool
    quarter_turns: int
    window: PixelBox | None = None
    scaled: Size | None = None
    at: tuple[int, int] = (0, 0)

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width) of the output frame."""
        width, height = self.size
        return (width, height) if self.quarter_turns % 2 else (height, width)

    @property
    def is_scaled(self) -> bool:
        """Whether the surface is scaled, not only cropped."""
        return self.window is not None or (self.scaled or self.size) != self.box[2:]

    @property
    def stretches(self) -> tuple[Stretch, Stretch]:
        """Scaling of columns and of rows."""
        window = self.window or (0, 0, *self.box[2:])
        scaled, ends = self.scaled or self.size, self.window is not None
        across, down = (
            Stretch(window[n], window[n + 2], scaled[n], self.at[n], self.size[n], ends) for n in (0, 1)
        )
        return across, down

    def on(self, of: Size, surface: Size) -> Placement:
        """Return the placement for a frame of another size: the same part, scaled to the same output size.

        Args:
            of: (width, height) of the surface that this placement is for.
            surface: (width, height) of the actual frame.
        """
        if of == surface:
            return self
        box, window = _rescaled(self.box, of, surface), self.window
        if window is not None:
            x, y, *_ = self.box
            left, top, width, height = _rescaled((x + window[0], y + window[1], *window[2:]), of, surface)
            window = (left - box[0], top - box[1], width, height)
        elif self.scaled is None and self.at == (0, 0):
            return Placement(box, self.size, self.flipped, self.quarter_turns)
        return replace(self, box=box, window=window)


def make_placement(
    surface: Size,
    *,
    rotation_degrees: int = 0,
    flipped: bool = False,
    crop: PixelBox | None = None,
    window: PixelBox | None = None,
    size: Size | None = None,
    short_side: int | None = None,
    max_side: int | None = None,
    part: PixelBox | None = None,
    mirror: bool = False,
) -> Placement:
    """Return the placement of a crop of the oriented frame, scaled to a given size."""
    turns = rotation_degrees // 90 % 4
    oriented = surface if turns % 2 == 0 else (surface[1], surface[0])
    box = (0, 0, *oriented) if crop is None else _check_inside("crop", crop, oriented)
    scaled = box if window is None else _check_inside("window", window, (box[2], box[3]))
    shown = fitted_size((scaled[2], scaled[3]), size=size, short_side=short_side, max_side=max_side)
    _check_allocatable(shown)
    part_box = (0, 0, *shown) if part is None else _check_inside("part", part, shown)
    if window is not None and shown == window[2:]:
        box, window = (box[0] + window[0], box[1] + window[1], *shown), None
    if window is None and shown == box[2:]:
        box, shown = (box[0] + part_box[0], box[1] + part_box[1], *part_box[2:]), (part_box[2], part_box[3])
        part_box = (0, 0, *shown)

    def on_surface(part: PixelBox, whole: Size) -> PixelBox:
        return _undo_orientation(part, whole, turns, flipped=flipped)

    within = None if window is None else on_surface(window, (box[2], box[3]))
    result, box = on_surface(part_box, shown), on_surface(box, oriented)
    if mirror:
        # A mirror after a rotation equals the mirror before the opposite rotation.
        flipped, turns = not flipped, -turns % 4
    swapped = shown if turns % 2 == 0 else (shown[1], shown[0])
    whole = None if part_box[2:] == shown else swapped
    return Placement(box, (result[2], result[3]), flipped, turns, within, whole, (result[0], result[1]))


def _undo_orientation(box: PixelBox, oriented: Size, turns: int, *, flipped: bool) -> PixelBox:
    """Return a box of the oriented frame in coordinates before counter-clockwise turns and the mirror before them."""
    for _ in range(turns):
        # Undo one counter-clockwise turn: the width is the height before the turn.
        x, y, width, height = box
        box = (oriented[1] - y - height, x, height, width)
        oriented = (oriented[1], oriented[0])
    return (oriented[0] - box[0] - box[2], *box[1:]) if flipped else box


def _rescaled(box: PixelBox, of: Size, surface: Size) -> PixelBox:
    """Map a box of a surface to a surface of another size; the result is not empty, and within that."""
    x, y, width, height = box
    left, right = (_scaled(edge, surface[0], of[0]) for edge in (x, x + width))
    top, bottom = (_scaled(edge, surface[1], of[1]) for edge in (y, y + height))
    left, top = min(left, surface[0] - 1), min(top, surface[1] - 1)
    return left, top, max(1, right - left), max(1, bottom - top)


def fitted_size(
    size_in: Size, *, size: Size | None = None, short_side: int | None = None, max_side: int | None = None
) -> Size:
    """Return the (width, height) that a frame of size ``size_in`` is scaled to.

    ``size`` is the result itself. ``short_side`` scales the shorter side to that length. ``max_side`` shrinks a frame
    whose longer side is longer, and never enlarges. Both keep the aspect ratio: the other side is rounded to the
    nearest integer, halves up, and is at least 1.
    """
    width, height = size_in
    if size is not None:
        return size
    if short_side is not None:
        side, reference = short_side, min(width, height)
    elif max_side is not None and max_side < max(width, height):
        side, reference = max_side, max(width, height)
    else:
        return size_in
    return max(1, _scaled(width, side, reference)), max(1, _scaled(height, side, reference))


def _scaled(length: int, numerator: int, denominator: int) -> int:
    return (2 * length * numerator + denominator) // (2 * denominator)


_CONTAINING = {"crop": "frame", "window": "crop", "part": "scaled frame"}
_ADVICE = {
    "crop": "Crops are given in pixels of the oriented frame, after rotation",
    "window": "Windows are given in pixels of the crop, or of the oriented frame if there is none",
    "part": "Parts are given in pixels of the scaled frame",
}


def _check_allocatable(shown: Size) -> None:
    """Raise for sizes that libavutil's ``av_image_check_size`` refuses for every frame."""
    if (shown[0] + 128) * (shown[1] + 128) >= _MAX_FRAME_PX:
        raise ParameterError(
            f"frames of {shown[0]}x{shown[1]} pixels are too large",
            allowed="(width + 128) * (height + 128) below 2**28, such as 16000x16000",
            advice="Give a smaller size, short_side or max_side",
        )


def _check_inside(name: str, box: PixelBox, size: Size) -> PixelBox:
    """Check that a box lies within a frame, and return it."""
    x, y, width, height = box
    if x + width > size[0] or y + height > size[1]:
        raise ParameterError(
            f"{name} of {width}x{height} pixels at x={x}, y={y} exceeds the {_CONTAINING[name]} of "
            f"{size[0]}x{size[1]} pixels",
            allowed=f"x + width up to {size[0]} and y + height up to {size[1]}",
            advice=_ADVICE[name],
        )
    return box
