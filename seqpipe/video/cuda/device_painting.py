"""DevicePainting: conversion of the frames of one fused decode run, by one thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq
from typing import Any

from ...native import buffer_of
from ..nvdec.hardware import StreamShape, planes_of
from ..nvdec.painting import MOST_IN_A_LAUNCH, Painting
from . import driver
from .conversion import COUNT_AT, THREADS
from .converter import DeviceConverter

__all__ = ["DevicePainting"]

_UNKNOWN = -1


class DevicePainting:
    """The conversion of one run's pictures; see :class:`seqpipe.video.nvdec.painting.PaintingOf`.

    Args:
        converter: makes the pictures.
        stream: the CuPy stream of the thread.
        events: two of CuPy's events, which are the thread's.
        at_once: how many pictures are converted together.
    """

    def __init__(self, converter: DeviceConverter, stream: Any, events: Seq[Any], at_once: int) -> None:
        self._converter = converter
        self._argument = bytearray()
        self.told = Painting(
            *driver.launching(), stream.ptr, tuple(event.ptr for event in events), sequence=_UNKNOWN
        )
        self.told.at_once = min(at_once, MOST_IN_A_LAUNCH)

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Make ready for pictures.

        Raises:
            SourceError: the stream's color cannot be converted to the one that is asked for.
            BackendError: the kernel cannot be compiled.
        """
        told = self.told
        if told.begun or not pitch:
            told.sequence = _UNKNOWN
            return
        form, offsets = planes_of(shape, pitch)
        conversion, told.kernel = self._converter.prepared(form.surface(0, offsets))
        self._argument = conversion.blank()
        told.argument, told.count_at = ctypes.addressof(buffer_of(self._argument)), COUNT_AT
        told.planes = len(offsets)
        told.offsets[: len(offsets)] = offsets
        depths = [conversion.grid(count) for count in range(1, told.at_once + 1)]
        told.columns, told.rows, _ = depths[0]
        told.depths[1 : len(depths) + 1] = [depth for _, _, depth in depths]
        told.threads = THREADS
        told.sequence, told.pitch = sequence, pitch

    @property
    def fits(self) -> bool:
        """Whether it was made ready for the last stream."""
        known: int = self.told.sequence
        return known != _UNKNOWN
