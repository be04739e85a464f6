"""Export of a stream on standard input, in constant memory: each file is written once its last frame has come.

What needs seeking, or the video's length beforehand, is refused by name before anything is read.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Final

import numpy as np

from ...errors import DamagedSourceError, ParameterError, SeqpipeError, UnreadableSourceError
from ...sampling.windows import RollingWindows, Windows
from ...sequence import Sequence
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...video.frame_stream import FramePainter, FrameStream, StreamFrame
from ...video.mp4_writer import write_mp4
from ...writers.files import write_whole
from ..input.files import InputFile
from ..input.standard_input import standard_input
from ..job.claims import exists_already, refuse_collisions, reserved
from ..job.record import OptionDigests, record_options
from ..output.manifest import Manifest, ManifestRow, manifest_exists
from ..plan.request import ExportRequest
from ..plan.select import no_sequence
from ..plan.source_plan import SourcePlan, single_frame
from ..plan.stream_selection import LOOK_AHEAD, SAVE_STREAM, StreamSelector, check_streamable
from ..terminal.progress import progress_bar
from .flow import FlowEncoder
from .flow_videos import flow_colors
from .frames import ExportWork, stacked
from .report import ExportReport
from .source import Piece, write_pieces
from .while_indexing import provisional_plan

__all__ = ["check_streamed", "export_stream"]

_FOREVER: Final = (float("inf"), float("inf"))
_CPU: Final = Device("cpu")


def check_streamed(request: ExportRequest) -> ExportRequest:
    """The request for a stream, which is decoded on the CPU.

    Raises:
        ParameterError: an option requires seeking, or the video's length; the message names it.
    """
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


def export_stream(request: ExportRequest, report: ExportReport, item: InputFile) -> None:
    """Export the video on standard input.

    Args:
        request: the validated options, as :func:`check_streamed` returns them.
        report: takes the rows and errors.
        item: standard input.

    Raises:
        OutputError: a file cannot be written.
        UsageError: two files would have the same name, or one exists already.
        SeqpipeError: the error of the stream, with ``--on-error raise``.
    """
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
            with progress_bar("Exporting", None, "frames", 1) as bar:
                threads = options.jobs or available_cores()
                work = ExportWork(request, threads, manifest, bar, threading.Event())
                failed = _Export(plan, stream, work).write()
        if failed is None:
            return
        if options.on_error == "raise":
            raise failed
        manifest.add(ManifestRow(source=item.path, status="failed", error=failed.fact))
        report.error(failed)


def _opened(request: ExportRequest, stack: ExitStack) -> FrameStream:
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


@dataclass(frozen=True)
class _Member:
    """A converted frame."""

    pts: int
    number: int
    seconds: float
    sequence: Sequence


class _Export:
    """The export of one stream.

    Args:
        plan: names files; its other values are placeholders.
        stream: the video.
        work: what exports share.
    """

    def __init__(self, plan: SourcePlan, stream: FrameStream, work: ExportWork) -> None:
        self._plan, self._stream, self._work = plan, stream, work
        self._request = work.request
        self._selection, self._encoder = work.request.selection, work.request.encoder
        self._painter = FramePainter(stream.info, work.request.output)
        self._selector = StreamSelector(self._selection, stream.info.source)
        self._error: SeqpipeError | None = None
        self._files = 0

    def write(self) -> SeqpipeError | None:
        """Write all files.

        Returns:
            The error that has ended the stream early; files whose frames came before it are written.

        Raises:
            OutputError: a file cannot be written.
        """
        if self._encoder.streamed and not self._selection.sequences:
            self._write_flow_video()
        else:
            write_pieces(self._pieces(), self._work, _CPU)
        return self._error or self._stream.error

    def _frames(self) -> Iterator[StreamFrame]:
        """The selected frames; an error ends them early, and is kept."""
        try:
            yield from self._selector.selected(self._stream.frames(), self._stream)
        except SeqpipeError as error:
            # a stream that ends too early explains every later error
            self._error = self._stream.error or error

    def _members(self) -> Iterator[_Member]:
        last: _Member | None = None
        for frame in self._frames():
            if last is None or last.number != frame.number:
                last = self._painted(frame)
            yield last

    def _painted(self, frame: StreamFrame) -> _Member:
        sequence = self._painter.sequence(frame.number, frame.seconds, frame.surface)
        return _Member(frame.pts, frame.number, frame.seconds, sequence)

    def _pieces(self) -> Iterator[Piece]:
        if self._selection.sequences:
            for number, members in enumerate(self._sequences()):
                yield from self._sequence_files(number, members)
        elif self._encoder.pairs:
            yield from (self._piece(pair) for pair in pairwise(self._two_or_more(self._members())))
        else:
            yield from (self._piece([member]) for member in self._members())

    def _sequences(self) -> Iterator[Seq[_Member]]:
        rule = self._selection
        windows = Windows(sequence_length=rule.sequence_length or 1, stride=rule.stride or 1, step=rule.step)
        rolling: RollingWindows[_Member] | None = None
        count = 0
        for frame in self._frames():
            rolling = rolling or RollingWindows(windows, frame.number)
            if rolling.needs(frame.number):
                rolling.buffer[frame.number] = self._painted(frame)
            for clip in rolling.passed(frame.number):
                count += 1
                yield [rolling.buffer[number] for number in clip.frames.tolist()]
        if not count and self._error is None:
            length = self._selector.frame_count - (self._selector.first or 0)
            self._error = no_sequence(windows, self._stream.info.source, length)

    def _sequence_files(self, number: int, members: Seq[_Member]) -> Iterator[Piece]:
        if self._encoder.packed:
            yield self._piece(members, number)
            return
        parts = pairwise(members) if self._encoder.pairs else ([member] for member in members)
        for position, part in enumerate(parts):
            yield self._piece(part, number, position)

    def _two_or_more(self, members: Iterator[_Member]) -> Iterator[_Member]:
        """The members, or none if there is a single one."""
        begin = list(islice(members, 2))
        if len(begin) == 1 and self._error is None:
            self._error = single_frame(self._stream.info.source)
        elif len(begin) == 2:
            yield from begin
            yield from members

    def _piece(self, members: Seq[_Member], sequence: int | None = None, position: int = 0) -> Piece:
        together = len(members) > 1 or (sequence is not None and self._encoder.packed)
        content = stacked([one.sequence for one in members]) if together else members[0].sequence
        numbers = [one.number for one in members]
        plan = self._planned(members[0], numbers, sequence, position)
        self._path(plan)  # which refuses a file that exists
        return Piece(plan, 0, content)

    def _planned(
        self, first: _Member, numbers: Seq[int], sequence: int | None = None, position: int = 0
    ) -> SourcePlan:
        """The plan of the next file alone."""
        plan = replace(
            self._plan,
            frames=np.array([numbers], np.int64),
            sequence=None if sequence is None else np.array([sequence]),
            position=np.array([position]),
            pts=np.array([first.pts]),
            timestamps=np.array([first.seconds]),
            first=self._files,
        )
        self._files += 1
        return plan

    def _path(self, plan: SourcePlan) -> Path:
        """Where the one file of a plan is to be written.

        Raises:
            UsageError: it exists already.
        """
        path = self._request.folder / plan.name(0)
        # before Python 3.14, Path.exists raises without permission; writing reports that error
        if not self._request.options.overwrite and os.path.exists(path):  # noqa: PTH110
            raise exists_already(path, resumable=False)
        return path

    def _write_flow_video(self) -> None:
        """Write one flow video of all selected frames; none if a frame is damaged."""
        assert isinstance(self._encoder, FlowEncoder)
        encoder, members = self._encoder, self._two_or_more(self._members())
        first = next(members, None)
        if first is None:
            return
        path, numbers = self._path(self._planned(first, [0])), array("q")

        def sequences() -> Iterator[Sequence]:
            for member in chain([first], members):
                numbers.append(member.number)
                yield member.sequence
            if isinstance(self._error, DamagedSourceError):
                raise self._error

        try:
            size = write_whole(path, lambda file: write_mp4(file, flow_colors(sequences(), encoder)))
        except DamagedSourceError:
            return
        plan = replace(self._planned(first, numbers), first=0)
        self._work.manifest.add(plan.row(0, status="done", bytes=size))
