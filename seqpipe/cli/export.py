"""``seqpipe export``: frames and sequences of videos as picture or array files."""

from __future__ import annotations

from typing import Any

import click

from ..sampling.params import COUNT, EVERY, FPS, SEQUENCE_LENGTH, STEP, STRIDE
from ..video.convert.output import CROP, INTEGER_DTYPE, MAX_SIDE, SHORT_SIDE, SIZE
from ..video.device import DECODE
from ..volume.pictures import AXIS
from . import _options as options
from ._images import ENCODE, FORMAT, QUALITY
from ._pattern import FIELDS
from ._time import MARK

__all__ = ["export"]

_PATTERN_HELP = (
    "Names of the files below --out, as a Python format string. Fields: "
    + "; ".join(f"{{{name}}} {meaning}" for name, meaning in FIELDS.items())
    + ". Default: {stem}/{index:06d}.{ext}, or {stem}/{sequence:06d}… for sequences."
)


@click.command()
@options.inputs
@click.option("--out", required=True, type=click.Path(), metavar="DIR", help="Folder for the files.")
@options.option(FPS)
@options.option(EVERY)
@click.option("--frames", type=options.FRAMES, help="Frames by number; negative numbers count from the end.")
@options.option(COUNT)
@click.option("--keyframes", is_flag=True, help="Frames that decoding can start at; no others are decoded.")
@options.option(SEQUENCE_LENGTH)
@options.option(STRIDE)
@options.option(STEP)
@click.option("--start", type=MARK, help="Where to begin: 12.5, 1:02:03.25 or 123f, from the first frame on.")
@click.option("--end", type=MARK, help="Where to end; a frame that begins there is not taken.")
@click.option("--duration", type=MARK, help="How long, in place of --end.")
@click.option("--size", type=options.SIZE, help=options.sentence(SIZE))
@options.option(SHORT_SIDE)
@options.option(MAX_SIDE)
@click.option("--crop", type=options.CROP, help=options.sentence(CROP))
@options.option(INTEGER_DTYPE, default="uint8", show_default=True)
@options.option(FORMAT, default="jpg", show_default=True)
@options.option(QUALITY)
@click.option("--pattern", help=_PATTERN_HELP)
@options.jobs
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Where to decode: cpu, cuda, cuda:N, cuda:all, or auto for a GPU if one can be used.",
)
@options.option(DECODE, default="auto", show_default=True)
@options.option(ENCODE, default="auto", show_default=True)
@click.option(
    "--manifest", type=click.Path(dir_okay=False), help="List all files here: .jsonl, .csv or .parquet."
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with an export that was stopped: keep what is whole and was made with these options.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there already.")
@click.option(
    "--on-error",
    type=click.Choice(["skip", "raise"]),
    default="skip",
    show_default=True,
    help="After a failed input: go on with the others, or stop.",
)
@options.option(AXIS, default="axial", show_default=True)
@click.option(
    "--window",
    type=options.WINDOW,
    help="For volumes: center and width of the values to show, such as 40,400 in Hounsfield units. "
    "Default: the file's own, else percentiles 0.5 to 99.5.",
)
@click.option("--mip", is_flag=True, help="For volumes: one picture of the largest values along the axis.")
@click.option(
    "--montage",
    type=options.GRID,
    help="For volumes: one picture of slices in columns and rows, such as 6x4.",
)
@click.option("--time", type=int, help="For series of volumes: which one; 0 if not given.")
@click.option("--contact-sheet", is_flag=True, help="Also write DIR/contact_sheet.html with small pictures.")
@click.option(
    "--sheet-grid", type=options.GRID, default="6x4", show_default=True, help="Its columns and rows."
)
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@options.json_lines
@options.cache_dir
def export(**given: Any) -> None:
    """Write frames or sequences of videos, or slices of volumes, to files.

    PATH is a file, a folder (searched through) or a URL; write -- before names that begin with a dash.

    Of a volume (NIfTI, DICOM series, NRRD, MetaImage and more), slices along --axis are written as pictures, or with
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
    from ._export import run
    from ._request import Options

    click.get_current_context().exit(run(Options(**given)))
