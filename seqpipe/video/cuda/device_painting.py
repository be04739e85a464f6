"""Conversion of the frames of one fused decode run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq
from typing import Any

from ...core.native import buffer_of
from ..nvdec.hardware import StreamShape, plane_layout
from ..nvdec.painting import MOST_FRAMES_PER_LAUNCH, PaintParams
from . import driver
from .conversion import COUNT_AT, THREADS
from .converter import DeviceConverter

__all__ = ["DevicePainting"]

_UNKNOWN = -1


class DevicePainting:
    """Conversion of the frames of one fused run, see :class:`seqpipe.video.nvdec.painting.Painting`.

    Args:
        converter: converter of the frames.
        stream: the thread's CuPy stream.
        events: two CuPy events of the thread.
        frames_per_launch: number of frames that one launch converts.
    """

    def __init__(
        self, converter: DeviceConverter, stream: Any, events: Seq[Any], frames_per_launch: int
    ) -> None:
        self._converter = converter
        self._argument = bytearray()
        self.params = PaintParams(
            *driver.launch_functions(), stream.ptr, tuple(event.ptr for event in events), sequence=_UNKNOWN
        )
        self.params.frames_per_launch = min(frames_per_launch, MOST_FRAMES_PER_LAUNCH)

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Configure the conversion for a stream.

        Raises:
            SourceError: the stream's color cannot be converted to the requested one.
            BackendError: the kernel cannot be compiled.
        """
        params = self.params
        if params.begun or not pitch:
            params.sequence = _UNKNOWN
            return
        form, offsets = plane_layout(shape, pitch)
        conversion, params.kernel = self._converter.prepared(form.surface(0, offsets))
        self._argument = conversion.blank()
        params.argument, params.count_at = ctypes.addressof(buffer_of(self._argument)), COUNT_AT
        params.planes = len(offsets)
        params.offsets[: len(offsets)] = offsets
        depths = [conversion.grid(count) for count in range(1, params.frames_per_launch + 1)]
        params.columns, params.rows, _ = depths[0]
        params.depths[1 : len(depths) + 1] = [depth for _, _, depth in depths]
        params.threads = THREADS
        params.sequence, params.pitch = sequence, pitch

    @property
    def fits(self) -> bool:
        """Whether the conversion was configured for the last stream."""
        sequence: int = self.params.sequence
        return sequence != _UNKNOWN
