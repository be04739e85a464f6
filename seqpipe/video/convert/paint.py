"""Painters, which convert surfaces into frames of the sequences that request them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from collections.abc import Sequence as Seq
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from ...array import Array
from ...core.limits import main_memory_bytes
from ...errors import DeviceMemoryError
from ..probe.info import StreamInfo
from .color import resolve
from .converter import Converter, StreamConverter
from .output import OutputSpec
from .surface import AnySurface, ConversionScratch

__all__ = ["ConverterCache", "HostPainter", "Painter", "Targets", "converter_key", "host_array"]

Targets: TypeAlias = "dict[int, list[tuple[Any, Any]]]"
"""(converter, target) pairs by frame number; a target is a frame of an array, or its address."""

_CACHED_CONVERTERS = 64
# Smaller arrays are allocated without comparing their size with the system's memory.
_CHECKED_FROM_BYTES: Final = 1 << 28

ConverterT = TypeVar("ConverterT", bound=StreamConverter)


def converter_key(info: StreamInfo, output: OutputSpec) -> Hashable:
    """Return the properties that determine a conversion: streams with equal keys share a converter."""
    return resolve(info), output.placement(info), info.pixel_format, info.width, info.height, output


class ConverterCache(Generic[ConverterT]):
    """LRU cache of converters, without a lock, which a fork could leave held.

    Args:
        make: creates a converter for a stream and an output.
        most: number of converters to keep.
    """

    def __init__(self, make: Callable[[StreamInfo, OutputSpec], ConverterT], most: int) -> None:
        self._make, self._most = make, most
        self._converters: OrderedDict[Hashable, ConverterT] = OrderedDict()
        self._last: tuple[StreamInfo, OutputSpec, ConverterT] | None = None

    def get(self, info: StreamInfo, output: OutputSpec) -> ConverterT:
        """Return the converter for a stream and an output."""
        last = self._last
        if last is not None and last[0] is info and last[1] is output:
            return last[2]
        key = converter_key(info, output)
        if key not in self._converters:
            self._converters[key] = self._make(info, output)
            while len(self._converters) > self._most:
                self._converters.popitem(last=False)
        self._converters.move_to_end(key)
        self._last = info, output, self._converters[key]
        return self._last[2]


class Painter(Protocol):
    """Converts surfaces into arrays on one device; belongs to one thread, as it holds buffers."""

    def converter(self, info: StreamInfo, output: OutputSpec) -> Any:
        """Return the converter for a stream and an output, which is cached across jobs."""

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Allocate an array for frames."""

    def admit(self, pixels: Array) -> None:
        """Prepare for writing to an array that was allocated elsewhere."""

    def frame_targets(self, pixels: Array) -> Seq[Any]:
        """Return the target of each frame of an array, for :meth:`put`."""

    def fill(self, pixels: Array, part: Any, value: float) -> None:
        """Fill one frame, or another part of the array given by an index, with a value."""

    def put(self, surface: AnySurface, targets: Seq[tuple[Any, Any]]) -> None:
        """Convert a surface to each (converter, target), at the latest in :meth:`finish`."""

    def finish(self) -> None:
        """Wait until all frames are converted."""


def host_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Allocate an uninitialized array in main memory."""
    size = math.prod(shape) * dtype.itemsize
    if size < _CHECKED_FROM_BYTES or size <= main_memory_bytes():
        try:
            return np.empty(shape, dtype)
        except MemoryError:  # the process has a limit of its own (ulimit)
            pass
    raise DeviceMemoryError(
        f"an array {shape} {dtype} of {size / 2**30:.3g} GiB does not fit into main memory",
        allowed=f"{main_memory_bytes() / 2**30:.3g} GiB in total",
        advice="Ask for less at once: smaller batches, shorter sequences or smaller frames",
    )


class HostPainter:
    """Converts surfaces into arrays in main memory."""

    def __init__(self) -> None:
        scratch = self._scratch = ConversionScratch()  # shared: each request may have its own converter
        self._converters = ConverterCache(
            lambda info, output: Converter(info, output, scratch), _CACHED_CONVERTERS
        )

    def converter(self, info: StreamInfo, output: OutputSpec) -> Converter:
        """Return the converter for a stream and an output, which is cached across jobs."""
        return self._converters.get(info, output)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Allocate an uninitialized array."""
        return host_array(shape, dtype)

    def admit(self, pixels: Array) -> None:
        """Do nothing: main memory needs no preparation."""

    def frame_targets(self, pixels: Array) -> Seq[Array]:
        """Return a view of each frame."""
        return list(pixels)

    def fill(self, pixels: Array, part: Any, value: float) -> None:
        """Fill one frame, or another part of the array given by an index, with a value."""
        pixels[part] = value

    def put(self, surface: AnySurface, targets: Seq[tuple[Converter, Array]]) -> None:
        """Convert once for each converter, and copy the result to its further targets."""
        done: dict[int, Array] = {}
        for converter, target in targets:
            if (earlier := done.get(id(converter))) is not None:
                target[...] = earlier
            else:
                converter(surface, target)
                done[id(converter)] = target

    def finish(self) -> None:
        """Do nothing: :meth:`put` converts at once."""
