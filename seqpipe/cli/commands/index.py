"""``seqpipe index``: packet indexes, built ahead of time."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import ParameterError, SeqpipeError, printable
from ...video.device import STREAM
from .. import options
from ..inputs import InputFile, find_inputs, split
from ..messages import say, worded
from ..shard import ShardNumbers, of_shard, path_of_shard, shard

if TYPE_CHECKING:
    from collections.abc import Iterator

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
@shard
@click.option(
    "--register",
    type=click.Path(dir_okay=False),
    help="Also collect the indexes in this file, to share with others who have the videos: its paths are relative to "
    "its folder. Datasets find it by themselves if it is named seqpipe.register and lies in their folder.",
)
@click.option(
    "--merge",
    is_flag=True,
    help="Join registers: PATH are those of parts, and their entries are added to --register.",
)
@options.jobs
@options.json_lines
@options.cache_dir
def index(
    paths: tuple[str, ...],
    verify: bool,
    stream: int | None,
    shard: ShardNumbers | None,
    register: str | None,
    merge: bool,
    jobs: int | None,
    as_json: bool,
    cache_dir: str | None,
) -> None:
    """Build packet indexes of videos ahead of use. They are kept in the cache, and built again only if a file changes.

    Volumes need no index: each is read once, and damaged ones are reported.

    With --register, indexes are collected in one file for a team or a cluster, where a dataset of these videos finds
    them. Its current entries are kept, so an interrupted run continues where it was, and several may add to one file.
    With --shard, each job has a register of its own, named by its numbers: seqpipe index --merge joins them.

    PATH is a file, a folder (searched recursively), a URL, a pattern in quotes, or - for standard input; write --
    before names that begin with a dash.
    """
    from ...video.index.cache import cache_directory, check_writable
    from ...video.index.shared import SharedRegister
    from ..indexing import for_each_index, is_indexed

    if register is not None and stream is not None:
        raise ParameterError(
            "a register holds the best video of each file", advice="Leave out --stream or --register"
        )
    if merge:
        _merge(paths, register, as_json=as_json)
        return
    if register is not None:
        register = str(path_of_shard(Path(register), shard))
    volumes, items = split(of_shard(list(find_inputs(paths)), shard))
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as closing:
        shared = None if register is None else closing.enter_context(SharedRegister(register, add=True))
        chosen: dict[str, Any] = {"whole": True, "verified": verify, "stream": stream, "register": shared}
        inputs = [item.path for item in items if isinstance(item, InputFile)]
        fresh = {path for path in inputs if is_indexed(path, cache_dir, **chosen)}
        if len(fresh) < len(inputs):
            check_writable(cache_directory(cache_dir))  # an unwritable cache fails before any work is done
        for volume in volumes:
            counts[_index_volume(volume, as_json=as_json)] += 1
        indexed = for_each_index(items, _facts, jobs=jobs, cache_dir=cache_dir, **chosen)
        closing.enter_context(contextlib.closing(indexed))
        counts += _tell(indexed, fresh, as_json=as_json)
    summary = {status: counts[status] for status in ("built", "fresh", "failed")}
    if as_json:
        click.echo(json.dumps({"type": "summary", **summary}))
    say(", ".join(f"{count:,} {status}" for status, count in summary.items()) + ".")
    click.get_current_context().exit(1 if counts["failed"] else 0)


def _merge(paths: tuple[str, ...], register: str | None, *, as_json: bool) -> None:
    """Add the entries of registers to another one."""
    from ...video.index.shared import SharedRegister

    if register is None:
        raise ParameterError("merge=True needs a register to add to", allowed="--register FILE")
    added = 0
    with SharedRegister(register, add=True) as shared:
        for path in paths:
            count = shared.add_from(path)
            added += count
            if as_json:
                click.echo(json.dumps({"type": "register", "source": path, "added": count}))
    if as_json:
        click.echo(json.dumps({"type": "summary", "registers": len(paths), "added": added}))
    say(f"{added:,} entries of {len(paths):,} registers added to {printable(register)}.")


def _tell(
    indexed: Iterator[tuple[str, tuple[int, int, str] | SeqpipeError]], fresh: set[str], *, as_json: bool
) -> Counter[str]:
    """Say what became of each video; returns how many became what."""
    counts: Counter[str] = Counter()
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
    return counts


def _index_volume(volume: InputFile, *, as_json: bool) -> str:
    """Read all voxels of a volume to find damage; volumes need no index."""
    from ...volume.reader import VolumeReader

    values: dict[str, Any] = {
        "source": volume.path,
        "status": "fresh",
        "frames": None,
        "lost": None,
        "error": None,
    }
    try:
        with VolumeReader(volume.path) as reader:
            reader.sequence()
            values |= {"frames": len(reader), "lost": 0}
    except SeqpipeError as error:
        values |= {"status": "failed", "error": worded(error)}
        say(f"Error: {worded(error)}")
    if as_json:
        click.echo(json.dumps({"type": "index", **values}))
    return str(values["status"])


def _facts(_: InputFile, index: PacketIndex) -> tuple[int, int, str]:
    from ...video.index.open import lost_frames

    return len(index), len(lost_frames(index)), index.cut
