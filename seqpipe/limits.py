"""Limits on what input from outside may cost: each has a default, and an environment variable that changes it.

They are read when they are needed, so a program may set ``os.environ`` at any time; child processes inherit them.
"""

from __future__ import annotations

import math
import os
from typing import Final, NamedTuple

from .errors import ParameterError, UnreadableSourceError

__all__ = ["DOWNLOAD_GIB", "IMAGE_PIXELS", "Limit", "check_image_size"]


class Limit(NamedTuple):
    """A number that input may not exceed.

    Attributes:
        variable: the environment variable that changes it.
        default: what holds where that is not set.
        doc: what it bounds.
    """

    variable: str
    default: float
    doc: str

    def value(self) -> float:
        """The limit that holds now.

        Raises:
            ParameterError: the environment variable holds no number above 0.
        """
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
    "pixels of a picture, as its file declares them: a small file may declare a size that takes all memory",
)
"""By default 134,217,728, or 16384×8192: more than any video format has, and 0.4 GB of RGB bytes."""

DOWNLOAD_GIB: Final = Limit(
    "SEQPIPE_MAX_DOWNLOAD_GIB",
    4,
    "GiB of a file that a server without byte ranges sends as a whole, into a temporary file",
)
"""By default 4 GiB for each file."""


def check_image_size(width: int, height: int, source: str) -> None:
    """See that a declared picture is not too large to be decoded; called before memory is taken for it.

    Args:
        width: in pixels.
        height: in pixels.
        source: the file, for the message.

    Raises:
        UnreadableSourceError: it has more pixels than :data:`IMAGE_PIXELS` allows.
    """
    most = IMAGE_PIXELS.value()
    if width * height > most:
        raise UnreadableSourceError(
            f"it declares pictures of {width}×{height} pixels",
            source=source,
            allowed=f"up to {most:.0f} pixels",
            advice=f"If the file can be trusted, set the environment variable {IMAGE_PIXELS.variable}",
        )
