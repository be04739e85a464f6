"""``seqpipe transcode``: copies of videos for training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ...core.interrupts import graceful
from ...errors import SeqpipeError, printable
from ...video.encode.params import CODEC, GOP, QUALITY, SHORT_SIDE
from .. import options
from ..messages import Tally, progress_bar, say
from ..shard import ShardNumbers, of_shard, shard

if TYPE_CHECKING:
    from ...video.encode.transcode import Copied, CopySettings
    from ..copies import CopyJob

__all__ = ["transcode"]

_INTERRUPTED: Final = "No copy is incomplete; repeat the command to continue."


@click.command()
@click.argument("source", metavar="LIST", shell_complete=options.files)
@click.argument("out", metavar="OUT", type=click.Path(file_okay=False))
@options.option(SHORT_SIDE, default=256, show_default=True)
@options.option(GOP, default=16, show_default=True)
@options.option(CODEC, default="h264", show_default=True)
@options.option(QUALITY)
@click.option(
    "--plan", is_flag=True, help="Say what copies cost and gain, by a few that are made; write nothing."
)
@shard
@options.jobs
@options.json_lines
@options.cache_dir
def transcode(
    source: str,
    out: str,
    plan: bool,
    shard: ShardNumbers | None,
    jobs: int | None,
    as_json: bool,
    cache_dir: str | None,
    **chosen: Any,
) -> None:
    """Write copies of videos for training: small, and quick to cut random clips of.

    LIST is a manifest (.csv, .tsv, .jsonl), a folder, whose folders are the classes, or a video. OUT gets an MP4 for
    each row, parts of videos as files of their own, and manifest.csv with their labels and further columns. Rotation is
    applied, colors keep matrix and range, and sound is left out.

    A run continues where one with the same settings ended. Videos that cannot be read are reported and left out; the
    exit code is 1 then. With --shard, each job has a manifest of its own, named by its numbers.
    """
    from ...video.encode.transcode import CopySettings
    from ...video.engine.engine import available_cores
    from ..copies import CopyRun, listed, planned

    settings = CopySettings(**chosen)
    todo = planned(listed(source))
    if plan:
        _plan(todo, settings, cache_dir, as_json=as_json)
        return
    tally = Tally("copy", ("copied", "fresh", "failed"), as_json=as_json)
    run, mine = CopyRun(Path(out), settings, cache_dir=cache_dir, shard=shard), len(of_shard(todo, shard))
    with graceful(_INTERRUPTED), progress_bar("Copying", mine, "videos", mine) as bar:

        def tell(job: CopyJob, result: Copied | SeqpipeError | None) -> None:
            values = {"source": job.entry.name, "out": job.out}
            if isinstance(result, SeqpipeError):
                tally.tell("failed", values, result)
            elif result is None:
                tally.tell("fresh", values)
            else:
                tally.tell("copied", values | vars(result))
                if result.lost:
                    say(
                        f"Warning: {printable(values['source'])}: {result.lost:,} packets could not be decoded."
                    )
            bar.advance(1)
            bar.finish_input()

        run.run(todo, jobs or available_cores(), tell)
    tally.finish()


def _plan(jobs: list[CopyJob], settings: CopySettings, cache_dir: str | None, *, as_json: bool) -> None:
    """Say what copies of all videos cost and gain."""
    from ..copies import estimate

    found = estimate(jobs, settings, cache_dir)
    if as_json:
        click.echo(json.dumps({"type": "plan", **vars(found)}))
        return
    say(f"{found.videos:,} copies of {found.frames:,} frames, by the middle of {found.sampled} of them:")
    say(
        f"  video data      {found.bytes_before / 1e6:,.1f} MB before, {found.bytes_after / 1e6:,.1f} MB after"
    )
    say(f"  making them     {found.copy_s:,.1f} s of processor time on this machine")
    say("  for each frame of random clips of 16 frames with stride 4:")
    say(
        f"  decoded frames  {found.decoded_per_frame_before:.2f} before, {found.decoded_per_frame_after:.2f} after"
    )
    say(
        f"  processor time  {found.read_ms_before:.2f} ms before, {found.read_ms_after:.2f} ms after, "
        f"{found.read_ms_before / max(found.read_ms_after, 1e-3):.1f} times less"
    )
