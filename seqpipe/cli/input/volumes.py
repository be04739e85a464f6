"""Volumes on the command line: detection, and output of ``probe`` and ``index``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ...errors import SeqpipeError, printable
from .files import InputFile

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from ...volume.info import VolumeInfo

__all__ = ["check_volume", "refuse_mixture", "show_volumes", "split", "volume_json"]


def split(
    items: Iterable[InputFile | SeqpipeError],
) -> tuple[list[InputFile], list[InputFile | SeqpipeError]]:
    """Split inputs into volumes and all others, by content; unreadable files are among the others."""
    from ...volume.formats.open import is_volume

    volumes: list[InputFile] = []
    others: list[InputFile | SeqpipeError] = []
    for item in items:
        try:
            volume = isinstance(item, InputFile) and is_volume(item.path)
        except SeqpipeError:
            volume = False
        if volume and isinstance(item, InputFile):
            volumes.append(item)
        else:
            others.append(item)
    return volumes, others


def volume_json(info: VolumeInfo) -> str:
    """The facts of a volume as one line of JSON."""
    return json.dumps({"type": "volume", **info.to_json()})


def check_volume(item: InputFile) -> dict[str, Any]:
    """Read all voxels of a volume, and return the line that ``index`` prints."""
    from ...volume.reader import VolumeReader

    with VolumeReader(item.path) as reader:
        reader.sequence()
        return {"source": item.path, "status": "fresh", "frames": len(reader), "lost": 0, "error": None}


def show_volumes(infos: Seq[VolumeInfo]) -> None:
    """Print one volume's facts, a line each; print several volumes, a line each."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a pipe has no width, and Rich would cut lines at 80 columns
    if len(infos) == 1:
        table = Table(
            "fact", "value", title=Text(printable(infos[0].source)), title_justify="left", show_header=False
        )
        for name, value in infos[0].describe().items():
            table.add_row(name, Text(printable(value)))
    else:
        table = Table()
        columns = ("format", "shape", "dtype", "spacing_mm", "orientation", "space")
        for name in ("source", *columns):
            table.add_column(name, overflow="fold")
        for info in infos:
            words = info.describe()
            table.add_row(Text(printable(info.source)), *(Text(words[name]) for name in columns))
    console.print(table)


def refuse_mixture(video: InputFile, volume: InputFile) -> click.UsageError:
    """The error for an export of videos, such as ``video``, together with volumes."""
    return click.UsageError(
        f"The inputs are videos (such as {printable(video.path)}) and volumes (such as {printable(volume.path)}), "
        "which have different options: export them with two commands, for example with the paths 'DIR/**/*.mp4' and "
        "'DIR/**/*.nii.gz', in quotes.",
        click.get_current_context(),
    )
