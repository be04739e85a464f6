"""Conversions of the frames of one fused decode run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq
from typing import Any

from ...core.native import buffer_of
from ..nvdec.hardware import StreamShape, plane_layout
from ..nvdec.painting import MOST_FRAMES_PER_LAUNCH, ConversionParams, PaintParams
from . import driver
from .conversion import ARGUMENT_BYTES, COUNT_AT, THREADS, SurfaceKind
from .converter import DeviceConverter
from .device_surface import SurfaceShape

__all__ = ["DevicePainting"]

_UNKNOWN = -1


class DevicePainting:
    """Conversions of the frames of one fused run, see :class:`seqpipe.video.nvdec.painting.Painting`.

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
            *driver.launch_functions(),
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
        """Configure the conversions for a stream.

        Raises:
            SourceError: the stream's color cannot be converted to the requested one.
            BackendError: the kernel cannot be compiled.
        """
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
