"""Writing of frames as MP4 video (H.264), with the timestamps of their sequences."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, BinaryIO, Final

import av
import numpy as np

from ..errors import OutputError
from ..sequence import Sequence

__all__ = ["write_mp4"]

_TICKS_PER_S: Final = 90_000
# libx264, visually nearly lossless. With mbtree, the same frames result in different bytes from run to run.
_QUALITY: Final = {"crf": "18", "preset": "veryfast", "mbtree": "0"}


def write_mp4(file: BinaryIO, sequences: Iterable[Sequence]) -> int:
    """Write an MP4 video to a readable, seekable binary file.

    Args:
        file: the file, whose position is at its end afterwards.
        sequences: consecutive sequences ``FHWC`` of uint8 RGB with timestamps, all of one size. An odd last row or
            column is repeated, as 4:2:0 video has even sides.
    """
    count, first_s, last = 0, 0.0, -1
    with av.open(file, "w", format="mp4") as container:
        stream: Any = None
        for sequence in sequences:
            assert sequence.timestamps is not None
            for pixels, time_s in zip(sequence.numpy(), sequence.timestamps.tolist(), strict=True):
                even = np.pad(pixels, [(0, side % 2) for side in pixels.shape[:2]] + [(0, 0)], mode="edge")
                if stream is None:
                    stream, first_s = _stream(container, even.shape[1], even.shape[0]), time_s
                frame = av.VideoFrame.from_ndarray(even, "rgb24")
                last = max(last + 1, round((time_s - first_s) * _TICKS_PER_S))
                frame.pts, frame.time_base = last, Fraction(1, _TICKS_PER_S)
                container.mux(stream.encode(frame))
                count += 1
        if stream is None:
            raise OutputError("a video without frames cannot be written", allowed="one frame or more")
        container.mux(stream.encode(None))
    file.seek(0, 2)
    return count


def _stream(container: Any, width: int, height: int) -> Any:
    has_h264 = "libx264" in av.codec.codecs_available
    stream = container.add_stream("libx264" if has_h264 else "mpeg4", rate=30)
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    stream.time_base = stream.codec_context.time_base = Fraction(1, _TICKS_PER_S)
    if has_h264:
        stream.options = dict(_QUALITY)
    return stream
