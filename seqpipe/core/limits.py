"""Limits on memory, disk space and requests, by environment variables with defaults, and of the machine.

The variables are read on each use, so a program may set ``os.environ`` at any time; child processes inherit them.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import Final, NamedTuple

from ..errors import ParameterError, UnreadableSourceError

__all__ = ["DOWNLOAD_GIB", "IMAGE_PIXELS", "REQUESTS", "Limit", "check_image_size", "main_memory_bytes"]

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_ASSUMED_BYTES: Final = 16 << 30  # where the system does not report its memory


class Limit(NamedTuple):
    """An upper bound for input.

    Attributes:
        variable: the environment variable that overrides the default.
        default: the bound if the variable is not set.
        doc: the bounded quantity and its unit.
    """

    variable: str
    default: float
    doc: str

    def value(self) -> float:
        """Return the current bound."""
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not number > 0:
            raise ParameterError(f"{self.variable}={text!r} is not valid", allowed="a number above 0")
        return number


IMAGE_PIXELS: Final = Limit(
    "SEQPIPE_MAX_PIXELS",
    1 << 27,
    "pixels of a frame or image, as its file declares them: a small file may declare a size that takes all memory",
)
"""The default is 134,217,728 = 16384×8192: more than any video format allows, and 0.4 GB of 8-bit RGB."""

DOWNLOAD_GIB: Final = Limit(
    "SEQPIPE_MAX_DOWNLOAD_GIB",
    4,
    "GiB of a file that a server without byte ranges sends as a whole, into a temporary file",
)
"""The default is 4 GiB for each file."""


REQUESTS: Final = Limit(
    "SEQPIPE_MAX_REQUESTS", 32, "requests to object storage and HTTP servers that a process has under way"
)
"""The default is 32; it is read once in a process."""


def check_image_size(width: int, height: int, source: str) -> None:
    """Check the declared size of a frame or image before memory is allocated for it."""
    most = IMAGE_PIXELS.value()
    if width * height > most:
        raise UnreadableSourceError(
            f"it declares frames of {width}×{height} pixels",
            source=source,
            allowed=f"up to {most:.0f} pixels",
            advice=f"If the file can be trusted, set the environment variable {IMAGE_PIXELS.variable}",
        )


def main_memory_bytes() -> int:
    """Return the total main memory in bytes, free or not, or the container's (cgroup) limit if that is lower."""
    total = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else _ASSUMED_BYTES
    )
    with contextlib.suppress(OSError, ValueError):  # the file does not exist, or holds "max"
        return min(total, int(_CGROUP_LIMIT.read_text(encoding="ascii")))
    return total
