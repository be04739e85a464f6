"""Workplace: what a single reader decodes and paints with, in the thread that asks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..convert.paint import HostPainter, Painter
from ..decode.pool import DecoderPool
from .backend import Way

__all__ = ["Workplace", "host_workplace"]


@dataclass(frozen=True)
class Workplace:
    """A way to decode without threads of its own.

    Attributes:
        way: the decoders and the painter.
        active: within this context the device is the thread's current one.
        at_once: how many frames a stream paints before it hands out the first of them.
    """

    way: Way
    active: Callable[[], AbstractContextManager[Any]]
    at_once: int

    @cached_property
    def painter(self) -> Painter:
        """The painter of random access."""
        return self.way.painter()

    def new_painter(self) -> Painter:
        """A painter for a stream, which may be left open while frames are asked for."""
        with self.active():
            return self.way.painter()

    def close(self) -> None:
        """Give back the decoders."""
        self.way.close()


def host_workplace() -> Workplace:
    """In main memory."""
    decoders = DecoderPool()
    return Workplace(Way("cpu", decoders, HostPainter, close=decoders.clear), contextlib.nullcontext, 1)
