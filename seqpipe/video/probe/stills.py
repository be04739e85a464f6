"""Properties of sources that consist of still images."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ...core.limits import check_image_size
from ...errors import UnreadableSourceError
from ..source.base import Source, Stills
from .info import ContainerStream, StreamInfo

__all__ = ["numbered_info", "rgba_info"]


def numbered_info(source: Source, stills: Stills, info: StreamInfo) -> StreamInfo:
    """Return the properties of numbered images, given those of the first.

    Raises:
        UnreadableSourceError: the first is a video.
    """
    count = len(stills.sizes)
    if (info.frame_count or 1) > 1 or info.has_audio:
        raise UnreadableSourceError(
            f"the first file of the pattern is a video ({info.codec})",
            source=source.name,
            advice="Patterns are for images; pass a list of videos to seqpipe.videos",
        )
    rate = 1 / stills.time_base
    return replace(
        info,
        container="image2",
        average_rate=rate,
        real_rate=rate,
        time_base=stills.time_base,
        declared_frames=count,
    )


def rgba_info(source: Source, stills: Stills) -> StreamInfo:
    """Return the properties of an animated WebP."""
    assert stills.rgba_size is not None
    width, height = stills.rgba_size
    check_image_size(width, height, source.name)
    count, seconds = len(stills.sizes), stills.end * stills.time_base
    return StreamInfo(
        source=source.name,
        container="webp",
        codec="rawvideo",
        profile=None,
        pixel_format="rgba",
        bit_depth=8,
        chroma="rgb",
        width=width,
        height=height,
        sample_aspect_ratio=Fraction(1),
        rotation_degrees=0,
        flipped=False,
        matrix=0,
        full_range=True,
        primaries=2,
        transfer=2,
        chroma_location=0,
        average_rate=count / seconds if seconds else None,
        real_rate=None,
        time_base=stills.time_base,
        start_s=0.0,
        duration_s=float(seconds),
        frame_count=count,
        declared_frames=count,
        has_b_frames=False,
        has_audio=False,
        streams=(
            ContainerStream(
                number=0,
                kind="video",
                codec="rawvideo",
                width=width,
                height=height,
                default=True,
                cover=False,
            ),
        ),
    )
