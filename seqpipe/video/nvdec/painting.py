"""Interface of a fused decode run to the conversion of its frames (fused_run.c)."""

from __future__ import annotations

from ctypes import Structure, c_int64, c_void_p
from typing import Final, Protocol

from .hardware import StreamShape

__all__ = ["MOST_FRAMES_PER_LAUNCH", "ConversionParams", "PaintParams", "Painting"]

MOST_FRAMES_PER_LAUNCH: Final = 8
"""Maximum number of frames that one launch converts."""
_PLANES: Final = 3


class ConversionParams(Structure):
    """C structure: the kernel of one converter, its grid, and the argument that frames are gathered in."""

    _fields_ = [
        ("kernel", c_void_p),
        ("argument", c_void_p),
        ("columns", c_int64),
        ("rows", c_int64),
        ("depths", c_int64 * (MOST_FRAMES_PER_LAUNCH + 1)),
        ("frames", c_int64),
    ]


class PaintParams(Structure):
    """C structure: addresses of driver functions, the layout of mapped frames, and the conversions."""

    _fields_ = [
        ("launch", c_void_p),
        ("record", c_void_p),
        ("wait_for_event", c_void_p),
        ("wait_for_stream", c_void_p),
        ("stream", c_void_p),
        ("events", c_void_p * 2),
        ("frames_per_launch", c_int64),
        ("threads", c_int64),
        ("count_at", c_int64),
        ("sequence", c_int64),
        ("pitch", c_int64),
        ("planes", c_int64),
        ("offsets", c_int64 * _PLANES),
        ("begun", c_int64),
        ("count", c_int64),
        ("conversions", c_void_p),
    ]


class Painting(Protocol):
    """Conversions of the frames of a fused run, configured once the parser has announced the stream."""

    @property
    def params(self) -> PaintParams:
        """Structure that the C code reads; the painting keeps alive what it refers to."""

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Configure the conversions for a stream.

        Args:
            shape: shape of the stream.
            pitch: bytes per row of a mapped frame; 0 if none was mapped yet.
            sequence: the feeder's number of the decoder and stream.
        """
