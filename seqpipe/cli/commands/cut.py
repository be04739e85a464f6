"""``seqpipe cut``: a part of a video, by copying packets."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ...errors import OutputError, ParameterError, printable
from .. import options
from ..messages import say
from ..options import MARK, Mark

__all__ = ["cut"]


@click.command()
@click.argument("source", metavar="INPUT", shell_complete=options.files)
@click.argument("target", metavar="OUTPUT", type=click.Path(dir_okay=False))
@click.option(
    "--start",
    type=MARK,
    default="0",
    show_default=True,
    help="Where the cut starts, from the first frame on.",
)
@click.option(
    "--end", type=MARK, help="Where it ends, from the first frame on; the end of the video if not given."
)
@click.option(
    "--exact",
    is_flag=True,
    help="Start with the frame at --start also in Matroska and WebM, whose frames are then encoded anew.",
)
@click.option("--overwrite", is_flag=True, help="Replace OUTPUT if it exists.")
@options.json_lines
@options.cache_dir
def cut(
    source: str,
    target: str,
    start: Mark,
    end: Mark | None,
    exact: bool,
    overwrite: bool,
    as_json: bool,
    cache_dir: str | None,
) -> None:
    """Cut a part out of a video, with its sound, without decoding it.

    OUTPUT is .mp4, .mov, .mkv or .webm, of which MP4 and MOV show the frames of the range alone: what lies between the
    key frame before and the start is stored, and hidden by an edit list. Matroska and WebM begin with the key frame,
    unless --exact is given. Rotation, color tags and languages are kept.
    """
    from ...video.encode.cut import cut_video
    from ...video.index.open import open_index
    from ...video.source.source import open_source

    if Path(target).exists() and not overwrite:
        raise OutputError("the file exists already", source=target, advice="Use --overwrite to replace it")
    index = open_index(open_source(source), cache_dir=cache_dir)
    times = index.timestamps

    def seconds(mark: Mark) -> float:
        if not mark.in_frames:
            return float(times[0]) + mark.value
        if mark.value > len(times):
            raise ParameterError(
                f"frame {mark.value:.0f} is not in the video", source=source, allowed=f"0 to {len(times)}"
            )
        return float(times[int(mark.value)]) if mark.value < len(times) else index.end_s

    made = cut_video(
        source,
        target,
        seconds(start),
        index.end_s if end is None else seconds(end),
        exact=exact,
        cache_dir=cache_dir,
    )
    if as_json:
        click.echo(json.dumps({"type": "cut", "source": source, "out": target, **vars(made)}))
        return
    first = made.start_s - float(times[0])
    how = f"{made.encoded:,} frames encoded anew" if made.encoded else f"{made.copied:,} packets copied"
    hidden = f", {made.hidden_s:.3f} s of them before the start and hidden" if made.hidden_s else ""
    say(f"{printable(target)}: {first:.3f} to {made.end_s - float(times[0]):.3f} s, {how}{hidden}.")
