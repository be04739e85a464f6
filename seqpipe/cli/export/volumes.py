"""``seqpipe export`` for volumes: slices, projections and montages as images, or whole volumes as arrays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import numpy as np

from ...core.interrupts import graceful
from ...errors import OutputError, ParameterError, SeqpipeError, printable
from ...sequence import Sequence
from ...video.engine.engine import available_cores
from ...volume.axes import AXES
from ...volume.formats.write import content
from ...volume.reader import VolumeReader
from ...volume.slice_images import as_real, montage, slice_image, window_of, windowed
from ...writers.encoders import Encoder, check_ending, encoder
from ...writers.files import write_whole
from ...writers.lock import locked
from ...writers.pattern import Pattern
from ..input.files import InputFile
from ..job.claims import exists_already, made_otherwise
from ..job.record import OptionDigests, read_entries, record_options, source_key
from ..output.manifest import Manifest, ManifestRow, manifest_format, read_rows
from ..terminal.progress import progress_bar, say
from ..terminal.shard import path_of_shard
from .frames import in_parallel
from .report import ExportReport

if TYPE_CHECKING:
    from ...volume.info import VolumeInfo
    from ...volume.source import AnyArray
    from ..plan.request import Options

__all__ = ["run_volumes"]

_DONE, _FAILED = 0, 1
_LOOKED_AT = 5
"""Volumes of a series that determine the window of all."""
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
        volumes: for a series, the volume of each file; None for a file of all its volumes, and without a series.
        time_step_s: interval between the volumes of a series in seconds, if it is known.
        note: what pictures leave out, as a sentence; "" for nothing.
    """

    input: InputFile
    names: tuple[str, ...]
    slices: tuple[int, ...]
    volumes: tuple[int | None, ...]
    time_step_s: float | None
    note: str


def run_volumes(options: Options, inputs: Seq[InputFile], errors: Seq[SeqpipeError]) -> int:
    """Export volumes, and return the exit code."""
    writer, pattern = _checked(options)
    report, folder = ExportReport(as_json=options.as_json), Path(options.out)
    failed: list[tuple[str, SeqpipeError]] = [(error.source or "", error) for error in errors]
    jobs: list[_Job] = []
    for item in inputs:
        try:
            jobs.append(job := _job(item, options, pattern))
            if job.note:
                say(f"{printable(item.path)}: {job.note}")
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
    manifest_path = None if options.manifest is None else path_of_shard(Path(options.manifest), options.shard)
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
    writer = encoder(options.format, options.quality, dtype=options.dtype)
    text = options.pattern or ("{stem}.{ext}" if _is_single(options) else "{stem}/{index:06d}.{ext}")
    check_ending(text, writer.name)
    return writer, Pattern(text, sequences=False)


def _job(item: InputFile, options: Options, pattern: Pattern) -> _Job:
    with VolumeReader(item.path, series=options.series) as reader:
        info = reader.info
        _check_time(info, options)
        count = len(_reoriented(reader, options))
    volumes: list[int | None] = [None]
    if info.layout == "FDHWC" and options.time is not None:
        volumes = [options.time % info.frames]
    elif info.layout == "FDHWC" and options.format not in _ARRAYS:
        volumes = [*range(info.frames)]
    chosen = _slices(count, options, item.path)
    slices = chosen[:1] if _is_single(options) else chosen
    if len(volumes) > 1 and options.pattern is None:
        pattern = Pattern(
            "{stem}_{volume:03d}.{ext}" if _is_single(options) else "{stem}/{volume:03d}_{frame:06d}.{ext}",
            sequences=False,
        )
    files = [(volume, number) for volume in volumes for number in slices]
    names = tuple(
        pattern.name(
            {
                "name": item.name,
                "stem": item.stem,
                "parent": item.parent,
                "index": index,
                "frame": number,
                "volume": volume or 0,
                "pts_ms": 0,
                "sequence": 0,
                "position": 0,
                "ext": options.format,
            },
            item.path,
        )
        for index, (volume, number) in enumerate(files)
    )
    note = "" if options.format in _ARRAYS else _note_on_channels(info.channels)
    numbers = tuple(number for _, number in files)
    return _Job(item, names, numbers, tuple(volume for volume, _ in files), info.time_step_s, note)


def _is_single(options: Options) -> bool:
    """Return whether there is one file for each volume, not for each slice."""
    return options.format in _ARRAYS or bool(options.mip) or options.montage is not None


def _note_on_channels(channels: int) -> str:
    """Return which of a voxel's values pictures show, if these are not all; else ""."""
    if channels in (1, 3):
        return ""
    shown = "the first is shown" if channels == 2 else "the first three are shown as red, green and blue"
    return f"voxels have {channels} values; {shown}"


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
    with progress_bar("Exporting", files, "files", len(jobs)) as bar:

        def export(job: _Job) -> SeqpipeError | None:
            try:
                for file, image in _images(job, done, options):
                    if stop.is_set():
                        return None
                    write = partial(_write, image, writer, job.time_step_s)
                    size = write_whole(Path(options.out) / job.names[file], write)
                    manifest.add(_row(job, file, image, size))
                    bar.advance(1)
            except OutputError:
                raise
            except SeqpipeError as error:
                return error
            return None

        with in_parallel(export, jobs, threads, stop) as errors:
            for job, error in zip(jobs, errors, strict=True):
                if error is not None:
                    manifest.add(ManifestRow(source=job.input.path, status="failed", error=error.fact))
                    if options.on_error == "raise":
                        raise error
                    report.error(error)
                bar.finish_input()


def _row(job: _Job, file: int, image: Sequence, size: int) -> ManifestRow:
    """The manifest's row of a written file."""
    height, width = image.shape[-3:-1]
    return ManifestRow(
        source=job.input.path,
        status="done",
        output=job.names[file],
        sequence=job.volumes[file],
        frame=job.slices[file],
        length=1,
        width=width,
        height=height,
        bytes=size,
    )


def _images(job: _Job, done: set[str], options: Options) -> Iterator[tuple[int, Sequence]]:
    """The unfinished files of a volume or a series: their numbers within the job, and their content."""
    todo = [number for number, name in enumerate(job.names) if name not in done]
    if not todo:
        return
    with VolumeReader(job.input.path, series=options.series) as reader:
        turned = _reoriented(reader, options)
        if options.format in _ARRAYS:
            # NIfTI keeps a scale; the values are those of the other formats
            yield todo[0], turned.sequence(times=job.volumes[0], stored=options.format == "nii.gz")
            return
        window: tuple[float, float] | None = None
        for volume, files in groupby(todo, lambda file: job.volumes[file]):
            values = as_real(turned.sequence(times=volume).data)
            window = window or _window(turned, values, job, options)
            yield from _pictures(values, turned.info, window, job, list(files), options)


def _window(reader: VolumeReader, values: AnyArray, job: _Job, options: Options) -> tuple[float, float]:
    """Return the lower and upper end of what pictures show; all volumes of a series share them."""
    if options.window is not None:
        return options.window[0] - options.window[1] / 2, options.window[0] + options.window[1] / 2
    volumes = list(dict.fromkeys(job.volumes))
    if len(volumes) == 1 or reader.info.header.get("window"):
        return window_of(values, reader.info)
    spread = [volumes[int((n + 0.5) * len(volumes) / _LOOKED_AT)] for n in range(_LOOKED_AT)]
    step = max(1, _LOOKED_AT * values.size >> 20)
    samples = [as_real(reader.sequence(times=one).data).ravel()[::step] for one in dict.fromkeys(spread)]
    return window_of(np.concatenate(samples))


def _pictures(
    values: AnyArray,
    info: VolumeInfo,
    window: tuple[float, float],
    job: _Job,
    files: Seq[int],
    options: Options,
) -> Iterator[tuple[int, Sequence]]:
    """The pictures of one volume: their numbers within the job, and their pixels."""
    colors = (
        info.channels >= 3 and values.dtype == np.uint8 and options.dtype == "uint8" and not options.window
    )

    def shown(part: AnyArray) -> AnyArray:
        return slice_image(part if colors else windowed(part, window, options.dtype), info.spacing_mm[1:])

    if options.mip:
        yield files[0], Sequence(shown(values.max(axis=0)), "HWC", job.input.path)
    elif options.montage is not None:
        chosen = _slices(len(values), options, job.input.path)
        grid = montage([shown(values[number]) for number in chosen], *options.montage)
        yield files[0], Sequence(grid, "HWC", job.input.path)
    else:
        for file in files:
            yield file, Sequence(shown(values[job.slices[file]]), "HWC", job.input.path)


def _write(frame: Sequence, writer: Encoder, time_step_s: float | None, file: BinaryIO) -> None:
    if writer.name in _ARRAYS:
        step = time_step_s if frame.layout == "FDHWC" else None
        file.write(content(frame, f".{writer.name}", time_step_s=step))
        return
    writer.check_size(frame.shape[1], frame.shape[0], frame.source)
    writer(frame, file)


def _finished(jobs: Seq[_Job], folder: Path, options: Options, settings: OptionDigests) -> set[str]:
    """The files that an earlier run with the same options has written."""
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
