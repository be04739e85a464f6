"""Export of a stream on standard input, in constant memory: each file is written once its last frame has come.

What needs seeking, or the video's length beforehand, is refused by name before anything is read.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Final

from ...core.interrupts import graceful
from ...errors import ParameterError, SeqpipeError, UnreadableSourceError
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...video.frame_stream import FramePainter, FrameStream
from ..claims import refuse_collisions, reserved
from ..inputs import InputFile
from ..manifest import Manifest, ManifestRow, manifest_exists
from ..record import OptionDigests, exists_already, record_options
from ..request import ExportRequest, Options
from ..source_plan import provisional_plan
from ..standard_input import standard_input
from ..stream_selection import LOOK_AHEAD, SAVE_STREAM, check_streamable
from ..work import ExportReport
from .streamed import write_arriving

__all__ = ["check_streamed", "run_stream"]

_INTERRUPTED: Final = "No file is incomplete."
_FOREVER: Final = (float("inf"), float("inf"))
_CPU: Final = Device("cpu")


def check_streamed(request: ExportRequest) -> ExportRequest:
    """The request for a stream, which is decoded on the CPU."""
    options = request.options
    refused = {
        "--resume": (options.resume, "a stream cannot be read again"),
        "--dry-run": (options.dry_run, "how many files there will be is not known of a stream"),
        "--contact-sheet": (options.contact_sheet, "its thumbnails are spread over the whole video"),
    }
    for name, (in_use, why) in refused.items():
        if in_use:
            raise ParameterError(
                f"{name} requires a file: {why}", source="standard input", advice=SAVE_STREAM
            )
    if options.device != "auto" and any(device.kind != "cpu" for device in request.devices):
        raise ParameterError(
            f"device={options.device!r} is not possible for standard input, which the CPU decodes",
            allowed="'cpu' or 'auto'",
            advice=SAVE_STREAM,
        )
    check_streamable(request.selection)
    request.encoder.setup(_CPU, 1)
    return replace(request, devices=(_CPU,))


def run_stream(options: Options, item: InputFile | SeqpipeError) -> int:
    """Export the video on standard input, and return the exit code."""
    assert isinstance(item, InputFile)
    request = check_streamed(ExportRequest.of(options))
    report = ExportReport(options.out, 1, as_json=options.as_json)
    with graceful(_INTERRUPTED), report.totals():
        _export(request, report, item)
    return report.exit_code


def _export(request: ExportRequest, report: ExportReport, item: InputFile) -> None:
    """Export the stream, and report its error."""
    options = request.options
    if request.manifest is not None and not options.overwrite and manifest_exists(request.manifest):
        raise exists_already(request.manifest, resumable=False)
    failed: SeqpipeError | None = None
    with ExitStack() as stack:
        try:
            stream = _opened(request, stack)
            plan = provisional_plan(item, stream.info, request)
        except SeqpipeError as error:
            failed = error
        else:
            refuse_collisions([plan], request)
            stack.enter_context(reserved([plan], request))
        sources = [] if failed is not None else [item.path]
        record_options(request.folder, sources, OptionDigests.of(request), replace=options.overwrite)
        manifest = stack.enter_context(closing(Manifest(request.manifest, listener=report.row)))
        if failed is None:
            painter = FramePainter(stream.info, request.output)
            failed = write_arriving(
                plan,
                stream,
                request,
                manifest,
                lambda frame: painter.sequence(frame.number, frame.seconds, frame.surface),
            )
        if failed is None:
            return
        if options.on_error == "raise":
            raise failed
        manifest.add(ManifestRow(source=item.path, status="failed", error=failed.fact))
        report.error(failed)


def _opened(request: ExportRequest, stack: ExitStack) -> FrameStream:
    """Open standard input as a stream of frames."""
    selection = request.selection
    if standard_input().is_empty:
        raise UnreadableSourceError(
            "it is empty (0 bytes)",
            source="standard input",
            advice="The program that writes into the pipe may have failed",
        )
    return FrameStream(
        standard_input(),
        _FOREVER,
        stack,
        stream=request.options.stream,
        look_ahead=0 if selection.fps is None else LOOK_AHEAD,
        keys=selection.keyframes,
        threads=request.options.jobs or available_cores(),
    )
