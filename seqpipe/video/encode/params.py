"""Parameters of encoded videos, which the command line declares options from without loading a codec."""

from __future__ import annotations

from typing import Final

from ...core.param import Param, choice

__all__ = ["CODEC", "GOP", "QUALITY", "SHORT_SIDE", "VIDEO_CODEC"]

QUALITY: Final = Param(
    name="quality",
    doc="Quality of lossy codecs, of which 100 is best",
    kind=float,
    lo=0,
    hi=100,
    optional=True,
)
GOP: Final = Param(
    name="gop", doc="Frames from one key frame to the next", lo=1, hi=10_000, unit="frames", optional=True
)
SHORT_SIDE: Final = Param(
    name="short_side", doc="Pixels of the shorter side, at most the video's", lo=16, hi=8192
)
CODEC: Final = choice("codec", "Codec of the copies", ("h264", "hevc", "av1"))
VIDEO_CODEC: Final = choice(
    "codec", "Codec of mp4 and webm: h264 and vp9 if not given", ("h264", "hevc", "av1", "vp9"), optional=True
)
