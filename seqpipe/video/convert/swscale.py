"""swscale call on one thread: frames are converted in parallel, not parts of a frame."""

from __future__ import annotations

from typing import Any, Final

import av
from av.video.reformatter import Interpolation, VideoReformatter

__all__ = ["VideoReformatter", "reformat"]

_MAJOR: Final = int(av.__version__.partition(".")[0])


def _options() -> dict[str, Any]:
    # PyAV 17 brought threads, 18 the flag; before 18 bilinear results are up to one level less exact
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
    """The frame in another pixel format, and scaled to (width, height) if a size is given.

    Args:
        reformatter: keeps swscale's tables while format and size stay the same.
        frame: what to convert; given back as it is if there is nothing to do.
        form: name of the pixel format.
        size: columns and rows; None for the frame's own.

    Raises:
        OSError: swscale does not know one of the formats.
    """
    width, height = size or (frame.width, frame.height)
    return reformatter.reformat(frame, width, height, form, **_OPTIONS)
