"""Converter: surfaces to pixels, straight into the caller's memory.

A surface is cut, its planes are scaled or upsampled to one grid as code values, and the colour matrix is
applied last, at the final size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from .chroma import Scratch
from .colour import resolve
from .info import StreamInfo
from .output import OutputSpec
from .recipe import Recipe
from .scale import PlaneScaler
from .surface import Plane, Surface

__all__ = ["Converter", "OutputSpec"]


class Converter:
    """Makes pictures of the surfaces of one stream. It keeps its buffers, so it belongs to one thread.

    A frame that differs in size from the stream's headers is scaled to the same picture.

    Args:
        info: the stream; its tags decide the colour, its size the geometry.
        output: what the pictures are to be.

    Raises:
        ParameterError: the crop leaves the picture; the message names its size.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec) -> None:
        self._info = info
        self._output = output
        self._colour = resolve(info)
        self._placement = output.place(info)
        self._scratch = Scratch()
        self._scalers = (PlaneScaler(), PlaneScaler(), PlaneScaler())
        self._recipe: Recipe | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, channels) of a picture."""
        return (*self._placement.shape, 1 if self._output.colour == "GRAY" else 3)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value."""
        return np.dtype(self._output.dtype)

    def __call__(self, surface: Surface, out: npt.NDArray[Any]) -> None:
        """Write the picture of one surface.

        Args:
            surface: a frame of the stream.
            out: contiguous memory of ``shape`` and ``dtype``.

        Raises:
            ParameterError: ``out`` is not such memory.
            SourceError: the stream's colour cannot be converted to the one that is asked for.
        """
        if out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous:
            raise ParameterError(
                f"out has shape {out.shape} and dtype {out.dtype}",
                allowed=f"contiguous memory of shape {self.shape} and dtype {self.dtype}",
            )
        recipe = self._recipe
        if recipe is None or not recipe.fits(surface):
            recipe = self._recipe = Recipe.of(
                self._info, self._colour, self._output, self._placement, surface
            )
        value: Any = [self._turned(recipe, number, surface.planes[number]) for number in recipe.planes]
        for number, step in enumerate(recipe.steps, 1):
            last = number == len(recipe.steps)
            target = out if last else self._scratch.array(f"step {number}", step.shape, step.dtype)
            step.run(value, target)
            value = target

    def _turned(self, recipe: Recipe, number: int, plane: Plane) -> Plane:
        """One plane as it stands in the result: cut, on its grid, mirrored and turned."""
        upright = self._on_grid(recipe, number, plane)
        if recipe.turn is None:
            return upright
        target = self._scratch.array(f"plane {number} turned", recipe.placement.shape, recipe.dtype)
        recipe.turn(upright, target)
        return target

    def _on_grid(self, recipe: Recipe, number: int, plane: Plane) -> Plane:
        """One plane, cut and brought to the grid of the result, in the type that the recipe works in."""
        grid = recipe.grids[number]
        size = recipe.placement.size
        if not grid.subsampled:
            return self._scalers[number](self._widened(recipe, number, grid.cut(plane)), size)
        if recipe.chroma_scaled:
            plane = self._widened(recipe, number, plane)
            shifted = grid.shifted(plane, self._scratch, f"plane {number}")
            return self._scalers[number](shifted, size)
        window = self._widened(recipe, number, grid.cut(plane))
        return self._scalers[number](grid.upsampled(window, self._scratch, f"plane {number}"), size)

    def _widened(self, recipe: Recipe, number: int, plane: Plane) -> Plane:
        """The samples at the top of 16 bits, so that what follows rounds far below a level."""
        if recipe.headroom == 0 and plane.dtype == recipe.dtype:
            return plane
        wide = self._scratch.array(f"plane {number} wide", plane.shape, recipe.dtype)
        np.multiply(plane, recipe.dtype.type(1 << recipe.headroom), out=wide)
        return wide
