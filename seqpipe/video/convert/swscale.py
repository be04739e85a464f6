"""Single-threaded swscale calls: seqpipe converts frames in parallel, not parts of a frame."""

from __future__ import annotations

from typing import Any, Final

import av
from av.video.reformatter import ColorRange, Colorspace, Interpolation, VideoReformatter

__all__ = ["VideoReformatter", "reformat", "reformat_colors"]

_MAJOR: Final = int(av.__version__.partition(".")[0])


def _options() -> dict[str, Any]:
    # PyAV 17 introduced threads, 18 the flag; before 18 bilinear results may differ by 1.
    options: dict[str, Any] = {"interpolation": Interpolation.BILINEAR}
    if _MAJOR >= 17:
        options["threads"] = 1
    if _MAJOR >= 18:
        options["interpolation"] |= Interpolation.ACCURATE_RND
    return options


_OPTIONS: Final = _options()


def reformat(
    reformatter: VideoReformatter, frame: av.VideoFrame, form: str, size: tuple[int, int] | None = None
) -> av.VideoFrame:
    """Convert a frame to another pixel format, and scale it to (width, height) if a size is given."""
    width, height = size or (frame.width, frame.height)
    return reformatter.reformat(frame, width, height, form, **_OPTIONS)


def reformat_colors(reformatter: VideoReformatter, frame: av.VideoFrame, form: str) -> av.VideoFrame:
    """Convert an RGB or gray frame to YCbCr of BT.709 and limited range."""
    return reformatter.reformat(
        frame,
        format=form,
        dst_colorspace=Colorspace.ITU709,
        src_color_range=ColorRange.JPEG,
        dst_color_range=ColorRange.MPEG,
        **_OPTIONS,
    )
