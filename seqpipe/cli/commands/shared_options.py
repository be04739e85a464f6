"""Options shared by the commands that write files of frames: selection, output, execution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from ...sampling.params import COUNT, EVERY, FPS, MIN_MOTION, SEQUENCE_LENGTH, STEP, STRIDE
from ...video.convert.output import CROP, MAX_SIDE, SHORT_SIDE, SIZE
from ...video.device import DECODE, STREAM
from ..plan.pattern import FIELDS
from ..terminal import options
from ..terminal.time import MARK

__all__ = ["exporting"]

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_PATTERN_HELP = (
    "Names of the files below --out, as a Python format string. Fields: "
    + "; ".join(f"{{{name}}} {meaning}" for name, meaning in FIELDS.items())
    + ". Default: {stem}/{index:06d}.{ext}, or {stem}/{sequence:06d}… for sequences."
)

# in the order of the help
_FRAMES: Final = (
    click.option("--out", required=True, type=click.Path(), metavar="DIR", help="Folder for the files."),
    options.option(FPS),
    options.option(EVERY),
    click.option(
        "--frames", type=options.FRAMES, help="Frames by number; negative numbers count from the end."
    ),
    options.option(COUNT),
    click.option("--keyframes", is_flag=True, help="Key frames only; no other frame is decoded."),
    options.option(SEQUENCE_LENGTH),
    options.option(STRIDE),
    options.option(STEP),
    options.option(MIN_MOTION),
    click.option(
        "--start",
        type=MARK,
        help="Start of the range, counted from the first frame: 12.5, 1:02:03.25 or 123f.",
    ),
    click.option("--end", type=MARK, help="End of the range; a frame that begins there is left out."),
    click.option("--duration", type=MARK, help="Length of the range, instead of --end."),
    click.option("--size", type=options.SIZE, help=options.sentence(SIZE)),
    options.option(SHORT_SIDE),
    options.option(MAX_SIDE),
    click.option("--crop", type=options.CROP, help=options.sentence(CROP)),
)
_WORK: Final = (
    click.option("--pattern", help=_PATTERN_HELP),
    options.jobs,
    click.option(
        "--device",
        default="auto",
        show_default=True,
        help="Device that decodes: cpu, cuda, cuda:N, cuda:all, or auto for a GPU if one is usable.",
    ),
    options.option(STREAM),
    options.option(DECODE, default="auto", show_default=True),
    click.option(
        "--manifest",
        type=click.Path(dir_okay=False),
        help="Write a list of all files: .jsonl, .csv or .parquet.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Continue a stopped export: keep complete files that were made with the same options.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace existing files."),
    click.option(
        "--on-error",
        type=click.Choice(["skip", "raise"]),
        default="skip",
        show_default=True,
        help="After a failed input: continue with the others, or stop.",
    ),
    click.option("--contact-sheet", is_flag=True, help="Also write DIR/contact_sheet.html with thumbnails."),
    click.option(
        "--sheet-grid",
        type=options.GRID,
        default="6x4",
        show_default=True,
        help="Columns and rows of the contact sheet.",
    ),
    click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing."),
    options.json_lines,
    options.cache_dir,
    options.register,
)


def exporting(*own: Callable[[Any], Any]) -> Callable[[CommandT], CommandT]:
    """Add the shared options to a command; its own options stand in the help between selection and execution."""

    def decorated(command: CommandT) -> CommandT:
        for add in reversed((options.inputs, *_FRAMES, *own, *_WORK)):
            command = add(command)
        return command

    return decorated
