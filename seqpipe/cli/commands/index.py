"""``seqpipe index``: packet indexes, built ahead of time."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from ...errors import SeqpipeError, printable
from ...video.device import STREAM
from ..input.files import InputFile, find_inputs
from ..input.volumes import check_volume, split
from ..terminal import options
from ..terminal.progress import say
from ..terminal.wording import worded

if TYPE_CHECKING:
    from ...video.packet_index import PacketIndex

__all__ = ["index"]


@click.command()
@options.inputs
@click.option(
    "--verify",
    is_flag=True,
    help="Decode each video once on the CPU and store which packets are damaged; GPU decoders conceal some damage.",
)
@options.option(STREAM)
@options.jobs
@options.json_lines
@options.cache_dir
def index(
    paths: tuple[str, ...],
    verify: bool,
    stream: int | None,
    jobs: int | None,
    as_json: bool,
    cache_dir: str | None,
) -> None:
    """Build the indexes of videos and keep them in the cache; fresh indexes are not built again.

    Volumes need no index: they are read through once, and damaged ones are named.

    PATH is a file, a folder (searched through), a URL, or - for standard input; write -- before names that begin
    with a dash.
    """
    from ...video.index.cache import cache_directory, check_writable
    from ..input.indexing import for_each_index, is_indexed

    volumes, found = split(find_inputs(paths))
    inputs = [item.path for item in found if isinstance(item, InputFile)]
    fresh = {
        path for path in inputs if is_indexed(path, cache_dir, whole=True, verified=verify, stream=stream)
    }
    if len(fresh) < len(inputs):
        check_writable(cache_directory(cache_dir))  # an unwritable cache fails before any work is done
    counts: Counter[str] = Counter()
    for volume in volumes:
        counts[_index_volume(volume, as_json=as_json)] += 1
    indexed = for_each_index(
        found, _facts, jobs=jobs, cache_dir=cache_dir, whole=True, verified=verify, stream=stream
    )
    for source, result in indexed:
        values: dict[str, Any] = {"source": source, "status": "fresh" if source in fresh else "built"}
        if isinstance(result, SeqpipeError):
            values |= {"status": "failed", "frames": None, "lost": None, "error": worded(result)}
            say(f"Error: {worded(result)}")
        else:
            frames, lost, cut = result
            values |= {"frames": frames, "lost": lost, "error": cut or None}
            if cut:
                say(f"Warning: {printable(source)}: {cut}.")
            if lost:
                say(f"Warning: {printable(source)}: {lost:,} of {frames:,} frames are damaged.")
        counts[values["status"]] += 1
        if as_json:
            click.echo(json.dumps({"type": "index", **values}))
    summary = {status: counts[status] for status in ("built", "fresh", "failed")}
    if as_json:
        click.echo(json.dumps({"type": "summary", **summary}))
    say(", ".join(f"{count:,} {status}" for status, count in summary.items()) + ".")
    click.get_current_context().exit(1 if counts["failed"] else 0)


def _index_volume(volume: InputFile, *, as_json: bool) -> str:
    """Read a whole volume to find damage; volumes need no index."""
    try:
        values = check_volume(volume)
    except SeqpipeError as error:
        values = {
            "source": volume.path,
            "status": "failed",
            "frames": None,
            "lost": None,
            "error": worded(error),
        }
        say(f"Error: {worded(error)}")
    if as_json:
        click.echo(json.dumps({"type": "index", **values}))
    return str(values["status"])


def _facts(_: InputFile, index: PacketIndex) -> tuple[int, int, str]:
    from ...video.index.verify import lost_frames

    return len(index), len(lost_frames(index)), index.cut
