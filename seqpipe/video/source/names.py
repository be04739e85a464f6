"""File names: extensions of videos, and paths with undecodable bytes."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Final

from ...errors import ParameterError

__all__ = ["VIDEO_ENDINGS", "SkippedFiles", "check_content", "is_video", "leads_back"]

_MAX_PATH_BYTES: Final = 4096
_PATH: Final = re.compile(r"[^*?\"<>|]*(?:[/\\][^*?\"<>|]*|\.\w{1,8})")


def check_content(data: bytes) -> None:
    """Check that bytes are not a path."""
    if len(data) > _MAX_PATH_BYTES:
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    if text.isprintable() and any(map(str.isalnum, text)) and _PATH.fullmatch(text):
        raise ParameterError(
            f"the bytes {text!r} are a path, and the content of a file was expected",
            advice="Pass the path as text: os.fsdecode(path)",
        )


_ENDINGS = (
    "264 265 3g2 3gp asf av1 avc avi divx dv f4v flv h261 h263 h264 h265 hevc ivf m1v m2t m2ts m2v m4v mjpeg mjpg mk3d "
    "mkv mod mov mp4 mpe mpeg mpg mts mxf nut obu ogm ogv qt rm rmvb tod ts vob webm wmv y4m"  # sorted
)
_NAMED = 4

VIDEO_ENDINGS: Final = tuple(f".{ending}" for ending in _ENDINGS.split())
"""Extensions of files that are found in folders; a file given by its path may have any extension."""


def is_video(name: str) -> bool:
    """Return whether a file's name has the extension of a video, ignoring case."""
    return name.lower().endswith(VIDEO_ENDINGS)


def leads_back(path: str) -> bool:
    """Return whether a path is a link to a folder that it lies in, by its text or in fact; following it has no end."""
    if not os.path.islink(path):  # noqa: PTH114  of very many
        return False
    target, folder = os.path.realpath(path), os.path.realpath(os.path.dirname(path))  # noqa: PTH120
    above = Path(os.path.abspath(path)).parents  # noqa: PTH100  without resolving links
    return os.path.commonpath([target, folder]) == target or target in map(os.path.realpath, above)


class SkippedFiles(Counter[str]):
    """Number of files that a search has skipped, by extension."""

    def note(self, name: str) -> None:
        """Count a file."""
        self[os.path.splitext(name)[1].lower()] += 1  # noqa: PTH122  a name of very many

    def __str__(self) -> str:
        """Format the counts, such as ``12 other files (.jpg 10, .txt 2)``."""
        count = sum(self.values())
        kinds = [f"{ending or 'without an ending'} {n}" for ending, n in self.most_common(_NAMED)]
        more = ", …" if len(self) > _NAMED else ""
        return f"{count:,} other file{'s' * (count != 1)} ({', '.join(kinds)}{more})"
