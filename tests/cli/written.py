"""Views of what the command line has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from data_scripts.frame_code import find

__all__ = ["files", "lines", "number", "numbers"]


def files(folder: Path) -> list[str]:
    """All files below a folder, relative to it, sorted; but for what an export notes for itself."""
    below = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in below if path.name != ".seqpipe-export.json")


def number(picture: Path) -> int:
    """The frame number in a picture, however it is turned; OpenCV reads it, which did not write the jpg."""
    # Not cv2.imread: it crashes on names that are not UTF-8.
    pixels = cv2.imdecode(np.frombuffer(picture.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None, picture
    return find(pixels)[0]


def numbers(folder: Path, pattern: str = "**/*.jpg") -> list[int]:
    """The frame numbers of all pictures in the order of their names."""
    return [number(picture) for picture in sorted(folder.glob(pattern))]


def lines(text: str) -> list[dict[str, Any]]:
    """The objects of JSON lines; anything else in the text fails the test."""
    return [json.loads(line) for line in text.splitlines()]
