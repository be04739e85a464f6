"""``--dry-run``: the files that an export would write, and their approximate size."""

from __future__ import annotations

import io
from collections.abc import Sequence as Seq

import click

from ..errors import SeqpipeError, printable
from ..video.reader import VideoReader
from ._plan import SourcePlan
from ._report import ExportReport
from ._request import ExportRequest
from ._resume import Finished

__all__ = ["show_plans"]

_SHOWN = 20


def show_plans(
    plans: Seq[SourcePlan],
    before: Finished,
    errors: Seq[SeqpipeError],
    request: ExportRequest,
    report: ExportReport,
) -> None:
    """Print the plans on stdout and the errors on stderr. Decodes one frame, to see how large files become.

    Args:
        plans: what would be exported.
        before: what is finished already.
        errors: of the sources without a plan.
        request: what is wanted.
        report: takes the errors, and JSON lines if they are wanted.
    """
    counts = [len(plan) - int(files.sum()) for plan, files in zip(plans, before.files, strict=True)]
    for error in errors:
        report.error(error)
    for number, (plan, count) in enumerate(zip(plans, counts, strict=True)):
        first, last = plan.name(0), plan.name(len(plan) - 1)
        size = {"width": plan.width, "height": plan.height}
        report.json("plan", {"source": plan.source, "files": count, "first": first, "last": last, **size})
        if number < _SHOWN and not request.options.as_json:
            names = printable(first) + (f" … {printable(last)}" if len(plan) > 1 else "")
            click.echo(f"{printable(plan.source)}: {count:,} files of {plan.width}x{plan.height}, {names}")
    estimate = _estimate(plans, counts, request)
    totals = {"sources": len(plans), "failed": len(errors), "files": sum(counts), "bytes": estimate}
    report.json("summary", totals)
    if not request.options.as_json:
        more = f"… and {len(plans) - _SHOWN:,} more sources.\n" if len(plans) > _SHOWN else ""
        about = "" if estimate is None else f", about {estimate / 1e6:,.1f} MB,"
        click.echo(f"{more}{sum(counts):,} files{about} would be written to {request.options.out}.")


def _estimate(plans: Seq[SourcePlan], counts: Seq[int], request: ExportRequest) -> int | None:
    """Bytes of all files, judged by one frame from the middle of the first source; None if it cannot be had."""
    if not plans:
        return 0
    if request.encoder.streamed:  # of films, how much changes decides
        return None
    sample = plans[0].frames[len(plans[0]) // 2].tolist()
    file = io.BytesIO()
    try:
        with VideoReader(
            plans[0].source,
            stream=request.options.stream,
            output=request.output,
            cache_dir=request.options.cache_dir,
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
