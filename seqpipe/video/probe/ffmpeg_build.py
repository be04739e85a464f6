"""Version of PyAV's FFmpeg, and the decoders that it lacks."""

from __future__ import annotations

import av
from av.codec.codec import Codec, UnknownCodecError

__all__ = ["missing_decoders", "name"]

_DECODERS = ("h264", "hevc", "vp8", "vp9", "libdav1d", "mpeg2video", "mpeg4", "mjpeg")


def name() -> str:
    """Return the versions of FFmpeg and PyAV."""
    return f"FFmpeg {av.ffmpeg_version_info} in PyAV {av.__version__}"


def missing_decoders() -> list[str]:
    """Return the decoders of common codecs that FFmpeg was built without."""
    missing = []
    for decoder in _DECODERS:
        try:
            Codec(decoder, "r")
        except UnknownCodecError:
            missing.append(decoder)
    return missing
