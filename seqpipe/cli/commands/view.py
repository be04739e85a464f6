"""``seqpipe view``: one HTML page of volumes and videos."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from ...errors import ParameterError, SeqpipeError, printable
from ...view.params import FRAMES, MAX_VOXELS, TIME
from .. import options
from ..inputs import InputFile, find_inputs
from ..messages import say, worded

if TYPE_CHECKING:
    from ...view import Page
    from ...view.page import PagePanel

__all__ = ["view"]

_FAILED: Final = 1


@click.command()
@options.inputs
@click.option(
    "--out", required=True, type=click.Path(), metavar="FILE", help="The page, such as report.html."
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="FILE",
    shell_complete=options.files,
    help="A label volume that is laid over the volume; repeat it, once for each PATH. One alone is for all of them.",
)
@click.option(
    "--side-by-side",
    is_flag=True,
    help="PATH are two folders, such as videos and their copies: files of the same names stand beside one another.",
)
@options.option(FRAMES, default=24, show_default=True)
@click.option("--window", type=options.WINDOW, help="Center and width of the values that are shown first.")
@options.option(MAX_VOXELS, default=1 << 22, show_default=True)
@options.option(TIME, default=0, show_default=True)
@options.series
@click.option("--title", default="", help="Heading of the page; the names of the files if not given.")
@options.json_lines
def view(paths: tuple[str, ...], out: str, side_by_side: bool, as_json: bool, **settings: Any) -> None:
    """Write an HTML page of volumes and videos. The page needs no network.

    A volume is shown as three orthogonal planes with sliders, window, labels and a legend, a video as frames with their
    times; both with the facts of seqpipe probe. PATH is a file, a folder (searched recursively) or a URL.

    Files that cannot be shown are reported and left out; the exit code is 1 then.
    """
    errors, page = _page(paths, side_by_side, settings)
    for error in errors:
        click.echo(f"Error: {worded(error)}", err=True)
    if page is not None:
        for panel in page.panels:
            for note in panel.notes:
                click.echo(f"{printable(panel.title)}: {note}", err=True)
        size = page.save(out)
        summary = {
            "type": "summary",
            "out": out,
            "bytes": size,
            "panels": len(page.panels),
            "failed": len(errors),
        }
        click.echo(
            json.dumps(summary) if as_json else f"{out}: {len(page.panels)} shown, {size:,} bytes",
            err=not as_json,
        )
    if errors:
        click.get_current_context().exit(_FAILED)


def _page(
    paths: tuple[str, ...], side_by_side: bool, settings: dict[str, Any]
) -> tuple[list[SeqpipeError], Page | None]:
    """What went wrong, and the page of all else; None if there is nothing else."""
    from ... import open as open_source
    from ...view import Page, show
    from ...view.content import shared_voxels

    labels, title, window, series = (settings.pop(name) for name in ("labels", "title", "window", "series"))
    items, columns = (_pairs(paths), 2) if side_by_side else (list(find_inputs(paths)), 1)
    inputs = [item for item in items if isinstance(item, InputFile)]
    errors = [item for item in items if isinstance(item, SeqpipeError)]
    if len(labels) not in (0, 1, len(inputs)):
        raise ParameterError(
            f"{len(labels)} labels for {len(inputs)} files to show",
            allowed="--label once, or once for each file",
        )
    shown_labels = list(labels) * len(inputs) if len(labels) == 1 else list(labels) or [None] * len(inputs)
    settings["max_voxels"] = shared_voxels(settings["max_voxels"], len(inputs))
    if window is not None:
        settings["window"] = window[0] - window[1] / 2, window[0] + window[1] / 2
    panels: list[PagePanel] = []
    for first in range(0, len(inputs), columns):
        row: list[PagePanel] = []
        try:
            for number in range(first, first + columns):
                with open_source(inputs[number].path, series=series) as reader:
                    row += show(reader, label=shown_labels[number], **settings).panels
        except ParameterError:
            raise
        except SeqpipeError as error:
            errors.append(error)
        else:
            panels += [replace(panel, group=f"pair {first}") for panel in row] if side_by_side else row
    title = title or " · ".join(dict.fromkeys(panel.title for panel in panels[:3]))
    return errors, Page(title, panels, columns) if panels else None


def _pairs(paths: tuple[str, ...]) -> list[InputFile | SeqpipeError]:
    """The files of two folders that have the same place in both, in pairs; and errors."""
    if len(paths) != 2:
        raise ParameterError(f"side_by_side=True with {len(paths)} paths", allowed="two folders")
    items = [list(find_inputs([path])) for path in paths]
    sides = [
        {(item.parent, item.stem): item for item in listed if isinstance(item, InputFile)} for listed in items
    ]
    both = [place for place in sides[0] if place in sides[1]]
    alone = [item.path for side in sides for place, item in side.items() if place not in both]
    errors = [item for listed in items for item in listed if isinstance(item, SeqpipeError)]
    if not both and not errors:
        raise ParameterError(
            "the two folders have no files of the same names", source=" and ".join(map(printable, paths))
        )
    if alone:
        say(f"{len(alone):,} files, such as {printable(alone[0])}, are in one folder alone and left out.")
    return [*errors, *(side[place] for place in both for side in sides)]
