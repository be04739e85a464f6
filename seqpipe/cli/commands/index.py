"""``seqpipe index``: packet indexes, built ahead of time."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ...errors import ParameterError, SeqpipeError, printable
from ...video.device import STREAM
from .. import options
from ..inputs import InputFile, find_inputs, split
from ..messages import Tally, say
from ..shard import ShardNumbers, of_shard, path_of_shard, shard

if TYPE_CHECKING:
    from ...video.index.shared import SharedRegister
    from ...video.packet_index import PacketIndex

__all__ = ["index"]

_Facts: TypeAlias = tuple[int, int, str]
"""Number of frames, of damaged ones, and what is cut off."""


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
    help="Also collect the indexes in this file, to share with others who have the videos: its paths are relative to "
    "its folder. A URL such as s3://bucket/set.register is for videos of URLs. Datasets find it by themselves if it is "
    "named seqpipe.register and lies in their folder.",
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
    from ..indexing import attempted, for_each_index, is_indexed

    if register is not None and stream is not None:
        raise ParameterError(
            "a register holds the best video of each file", advice="Leave out --stream or --register"
        )
    if merge:
        _merge(paths, register, as_json=as_json)
        return
    if register is not None:
        folder, slash, name = register.rpartition("/")
        register = f"{folder}{slash}{path_of_shard(Path(name), shard)}"
    volumes, items = split(of_shard(list(find_inputs(paths)), shard))
    tally = Tally("index", ("built", "fresh", "failed"), as_json=as_json)
    with contextlib.ExitStack() as closing:
        shared = None if register is None else closing.enter_context(_added_to(register, items))
        chosen: dict[str, Any] = {"whole": True, "verified": verify, "stream": stream, "register": shared}
        inputs = [item.path for item in items if isinstance(item, InputFile)]
        fresh = {path for path in inputs if is_indexed(path, cache_dir, **chosen)}
        if len(fresh) < len(inputs):
            check_writable(cache_directory(cache_dir))  # an unwritable cache fails before any work is done
        read = (attempted(volume, _read_volume) for volume in volumes)
        indexed = for_each_index(items, _facts, jobs=jobs, cache_dir=cache_dir, **chosen)
        closing.enter_context(contextlib.closing(indexed))
        fresh.update(volume.path for volume in volumes)
        for source, result in itertools.chain(read, indexed):
            _tell(source, result, "fresh" if source in fresh else "built", tally)
    tally.finish()


def _merge(paths: tuple[str, ...], register: str | None, *, as_json: bool) -> None:
    """Add the entries of registers to another one."""
    if register is None:
        raise ParameterError("merge=True needs a register to add to", allowed="--register FILE")
    added = 0
    with _added_to(register, ()) as shared:
        for path in paths:
            count = shared.add_from(path)
            added += count
            if as_json:
                click.echo(json.dumps({"type": "register", "source": path, "added": count}))
    if as_json:
        click.echo(json.dumps({"type": "summary", "registers": len(paths), "added": added}))
    say(f"{added:,} entries of {len(paths):,} registers added to {printable(register)}.")


def _added_to(
    register: str, items: Seq[InputFile | SeqpipeError]
) -> contextlib.AbstractContextManager[SharedRegister]:
    """Return a context manager for a register, local or in object storage, that entries are added to."""
    from ...video.index.shared import SharedRegister, stored_register

    if "://" not in register:
        return SharedRegister(register, add=True)
    for item in items:
        if isinstance(item, InputFile) and "://" not in item.path:
            raise ParameterError(
                "it is local, and a register in object storage is read by other machines",
                source=item.path,
                allowed="URLs, or a local register",
            )
    return stored_register(register)


def _tell(source: str, result: _Facts | SeqpipeError, status: str, tally: Tally) -> None:
    """Say what became of one input."""
    values: dict[str, Any] = {"source": source, "frames": None, "lost": None, "error": None}
    if isinstance(result, SeqpipeError):
        tally.tell("failed", values, result)
        return
    frames, lost, cut = result
    if cut:
        say(f"Warning: {printable(source)}: {cut}.")
    if lost:
        say(f"Warning: {printable(source)}: {lost:,} of {frames:,} frames are damaged.")
    tally.tell(status, {**values, "frames": frames, "lost": lost, "error": cut or None})


def _read_volume(volume: InputFile) -> _Facts:
    """Read all voxels of a volume to find damage; volumes need no index."""
    from ...volume.reader import VolumeReader

    with VolumeReader(volume.path) as reader:
        reader.sequence()
        return len(reader), 0, ""


def _facts(_: InputFile, index: PacketIndex) -> _Facts:
    """Return what is told of an index."""
    from ...video.index.open import lost_frames

    return len(index), len(lost_frames(index)), index.cut
