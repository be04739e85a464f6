"""``seqpipe flow``: the motion between frames of videos, as files of vectors or as colors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from ...flow.params import BACKEND, DIRECTION, OUTPUT_GRID, PRESET
from ...param import Param, choice
from ..output.images import QUALITY
from ..terminal import options
from .shared_options import exporting

__all__ = ["flow"]

_FORMAT: Final = choice(
    "format",
    "What the files are: vectors (flo of Middlebury, 16-bit png of KITTI, npz), or their colors (jpg, mp4).",
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
    DIRECTION, doc="from each frame to the next, or the other way round", choices=DIRECTION.choices[:2]
)


@click.command()
@exporting(
    options.option(_FORMAT, default="flo", show_default=True),
    options.option(replace(QUALITY, doc="Quality of jpg; default 95.")),
    options.option(PRESET, default="medium", show_default=True),
    options.option(OUTPUT_GRID, default=1, show_default=True),
    options.option(_ONE_WAY, default="forward", show_default=True),
    options.option(BACKEND, default="auto", show_default=True),
    options.option(_MAX_MOTION),
)
def flow(**given: Any) -> None:
    """Write the motion between frames of videos to files.

    PATH is a file, a folder (searched through), a URL, or - for standard input; write -- before names that begin
    with a dash.

    For each selected frame, the motion to the next selected frame is written, in pixels of the output frames: --every 2
    gives that over two frames, --fps 10 that over a tenth of a second. Everything else is as in seqpipe export: the
    choice of frames, names, manifest, --resume, what a pipe can do, and the exit codes. npz holds all of a sequence in
    one file where --sequence-length is given; mp4 does, and all of a video where it is not.
    """
    from ..export.flow import FlowOptions
    from ..export.run import run

    click.get_current_context().exit(run(FlowOptions(**given, dtype="uint8", encode="auto")))
