"""Painting: surfaces converted into the arrays of the sequences that they belong to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from collections.abc import Sequence as Seq
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...array import Array
from ..memory import host_array
from ..probe.info import StreamInfo
from .color import resolve
from .converter import Converter
from .output import OutputSpec
from .scratch import ConversionScratch
from .surface import AnySurface

__all__ = ["HostPainter", "Painter", "Targets", "converter_key"]

Targets: TypeAlias = "dict[int, list[tuple[Any, Any]]]"
"""By frame number: the pictures to be made of it, each by a converter at a place of its own."""

_KEPT = 64


def converter_key(info: StreamInfo, output: OutputSpec) -> Hashable:
    """What decides how the surfaces of a stream become pictures: streams that agree in it share a converter."""
    return resolve(info), output.place(info), info.pixel_format, info.width, info.height, output


class Painter(Protocol):
    """Makes pictures on one device; it holds buffers, so it belongs to one thread."""

    def converter(self, info: StreamInfo, output: OutputSpec) -> Any:
        """The converter for a stream and an output, kept from job to job."""

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Memory for pictures."""

    def admit(self, pixels: Array) -> None:
        """Make ready to paint in memory that was allocated elsewhere."""

    def frame_targets(self, pixels: Array) -> Seq[Any]:
        """Where each picture of an array goes, as :meth:`put` takes it."""

    def fill(self, pixels: Array, place: Any, value: float) -> None:
        """Fill one picture, or another part of the pixels that an index tells, with a value."""

    def put(self, surface: AnySurface, targets: Seq[tuple[Any, Any]]) -> None:
        """Make pictures of a surface, each by its converter at its place; perhaps not yet."""

    def finish(self) -> None:
        """Return when all pictures are made."""


class HostPainter:
    """Paints in main memory."""

    def __init__(self) -> None:
        self._converters: OrderedDict[Any, Converter] = OrderedDict()
        self._scratch = ConversionScratch()  # of all of them: each request may have a converter of its own

    def converter(self, info: StreamInfo, output: OutputSpec) -> Converter:
        """The converter for a stream and an output, kept from job to job."""
        key = converter_key(info, output)
        if key not in self._converters:
            self._converters[key] = Converter(info, output, self._scratch)
            while len(self._converters) > _KEPT:
                self._converters.popitem(last=False)
        self._converters.move_to_end(key)
        return self._converters[key]

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A new array with arbitrary content."""
        return host_array(shape, dtype)

    def admit(self, pixels: Array) -> None:
        """Main memory is main memory."""

    def frame_targets(self, pixels: Array) -> Seq[Array]:
        """Views of an array."""
        return list(pixels)

    def fill(self, pixels: Array, place: Any, value: float) -> None:
        """Fill one picture, or another part of the pixels that an index tells, with a value."""
        pixels[place] = value

    def put(self, surface: AnySurface, targets: Seq[tuple[Converter, Array]]) -> None:
        """Convert once for each converter, and copy for the rest."""
        done: dict[int, Array] = {}
        for converter, target in targets:
            if (earlier := done.get(id(converter))) is not None:
                target[...] = earlier
            else:
                converter(surface, target)
                done[id(converter)] = target

    def finish(self) -> None:
        """All is done at once here."""
