"""Painter that converts surfaces into GPU arrays, several per launch."""

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
from .device_surface import DeviceSurface, frames_per_launch
from .streams import Streams
from .upload import Uploader

__all__ = ["DevicePainter"]


class DevicePainter:
    """Converts surfaces of any decoder into GPU arrays, see :class:`~seqpipe.video.convert.paint.Painter`.

    Surfaces are gathered while others are converted, and released once they are converted.

    Args:
        streams: CUDA streams of the GPU.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._stream = streams.current()
        self._upload = Uploader(streams.device)
        self._converters = converters_of(streams.device)
        self._frames_per_launch = 1
        self._events: tuple[Any, Any] | None = None
        self._gathered: list[tuple[DeviceSurface, Seq[tuple[DeviceConverter, int]]]] = []
        self._launched: deque[tuple[Any, Any]] = deque()

    def converter(self, info: StreamInfo, output: OutputSpec) -> DeviceConverter:
        """Return the converter for a stream and an output, which is cached across jobs."""
        # The nominal size also holds for frames of another size: the decoder was created for as many mapped frames.
        self._frames_per_launch = frames_per_launch(info.width, info.height)
        return self._converters.get(info, output)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Allocate an array on the GPU."""
        pixels = self._streams.allocate(shape, dtype)
        self._streams.admit()
        return pixels

    def admit(self, pixels: Array) -> None:  # noqa: ARG002  the wait covers all work of the default stream
        """Make this thread's stream wait for earlier work on the array."""
        self._streams.admit()

    def frame_targets(self, pixels: Array) -> Seq[int]:
        """Return the address of each frame."""
        first, step = int(pixels.data.ptr), int(pixels.strides[0]) if len(pixels) else 0
        return [first + position * step for position in range(len(pixels))]

    def fill(self, pixels: Array, part: Any, value: float) -> None:
        """Fill one frame, or another part of the array given by an index, with a value."""
        with self._stream:
            pixels[part].fill(value)

    def painting(self, converters: Seq[DeviceConverter], info: StreamInfo) -> DevicePainting:
        """Return the conversions of a fused run into arrays that were allocated here."""
        if self._events is None:
            self._events = self._streams.lasting_event(), self._streams.lasting_event()
        return DevicePainting(
            converters, self._stream, self._events, frames_per_launch(info.width, info.height)
        )

    def put(self, surface: Surface | DeviceSurface, targets: Seq[tuple[DeviceConverter, int]]) -> None:
        """Gather a surface, and convert those gathered once a launch is full."""
        if isinstance(surface, Surface):
            surface = self._upload(surface, self._stream)
        self._gathered.append((surface, targets))
        if len(self._gathered) >= self._frames_per_launch:
            self._launch()

    def finish(self) -> None:
        """Convert the gathered surfaces, and wait for all conversions."""
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
            # The surfaces must outlive the wait: their memory is reused once they are dropped.
            event, _surfaces = self._launched.popleft()
            event.synchronize()
