"""Decoding of sound by PyAV."""

from __future__ import annotations

import io

import av
import numpy as np

from ..array import Array
from ..errors import UnreadableSourceError

__all__ = ["decoded_sound"]


def decoded_sound(data: bytes, source: str = "") -> tuple[Array, float]:
    """Return the samples of the first audio track, float32 ``(n, channels)`` from -1 to 1, and the sample rate in Hz.

    Args:
        data: the bytes of a file.
        source: its path or URL, for messages.

    Raises:
        UnreadableSourceError: the bytes hold no sound that FFmpeg decodes.
    """
    try:
        with av.open(io.BytesIO(data), "r") as container:
            stream = container.streams.audio[0]
            to_float = av.AudioResampler(format="fltp")
            frames = [one for frame in container.decode(stream) for one in to_float.resample(frame)]
            frames += to_float.resample(None)
            parts = [one.to_ndarray() for one in frames]
            return np.concatenate(parts, axis=1).T.astype(np.float32), float(stream.rate)
    except (av.error.FFmpegError, IndexError, ValueError) as error:
        raise UnreadableSourceError(f"no sound that can be decoded: {error}", source=source) from error
