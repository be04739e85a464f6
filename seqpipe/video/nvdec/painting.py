"""Painting: C structure that describes how a fused decode run converts its frames (whole_run.c)."""

from __future__ import annotations

from ctypes import Structure, c_int64, c_void_p
from typing import Final, Protocol

from .hardware import StreamShape

__all__ = ["MOST_IN_A_LAUNCH", "Painting", "PaintingOf"]

MOST_IN_A_LAUNCH: Final = 8
"""Pictures that are converted together at the most."""
_PLANES: Final = 3


class Painting(Structure):
    """Functions of the driver, a kernel, and what pictures have to be like for it."""

    _fields_ = [
        ("launch", c_void_p),
        ("record", c_void_p),
        ("wait_for_event", c_void_p),
        ("wait_for_stream", c_void_p),
        ("stream", c_void_p),
        ("events", c_void_p * 2),
        ("kernel", c_void_p),
        ("argument", c_void_p),
        ("count_at", c_int64),
        ("sequence", c_int64),
        ("pitch", c_int64),
        ("planes", c_int64),
        ("offsets", c_int64 * _PLANES),
        ("at_once", c_int64),
        ("columns", c_int64),
        ("rows", c_int64),
        ("threads", c_int64),
        ("depths", c_int64 * (MOST_IN_A_LAUNCH + 1)),
        ("begun", c_int64),
    ]


class PaintingOf(Protocol):
    """What is painted in a whole run; it depends on the stream, of which only the parser knows."""

    @property
    def told(self) -> Painting:
        """What C is told."""

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Make ready for pictures.

        Args:
            shape: of their stream.
            pitch: bytes from row to row; 0 if no picture of their decoder was seen yet.
            sequence: the feeder's number for where they are from.
        """
