"""DevicePainter: frames in GPU memory, several surfaces in each launch."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ...array import Array
from ..convert.output import OutputSpec
from ..convert.surface import Surface
from ..probe.info import StreamInfo
from .converter import DeviceConverter, converters_of
from .device_painting import DevicePainting
from .device_surface import DeviceSurface, at_once
from .streams import Streams
from .upload import Uploader

__all__ = ["DevicePainter"]


class DevicePainter:
    """Paints in a GPU's memory, whichever decoder the surfaces come from.

    While some surfaces are converted the next ones are gathered; surfaces are let go once they are converted.

    Args:
        streams: the GPU's.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._stream = streams.current()
        self._upload = Uploader(streams.device)
        self._converters = converters_of(streams.device)
        self._at_once = 1
        self._events: tuple[Any, Any] | None = None
        self._gathered: list[tuple[DeviceSurface, Seq[tuple[DeviceConverter, int]]]] = []
        self._launched: deque[tuple[Any, Any]] = deque()

    def converter(self, info: StreamInfo, output: OutputSpec) -> DeviceConverter:
        """The converter for a stream and an output, kept from job to job."""
        # of pictures of another size within the stream, too: its decoder has been made for as many
        self._at_once = at_once(info.width, info.height)
        return self._converters.get(info, output)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Memory of the GPU."""
        pixels = self._streams.allocate(shape, dtype)
        self._streams.admit()
        return pixels

    def admit(self, pixels: Array) -> None:  # noqa: ARG002  all of the default stream's memory is waited for at once
        """Wait, on the GPU, for what was done with the memory before."""
        self._streams.admit()

    def pictures(self, pixels: Array) -> Seq[int]:
        """Addresses."""
        first, step = int(pixels.data.ptr), int(pixels.strides[0]) if len(pixels) else 0
        return [first + place * step for place in range(len(pixels))]

    def fill(self, pixels: Array, place: Any, value: float) -> None:
        """Fill one picture, or another part of the pixels that an index tells, with a value."""
        with self._stream:
            pixels[place].fill(value)

    def painting(self, converter: DeviceConverter, info: StreamInfo) -> DevicePainting:
        """How a whole run of a stream is painted; the memory for it was allocated here."""
        if self._events is None:
            self._events = self._streams.lasting_event(), self._streams.lasting_event()
        return DevicePainting(converter, self._stream, self._events, at_once(info.width, info.height))

    def put(self, surface: Surface | DeviceSurface, targets: Seq[tuple[DeviceConverter, int]]) -> None:
        """Note a surface; with some others it is converted."""
        if isinstance(surface, Surface):
            surface = self._upload(surface, self._stream)
        self._gathered.append((surface, targets))
        if len(self._gathered) >= self._at_once:
            self._launch()

    def finish(self) -> None:
        """Convert the rest, and wait until all pictures are there."""
        try:
            if self._gathered:
                self._launch()
        finally:
            self._stream.synchronize()
            self._gathered.clear()
            self._launched.clear()

    def _launch(self) -> None:
        gathered, self._gathered = self._gathered, []
        by_converter: dict[int, tuple[DeviceConverter, list[DeviceSurface], list[int]]] = {}
        for surface, targets in gathered:
            for converter, address in targets:
                group = by_converter.setdefault(id(converter), (converter, [], []))
                group[1].append(surface)
                group[2].append(address)
        for converter, surfaces, addresses in by_converter.values():
            converter(surfaces, addresses, self._stream)
        self._launched.append((self._streams.event(), gathered))
        while len(self._launched) > 1:
            # its surfaces must outlive the wait: others use their memory
            event, _read = self._launched.popleft()
            event.synchronize()
