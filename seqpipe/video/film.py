"""Films made of pictures: H.264 in MP4, each picture shown when its clock says."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, BinaryIO, Final

import av
import numpy as np

from ..errors import OutputError
from ..sequence import Sequence

__all__ = ["write_film"]

_TICKS: Final = 90_000  # of a second
# of libx264; nearly without loss. With mbtree, the same pictures give other bytes from run to run.
_QUALITY: Final = {"crf": "18", "preset": "veryfast", "mbtree": "0"}


def write_film(file: BinaryIO, pictures: Iterable[Sequence]) -> int:
    """Write a film into a binary file that can be read and sought in.

    Args:
        file: takes it; it stands at its end afterwards.
        pictures: sequences ``FHWC`` of uint8 RGB with timestamps, one after the other, all of one size. An odd row or
            column is repeated, for the film has even sides.

    Returns:
        How many pictures it has.

    Raises:
        OutputError: there is no picture.
    """
    count, first_s, last = 0, 0.0, -1
    with av.open(file, "w", format="mp4") as container:
        stream: Any = None
        for sequence in pictures:
            assert sequence.timestamps is not None
            for pixels, time_s in zip(sequence.numpy(), sequence.timestamps.tolist(), strict=True):
                even = np.pad(pixels, [(0, side % 2) for side in pixels.shape[:2]] + [(0, 0)], mode="edge")
                if stream is None:
                    stream, first_s = _stream(container, even.shape[1], even.shape[0]), time_s
                frame = av.VideoFrame.from_ndarray(even, "rgb24")
                last = max(last + 1, round((time_s - first_s) * _TICKS))
                frame.pts, frame.time_base = last, Fraction(1, _TICKS)
                container.mux(stream.encode(frame))
                count += 1
        if stream is None:
            raise OutputError("a film of no pictures", allowed="one or more")
        container.mux(stream.encode(None))
    file.seek(0, 2)
    return count


def _stream(container: Any, width: int, height: int) -> Any:
    has_h264 = "libx264" in av.codec.codecs_available
    stream = container.add_stream("libx264" if has_h264 else "mpeg4", rate=30)
    stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
    stream.time_base = stream.codec_context.time_base = Fraction(1, _TICKS)
    if has_h264:
        stream.options = dict(_QUALITY)
    return stream
