"""``seqpipe view``: one HTML page of volumes and videos."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from ...errors import ParameterError, SeqpipeError, printable
from ...view.params import FRAMES, MAX_VOXELS, TIME
from ..input.files import InputFile, find_inputs
from ..terminal import options
from ..terminal.wording import worded

if TYPE_CHECKING:
    from ...view import Page

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
@options.option(FRAMES, default=24, show_default=True)
@click.option("--window", type=options.WINDOW, help="Center and width of the values that are shown first.")
@options.option(MAX_VOXELS, default=1 << 22, show_default=True)
@options.option(TIME, default=0, show_default=True)
@options.series
@click.option("--title", default="", help="Heading of the page; the names of the files if not given.")
@options.json_lines
def view(paths: tuple[str, ...], out: str, as_json: bool, **settings: Any) -> None:
    """Write an HTML page of volumes and videos. The page needs no network.

    A volume is shown as three orthogonal planes with sliders, window, labels and a legend, a video as frames with their
    times; both with the facts of seqpipe probe. PATH is a file, a folder (searched recursively) or a URL.

    Files that cannot be shown are reported and left out; the exit code is 1 then.
    """
    errors, page = _page(paths, settings)
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


def _page(paths: tuple[str, ...], settings: dict[str, Any]) -> tuple[list[SeqpipeError], Page | None]:
    """What went wrong, and the page of all else; None if there is nothing else."""
    from ... import open as open_source
    from ...view import Page, show
    from ...view.content import shared_voxels

    labels, title, window, series = (settings.pop(name) for name in ("labels", "title", "window", "series"))
    items = list(find_inputs(paths))
    inputs = [one for one in items if isinstance(one, InputFile)]
    errors = [one for one in items if isinstance(one, SeqpipeError)]
    if len(labels) not in (0, 1, len(inputs)):
        raise ParameterError(
            f"{len(labels)} labels for {len(inputs)} files to show",
            allowed="--label once, or once for each file",
        )
    its = list(labels) * len(inputs) if len(labels) == 1 else list(labels) or [None] * len(inputs)
    settings["max_voxels"] = shared_voxels(settings["max_voxels"], len(inputs))
    if window is not None:
        settings["window"] = window[0] - window[1] / 2, window[0] + window[1] / 2
    pages = []
    for one, label in zip(inputs, its, strict=True):
        try:
            with open_source(one.path, series=series) as reader:
                pages.append(show(reader, label=label, **settings))
        except ParameterError:
            raise
        except SeqpipeError as error:
            errors.append(error)
    panels = [panel for page in pages for panel in page.panels]
    return errors, Page(title or " · ".join(page.title for page in pages[:3]), panels) if panels else None
