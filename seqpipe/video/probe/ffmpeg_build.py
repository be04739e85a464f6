"""Which FFmpeg PyAV carries, and what it lacks."""

from __future__ import annotations

import av
from av.codec.codec import Codec, UnknownCodecError

__all__ = ["missing_decoders", "name"]

_DECODERS = ("h264", "hevc", "vp8", "vp9", "libdav1d", "mpeg2video", "mpeg4", "mjpeg")


def name() -> str:
    """FFmpeg's and PyAV's versions."""
    return f"FFmpeg {av.ffmpeg_version_info} in PyAV {av.__version__}"


def missing_decoders() -> list[str]:
    """Decoders of common codecs that it was built without."""
    missing = []
    for decoder in _DECODERS:
        try:
            Codec(decoder, "r")
        except UnknownCodecError:
            missing.append(decoder)
    return missing
