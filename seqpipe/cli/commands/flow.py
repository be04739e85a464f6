"""``seqpipe flow``: optical flow between frames of videos, as files of vectors or colors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from ...core.param import Param, choice
from ...flow.params import BACKEND, DIRECTION, OUTPUT_GRID, PRESET
from ...writers.encoders import QUALITY
from ..options import option
from .shared_options import exporting

__all__ = ["flow"]

_FORMAT: Final = choice(
    "format",
    "Vectors (Middlebury's flo, KITTI's 16-bit png, npz), or their colors (jpg, mp4).",
    ("flo", "png", "npz", "jpg", "mp4"),
)
_MAX_MOTION: Final = Param(
    name="max_motion",
    doc="Motion in pixels that has full color in jpg and mp4; default: a 40th of the longer side.",
    kind=float,
    unit="pixels",
    lo=0.01,
    optional=True,
)
_ONE_WAY: Final = replace(
    DIRECTION, doc="from each frame to the next, or from the next frame back", choices=DIRECTION.choices[:2]
)


@exporting(
    examples=(
        "seqpipe flow clip.mp4 --out motion --fps 5 --max-side 160 --format jpg",
        "seqpipe flow videos --out motion --format mp4",
    ),
    output=(
        option(_FORMAT, default="flo", show_default=True),
        option(replace(QUALITY, doc="Quality of jpg; default 95.")),
        option(_MAX_MOTION),
    ),
    own={
        "Flow": (
            option(PRESET, default="medium", show_default=True),
            option(OUTPUT_GRID, default=1, show_default=True),
            option(_ONE_WAY, default="forward", show_default=True),
            option(BACKEND, default="auto", show_default=True),
        )
    },
)
def flow(**options: Any) -> None:
    """Write the optical flow between frames of videos to files.

    PATH is a file, a folder (searched with all folders in it), a URL, a pattern in quotes such as 'videos/**/*.mp4', or
    - for standard input; write -- before names that begin with a dash.

    For each selected frame, the flow to the next selected frame is written, in pixels of the output frames: --every 2
    gives the motion over two frames, --fps 10 over a tenth of a second. Frame selection, names, manifest, --resume,
    what standard input allows and exit codes are those of seqpipe export. With --sequence-length, npz and mp4 hold a
    sequence in each file; without it, mp4 holds a whole video.
    """
    from ..exporters.flow import FlowOptions
    from ..run import run

    click.get_current_context().exit(run(FlowOptions(**options, dtype="uint8", encode="auto")))
