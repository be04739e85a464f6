"""Framing: which part of a picture is shown, and at which size, after some operators; as an OutputSpec says it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..ops import Mapping
from ..video.convert.geometry import PixelBox
from ..video.convert.output import OutputSpec, transposed

__all__ = ["Framing", "scales"]

_NEAR = 1e-6  # pixels; of places that are whole numbers but for what float64 has rounded


class _Scaling(NamedTuple):
    """How an axis is scaled, in whole numbers.

    Attributes:
        begin: where the window begins.
        length: of the window.
        size: pixels that it is scaled to.
        first: the first of these that is made.
        pixels: how many are.
    """

    begin: int
    length: int
    size: int
    first: int
    pixels: int


@dataclass(frozen=True)
class Framing:
    """Where the pixels of a picture come from.

    Attributes:
        crop: (x, y, width, height) of the upright picture; of the reader's result, where the reader scales.
        mirror: whether the result is mirrored left to right.
        window: what is scaled of the crop; None if nothing is.
        size: (width, height) that it is scaled to.
        part: of the scaled picture; None for all of it.
    """

    crop: PixelBox
    mirror: bool = False
    window: PixelBox | None = None
    size: tuple[int, int] | None = None
    part: PixelBox | None = None

    @classmethod
    def of(cls, output: OutputSpec, height: int, width: int) -> Framing:
        """That of what a reader delivers.

        Args:
            output: of the reader.
            height: rows of its pictures.
            width: their columns.
        """
        y, x, *_ = (0, 0) if output.crop is None or scales(output) else output.crop
        return cls((x, y, width, height), output.mirror)

    def after(self, mapping: Mapping, *, resampled: bool) -> Framing:
        """This and then an operator.

        Args:
            mapping: of the operator: along both axes, never upside down.
            resampled: whether it resamples; otherwise it moves whole pixels.
        """
        return self._scaled(mapping) if resampled else self._moved(mapping)

    def output(self, plain: OutputSpec, *, rounded: bool, **values: Any) -> OutputSpec:
        """The output that makes such pictures.

        Args:
            plain: what the reader makes.
            rounded: whether colors are rounded as it does before they are resampled.
            **values: other fields of the result.
        """
        fields: dict[str, Any] = {"mirror": self.mirror, **values}
        if scales(plain):
            fields["part"] = transposed(self.crop)
        else:
            boxes = {"crop": self.crop, "window": self.window, "size": self.size, "part": self.part}
            fields |= {name: transposed(box) for name, box in boxes.items()}
        if self.window is not None and rounded:
            fields["rounded"] = "uint16" if plain.is_float else plain.dtype
        return replace(plain, **fields)

    @property
    def _shown(self) -> PixelBox:
        """The part that pixels may be cut out of, in the coordinates that it has itself."""
        if self.size is None:
            return self.crop
        return self.part or (0, 0, *self.size)

    def _moved(self, mapping: Mapping) -> Framing:
        x, y, width, _ = self._shown
        mirrored = mapping.matrix[0, 0] < 0
        left, top = (round(float(place)) for place in mapping.matrix[:2, 2])
        left -= mapping.width if mirrored else 0
        if self.mirror:
            left = width - left - mapping.width
        box = (x + left, y + top, mapping.width, mapping.height)
        mirror = self.mirror != bool(mirrored)
        if self.size is None:
            return replace(self, crop=box, mirror=mirror)
        return replace(self, part=box, mirror=mirror)

    def _scaled(self, mapping: Mapping) -> Framing:
        *_, width, height = self.crop
        across = _scaling(mapping.matrix[0, 0], mapping.matrix[0, 2], mapping.width, width)
        down = _scaling(mapping.matrix[1, 1], mapping.matrix[1, 2], mapping.height, height)
        if self.mirror:
            begin, first = width - across.begin - across.length, across.size - across.first - across.pixels
            across = across._replace(begin=begin, first=first)
        size = across.size, down.size
        part = (across.first, down.first, across.pixels, down.pixels)
        return replace(
            self,
            mirror=self.mirror != bool(mapping.matrix[0, 0] < 0),
            window=(across.begin, down.begin, across.length, down.length),
            size=size,
            part=None if part == (0, 0, *size) else part,
        )


def scales(output: OutputSpec) -> bool:
    """Whether an output asks for another size."""
    return any(side is not None for side in (output.size, output.short_side, output.max_side))


def _scaling(across: float, begin: float, pixels: int, length: int) -> _Scaling:
    """An axis of a mapping: a window of whole pixels, or whole pixels of what the axis is scaled to.

    Args:
        across: source pixels for each of its own, negative if it is mirrored.
        begin: where it begins.
        pixels: how many it has.
        length: of the source.
    """
    step = abs(float(across))
    start = float(begin) if across > 0 else float(begin) - step * pixels
    if _is_whole(start) and _is_whole(step * pixels):
        return _Scaling(round(start), round(step * pixels), pixels, 0, pixels)
    return _Scaling(0, length, round(length / step), round(start / step), pixels)


def _is_whole(place: float) -> bool:
    return abs(place - round(place)) < _NEAR
