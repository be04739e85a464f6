"""Execution of ``seqpipe export``: plan all sources, refuse what cannot succeed, export or list source by source."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import click
import numpy as np

from ..array import IntArray
from ..core.interrupts import graceful
from ..errors import DamagedSourceError, ParameterError, SeqpipeError, printable
from ..video.device import Device
from ..video.engine.engine import available_cores
from ..video.packet_index import PacketIndex
from ..video.reader import VideoReader
from ..writers.files import write_whole
from ..writers.parallel import in_parallel
from .claims import refuse_collisions, reserved
from .exporters.frames import export_frames
from .indexing import attempted, for_each_index
from .inputs import InputFile, find_inputs, refuse_mixture, split
from .manifest import Manifest, ManifestRow, manifest_exists, read_rows
from .messages import progress_bar
from .record import (
    SHEET,
    Finished,
    OptionDigests,
    digest,
    exists_already,
    finished,
    is_current,
    record_options,
)
from .request import ExportRequest, Options
from .shard import of_shard
from .sheet import Gallery, Panel
from .source_plan import SourcePlan, check_told_apart, first_existing, make_plan
from .standard_input import standard_input
from .work import ExportReport, ExportWork, SourceOutcome

__all__ = ["run", "show_plans"]

_INTERRUPTED = "No file is incomplete; repeat the command with --resume to continue."

PlanOrError: TypeAlias = "SourcePlan | SeqpipeError"
Planner: TypeAlias = tuple[Callable[[InputFile, PacketIndex], SourcePlan], Callable[[], object]]
"""What plans a video, and what stops it."""
Exporter: TypeAlias = Callable[[SourcePlan, IntArray, IntArray, ExportWork, Device], SourceOutcome]


def run(options: Options) -> int:
    """Export, and return the exit code."""
    everything = list(find_inputs(options.paths, streamed=True))
    if options.shard is not None or options.to != "files":
        check_told_apart(everything, options)
    if options.to != "files":
        from .exporters.shards import run_shards

        return run_shards(options, everything)
    items = of_shard(everything, options.shard)
    if any(isinstance(item, InputFile) and item.path == "-" for item in items):
        if len(items) > 1:
            raise ParameterError(
                "standard input is exported alone, for it is read only once", advice="Use a command for each"
            )
        if not (options.takes_volumes and standard_input().is_volume):
            from .exporters.piped import run_stream

            return run_stream(options, items[0])
        items = list(find_inputs(["-"]))  # a copy of the volume in a temporary file
    volumes, others = split(items) if options.takes_volumes else ([], items)
    if volumes and (videos := [item for item in others if isinstance(item, InputFile)]):
        raise refuse_mixture(videos[0], volumes[0])
    request = ExportRequest.of(options, volumes=bool(volumes))
    report = ExportReport(options.out, len(items), as_json=options.as_json)
    if options.dry_run:
        planned = _plan_all(request, items, (partial(_plan_known, request), lambda: None))
        plans = _plans_of(planned, request)
        errors = [error for _, error in planned if isinstance(error, SeqpipeError)]
        show_plans(plans, _existing_files(plans, request), errors, request, report)
        return int(bool(errors))
    with graceful(_INTERRUPTED), report.totals():
        _export(request, report, items)
    return report.exit_code


def _export(request: ExportRequest, report: ExportReport, items: Seq[InputFile | SeqpipeError]) -> None:
    """Plan and export; a single video is exported already while it is indexed."""
    options = request.options
    early, first = None, items[0] if len(items) == 1 else None
    if isinstance(first, InputFile) and request.is_sequential:
        from .exporters.while_indexing import export_while_indexing

        early = export_while_indexing(request, report, first)
    with ExitStack() as stack:
        if early is None:
            planned = _plan_all(request, items, _planner(request, len(items), stack))
        else:
            planned = [early.planned(request)]
        plans = _plans_of(planned, request)
        stack.enter_context(reserved(plans, request))
        before = _existing_files(plans, request) if early is None else early.finished(plans, request.folder)
        report.kept = sum(int(files.sum()) for files in before.files) if early is None else 0
        sheet = _sheet_digest(planned, request) if options.contact_sheet else None
        # thumbnails are decoded, which takes as long as an export of them: a sheet that shows the same stays
        is_shown = options.resume and all(files.all() for files in before.files)
        is_shown = is_shown and sheet is not None and is_current(request.folder / SHEET, sheet)
        names, settings = (plan.source for plan in plans), OptionDigests.of(request)
        record_options(request.folder, names, settings, replace=options.overwrite, sheet=sheet)
        has_sheet = sheet is not None and not is_shown
        _export_to_manifest(planned, before, request, report, has_sheet=has_sheet)


def _planner(request: ExportRequest, sources: int, stack: ExitStack) -> Planner:
    """What plans a video; scenes are written meanwhile where that is possible."""
    if request.selection.scenes:
        from .exporters.scenes import scene_drafts

        jobs = request.options.jobs or available_cores()
        drafts = stack.enter_context(scene_drafts(request, max(1, jobs // min(jobs, sources))))
        if drafts is not None:
            return drafts.plan, drafts.stop.set
    return partial(_plan_known, request), lambda: None


def _plan_known(request: ExportRequest, item: InputFile, index: PacketIndex) -> SourcePlan:
    """Plan a video from its index, and what is known of its frames."""
    return make_plan(item, index, request)


def _plans_of(planned: Seq[tuple[str, PlanOrError]], request: ExportRequest) -> list[SourcePlan]:
    """The plans among plans and errors, whose files all have names of their own."""
    plans = [plan for _, plan in planned if isinstance(plan, SourcePlan)]
    refuse_collisions(plans, request)
    return plans


@dataclass(frozen=True)
class _ExportRun:
    """State of one run."""

    request: ExportRequest
    report: ExportReport
    manifest: Manifest
    gallery: Gallery | None

    @property
    def raises(self) -> bool:
        """Whether the first error of an input ends the run."""
        return self.request.options.on_error == "raise"

    def sheet_frames(self, plan: SourcePlan, number: int) -> IntArray:
        """Return the frames of the ``number``-th plan for the contact sheet."""
        return np.empty(0, np.int64) if self.gallery is None else self.gallery.choose(plan.frames, number)

    def show(self, panel: Panel) -> None:
        """Add a source to the contact sheet, if there is one."""
        if self.gallery is not None:
            self.gallery.add(panel)

    def fail(self, source: str, error: SeqpipeError) -> None:
        """Record and report a failed source."""
        self.manifest.add(ManifestRow(source=source, status="failed", error=error.fact))
        self.report_error(error)

    def report_error(self, error: SeqpipeError) -> None:
        """Report an error whose rows are in the manifest."""
        if self.raises:
            raise error
        self.report.error(error)


def _sheet_digest(planned: Seq[tuple[str, PlanOrError]], request: ExportRequest) -> str:
    """Digest of what the contact sheet shows."""
    gallery, panels = Gallery(request.options.sheet_grid, len(planned)), list[object]()
    for number, (source, plan) in enumerate(planned):
        if isinstance(plan, SeqpipeError):
            panels.append((source, plan.fact))
        else:
            panels.append((source, plan.facts, plan.cut, gallery.choose(plan.frames, number).tolist()))
    return digest(OptionDigests.of(request).pixels, request.options.sheet_grid, panels)


def _export_to_manifest(
    planned: Seq[tuple[str, PlanOrError]],
    before: Finished,
    request: ExportRequest,
    report: ExportReport,
    *,
    has_sheet: bool,
) -> None:
    """Export everything, with the manifest and, if it is to be written, the contact sheet."""
    gallery = Gallery(request.options.sheet_grid, len(planned)) if has_sheet else None
    manifest = Manifest(request.manifest, before.kept, listener=report.row)
    try:
        _export_all(planned, before, _ExportRun(request, report, manifest, gallery))
        if gallery is not None:
            page = gallery.page().encode("utf-8")
            write_whole(request.folder / SHEET, lambda file: file.write(page))
    finally:
        manifest.close()


def _plan_all(
    request: ExportRequest, items: Seq[InputFile | SeqpipeError], planner: Planner
) -> list[tuple[str, PlanOrError]]:
    """For each source, its path and its plan or the error that prevents one."""
    options = request.options
    results: Iterable[tuple[str, PlanOrError]]
    if request.volumes:
        from .exporters.volumes import plan_volume

        results = (attempted(item, lambda volume: plan_volume(volume, request)) for item in items)
    else:
        results = for_each_index(
            items,
            planner[0],
            stop=planner[1],
            jobs=options.jobs,
            cache_dir=options.cache_dir,
            stream=options.stream,
            known=options.register,
        )
    plans: list[tuple[str, PlanOrError]] = []
    for source, result in results:
        if isinstance(result, SeqpipeError) and options.on_error == "raise":
            raise result
        plans.append((source, result))
    return plans


def _existing_files(plans: Seq[SourcePlan], request: ExportRequest) -> Finished:
    """The files that an earlier run finished, with ``--resume``; else none."""
    options, manifest = request.options, request.manifest
    if options.resume:
        return finished(
            plans, request.folder, read_rows(manifest) if manifest else (), OptionDigests.of(request)
        )
    if not options.overwrite:
        existing = first_existing(plans, request.folder, *[SHEET] * options.contact_sheet)
        if existing is None and manifest is not None and manifest_exists(manifest):
            existing = manifest
        if existing is not None:
            raise exists_already(existing)
    return Finished([np.zeros(len(plan), dtype=bool) for plan in plans])


def _export_all(planned: Seq[tuple[str, PlanOrError]], before: Finished, run: _ExportRun) -> None:
    """Export the sources, several at a time, and report them in order."""
    plans = [plan for _, plan in planned if isinstance(plan, SourcePlan)]
    todo = [np.flatnonzero(~files) for files in before.files]
    jobs = run.request.options.jobs or available_cores()
    frames = sum(int((plan.frames[files] >= 0).sum()) for plan, files in zip(plans, todo, strict=True))
    at_once = max(1, min(jobs, len(plans)))
    stop, devices = threading.Event(), run.request.devices
    unit, export = "files" if run.request.volumes else "frames", _exporter(run.request)
    with progress_bar("Exporting", frames, unit, len(planned)) as bar:
        work = ExportWork(run.request, max(1, jobs // at_once), run.manifest, bar, stop)

        def job(number: int) -> SourceOutcome:
            device = devices[number % len(devices)]
            shown = run.sheet_frames(plans[number], number)
            outcome = export(plans[number], todo[number], shown, work, device)
            if outcome.error is not None and run.raises:
                stop.set()
            return outcome

        with in_parallel(job, range(len(plans)), at_once, stop) as outcomes:
            for source, plan in planned:
                if isinstance(plan, SeqpipeError):
                    run.show(Panel(source, "", errors=[plan.fact]))
                    run.fail(source, plan)
                else:
                    _conclude(plan, next(outcomes), run)
                bar.finish_input()


def _exporter(request: ExportRequest) -> Exporter:
    """What exports one source."""
    if request.volumes:
        from .exporters.volumes import export_volume

        return export_volume
    if request.encoder.streamed:
        from .exporters.videos import export_videos

        return export_videos
    return export_frames


def _conclude(plan: SourcePlan, outcome: SourceOutcome, run: _ExportRun) -> None:
    """Record and report the errors of one source."""
    errors = [] if outcome.error is None else [outcome.error]
    if plan.cut:
        errors.append(
            DamagedSourceError(plan.cut, source=plan.source, advice="The readable part was exported")
        )
    run.show(Panel(plan.source, plan.facts, outcome.thumbnails, [error.fact for error in errors]))
    if outcome.error is not None:
        run.report_error(outcome.error)
    if plan.cut:
        run.fail(plan.source, errors[-1])


_MOST_SHOWN = 20


def show_plans(
    plans: Seq[SourcePlan],
    before: Finished,
    errors: Seq[SeqpipeError],
    request: ExportRequest,
    report: ExportReport,
) -> None:
    """Print the plans on stdout and the errors on stderr. Decodes one frame to estimate the size of files."""
    counts = [len(plan) - int(files.sum()) for plan, files in zip(plans, before.files, strict=True)]
    for error in errors:
        report.error(error)
    for number, (plan, count) in enumerate(zip(plans, counts, strict=True)):
        first, last = plan.name(0), plan.name(len(plan) - 1)
        size = {"width": plan.width, "height": plan.height}
        report.json("plan", {"source": plan.source, "files": count, "first": first, "last": last, **size})
        if number < _MOST_SHOWN and not request.options.as_json:
            names = printable(first) + (f" … {printable(last)}" if len(plan) > 1 else "")
            click.echo(f"{printable(plan.source)}: {count:,} files of {plan.width}x{plan.height}, {names}")
    estimate = _estimate(plans, counts, request)
    totals = {"sources": len(plans), "failed": len(errors), "files": sum(counts), "bytes": estimate}
    report.json("summary", totals)
    if not request.options.as_json:
        more = f"… and {len(plans) - _MOST_SHOWN:,} more sources.\n" if len(plans) > _MOST_SHOWN else ""
        about = "" if estimate is None else f", about {estimate / 1e6:,.1f} MB,"
        click.echo(f"{more}{sum(counts):,} files{about} would be written to {request.options.out}.")


def _estimate(plans: Seq[SourcePlan], counts: Seq[int], request: ExportRequest) -> int | None:
    """Estimated bytes of all files, from a frame of the first source; None if it cannot be decoded."""
    if not plans:
        return 0
    # the size of a video depends on how much its frames differ, that of a volume's slices on the window
    if request.encoder.streamed or request.volumes:
        return None
    sample = plans[0].frames[len(plans[0]) // 2].tolist()
    file = io.BytesIO()
    try:
        with VideoReader(
            plans[0].source,
            stream=request.options.stream,
            output=request.output,
            cache_dir=request.options.cache_dir,
            register=request.options.register,
        ) as reader:
            request.encoder(reader.frames(sample[:2]) if plans[0].between else reader[sample[0]], file)
    except SeqpipeError:
        return None
    pixels: list[int] = [
        count * (plan.frames.shape[1] - plan.between) * plan.width * plan.height
        for plan, count in zip(plans, counts, strict=True)
    ]
    per_pixel = file.tell() / (plans[0].width * plans[0].height)
    return round(sum(pixels) * per_pixel)
