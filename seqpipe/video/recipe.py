"""Recipe: everything about a conversion that is the same for all frames of one format and size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import cv2
import numpy as np

from ..array import FloatArray
from ..errors import SourceError
from .chroma import ChromaAxis, ChromaGrid
from .colour import ColourSpec, chroma_offset, gray_matrix, is_rgb, rgb_matrix
from .geometry import Placement
from .info import StreamInfo
from .output import OutputSpec
from .surface import Plane, Surface, SurfaceFormat

__all__ = ["Recipe", "Step"]

# what mirroring left to right and then quarter turns counter-clockwise come to, in OpenCV's operations
_TURN: Final[dict[tuple[bool, int], Callable[[Plane, Plane], object]]] = {
    (False, 1): lambda source, target: cv2.rotate(source, cv2.ROTATE_90_COUNTERCLOCKWISE, dst=target),
    (False, 2): lambda source, target: cv2.rotate(source, cv2.ROTATE_180, dst=target),
    (False, 3): lambda source, target: cv2.rotate(source, cv2.ROTATE_90_CLOCKWISE, dst=target),
    (True, 0): lambda source, target: cv2.flip(source, 1, dst=target),
    (True, 1): lambda source, target: cv2.transpose(source, dst=target),
    (True, 2): lambda source, target: cv2.flip(source, 0, dst=target),
    (True, 3): lambda source, target: cv2.transpose(cv2.rotate(source, cv2.ROTATE_180), dst=target),
}


class Step(NamedTuple):
    """One operation on whole pictures, from a source into a target of the given shape and type."""

    run: Callable[[Any, Plane], object]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Recipe:
    """How surfaces of one format and size become pictures.

    Attributes:
        format: the surfaces' format.
        size: (width, height) of the surfaces.
        placement: the part that is shown and its size.
        planes: numbers of the planes that are needed, in the order in which they are merged.
        grids: the grid of each plane of the surface.
        dtype: type in which the planes are worked on.
        headroom: bits by which their values are shifted up before.
        chroma_scaled: whether chroma is scaled as it is, without going through the luma grid.
        turn: mirrors and turns a plane of the result's grid, or None where nothing is turned.
        steps: from the list of planes to the picture.
    """

    format: SurfaceFormat
    size: tuple[int, int]
    placement: Placement
    planes: tuple[int, ...]
    grids: tuple[ChromaGrid, ...]
    dtype: np.dtype[Any]
    headroom: int
    chroma_scaled: bool
    turn: Callable[[Plane, Plane], object] | None
    steps: tuple[Step, ...]

    def fits(self, surface: Surface) -> bool:
        """Whether this recipe was made for surfaces like this one."""
        return self.format == surface.format and self.size == (surface.width, surface.height)

    @classmethod
    def of(
        cls, info: StreamInfo, colour: ColourSpec, output: OutputSpec, placement: Placement, surface: Surface
    ) -> Recipe:
        """The recipe for surfaces like this one.

        Raises:
            SourceError: the stream's colour cannot be converted to the one that is asked for.
        """
        size = (surface.width, surface.height)
        placement = placement.on((info.width, info.height), size)
        grids = _grids(colour, placement, surface)
        form = surface.format
        wide = form.bits > 8 or (output.dtype == "uint16" and output.colour != "YCbCr")
        headroom = 16 - form.bits if wide and output.colour != "YCbCr" else 0
        planes, matrix = _mixture(info, colour, output, form, 16 if wide else 8)
        matrix[:, :-1] /= 2**headroom
        dtype = np.dtype(np.uint16 if wide else np.uint8)
        scaled = all(_halves(grid, placement.size) for grid in grids if grid.subsampled)
        turn = _TURN.get((placement.flipped, placement.quarter_turns))
        steps = _steps(matrix, len(planes), dtype, output, placement.shape, form)
        return cls(form, size, placement, planes, grids, dtype, headroom, scaled, turn, steps)


def _grids(colour: ColourSpec, placement: Placement, surface: Surface) -> tuple[ChromaGrid, ...]:
    x, y, width, height = placement.box
    form = surface.format
    offset_x, offset_y = chroma_offset(colour, form)
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


def _halves(grid: ChromaGrid, size: tuple[int, int]) -> bool:
    """Whether chroma can be scaled as it is: to half or less, from a whole number of samples.

    Going through the luma grid smooths chroma twice, by the interpolation and by the scaling. From half on
    the first hardly matters: 99.9 % of the values of real frames differ by less than 1, at half the cost.
    """
    for axis, wanted in ((grid.x, size[0]), (grid.y, size[1])):
        length = axis.extent[1]
        if axis.shift and (length < 2 * wanted or length != int(length)):
            return False
    return True


def _mixture(
    info: StreamInfo, colour: ColourSpec, output: OutputSpec, form: SurfaceFormat, out_bits: int
) -> tuple[tuple[int, ...], FloatArray]:
    """The planes that the output is mixed from, and the matrix that mixes them, one row per channel."""
    planes = (0,) if form.chroma == "gray" else (0, 1, 2)
    if output.colour == "YCbCr":
        if is_rgb(colour, form):
            raise SourceError(
                "the stream is coded as RGB and has no YCbCr code values",
                source=info.source,
                allowed="colour='RGB', 'BGR' or 'GRAY'",
            )
        middle = float(1 << (form.bits - 1))
        return planes, np.eye(3, 4) if len(planes) == 3 else np.array(
            [[1.0, 0.0], [0.0, middle], [0.0, middle]]
        )
    if output.colour == "GRAY":
        matrix = gray_matrix(colour, form, out_bits)
        return planes[: matrix.shape[1] - 1], matrix
    try:
        matrix = rgb_matrix(colour, form, out_bits)
    except SourceError as error:
        error.source = info.source
        raise
    return planes, matrix if output.colour == "RGB" else matrix[::-1].copy()


def _steps(
    matrix: FloatArray,
    planes: int,
    dtype: np.dtype[Any],
    output: OutputSpec,
    size: tuple[int, int],
    form: SurfaceFormat,
) -> tuple[Step, ...]:
    shape = (*size, matrix.shape[0])
    steps = _mixing(matrix, planes, shape, dtype)
    wanted = np.dtype(output.dtype)
    if dtype.itemsize > wanted.itemsize:
        # what was mixed has 1/257 of a level, so this is the rounding that counts
        unit = 2 ** (form.bits - 8) if output.colour == "YCbCr" else 257
        steps.append(Step(partial(_narrow, 1 / unit), shape, wanted))
    elif dtype.itemsize < wanted.itemsize:
        steps.append(Step(_copy, shape, wanted))
    return tuple(steps)


def _mixing(matrix: FloatArray, planes: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> list[Step]:
    order = _permutation(matrix)
    if planes == 1:
        return [Step(partial(_mix_one, matrix), shape, dtype)]
    if order is not None:
        return [Step(partial(_merge, order), shape, dtype)]
    merged = (*shape[:2], planes)
    return [
        Step(partial(_merge, tuple(range(planes))), merged, dtype),
        Step(partial(_mix, matrix), shape, dtype),
    ]


def _permutation(matrix: FloatArray) -> tuple[int, ...] | None:
    """The planes in the order of the channels, if the matrix does nothing else than order them."""
    order = tuple(int(number) for number in np.argmax(matrix, axis=1))
    plain = np.zeros_like(matrix)
    plain[np.arange(len(order)), order] = 1
    return order if np.array_equal(matrix, plain) else None


def _merge(order: tuple[int, ...], planes: list[Plane], target: Plane) -> None:
    cv2.merge([planes[number] for number in order], dst=target)


def _mix(matrix: FloatArray, source: Plane, target: Plane) -> None:
    cv2.transform(source, matrix, dst=target)


def _mix_one(matrix: FloatArray, planes: list[Plane], target: Plane) -> None:
    cv2.transform(planes[0], matrix, dst=target)


def _narrow(scale: float, source: Plane, target: Plane) -> None:
    cv2.convertScaleAbs(source, dst=target, alpha=scale)


def _copy(source: Plane, target: Plane) -> None:
    np.copyto(target, source)
