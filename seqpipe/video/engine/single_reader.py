"""Single-reader context: decoders and painter of one reader, which work in the calling thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ...cached import cached_property
from ..convert.paint import HostPainter, Painter
from ..decode.pool import DecoderPool
from .backend import DecodeBackend

__all__ = ["ReaderContext", "cpu_reader_context"]


@dataclass(frozen=True)
class ReaderContext:
    """A decode backend without threads of its own, with the context of its device.

    Attributes:
        backend: the decoders and the painter.
        active: within this context the device is the thread's current one.
        at_once: how many frames a stream paints before it hands out the first of them.
    """

    backend: DecodeBackend
    active: Callable[[], AbstractContextManager[Any]]
    at_once: int

    @cached_property
    def painter(self) -> Painter:
        """The painter of random access."""
        return self.backend.painter()

    def new_painter(self) -> Painter:
        """A painter for a stream, which may be left open while frames are asked for."""
        with self.active():
            return self.backend.painter()

    def close(self) -> None:
        """Give back the decoders."""
        self.backend.close()


def cpu_reader_context() -> ReaderContext:
    """In main memory."""
    decoders = DecoderPool()
    return ReaderContext(
        DecodeBackend("cpu", decoders, HostPainter, close=decoders.clear), contextlib.nullcontext, 1
    )
