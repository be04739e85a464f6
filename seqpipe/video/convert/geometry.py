"""Output geometry: crop, window, size and rotation of an output frame in the surface, as integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ...errors import ParameterError

__all__ = ["PixelBox", "Placement", "Stretch", "fitted_size", "place"]

PixelBox = tuple[int, int, int, int]
_LARGEST = 1 << 28
Size = tuple[int, int]


class Stretch(NamedTuple):
    """How the samples that are shown along one axis become pixels.

    Attributes:
        begin: the first of them that is scaled.
        length: how many are.
        size: pixels that these are scaled to.
        first: the first of these pixels that is made.
        pixels: how many are.
        ends: whether nothing beyond the shown samples counts, and those beside the scaled ones do; otherwise all that
            are shown are scaled, and the outermost stand for what lies beyond.
    """

    begin: int
    length: int
    size: int
    first: int
    pixels: int
    ends: bool


@dataclass(frozen=True)
class Placement:
    """The way from a surface to a picture: cut, scale, cut again, mirror, turn, in this order.

    Attributes:
        box: (x, y, width, height) of the part of the surface that is shown.
        size: (width, height) of the picture, before the turn.
        flipped: whether it is then mirrored left to right.
        quarter_turns: counter-clockwise quarter turns after that, 0 to 3.
        window: (x, y, width, height) within the box, if that is scaled with the samples beside it in reach; None if the
            box is scaled, as if there was nothing beside it.
        scaled: (width, height) that is scaled to; None if that is the picture.
        at: (x, y) of the picture within that.
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
        """(rows, columns) of the picture."""
        width, height = self.size
        return (width, height) if self.quarter_turns % 2 else (height, width)

    @property
    def is_scaled(self) -> bool:
        """Whether the picture is anything but pixels of the surface."""
        return self.window is not None or (self.scaled or self.size) != self.box[2:]

    @property
    def stretches(self) -> tuple[Stretch, Stretch]:
        """How columns and rows are scaled."""
        window = self.window or (0, 0, *self.box[2:])
        scaled, ends = self.scaled or self.size, self.window is not None
        across, down = (
            Stretch(window[n], window[n + 2], scaled[n], self.at[n], self.size[n], ends) for n in (0, 1)
        )
        return across, down

    def on(self, of: Size, surface: Size) -> Placement:
        """The placement for a frame of another size: the same part, scaled to the same picture.

        Args:
            of: (width, height) of the surface that this placement was made for.
            surface: (width, height) of the frame at hand.
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


def place(
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
    """The placement that shows a crop of the upright picture at a given size.

    Args:
        surface: (width, height) of the surface.
        rotation_degrees: counter-clockwise turn that makes the picture upright: 0, 90, 180 or 270.
        flipped: whether it is mirrored left to right before the turn.
        crop: (x, y, width, height) in pixels of the upright picture.
        window: (x, y, width, height) within the crop of what is scaled, with what lies beside it in reach.
        size: (width, height) of the result.
        short_side: length of its shorter side; see :func:`fitted_size`.
        max_side: the most that its longer side may have; see :func:`fitted_size`.
        part: (x, y, width, height) of the part of the scaled picture that is the result.
        mirror: whether the result is mirrored left to right.

    Raises:
        ParameterError: the crop leaves the picture, the window the crop, or the part the scaled picture; or what it is
            scaled to is larger than FFmpeg's pictures can be.
    """
    turns = rotation_degrees // 90 % 4
    upright = surface if turns % 2 == 0 else (surface[1], surface[0])
    box = (0, 0, *upright) if crop is None else _inside("crop", crop, upright)
    scaled = box if window is None else _inside("window", window, (box[2], box[3]))
    shown = fitted_size((scaled[2], scaled[3]), size=size, short_side=short_side, max_side=max_side)
    _require_possible(shown)
    made = (0, 0, *shown) if part is None else _inside("part", part, shown)
    if window is not None and shown == window[2:]:
        box, window = (box[0] + window[0], box[1] + window[1], *shown), None
    if window is None and shown == box[2:]:
        box, shown = (box[0] + made[0], box[1] + made[1], *made[2:]), (made[2], made[3])
        made = (0, 0, *shown)

    def on_surface(part: PixelBox, whole: Size) -> PixelBox:
        return _before_the_turn(part, whole, turns, flipped=flipped)

    within = None if window is None else on_surface(window, (box[2], box[3]))
    result, box = on_surface(made, shown), on_surface(box, upright)
    if mirror:
        # a mirror after a turn is the mirror before the opposite turn
        flipped, turns = not flipped, -turns % 4
    swapped = shown if turns % 2 == 0 else (shown[1], shown[0])
    whole = None if made[2:] == shown else swapped
    return Placement(box, (result[2], result[3]), flipped, turns, within, whole, (result[0], result[1]))


def _before_the_turn(box: PixelBox, upright: Size, turns: int, *, flipped: bool) -> PixelBox:
    """Where a part of a picture lies in it before it is mirrored, if it is, and turned counter-clockwise."""
    for _ in range(turns):
        # undo one counter-clockwise turn: what is now `upright[0]` columns wide was that many rows high
        x, y, width, height = box
        box = (upright[1] - y - height, x, height, width)
        upright = (upright[1], upright[0])
    return (upright[0] - box[0] - box[2], *box[1:]) if flipped else box


def _rescaled(box: PixelBox, of: Size, surface: Size) -> PixelBox:
    """A part of a surface on one of another size; not empty, and within it."""
    x, y, width, height = box
    left, right = (_scaled(edge, surface[0], of[0]) for edge in (x, x + width))
    top, bottom = (_scaled(edge, surface[1], of[1]) for edge in (y, y + height))
    left, top = min(left, surface[0] - 1), min(top, surface[1] - 1)
    return left, top, max(1, right - left), max(1, bottom - top)


def fitted_size(
    size_in: Size, *, size: Size | None = None, short_side: int | None = None, max_side: int | None = None
) -> Size:
    """The size that a picture of ``size_in`` is scaled to, as (width, height).

    ``size`` is taken as it is. ``short_side`` makes the shorter side that long, by shrinking or enlarging.
    ``max_side`` shrinks a picture whose longer side is longer, and leaves others alone. Both keep the aspect
    ratio: the other side is rounded to the nearest whole number, halves up, and is never less than 1.
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


_WHOLE = {"crop": "frame", "window": "crop", "part": "scaled picture"}
_ADVICE = {
    "crop": "Crops are given in pixels of the upright picture, after rotation",
    "window": "Windows are given in pixels of the crop, or of the upright picture where there is none",
    "part": "Parts are given in pixels of the picture once it is scaled",
}


def _require_possible(shown: Size) -> None:
    """Refuse what libavutil's ``av_image_check_size`` does, which is asked for every picture."""
    if (shown[0] + 128) * (shown[1] + 128) >= _LARGEST:
        raise ParameterError(
            f"pictures of {shown[0]}x{shown[1]} pixels are too large",
            allowed="(width + 128) * (height + 128) below 2**28, such as 16000x16000",
            advice="Give a smaller size, short_side or max_side",
        )


def _inside(name: str, box: PixelBox, picture: Size) -> PixelBox:
    x, y, width, height = box
    if x + width > picture[0] or y + height > picture[1]:
        raise ParameterError(
            f"{name} of {width}x{height} pixels at x={x}, y={y} leaves the {_WHOLE[name]} of "
            f"{picture[0]}x{picture[1]} pixels",
            allowed=f"x + width up to {picture[0]} and y + height up to {picture[1]}",
            advice=_ADVICE[name],
        )
    return box
