"""``seqpipe probe``: properties of a video or volume, without decoding it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from ...errors import ParameterError, SeqpipeError, printable
from ...video.device import STREAM
from .. import options
from ..inputs import InputFile, find_inputs, split
from ..messages import worded

if TYPE_CHECKING:
    from ...video.packet_index import PacketIndex
    from ...video.probe.info import StreamInfo
    from ...volume.info import VolumeInfo

__all__ = ["probe"]

_TABLE_WIDTH = 200
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

    Read from headers: streams, codec, size, color, timing, chapters and languages of a video; shape, spacing and
    orientation of a volume.

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
    _show(infos, _VIDEOS, _further(infos[0].source) if len(infos) == 1 else {})
    _show(volumes, _VOLUMES)
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
            click.echo(json.dumps({"type": "volume", **reader.info.to_json()}))
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
        click.echo(json.dumps({"type": "stream", **info.to_json(), **_contents(item.path)}))
    elif index is None:
        yield info
    else:
        _show([info], _VIDEOS)
    if index is not None:
        _list_packets(item.path, index, as_json=as_json)


def _contents(source: str) -> dict[str, Any]:
    """Chapters of a container, and languages of its streams: of sound and subtitles."""
    from ...video.probe.probe import chapters, languages, open_container
    from ...video.source.source import open_source

    with open_container(open_source(source)) as container:
        return {"chapters": chapters(container), "languages": languages(container)}


def _further(source: str) -> dict[str, str]:
    """The contents of a container as text; nothing for a source that cannot be opened again."""
    try:
        found = _contents(source)
    except SeqpipeError:
        return {}
    marks = "; ".join(
        f"{chapter['start_s']:.3f} s {chapter['title']}".rstrip() for chapter in found["chapters"]
    )
    spoken = ", ".join(f"{number}: {language}" for number, language in found["languages"].items())
    return {name: text for name, text in (("chapters", marks), ("languages", spoken)) if text}


def _list_packets(source: str, index: PacketIndex, *, as_json: bool) -> None:
    """Print a line for each packet."""
    if not as_json:
        click.echo("".join(f"{name:>12}" for name in _PACKET_COLUMNS))
    for values in _packets(index):
        if as_json:
            click.echo(json.dumps({"type": "packet", "source": source, **values}))
        else:
            click.echo("".join(f"{_plain(value):>12}" for value in values.values()))


def _packets(index: PacketIndex) -> Iterator[dict[str, Any]]:
    """Yield the properties of each packet."""
    table, tick = index.packets, float(index.info.time_base)
    columns = (table.packet_frame, table.pts, table.size, table.key, table.reference, table.shown)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for packet, (frame, pts, size, key, reference, shown) in enumerate(rows):
        values = (packet, frame if frame >= 0 else None, pts, pts * tick, size, key, reference, shown)
        yield dict(zip(_PACKET_COLUMNS, values, strict=True))


def _plain(value: Any) -> str:
    """Return a value as text."""
    if value is None or isinstance(value, bool):
        return "yes" if value else "-"
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def _show(infos: Seq[Any], columns: Mapping[str, _Column], further: Mapping[str, str] | None = None) -> None:
    """Print one source's facts, a line each; print several sources, a line each."""
    if not infos:
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # whose markup is escaped

    if len(infos) == 1:
        title = Text(printable(infos[0].source))
        table = Table("fact", "value", title=title, title_justify="left", show_header=False)
        for name, value in {**infos[0].describe(), **(further or {})}.items():
            table.add_row(name, Text(printable(value)))
    else:
        table = Table()
        for name in ("source", *columns):
            right = columns is _VIDEOS and name != "source"
            table.add_column(name, overflow="fold", justify="right" if right else "left")
        for info in infos:
            table.add_row(
                *(Text(printable(text)) for text in (info.source, *(of(info) for of in columns.values())))
            )
    console = Console()
    # a pipe has no width, and Rich would cut lines at 80 columns
    (console if console.is_terminal else Console(width=_TABLE_WIDTH)).print(table)


def _described(name: str, info: VolumeInfo) -> str:
    """Return a fact of a volume."""
    return info.describe()[name]


_Column: TypeAlias = Callable[[Any], str]
_VIDEOS: Final[Mapping[str, _Column]] = {
    "codec": lambda info: f"{info.codec} {info.profile or ''}".strip(),
    "pixels": lambda info: info.pixel_format,
    "size": lambda info: "x".join(map(str, info.display_size)),
    "rotation": lambda info: f"{info.rotation_degrees}°" if info.rotation_degrees else "-",
    "frames/s": lambda info: "?" if info.average_rate is None else f"{float(info.average_rate):.3f}",
    "frames": lambda info: "?" if info.frame_count is None else str(info.frame_count),
    "seconds": lambda info: "?" if info.duration_s is None else f"{info.duration_s:.3f}",
    "audio": lambda info: "yes" if info.has_audio else "-",
}
_VOLUMES: Final[Mapping[str, _Column]] = {
    name: partial(_described, name)
    for name in ("format", "shape", "dtype", "spacing_mm", "orientation", "space")
}
