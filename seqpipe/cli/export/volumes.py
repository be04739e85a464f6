"""``seqpipe export`` for volumes: slices, projections and montages as images, or whole volumes as arrays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import numpy as np

from ...core.interrupts import graceful
from ...errors import OutputError, ParameterError, SeqpipeError, printable
from ...sequence import Sequence
from ...video.engine.engine import Engine, available_cores
from ...volume.axes import AXES
from ...volume.formats.write import content
from ...volume.reader import VolumeReader
from ...volume.slice_images import as_real, montage, slice_image, window_of, windowed
from ..input.files import InputFile, write_whole
from ..job.claims import exists_already, made_otherwise
from ..job.lock import locked
from ..job.record import OptionDigests, read_entries, record_options, source_key
from ..output.images import Encoder, check_ending, encoder
from ..output.manifest import Manifest, ManifestRow, manifest_format, read_rows
from ..plan.pattern import Pattern
from ..terminal.progress import progress_bar
from .report import ExportReport

if TYPE_CHECKING:
    from ...volume.info import VolumeInfo
    from ..plan.request import Options

__all__ = ["run_volumes"]

_DONE, _FAILED = 0, 1
_ARRAYS = ("npy", "npz", "nii.gz")
_INTERRUPTED = "No file is incomplete; repeat the command with --resume to continue."
_VIDEOS_ONLY = (
    *(
        "fps",
        "at",
        "keyframes",
        "sequence_length",
        "stride",
        "step",
        "min_motion",
        "start",
        "end",
        "duration",
    ),
    *("size", "short_side", "max_side", "crop", "contact_sheet", "sheet_grid"),
)


@dataclass(frozen=True)
class _Job:
    """One volume to export.

    Attributes:
        input: the source.
        names: its files, relative to the output folder.
        slices: the slice of each file; for projections, montages and whole volumes the first.
    """

    input: InputFile
    names: tuple[str, ...]
    slices: tuple[int, ...]


def run_volumes(options: Options, inputs: Seq[InputFile], errors: Seq[SeqpipeError]) -> int:
    """Export volumes, and return the exit code.

    Args:
        options: as they were typed.
        inputs: the volumes.
        errors: of inputs that cannot be used.

    Raises:
        ParameterError: options conflict, or are for videos.
        OutputError: a file cannot be written.
        SeqpipeError: the first error of an input, with ``--on-error raise``.
    """
    writer, pattern = _checked(options)
    report, folder = ExportReport(as_json=options.as_json), Path(options.out)
    failed: list[tuple[str, SeqpipeError]] = [(error.source or "", error) for error in errors]
    jobs: list[_Job] = []
    for item in inputs:
        try:
            jobs.append(_job(item, options, pattern))
        except SeqpipeError as error:
            if options.on_error == "raise":
                raise
            failed.append((item.path, error))
    _refuse_collisions(jobs)
    if options.dry_run:
        return _show_plans(jobs, failed, options, report)
    settings = OptionDigests.by(
        (
            options.axis,
            options.window,
            options.mip,
            options.montage,
            options.dtype,
            options.time,
            writer.name,
            writer.quality,
            *([] if options.series is None else [options.series]),
        ),
        (options.every, options.frames, options.num, pattern.text),
        options.typed(),
    )
    done = _finished(jobs, folder, options, settings)
    manifest_path = None if options.manifest is None else Path(options.manifest)
    kept = [
        row
        for row in (read_rows(manifest_path) if options.resume and manifest_path else ())
        if row.output in done
    ]
    with graceful(_INTERRUPTED), _locked(manifest_path):
        record_options(folder, (job.input.path for job in jobs), settings, replace=options.overwrite)
        manifest = Manifest(manifest_path, kept, listener=report.row)
        try:
            for source, failure in failed:
                manifest.add(ManifestRow(source=source, status="failed", error=failure.fact))
                report.error(failure)
            _export(jobs, done, writer, options, manifest, report)
        finally:
            manifest.close()
    report.summary(sources=len(jobs) + len(failed), kept=len(done), out=options.out)
    return _DONE if report.all_done else _FAILED


def _locked(path: Path | None) -> AbstractContextManager[None]:
    return nullcontext() if path is None else locked(path, "this manifest")


def _checked(options: Options) -> tuple[Encoder, Pattern]:
    """Check that the options agree, and return the encoder and the pattern of names."""
    misplaced = [name for name in _VIDEOS_ONLY if getattr(options, name) not in (None, False)]
    if misplaced:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in misplaced)
        raise ParameterError(
            f"{names} {'is' if len(misplaced) == 1 else 'are'} for videos",
            allowed="--axis, --window, --mip, --montage, --time, --series, --every, --frames, --num for volumes",
        )
    chosen = [name for name in ("every", "frames", "num") if getattr(options, name) is not None]
    if len(chosen) > 1:
        raise ParameterError(
            f"{' and '.join(f'--{name}' for name in chosen)} exclude one another", allowed="one of them"
        )
    if options.mip and options.montage:
        raise ParameterError("--mip and --montage exclude one another", allowed="one of them")
    if options.format in _ARRAYS and (options.mip or options.montage or chosen or options.window):
        raise ParameterError(
            f"--format {options.format} writes the whole volume as it is",
            allowed="--mip, --montage, --window and a choice of slices with jpg, png, tiff and webp",
        )
    if options.resume and options.overwrite:
        raise ParameterError("--resume and --overwrite exclude one another", allowed="one of them")
    if not options.out:
        raise ParameterError("out='' is empty", allowed="a folder; '.' for the current one")
    if options.manifest is not None:
        manifest_format(Path(options.manifest))
    single = options.format in _ARRAYS or options.mip or options.montage is not None
    writer = encoder(options.format, options.quality, dtype=options.dtype)
    text = options.pattern or ("{stem}.{ext}" if single else "{stem}/{index:06d}.{ext}")
    check_ending(text, writer.name)
    return writer, Pattern(text, sequences=False)


def _job(item: InputFile, options: Options, pattern: Pattern) -> _Job:
    with VolumeReader(item.path, series=options.series) as reader:
        _check_time(reader.info, options)
        count = len(_reoriented(reader, options))
    single = options.format in _ARRAYS or options.mip or options.montage is not None
    chosen = _slices(count, options, item.path)
    slices = chosen[:1] if single else chosen
    names = tuple(
        pattern.name(
            {
                "name": item.name,
                "stem": item.stem,
                "parent": item.parent,
                "index": index,
                "frame": number,
                "pts_ms": 0,
                "sequence": 0,
                "position": 0,
                "ext": options.format,
            },
            item.path,
        )
        for index, number in enumerate(slices)
    )
    return _Job(item, names, tuple(slices))


def _check_time(info: VolumeInfo, options: Options) -> None:
    """Check that a 4-D volume has the time step of ``--time``."""
    if options.time is None or info.layout != "FDHWC":
        return
    count = info.shape[0]
    if not -count <= options.time < count:
        raise ParameterError(
            f"there is no time step {options.time}", source=info.source, allowed=f"{-count} to {count - 1}"
        )


def _reoriented(reader: VolumeReader, options: Options) -> VolumeReader:
    if options.format in _ARRAYS or options.axis == "stored":
        return reader
    return reader.reorient(AXES[options.axis])


def _slices(count: int, options: Options, source: str) -> list[int]:
    """The selected slices; a montage without a selection shows as many as it has cells, spread evenly."""
    number = options.num
    if number is None and options.montage and options.every is None and options.frames is None:
        number = min(count, options.montage[0] * options.montage[1])
    if number is not None:
        return sorted({int(center) for center in (np.arange(number) + 0.5) * count / number})
    if options.frames is not None:
        bad = [number for number in options.frames if not -count <= number < count]
        if bad:
            raise ParameterError(
                f"there is no slice {bad[0]}", source=source, allowed=f"0 to {count - 1}, or from {-count} on"
            )
        return [number % count for number in options.frames]
    return list(range(0, count, options.every or 1))


def _export(
    jobs: Seq[_Job],
    done: set[str],
    writer: Encoder,
    options: Options,
    manifest: Manifest,
    report: ExportReport,
) -> None:
    """Export volumes in parallel, each in a thread that holds the whole volume."""
    files = sum(len(job.names) for job in jobs) - len(done)
    threads, stop = max(1, min(options.jobs or available_cores(), len(jobs))), threading.Event()
    with progress_bar("Exporting", files, "files", len(jobs)) as bar, Engine(threads) as engine:

        def export(job: _Job) -> SeqpipeError | None:
            try:
                for name, number, image in _frames(job, done, options):
                    if stop.is_set():
                        return None
                    size = write_whole(Path(options.out) / name, partial(_write, image, writer))
                    manifest.add(_row(job, name, number, image, size))
                    bar.advance(1)
            except OutputError:
                stop.set()
                raise
            except SeqpipeError as error:
                return error
            return None

        try:
            for job, error in zip(jobs, engine.map(export, jobs), strict=True):
                if error is not None:
                    manifest.add(ManifestRow(source=job.input.path, status="failed", error=error.fact))
                    if options.on_error == "raise":
                        raise error
                    report.error(error)
                bar.finish_input()
        finally:
            stop.set()  # the engine joins its threads at the end of the block


def _row(job: _Job, name: str, number: int, image: Sequence, size: int) -> ManifestRow:
    """The manifest's row of a written file."""
    height, width = image.shape[-3:-1]
    return ManifestRow(
        source=job.input.path,
        status="done",
        output=name,
        frame=number,
        length=1,
        width=width,
        height=height,
        bytes=size,
    )


def _frames(job: _Job, done: set[str], options: Options) -> Iterator[tuple[str, int, Sequence]]:
    """The unfinished files of a volume: name, slice and content."""
    todo = [(name, number) for name, number in zip(job.names, job.slices, strict=True) if name not in done]
    if not todo:
        return
    with VolumeReader(job.input.path, series=options.series) as reader:
        turned = _reoriented(reader, options)
        whole = (
            turned.sequence(times=options.time or 0) if turned.info.layout == "FDHWC" else turned.sequence()
        )
        if options.format in _ARRAYS:
            yield (*todo[0], whole)
            return
        values, info = as_real(whole.scaled().data), turned.info
        center = options.window
        window = window_of(values, info)
        if center is not None:
            window = center[0] - center[1] / 2, center[0] + center[1] / 2
        spacing = info.spacing_mm[1:]
        colors = (
            info.channels >= 3 and values.dtype == np.uint8 and options.dtype == "uint8" and center is None
        )

        def shown(levels: Any) -> Sequence:
            return Sequence(levels, "HWC", job.input.path)

        def level(part: Any) -> Any:
            return slice_image(part if colors else windowed(part, window, options.dtype), spacing)

        if options.mip:
            yield (*todo[0], shown(level(values.max(axis=0))))
        elif options.montage is not None:
            chosen = _slices(len(values), options, job.input.path)
            grid = montage([level(values[number]) for number in chosen], *options.montage)
            yield (*todo[0], shown(grid))
        else:
            for name, number in todo:
                yield name, number, shown(level(values[number]))


def _write(frame: Sequence, writer: Encoder, file: BinaryIO) -> None:
    if writer.name in _ARRAYS:
        file.write(content(frame, f".{writer.name}"))
        return
    writer.check_size(frame.shape[1], frame.shape[0], frame.source)
    writer(frame, file)


def _finished(jobs: Seq[_Job], folder: Path, options: Options, settings: OptionDigests) -> set[str]:
    """The files that an earlier run with the same options has written.

    Raises:
        click.UsageError: files exist, and neither ``--resume`` nor ``--overwrite`` is given; or, with ``--resume``,
            they were made with other options.
    """
    existing = {name: folder / name for job in jobs for name in job.names if (folder / name).exists()}
    if not options.resume:
        if existing and not options.overwrite:
            raise exists_already(next(iter(existing.values())))
        return set()
    entries = read_entries(folder)
    done = set()
    for job in jobs:
        entry, there = entries.get(source_key(job.input.path)), [n for n in job.names if n in existing]
        if there and (entry is None or not entry.is_of(settings)):
            raise made_otherwise(existing[there[0]], job.input.path, entry, settings)
        done |= {n for n in there if entry is not None and existing[n].stat().st_mtime_ns >= entry.since_ns}
    return done


def _refuse_collisions(jobs: Seq[_Job]) -> None:
    seen: dict[str, str] = {}
    for job in jobs:
        for name in job.names:
            if name in seen:
                raise click.UsageError(
                    f"{printable(seen[name])} and {printable(job.input.path)} would both give {printable(name)}. "
                    "Give a --pattern with {parent} or {index}.",
                    click.get_current_context(),
                )
            seen[name] = job.input.path


def _show_plans(
    jobs: Seq[_Job], failed: Seq[tuple[str, SeqpipeError]], options: Options, report: ExportReport
) -> int:
    for _, error in failed:
        report.error(error)
    for job in jobs:
        values = {
            "source": job.input.path,
            "files": len(job.names),
            "first": job.names[0],
            "last": job.names[-1],
        }
        report.json("plan", values)
        if not options.as_json:
            last = f" … {printable(job.names[-1])}" if len(job.names) > 1 else ""
            click.echo(
                f"{printable(job.input.path)}: {len(job.names):,} files, {printable(job.names[0])}{last}"
            )
    total = sum(len(job.names) for job in jobs)
    report.json("summary", {"sources": len(jobs), "failed": len(failed), "files": total})
    if not options.as_json:
        click.echo(f"{total:,} files would be written to {options.out}.")
    return _FAILED if failed else _DONE
