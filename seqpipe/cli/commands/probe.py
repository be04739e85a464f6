"""``seqpipe probe``: properties of a video or volume, without decoding it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...errors import ParameterError, SeqpipeError, printable
from ...video.device import STREAM
from ..input.files import InputFile, find_inputs
from ..input.volumes import show_volumes, split, volume_json
from ..terminal import options
from ..terminal.wording import worded

if TYPE_CHECKING:
    from rich.table import Table

    from ...video.packet_index import PacketIndex
    from ...video.probe.info import StreamInfo
    from ...volume.info import VolumeInfo

__all__ = ["probe"]

_WIDE = 200
_PACKET_COLUMNS = ("packet", "frame", "pts", "time_s", "size", "key", "reference", "shown")


@click.command()
@options.inputs
@click.option("--packets", is_flag=True, help="List the packets too, in decode order; this indexes the file.")
@options.option(STREAM)
@options.series
@options.json_lines
@options.cache_dir
@options.register
def probe(
    paths: tuple[str, ...],
    packets: bool,
    stream: int | None,
    series: str | None,
    as_json: bool,
    cache_dir: str | None,
    register: str | None,
) -> None:
    """Show the properties of videos and volumes.

    Read from headers: streams, codec, size, color and timing of a video; shape, spacing and orientation of a volume.

    PATH is a file, a folder (searched recursively), a URL, a pattern in quotes, or - for standard input; write --
    before names that begin with a dash. The number of frames is taken from the container's header; seqpipe index
    counts the frames.
    """
    from ...video.index.open import open_index

    failed = False
    infos: list[StreamInfo] = []
    volumes: list[VolumeInfo] = []
    for item in find_inputs(paths):
        try:
            if split([item])[0]:
                volumes += _probe_volume(item, series, as_json=as_json)
            elif series is not None and isinstance(item, InputFile):
                raise ParameterError("--series is for volumes, and this is none", source=item.path)
            else:
                index = partial(open_index, cache_dir=cache_dir, register=register) if packets else None
                infos += _probe_one(item, index, stream=stream, as_json=as_json)
        except SeqpipeError as error:
            failed = True
            click.echo(f"Error: {worded(error)}", err=True)
    if infos and not as_json:
        _show(infos)
    if volumes:
        show_volumes(volumes)
    if failed:
        click.get_current_context().exit(1)


def _probe_volume(
    item: InputFile | SeqpipeError, series: str | None, *, as_json: bool
) -> Iterator[VolumeInfo]:
    """Print one volume's facts as JSON, or yield them for the table."""
    from ...volume.reader import VolumeReader

    if isinstance(item, SeqpipeError):
        raise item
    with VolumeReader(item.path, series=series) as reader:
        if as_json:
            click.echo(volume_json(reader.info))
        else:
            yield reader.info


def _probe_one(
    item: InputFile | SeqpipeError,
    open_index: Callable[..., PacketIndex] | None,
    *,
    stream: int | None,
    as_json: bool,
) -> Iterator[StreamInfo]:
    """Print one source's facts as JSON, or yield them for the table; list packets where an index is opened."""
    from ...video.probe.probe import probe as probe_source

    if isinstance(item, SeqpipeError):
        raise item
    index = None if open_index is None else open_index(item.path, whole=True, stream=stream)
    info = probe_source(item.path, stream=stream) if index is None else index.info
    if as_json:
        click.echo(json.dumps({"type": "stream", **info.to_json()}))
    elif index is None:
        yield info
    else:
        _show([info])
    if index is not None:
        _list_packets(item.path, index, as_json=as_json)


def _list_packets(source: str, index: PacketIndex, *, as_json: bool) -> None:
    if not as_json:
        click.echo("".join(f"{name:>12}" for name in _PACKET_COLUMNS))
    for values in _packets(index):
        if as_json:
            click.echo(json.dumps({"type": "packet", "source": source, **values}))
        else:
            click.echo("".join(f"{_plain(value):>12}" for value in values.values()))


def _packets(index: PacketIndex) -> Iterator[dict[str, Any]]:
    table, tick = index.packets, float(index.info.time_base)
    columns = (table.packet_frame, table.pts, table.size, table.key, table.reference, table.shown)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for packet, (frame, pts, size, key, reference, shown) in enumerate(rows):
        values = (packet, frame if frame >= 0 else None, pts, pts * tick, size, key, reference, shown)
        yield dict(zip(_PACKET_COLUMNS, values, strict=True))


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else "-"
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _show(infos: Seq[StreamInfo]) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        # A pipe has no width, and Rich would cut lines at 80 columns.
        console = Console(width=_WIDE)
    console.print(_facts(infos[0]) if len(infos) == 1 else _overview(infos))


def _facts(info: StreamInfo) -> Table:
    """All facts of one video, a line each."""
    from rich.table import Table

    table = Table("fact", "value", title=_text(info.source), title_justify="left", show_header=False)
    for name, value in info.describe().items():
        table.add_row(name, _text(value))
    return table


def _overview(infos: Seq[StreamInfo]) -> Table:
    """Several videos, a line each."""
    from rich.table import Table

    table = Table()
    for name in ("source", *_OVERVIEW):
        table.add_column(name, overflow="fold", justify="left" if name == "source" else "right")
    for info in infos:
        table.add_row(_text(info.source), *(_text(value(info)) for value in _OVERVIEW.values()))
    return table


def _text(text: str) -> Any:
    """Text with Rich's markup escaped."""
    from rich.text import Text

    return Text(printable(text))


_OVERVIEW: dict[str, Callable[[StreamInfo], str]] = {
    "codec": lambda info: f"{info.codec} {info.profile or ''}".strip(),
    "pixels": lambda info: info.pixel_format,
    "size": lambda info: "x".join(map(str, info.display_size)),
    "rotation": lambda info: f"{info.rotation_degrees}°" if info.rotation_degrees else "-",
    "frames/s": lambda info: "?" if info.average_rate is None else f"{float(info.average_rate):.3f}",
    "frames": lambda info: "?" if info.frame_count is None else str(info.frame_count),
    "seconds": lambda info: "?" if info.duration_s is None else f"{info.duration_s:.3f}",
    "audio": lambda info: "yes" if info.has_audio else "-",
}
