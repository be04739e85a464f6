"""Recipe: the parts of a conversion that all frames of one format and size share.

What is worked out here once, a frame only runs: views, buffers, weights and calls are bound beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ...errors import SourceError
from ..probe.info import StreamInfo
from .chroma import ChromaAxis, ChromaGrid
from .color import ColorSpec, chroma_offset
from .geometry import Placement
from .matrix import output_matrix
from .mix import Mixer
from .orient import OnGrid, ScaledFrame, Unscaled, turned
from .output import OutputSpec
from .scratch import ConversionScratch
from .surface import Plane, Surface
from .windowed import Rounded, WindowedSurface, within_reach

__all__ = ["Recipe"]

# so much of a picture at a time that what is made on the way stays in the processor's caches
_BAND_PIXELS: Final = 1 << 18


class Recipe:
    """How surfaces of one format and size become pictures; works in its scratch, so it belongs to one thread.

    Args:
        info: the stream.
        color: what its tags come to.
        output: what the pictures are to be.
        placement: where they lie in a surface of the stream's size.
        surface: one like those that are to be converted.
        scratch: memory for what is made on the way; recipes that one thread uses may share it.

    Raises:
        SourceError: the stream's color cannot be converted to the one that is asked for.
    """

    def __init__(
        self,
        info: StreamInfo,
        color: ColorSpec,
        output: OutputSpec,
        placement: Placement,
        surface: Surface,
        scratch: ConversionScratch,
    ) -> None:
        form = surface.format
        self._format, self._shape = form, surface.planes[0].shape
        placement = placement.on((info.width, info.height), (surface.width, surface.height))
        self._bands: list[tuple[tuple[slice, ...], OnGrid, Mixer]] = []
        if output.rounded is not None and placement.window is not None:
            self._bands.append(_rounded(info, color, output, placement, surface, scratch))
            return
        coded = output.color == "YCbCr"
        # Scaled planes that were rounded to 8 bits would part from the exact color by more than a level.
        scaled = placement.is_scaled
        wide = form.bits > 8 or ((output.dtype != "uint8" or scaled) and not coded)
        headroom = 16 - form.bits if wide and not coded else 0
        try:
            matrix = output_matrix(color, output.color, form, 16 if wide else 8)
        except SourceError as error:
            error.source = info.source
            raise
        matrix[:, :-1] /= 2**headroom
        needed = matrix.shape[1] - 1
        dtype: np.dtype[Any] = np.dtype(np.uint16 if wide else np.uint8)
        unit = 2 ** (form.bits - 8) if coded else 257

        for rows, part in _bands(placement):
            grids = _grids(color, part, surface)[:needed]
            planes: OnGrid
            if part.window is not None:
                planes = WindowedSurface(grids, part.stretches, dtype, headroom)
            elif part.is_scaled:
                planes = ScaledFrame(grids, part, dtype, headroom, scratch)
            else:
                planes = Unscaled(grids, dtype, headroom, scratch)
            planes = turned(planes, part, needed, dtype, scratch)
            mixer = Mixer(matrix, dtype, output, planes.shape, planes.cut, unit, scratch)
            self._bands.append(((slice(None), rows) if output.layout == "FCHW" else (rows,), planes, mixer))

    def fits(self, surface: Surface) -> bool:
        """Whether this recipe was made for surfaces like this one."""
        return self._format == surface.format and self._shape == surface.planes[0].shape

    def __call__(self, surface: Surface, out: Plane) -> None:
        """Write the picture of a surface that fits into contiguous memory of the output's shape and dtype."""
        self.write(surface.planes, out)

    def write(self, given: Seq[Plane], out: Plane) -> None:
        """The same for the planes of one."""
        for where, planes, mixer in self._bands:
            mixer(planes(given), out[where])


def _rounded(
    info: StreamInfo,
    color: ColorSpec,
    output: OutputSpec,
    placement: Placement,
    surface: Surface,
    scratch: ConversionScratch,
) -> tuple[tuple[slice, ...], OnGrid, Mixer]:
    """A window of pictures that are rounded before they are scaled, all of it at once."""
    placement = within_reach(placement)
    width, height = placement.box[2:]
    made = OutputSpec(output.color, output.rounded or "uint8")
    whole = Placement(placement.box, (width, height), flipped=False, quarter_turns=0)
    stream = replace(info, width=surface.width, height=surface.height)
    picture = Recipe(stream, color, made, whole, surface, scratch)
    coded, source = output.color == "YCbCr", np.dtype(made.dtype)
    dtype = source if coded else np.dtype(np.uint16)
    headroom = 8 * (dtype.itemsize - source.itemsize)
    matrix = np.eye(output.channels, output.channels + 1)
    if headroom:
        matrix *= 257 / 256  # 65535 / 255, of values that are shifted up
    shape = height, width, output.channels
    planes: OnGrid = Rounded(picture.write, shape, source, placement, dtype, headroom)
    planes = turned(planes, placement, output.channels, dtype, scratch)
    mixer = Mixer(matrix, dtype, output, planes.shape, planes.cut, 257, scratch)
    return (slice(None),), planes, mixer


def _bands(placement: Placement) -> Iterator[tuple[slice, Placement]]:
    """The picture's rows, and where they lie, in parts that can be made one by one."""
    x, y, width, height = placement.box
    rows = max(4, _BAND_PIXELS // width & ~3)
    if placement.is_scaled or placement.quarter_turns:
        yield slice(0, placement.shape[0]), placement
        return
    for top in range(0, height, rows):
        count = min(rows, height - top)
        part = Placement((x, y + top, width, count), (width, count), placement.flipped, 0)
        yield slice(top, top + count), part


def _grids(color: ColorSpec, placement: Placement, surface: Surface) -> tuple[ChromaGrid, ...]:
    x, y, width, height = placement.box
    form = surface.format
    offset_x, offset_y = chroma_offset(color, form)
    grids = []
    for number, plane in enumerate(surface.planes):
        if number == 0 or form.chroma == "rgb":
            column, row = (
                ChromaAxis(0, 0.0, x, width, plane.shape[1]),
                ChromaAxis(0, 0.0, y, height, plane.shape[0]),
            )
        else:
            column = ChromaAxis(form.shift_x, offset_x, x, width, plane.shape[1])
            row = ChromaAxis(form.shift_y, offset_y, y, height, plane.shape[0])
        grids.append(ChromaGrid(column, row))
    return tuple(grids)
