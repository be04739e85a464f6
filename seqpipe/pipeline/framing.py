"""Framing: the crop, mirror and size that a sequence of operators adds up to, as an OutputSpec."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..ops import Mapping
from ..video.convert.geometry import PixelBox
from ..video.convert.output import OutputSpec, transposed

__all__ = ["Framing", "scales"]

_NEAR = 1e-6  # pixels; tolerance for coordinates that are integers up to float64 rounding


class _Scaling(NamedTuple):
    """Scaling of one axis, in integers.

    Attributes:
        begin: first pixel of the window.
        length: length of the window.
        size: number of pixels that the window is scaled to.
        first: first output pixel among these.
        pixels: number of output pixels.
    """

    begin: int
    length: int
    size: int
    first: int
    pixels: int


@dataclass(frozen=True)
class Framing:
    """Geometry of an output frame.

    Attributes:
        crop: (x, y, width, height) in the oriented frame; in the reader's output, if the reader scales.
        mirror: whether the result is mirrored left to right.
        window: part of the crop to scale; None if nothing is scaled.
        size: (width, height) that the window is scaled to.
        part: crop of the scaled frame; None for all of it.
    """

    crop: PixelBox
    mirror: bool = False
    window: PixelBox | None = None
    size: tuple[int, int] | None = None
    part: PixelBox | None = None

    @classmethod
    def of(cls, output: OutputSpec, height: int, width: int) -> Framing:
        """Return the geometry of a reader's output.

        Args:
            output: the reader's output.
            height: height of its frames.
            width: width of its frames.
        """
        y, x, *_ = (0, 0) if output.crop is None or scales(output) else output.crop
        return cls((x, y, width, height), output.mirror)

    def after(self, mapping: Mapping, *, resampled: bool) -> Framing:
        """Return the geometry with an operator applied after it.

        Args:
            mapping: the operator's mapping: separable, and not mirrored top to bottom.
            resampled: whether the operator resamples; otherwise it moves whole pixels.
        """
        return self._scaled(mapping) if resampled else self._moved(mapping)

    def output(self, plain: OutputSpec, *, rounded: bool, **values: Any) -> OutputSpec:
        """Return the output specification of this geometry.

        Args:
            plain: the reader's output.
            rounded: whether RGB values are rounded before they are resampled.
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
        """The box that further crops are relative to, in its own coordinates."""
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
    """Return whether an output scales frames."""
    return any(side is not None for side in (output.size, output.short_side, output.max_side))


def _scaling(across: float, begin: float, pixels: int, length: int) -> _Scaling:
    """Return the integer scaling of an axis: a window of whole pixels, or a crop of the scaled axis in whole pixels.

    Args:
        across: source pixels for each output pixel, negative if mirrored.
        begin: source coordinate of the first output pixel.
        pixels: number of output pixels.
        length: length of the source axis.
    """
    step = abs(float(across))
    start = float(begin) if across > 0 else float(begin) - step * pixels
    if _is_whole(start) and _is_whole(step * pixels):
        return _Scaling(round(start), round(step * pixels), pixels, 0, pixels)
    return _Scaling(0, length, round(length / step), round(start / step), pixels)


def _is_whole(place: float) -> bool:
    return abs(place - round(place)) < _NEAR
