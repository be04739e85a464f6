"""Options shared by the commands that write files of frames: selection, output, execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from itertools import islice
from typing import Any, Final, TypeAlias

import click

from ...sampling.params import (
    COUNT,
    DEDUP,
    EVERY,
    FPS,
    MIN_MOTION,
    MIN_SHARPNESS,
    SEQUENCE_LENGTH,
    STEP,
    STRIDE,
)
from ...video.convert.output import MAX_SIDE, SHORT_SIDE
from ...video.device import DECODE, STREAM
from ...writers.pattern import FIELDS
from .. import options
from ..options import MARK, TIMES
from ..shard import shard

__all__ = ["GroupedCommand", "OptionAdder", "exporting"]

OptionAdder: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

_PATTERN_HELP = (
    "Names of the files below --out, as a Python format string. Fields: "
    + "; ".join(f"{{{name}}} {meaning}" for name, meaning in FIELDS.items())
    + ". Default: {stem}/{index:06d}.{ext}, or {stem}/{sequence:06d}… for sequences."
)

_OUT: Final = click.option(
    "--out",
    required=True,
    type=click.Path(),
    metavar="DIR",
    help="Folder for the files.",
    shell_complete=options.folders,
)
_FRAMES: Final = (
    options.option(FPS, metavar="N[/D]"),
    options.option(EVERY),
    click.option(
        "--frames",
        type=options.FRAMES,
        help="Frames by number, from 0; negative numbers count from the end. Of a range: --start 10f --end 20f.",
    ),
    click.option(
        "--at",
        type=TIMES,
        help="The frames on screen at these times from the first frame on, such as 0.5,12,1:02.25; each frame once.",
    ),
    options.option(COUNT),
    click.option("--keyframes", is_flag=True, help="Key frames only; no other frame is decoded."),
    options.option(SEQUENCE_LENGTH),
    options.option(STRIDE),
    options.option(
        STEP,
        help="Distance between the starts of neighboring sequences, in frames; if not given, --sequence-length times "
        "--stride.",
    ),
    options.option(MIN_MOTION),
    click.option(
        "--scenes",
        is_flag=True,
        help="Each scene is a sequence, of the frames that the other options select in it; with --sequence-length, "
        "sequences lie within scenes. Scenes are found by the adaptive rule of PySceneDetect.",
    ),
    click.option("--skip-black", is_flag=True, help="Leave black frames out, and sequences with one."),
    options.option(MIN_SHARPNESS),
    options.option(DEDUP),
    click.option(
        "--start",
        type=MARK,
        help="Start of the range, counted from the first frame: 12.5, 1:02:03.25 or 123f.",
    ),
    click.option("--end", type=MARK, help="End of the range; a frame that begins there is left out."),
    click.option("--duration", type=MARK, help="Length of the range, instead of --end."),
    options.option(STREAM),
)
_SIZE: Final = (
    click.option(
        "--size",
        type=options.SIZE,
        help="Width and height of the images, whatever the proportions of the video.",
    ),
    options.option(SHORT_SIDE),
    options.option(MAX_SIDE),
    click.option(
        "--crop",
        type=options.CROP,
        help="Left, top, width and height of the part to show, in pixels of the upright video, before it is scaled.",
    ),
)
_FILES: Final = (
    click.option("--pattern", help=_PATTERN_HELP),
    click.option(
        "--manifest",
        type=click.Path(dir_okay=False),
        help="Write a list of all files: .jsonl, .csv or .parquet.",
    ),
    click.option("--contact-sheet", is_flag=True, help="Also write DIR/contact_sheet.html with thumbnails."),
    click.option(
        "--sheet-grid",
        type=options.GRID,
        help="Columns and rows of the contact sheet, 6x4 if not given; of the sheets of --format vtt, 10x10.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Continue a stopped export: files that are there are kept; if other options made them, it stops.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace existing files."),
    click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing."),
)
_EXECUTION: Final = (
    options.jobs,
    click.option(
        "--device",
        type=options.DEVICE,
        default="auto",
        show_default=True,
        help="Device that decodes: cpu, cuda, cuda:N, cuda:all, or auto for a GPU if one is usable.",
    ),
    options.option(DECODE, default="auto", show_default=True),
    click.option(
        "--on-error",
        type=click.Choice(["skip", "raise"]),
        default="skip",
        show_default=True,
        help="After a failed input: continue with the others, or stop.",
    ),
    options.json_lines,
    options.cache_dir,
    options.register,
)


class GroupedCommand(click.Command):
    """A command whose help has examples, and lists its options under headings.

    Args:
        *args: of :class:`click.Command`.
        examples: complete command lines.
        headings: the headings in order, each with its number of options; the last one also has ``--help``.
        **settings: of :class:`click.Command`.
    """

    def __init__(self, *args: Any, examples: Seq[str], headings: Mapping[str, int], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._examples, self._headings = examples, headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the options, called by Click."""
        with formatter.section("Examples"):
            for example in self._examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")
        options = iter([param for param in self.get_params(ctx) if isinstance(param, click.Option)])
        *_, last = self._headings
        for heading, count in self._headings.items():
            group = list(options if heading == last else islice(options, count))
            records = [record for option in group if (record := option.get_help_record(ctx)) is not None]
            with formatter.section(heading):
                formatter.write_dl(records)


def exporting(
    examples: Seq[str], output: Seq[OptionAdder], own: Mapping[str, Seq[OptionAdder]]
) -> Callable[[Callable[..., Any]], GroupedCommand]:
    """Make a function a command that writes files of frames."""
    headings: Mapping[str, Seq[OptionAdder]] = {
        "Input": (options.files_from, shard),
        "Output": (_OUT, *output),
        "Frames": _FRAMES,
        "Size": _SIZE,
        **own,
        "Files": _FILES,
        "Execution": _EXECUTION,
    }

    def decorated(command: Callable[..., Any]) -> GroupedCommand:
        for adders in reversed([*headings.values()]):
            for add in reversed(adders):
                command = add(command)
        sizes = {heading: len(adders) for heading, adders in headings.items()}
        return click.command(cls=GroupedCommand, examples=examples, headings=sizes)(options.paths(command))

    return decorated
