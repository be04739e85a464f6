"""``seqpipe resample``: volumes of a data set on another spacing or in another orientation."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.whole_file import write_durably
from ...errors import OutputError, ParameterError, SeqpipeError, printable
from ...writers.files import output_errors
from .. import options
from ..messages import progress_bar, say, worded

if TYPE_CHECKING:
    from ...readers.volumes.listing import Case, Cases

__all__ = ["resample"]

_RECORD = ".seqpipe-resample.json"


@click.command()
@click.argument("source", metavar="IN", shell_complete=options.files)
@click.argument("out", metavar="OUT", type=click.Path())
@click.option("--spacing", metavar="MM", help="Distance of voxels: one number, or slices,rows,columns.")
@click.option("--orientation", help="Directions of columns, rows and slices, such as RAS.")
@click.option(
    "--interp",
    default="linear",
    show_default=True,
    type=click.Choice(["linear", "cubic", "bspline", "nearest", "vote"]),
    help="Interpolation of images; vote makes IN labels, as those of data sets are.",
)
@click.option(
    "--format",
    "ending",
    default="nii.gz",
    show_default=True,
    type=click.Choice(["nii.gz", "nii", "nrrd", "mha", "mgz"]),
    help="Format of the files in a folder OUT.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that exist; else they are kept.")
@options.jobs
@options.json_lines
def resample(
    source: str,
    out: str,
    spacing: str | None,
    orientation: str | None,
    interp: str,
    ending: str,
    overwrite: bool,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Write volumes on another spacing, or in another orientation.

    IN is a volume and OUT a file; or IN is a data set (a folder with images and labels, or a CSV, TSV or JSONL list of
    these) and OUT a folder, which gets a file for each and manifest.csv, with which seqpipe.volumes reads them. Images
    that become coarser are smoothed first. Labels get no new classes.

    A run continues where one with the same settings ended. Volumes that cannot be read are reported and left out; the
    exit code is 1 then.
    """
    from ...readers.volumes.listing import Case, Cases, cases
    from ...segmentation.each_case import each_case
    from ...volume.formats.write import ENDINGS

    settings = {"spacing": _spacing(spacing), "orientation": orientation, "interp": interp}
    if settings["spacing"] is None and orientation is None:
        raise ParameterError("nothing changes", allowed="--spacing, --orientation, or both")
    if out.lower().endswith(ENDINGS):
        given = Cases((Case({"image": source}, source, source),), ())
        targets = {source: {"image": Path(out)}}
    else:
        given = cases(source)
        targets = _targets(given, Path(source), Path(out), ending)
        _check_record(Path(out), {**settings, "format": ending}, overwrite=overwrite)
    failed = 0

    def call(case: Case) -> int:
        return sum(
            _written(case.parts[name], file, settings, label=name in given.label_names)
            for name, file in targets[case.key].items()
            if overwrite or not file.exists()
        )

    done: list[Case] = []
    with progress_bar("Resampling", len(given), "cases", len(given)) as bar:
        for case, result in each_case(given, call, workers=jobs, on_error="skip"):
            bar.advance(1)
            bar.finish_input()
            values: dict[str, Any] = {
                "source": case.key,
                "out": [str(file) for file in targets[case.key].values()],
            }
            if isinstance(result, SeqpipeError):
                failed += 1
                say(f"Error: {worded(result)}")
                values["error"] = worded(result)
            else:
                done.append(case)
                values["written"] = result
            if as_json:
                click.echo(json.dumps({"type": "case", **values}))
    if not out.lower().endswith(ENDINGS):
        _write_manifest(Path(out), done, targets)
    say(f"{len(done):,} cases in {printable(out)}, {failed:,} failed.")
    click.get_current_context().exit(1 if failed else 0)


def _spacing(text: str | None) -> list[float] | None:
    """Return the distances of voxels from one number, or three."""
    from ...volume.regrid import spacing_of_three

    if text is None:
        return None
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    return list(spacing_of_three(numbers[0] if len(numbers) == 1 else numbers))


def _targets(given: Cases, root: Path, out: Path, ending: str) -> dict[str, dict[str, Path]]:
    """Return the file of each part of each case: below OUT as below the folder IN, or that of the list IN."""
    from ...readers.volumes.listing import subject_of

    base = (root if root.is_dir() else root.parent).resolve()
    targets: dict[str, dict[str, Path]] = {}
    owners: dict[Path, str] = {}
    for case in given:
        targets[case.key] = {}
        for name, part in case.parts.items():
            if not isinstance(part, str):
                raise ParameterError(
                    f"{name} is several files", source=case.key, allowed="one file or folder a part"
                )
            path = Path(part).resolve()
            inside = path.relative_to(base) if path.is_relative_to(base) else Path(path.name)
            file = out / inside.parent / f"{subject_of(inside.name.split('::')[0])}.{ending}"
            if owners.setdefault(file, part) != part:
                raise ParameterError(
                    f"{part} and {owners[file]} would both be {file}", advice="Give them different names"
                )
            targets[case.key][name] = file
    return targets


def _written(part: Any, file: Path, settings: dict[str, Any], *, label: bool) -> int:
    """Resample a volume, write it, and return 1."""
    from ...volume.formats.write import save
    from ...volume.reader import VolumeReader

    with output_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with VolumeReader(part) as reader:
        turned = reader if settings["orientation"] is None else reader.reorient(settings["orientation"])
        if settings["spacing"] is not None:
            how: Any = "vote" if label else settings["interp"]
            fill = 0 if how == "vote" else None
            turned = turned.resample(settings["spacing"], interp=how, fill_value=fill)
        save(turned.sequence(), file)
    return 1


def _check_record(out: Path, settings: dict[str, Any], *, overwrite: bool) -> None:
    """Keep the settings of the files in a folder, so that a run does not mix them with others."""
    record, text = out / _RECORD, json.dumps(settings)
    before = record.read_text("utf-8") if record.is_file() else text
    if before != text and not overwrite:
        raise OutputError(
            f"the folder has files of other settings: {before}",
            source=str(out),
            advice="Choose another folder, or --overwrite",
        )
    with output_errors(record):
        out.mkdir(parents=True, exist_ok=True)
        write_durably(record, text.encode())


def _write_manifest(out: Path, done: list[Case], targets: dict[str, dict[str, Path]]) -> None:
    """Write the list of all cases, as :func:`seqpipe.cases` reads it."""
    if not done:
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*done[0].parts, "subject"])
    for case in done:
        files = (file.relative_to(out).as_posix() for file in targets[case.key].values())
        writer.writerow([*files, case.subject])
    with output_errors(out / "manifest.csv"):
        write_durably(out / "manifest.csv", text.getvalue().encode())
