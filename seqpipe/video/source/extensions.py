"""Which files of a folder are taken for videos."""

from __future__ import annotations

from typing import Final

__all__ = ["VIDEO_ENDINGS"]

_ENDINGS = (
    "3gp avi flv h264 h265 hevc ivf m2ts m4v mkv mov mp4 mpeg mpg mts mxf obu ogv ts webm wmv y4m"  # sorted
)

VIDEO_ENDINGS: Final = tuple(f".{ending}" for ending in _ENDINGS.split())
"""What the name of a file found in a folder must end in; a file that is named itself may end in anything."""
