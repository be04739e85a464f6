"""``seqpipe export``: frames and sequences of videos as image or array files."""

from __future__ import annotations

from typing import Any

import click

from ...video.convert.output import INTEGER_DTYPE
from ...volume.axes import AXIS
from ..output.images import ENCODE, FORMAT, QUALITY
from ..terminal import options
from .shared_options import exporting

__all__ = ["export"]


@click.command()
@exporting(
    options.option(INTEGER_DTYPE, default="uint8", show_default=True),
    options.option(FORMAT, default="jpg", show_default=True),
    options.option(QUALITY),
    options.option(ENCODE, default="auto", show_default=True),
    options.option(AXIS, default="axial", show_default=True),
    click.option(
        "--window",
        type=options.WINDOW,
        help="For volumes: center and width of the values to show, such as 40,400 in Hounsfield units. "
        "Default: the file's own, else percentiles 0.5 to 99.5.",
    ),
    click.option("--mip", is_flag=True, help="For volumes: one image of the largest values along the axis."),
    click.option(
        "--montage",
        type=options.GRID,
        help="For volumes: one image of slices in columns and rows, such as 6x4.",
    ),
    click.option("--time", type=int, help="For 4-D volumes: the time step; default 0."),
)
def export(**settings: Any) -> None:
    """Write frames or sequences of videos, or slices of volumes, to files.

    PATH is a file, a folder (searched recursively), a URL, or - for standard input; write -- before names that begin
    with a dash.

    What comes through a pipe is streamed in constant memory and disk, by the CPU, and left when all that was asked for
    is there. Requiring a file, to which the stream is to be saved first: --num without a range in frames, negative
    --frames, --min-motion, --contact-sheet, --dry-run, --resume, MP4 of more than 32 MiB with its index at the end.

    Of a volume (NIfTI, DICOM series, NRRD, MetaImage and more), slices along --axis are written as images, or with
    --format npy, npz or nii.gz the whole volume; --every, --frames and --num choose slices.

    Of --fps, --every, --frames, --num, --keyframes and --sequence-length at most one is given; without any,
    every frame is exported. Times go by the timestamps, so variable frame rates come out right; they count
    from the first frame, as players show them.

    Several exports may write into one folder at once, but not the same files. DIR/.seqpipe-export.json notes what the
    files were made with, for --resume.

    Exit codes: 0 all done; 1 some inputs failed or frames were lost, or a file could not be written; 2 wrong
    usage, names that collide, or files that are there already; 130 interrupted or terminated: what is under way is
    written first, or left out if that takes more than a second and Ctrl-C is pressed again.
    """
    from ..export.run import run
    from ..plan.request import Options

    click.get_current_context().exit(run(Options(**settings)))
