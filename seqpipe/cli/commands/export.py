"""``seqpipe export``: frames and sequences of videos as image or array files."""

from __future__ import annotations

from typing import Any, Final

import click

from ...core.param import Param, choice
from ...video.convert.output import INTEGER_DTYPE, TRANSFER
from ...video.encode.params import GOP, VIDEO_CODEC
from ...volume.axes import AXIS
from ...writers.encoders import ENCODE, FORMAT, QUALITY
from .. import options
from .shared_options import exporting

__all__ = ["export"]


_TO: Final = choice(
    "to",
    "Single files, or shards of samples: tar archives of WebDataset, or Parquet",
    ("files", "webdataset", "parquet"),
)
_PER_SHARD: Final = Param(name="per_shard", doc="Inputs whose samples share a shard", lo=1, hi=1_000_000)
_VOLUMES: Final = (
    options.option(AXIS, default="axial", show_default=True),
    click.option(
        "--window",
        type=options.WINDOW,
        help="Center and width of the values to show, such as 40,400 in Hounsfield units. Default: the file's own, "
        "else percentiles 0.5 to 99.5.",
    ),
    click.option("--mip", is_flag=True, help="One image of the largest values along the axis."),
    click.option(
        "--montage", type=options.GRID, help="One image of slices in columns and rows, such as 6x4."
    ),
    click.option("--time", type=int, help="One volume of a 4-D file, from 0; all of them if not given."),
    options.series,
)


@exporting(
    examples=(
        "seqpipe export clip.mp4 --out frames --fps 2 --short-side 240",
        "seqpipe export videos --out frames --num 8 --manifest frames.csv",
        "seqpipe export film.mp4 --out scenes --scenes --format mp4",
        "seqpipe export ct.nii.gz --out slices --axis coronal --window 40,400",
    ),
    output=(
        options.option(FORMAT, default="jpg", show_default=True),
        options.option(_TO, default="files", show_default=True),
        options.option(_PER_SHARD, default=100, show_default=True),
        options.option(QUALITY),
        options.option(INTEGER_DTYPE, default="uint8", show_default=True),
        options.option(TRANSFER),
        options.option(ENCODE, default="auto", show_default=True),
        options.option(VIDEO_CODEC),
        options.option(GOP),
    ),
    own={"Volumes": _VOLUMES},
)
def export(**settings: Any) -> None:
    """Write frames of videos and slices of volumes to files.

    PATH is a file, a folder (searched with all folders in it), a URL, a pattern in quotes such as 'videos/**/*.mp4', or
    - for standard input; write -- before names that begin with a dash.

    --fps, --every, --frames, --at, --num, --keyframes and --sequence-length exclude one another; without any of them,
    every frame is exported. Times are those of the timestamps, also at variable frame rates, and count from the first
    frame, as in players.

    Of a volume (NIfTI, DICOM series, NRRD, MetaImage and more), slices along --axis are written as images, selected by
    --every, --frames or --num; --format npy, npz or nii.gz writes the whole volume.

    --format mp4, webm, gif and apng write one video of the selected frames, or one for each sequence or scene, with
    their sound where the format holds it. --format vtt writes sprite sheets: thumbnails on JPEG images, and a WebVTT
    file that says when to show which. --skip-black, --min-sharpness, --dedup and --scenes decode a video once
    before, and keep what they found beside its index; videos of whole scenes (mp4, gif, apng) are written meanwhile.

    With --to, samples (frames, or sequences of --sequence-length) go into shards, and DIR may be a URL such as
    s3://bucket/prefix. A shard holds --per-shard inputs and appears when it is complete; --resume writes those that are
    missing, also with another number of jobs. DIR/manifest.jsonl lists all samples once all shards are there.

    Standard input is decoded on the CPU in constant memory, without a copy on disk; reading stops after the last
    frame that is needed. These require a file: --num without a range in frames, negative --frames, rules on what
    frames show (--scenes, --min-motion, …), --contact-sheet, --dry-run, --resume, and MP4 of more than 32 MiB with
    its index at the end. Videos of standard input have no sound.

    Several exports may write different files into one folder at once. DIR/.seqpipe-export.json records the options
    of the files, for --resume.

    Exit codes: 0 all done; 1 some inputs failed, frames were lost, or a file could not be written; 2 wrong usage,
    colliding names, or files that exist already; 130 interrupted or terminated. Files that are being written are
    completed then; a second Ctrl-C after more than a second drops them.
    """
    from ..request import Options
    from ..run import run

    click.get_current_context().exit(run(Options(**settings)))
