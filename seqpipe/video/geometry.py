"""Where the pixels of an output picture lie in the surface: crop, size and rotation as whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ParameterError

__all__ = ["Placement", "fitted_size", "place"]

Box = tuple[int, int, int, int]
Size = tuple[int, int]


@dataclass(frozen=True)
class Placement:
    """The way from a surface to a picture: cut, scale, mirror, turn, in this order.

    Attributes:
        box: (x, y, width, height) of the part of the surface that is shown.
        size: (width, height) that the part is scaled to, before the turn.
        flipped: whether it is then mirrored left to right.
        quarter_turns: counter-clockwise quarter turns after that, 0 to 3.
    """

    box: Box
    size: Size
    flipped: bool
    quarter_turns: int

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns) of the picture."""
        width, height = self.size
        return (width, height) if self.quarter_turns % 2 else (height, width)

    def on(self, of: Size, surface: Size) -> Placement:
        """The placement for a frame of another size: the same part, scaled to the same picture.

        Args:
            of: (width, height) of the surface that this placement was made for.
            surface: (width, height) of the frame at hand.
        """
        if of == surface:
            return self
        x, y, width, height = self.box
        left, right = (_scaled(edge, surface[0], of[0]) for edge in (x, x + width))
        top, bottom = (_scaled(edge, surface[1], of[1]) for edge in (y, y + height))
        left, top = min(left, surface[0] - 1), min(top, surface[1] - 1)
        box = (left, top, max(1, right - left), max(1, bottom - top))
        return Placement(box, self.size, self.flipped, self.quarter_turns)


def place(
    surface: Size,
    *,
    rotation_degrees: int = 0,
    flipped: bool = False,
    crop: Box | None = None,
    size: Size | None = None,
    short_side: int | None = None,
    max_side: int | None = None,
    mirror: bool = False,
) -> Placement:
    """The placement that shows a crop of the upright picture at a given size.

    Args:
        surface: (width, height) of the surface.
        rotation_degrees: counter-clockwise turn that makes the picture upright: 0, 90, 180 or 270.
        flipped: whether it is mirrored left to right before the turn.
        crop: (x, y, width, height) in pixels of the upright picture.
        size: (width, height) of the result.
        short_side: length of its shorter side; see :func:`fitted_size`.
        max_side: the most that its longer side may have; see :func:`fitted_size`.
        mirror: whether the result is mirrored left to right.

    Raises:
        ParameterError: the crop leaves the picture.
    """
    turns = rotation_degrees // 90 % 4
    upright = surface if turns % 2 == 0 else (surface[1], surface[0])
    box = (0, 0, *upright) if crop is None else _inside(crop, upright)
    shown = fitted_size((box[2], box[3]), size=size, short_side=short_side, max_side=max_side)
    for _ in range(turns):
        # undo one counter-clockwise turn: what is now `upright[0]` columns wide was that many rows high
        x, y, width, height = box
        box = (upright[1] - y - height, x, height, width)
        upright = (upright[1], upright[0])
    if flipped:
        box = (surface[0] - box[0] - box[2], *box[1:])
    if mirror:
        # a mirror after a turn is the mirror before the opposite turn
        flipped, turns = not flipped, -turns % 4
    return Placement(box, shown if turns % 2 == 0 else (shown[1], shown[0]), flipped, turns)


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


def _inside(crop: Box, picture: Size) -> Box:
    x, y, width, height = crop
    if x + width > picture[0] or y + height > picture[1]:
        raise ParameterError(
            f"crop={x}:{y}:{width}:{height} (x:y:width:height) leaves the frame of "
            f"{picture[0]}x{picture[1]} pixels",
            allowed=f"x + width up to {picture[0]} and y + height up to {picture[1]}",
            advice="Crops are given in pixels of the upright picture, after rotation",
        )
    return crop
