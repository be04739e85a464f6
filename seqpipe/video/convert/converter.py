"""CPU conversion of surfaces to pixels, written directly into the caller's array.

A surface is cropped, its planes are scaled or upsampled to one grid as code values, and the color matrix is applied
last, at the final size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...errors import ParameterError
from ..probe.info import StreamInfo
from .color import resolve
from .output import OutputSpec
from .recipe import Recipe
from .scratch import ConversionScratch
from .surface import Surface

__all__ = ["Converter", "OutputSpec", "StreamConverter"]


class StreamConverter:
    """What converters of one stream to one output share, on every device.

    Args:
        info: the stream; its tags determine the color, its size the geometry.
        output: the output specification.

    Raises:
        ParameterError: the crop exceeds the frame; the message names its size.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec) -> None:
        self._info, self._output = info, output
        self._shape = output.frame_shape(info)
        self._dtype = np.dtype(output.dtype)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an output frame: (height, width, channels), or (channels, height, width) if the layout is FCHW."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a pixel value."""
        return self._dtype

    def _check_out(self, out: Array, *, contiguous: bool) -> None:
        if out.shape != self._shape or out.dtype != self._dtype or not contiguous:
            raise ParameterError(
                f"out has shape {out.shape} and dtype {out.dtype}",
                allowed=f"contiguous memory of shape {self._shape} and dtype {self._dtype}",
            )


class Converter(StreamConverter):
    """Converts the surfaces of one stream to output frames; belongs to one thread, as it works in its scratch memory.

    A frame that differs in size from the stream's headers is scaled to the same output size.

    Args:
        info: the stream; its tags determine the color, its size the geometry.
        output: the output specification.
        scratch: memory for intermediate results, which converters of one thread may share; its own by default.

    Raises:
        ParameterError: the crop exceeds the frame; the message names its size.
    """

    def __init__(
        self, info: StreamInfo, output: OutputSpec, scratch: ConversionScratch | None = None
    ) -> None:
        super().__init__(info, output)
        self._scratch = scratch or ConversionScratch()
        self._color = resolve(info)
        self._placement = output.placement(info)
        self._recipe: Recipe | None = None

    def __call__(self, surface: Surface, out: npt.NDArray[Any]) -> None:
        """Convert one surface.

        Args:
            surface: a frame of the stream.
            out: contiguous memory of ``shape`` and ``dtype``.

        Raises:
            ParameterError: ``out`` is not such memory.
            SourceError: the stream's color cannot be converted to the requested one.
        """
        self._check_out(out, contiguous=out.flags.c_contiguous)
        recipe = self._recipe
        if recipe is None or not recipe.fits(surface):
            recipe = self._recipe = Recipe(
                self._info, self._color, self._output, self._placement, surface, self._scratch
            )
        recipe(surface, out)
