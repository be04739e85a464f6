"""Single-reader context: decoders and painter of one reader, which decodes in the calling thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ...core.cached import cached_property
from ..convert.paint import HostPainter, Painter
from ..decode.pool import DecoderPool
from .backend import DecodeBackend

__all__ = ["ReaderContext", "cpu_reader_context"]


@dataclass(frozen=True)
class ReaderContext:
    """Decode backend without threads, with the context of its device.

    Attributes:
        backend: decoders and painter.
        active: context manager that makes the device the thread's current one.
        stream_batch: number of frames that a stream paints before it yields the first of them.
    """

    backend: DecodeBackend
    active: Callable[[], AbstractContextManager[Any]]
    stream_batch: int

    @cached_property
    def painter(self) -> Painter:
        """Painter of random access."""
        return self.backend.painter()

    def new_painter(self) -> Painter:
        """Create a painter for a stream, which may stay open while other frames are requested."""
        with self.active():
            return self.backend.painter()

    def close(self) -> None:
        """Release the decoders."""
        self.backend.close()


def cpu_reader_context() -> ReaderContext:
    """Create a context that delivers frames in main memory."""
    decoders = DecoderPool()
    return ReaderContext(
        DecodeBackend("cpu", decoders, HostPainter, close=decoders.clear), contextlib.nullcontext, 1
    )
