"""``seqpipe export --to``: samples of videos in shards, each of which holds those of some consecutive inputs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace

import numpy as np

from ...core.interrupts import graceful
from ...errors import DamagedSourceError, ParameterError, SeqpipeError
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...video.index.open import open_index
from ...writers.job import WriteJob
from ...writers.members import MemberEncoder, SampleFiles
from ...writers.parallel import in_parallel
from ...writers.run import SampleWriter
from ...writers.store import open_store
from ..claims import internal_names
from ..indexing import attempted
from ..inputs import InputFile, split
from ..manifest import Manifest, ManifestRow
from ..messages import progress_bar
from ..record import OptionDigests, digest, source_key
from ..request import ExportRequest, Options
from ..source_plan import SourcePlan, check_collisions, make_plan
from ..work import ExportReport, ExportWork, SourceOutcome
from .frames import assembler_of, decoded

__all__ = ["run_shards"]

_INTERRUPTED = "No shard is incomplete; repeat the command with --resume to continue."
_REFUSED = ("manifest", "contact_sheet", "dry_run")


def run_shards(options: Options, items: Seq[InputFile | SeqpipeError]) -> int:
    """Export into shards, and return the exit code."""
    request = _checked(options, items)
    report = ExportReport(options.out, len(items), as_json=options.as_json, what="sample")
    paths = [source_key(item.path if isinstance(item, InputFile) else item.source or "") for item in items]
    digests = OptionDigests.of(request)
    facts = {
        "version": 1,
        "options": {**options.typed(), "--to": options.to, "--per-shard": options.per_shard},
        "inputs": len(items),
        "digest": digest(digests.pixels, digests.frames, paths),
    }
    numbers = options.shard or (0, 1)
    job = WriteJob(open_store(options.out), facts, len(items), options.per_shard, *numbers)
    with graceful(_INTERRUPTED), report.totals(), job.claimed():
        units = job.begin(resume=options.resume, overwrite=options.overwrite)
        report.kept = len(range(job.rank, job.units, job.world)) - len(units)
        _write_all(job, units, items, request, report)
        job.finish()
    return report.exit_code


def _checked(options: Options, items: Seq[InputFile | SeqpipeError]) -> ExportRequest:
    """Check that the options and inputs are possible for shards."""
    for name in _REFUSED:
        if getattr(options, name):
            raise ParameterError(
                f"--{name.replace('_', '-')} is for single files, and --to {options.to} writes shards",
                allowed="--to files" if name != "manifest" else "DIR/manifest.jsonl, which is written anyway",
            )
    if options.format in ("npz", "nii.gz", "vtt"):
        raise ParameterError(
            f"--format {options.format} is not for frames in shards", allowed="jpg, png, tiff, webp, npy"
        )
    request = ExportRequest.of(options)
    if any(isinstance(item, InputFile) and item.path == "-" for item in items):
        raise ParameterError(
            f"--to {options.to} needs files, which can be read again", advice="Save the stream to a file"
        )
    volumes, _ = split(items)
    if volumes:
        raise ParameterError(
            f"--to {options.to} is for videos",
            source=volumes[0].path,
            advice="Use seqpipe.volumes(…).write(…) for volumes",
        )
    return request


def _write_all(
    job: WriteJob,
    units: Seq[int],
    items: Seq[InputFile | SeqpipeError],
    request: ExportRequest,
    report: ExportReport,
) -> None:
    """Write shards, several at a time."""
    jobs = request.options.jobs or available_cores()
    at_once = max(1, min(jobs, len(units)))
    stop, manifest = threading.Event(), Manifest(None, listener=report.row)
    inputs = sum(len(job.samples(unit)) for unit in units)
    with progress_bar("Exporting", inputs, "inputs", inputs) as bar:
        work = ExportWork(request, max(1, jobs // at_once), manifest, bar, stop)

        def write(unit: int) -> _Unit:
            if stop.is_set():
                return _Unit()
            device = request.devices[unit % len(request.devices)]
            return _write_unit(job, unit, [items[number] for number in job.samples(unit)], work, device)

        with in_parallel(write, units, at_once, stop) as results:
            for done in results:
                for row in done.rows:
                    manifest.add(row)
                for error in done.errors:
                    report.error(error)


@dataclass
class _Unit:
    """What became of a unit: its rows for the report, and the errors of its inputs."""

    rows: list[ManifestRow] = field(default_factory=list)
    errors: list[SeqpipeError] = field(default_factory=list)


def _write_unit(
    job: WriteJob, unit: int, items: Seq[InputFile | SeqpipeError], work: ExportWork, device: Device
) -> _Unit:
    """Write the shard of some inputs."""
    options = work.request.options
    encoder = MemberEncoder(options.format, options.quality, ("image",), str(device), work.threads)
    writer, result = SampleWriter(job, options.to, encoder, _Keys()), _Unit()

    def samples() -> Iterator[SampleFiles]:
        planned = [attempted(item, lambda file: _plan(file, work.request)) for item in items]
        plans = [plan for _, plan in planned if isinstance(plan, SourcePlan)]
        check_collisions(plans, internal_names(work.request))
        for source, plan in planned:
            error: SeqpipeError | None = plan if isinstance(plan, SeqpipeError) else None
            if isinstance(plan, SourcePlan):
                outcome = SourceOutcome()
                yield from _samples(plan, encoder, work, outcome, device, result)
                error = outcome.error
            if error is not None:
                if options.on_error == "raise":
                    raise error
                result.errors.append(error)
                result.rows.append(ManifestRow(source=source, status="failed", error=error.fact))
                yield SampleFiles(-1, source, error=error.fact)
            work.bar.advance(1)
            work.bar.finish_input()

    written = writer.write_shard(unit, samples())
    result.rows = [
        row if row.status == "failed" else replace(row, output=told["files"][0], bytes=told["bytes"])
        for row, told in zip(result.rows, written, strict=True)
    ]
    return result


def _plan(item: InputFile, request: ExportRequest) -> SourcePlan:
    """Plan the samples of an input."""
    options = request.options
    index = open_index(
        item.path, cache_dir=options.cache_dir, stream=options.stream, register=options.register
    )
    return make_plan(item, index, request)


def _samples(
    plan: SourcePlan,
    encoder: MemberEncoder,
    work: ExportWork,
    outcome: SourceOutcome,
    device: Device,
    result: _Unit,
) -> Iterator[SampleFiles]:
    """Yield the samples of a source; its error is kept in the outcome."""
    assembler = assembler_of(plan, np.arange(len(plan)), work.request.encoder)
    for file, content in decoded(plan, assembler, work, outcome, device, host=encoder.on_host):
        row = plan.row(file, status="done")
        values = {
            name: value
            for name in ("sequence", "frame", "length", "pts", "pts_s", "width", "height")
            if (value := getattr(row, name)) is not None
        }
        key = (row.output or "").removesuffix(f".{plan.ending}")
        values["key"] = "/".join([*key.split("/")[:-1], key.rpartition("/")[2].replace(".", "_")])
        divided = encoder.divided({"image": content}, -1, plan.source)
        result.rows.append(row)
        yield SampleFiles(-1, plan.source, divided.members, values)
    if plan.cut and outcome.error is None:
        outcome.error = DamagedSourceError(
            plan.cut, source=plan.source, advice="The readable part was exported"
        )


class _Keys:
    """Names samples as their files would be named."""

    def key(self, sample: SampleFiles) -> str:
        """See :class:`seqpipe.writers.run.KeyNames`."""
        return str(sample.values["key"])
