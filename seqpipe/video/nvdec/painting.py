"""Interface of a fused decode run to the conversion of its frames (fused_run.c)."""

from __future__ import annotations

from ctypes import Structure, c_int64, c_void_p
from typing import Final, Protocol

from .hardware import StreamShape

__all__ = ["MOST_FRAMES_PER_LAUNCH", "PaintParams", "Painting"]

MOST_FRAMES_PER_LAUNCH: Final = 8
"""Maximum number of frames that one launch converts."""
_PLANES: Final = 3


class PaintParams(Structure):
    """C structure: addresses of driver functions, a kernel with its launch, and the layout of the converted frames."""

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
        ("frames_per_launch", c_int64),
        ("columns", c_int64),
        ("rows", c_int64),
        ("threads", c_int64),
        ("depths", c_int64 * (MOST_FRAMES_PER_LAUNCH + 1)),
        ("begun", c_int64),
    ]


class Painting(Protocol):
    """Conversion of the frames of a fused run, configured once the parser has announced the stream."""

    @property
    def params(self) -> PaintParams:
        """Structure that the C code reads."""

    def fit(self, shape: StreamShape, pitch: int, sequence: int) -> None:
        """Configure the conversion for a stream.

        Args:
            shape: shape of the stream.
            pitch: bytes per row of a mapped frame; 0 if none was mapped yet.
            sequence: the feeder's number of the decoder and stream.
        """
