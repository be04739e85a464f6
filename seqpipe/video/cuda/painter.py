"""Painter that converts surfaces into GPU arrays, several per launch."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ...array import Array
from ...core.native import buffer_of
from ..convert.output import OutputSpec
from ..convert.surface import Surface
from ..nvdec.hardware import MOST_FRAMES_PER_LAUNCH, ConversionParams, PaintParams, StreamShape, plane_layout
from ..probe.info import StreamInfo
from .conversion import ARGUMENT_BYTES, COUNT_AT, THREADS, SurfaceKind
from .converter import DeviceConverter, converters_of
from .device_surface import DeviceSurface, SurfaceShape, Uploader, frames_per_launch
from .devices import launch_functions
from .streams import Streams

__all__ = ["DevicePainter", "DevicePainting"]

_UNKNOWN = -1


class DevicePainting:
    """Conversions of the frames of one fused run, see :class:`seqpipe.video.nvdec.hardware.Painting`.

    Args:
        converters: converters of the frames.
        stream: the thread's CuPy stream.
        events: two CuPy events of the thread.
        frames_per_launch: number of frames that one launch converts.
    """

    def __init__(
        self, converters: Seq[DeviceConverter], stream: Any, events: Seq[Any], frames_per_launch: int
    ) -> None:
        self._converters = converters
        self._conversions = (ConversionParams * len(converters))()
        self._arguments = bytearray()
        self._layout: tuple[StreamShape, int] | None = None
        self.params = PaintParams(
            *launch_functions(),
            stream.ptr,
            tuple(event.ptr for event in events),
            min(frames_per_launch, MOST_FRAMES_PER_LAUNCH),
            THREADS,
            COUNT_AT,
            _UNKNOWN,
            count=len(converters),
            conversions=ctypes.addressof(self._conversions),
        )

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Configure the conversions for a stream."""
        params = self.params
        params.sequence = _UNKNOWN
        if params.begun or not pitch:
            return
        if self._layout != (shape, pitch):
            self._prepare(*plane_layout(shape, pitch))
            self._layout = shape, pitch
        params.sequence, params.pitch = sequence, pitch

    def _prepare(self, form: SurfaceShape, offsets: tuple[int, ...]) -> None:
        kind, params = SurfaceKind.of(form.surface(0, offsets)), self.params
        params.planes = len(offsets)
        params.offsets[: len(offsets)] = offsets
        prepared = [converter.prepared(kind) for converter in self._converters]
        self._arguments = bytearray().join(conversion.blank() for conversion, _ in prepared)
        address = ctypes.addressof(buffer_of(self._arguments))
        for target, (conversion, kernel) in zip(self._conversions, prepared, strict=True):
            target.kernel, target.argument = kernel, address
            address += ARGUMENT_BYTES
            grids = [conversion.grid(count) for count in range(1, params.frames_per_launch + 1)]
            target.columns, target.rows, _ = grids[0]
            target.depths[1 : len(grids) + 1] = [depth for _, _, depth in grids]

    @property
    def fits(self) -> bool:
        """Whether the conversions were configured for the last stream."""
        sequence: int = self.params.sequence
        return sequence != _UNKNOWN


class DevicePainter:
    """Converts surfaces of any decoder into GPU arrays, see :class:`~seqpipe.video.convert.converter.Painter`.

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
