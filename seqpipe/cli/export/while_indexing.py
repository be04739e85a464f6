"""Export of a video while its index is built: files are written from the first packet on.

The written files are then compared with the plan that follows from the index, as ``--resume`` does with the files of an
earlier run: matching files are kept, others are removed, and missing ones are exported by the plan.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import OutputError, SeqpipeError
from ...sampling.clock import EQUAL_S
from ...video.engine.engine import available_cores
from ...video.index.open import index_without_scan, store_index
from ...video.packet_index import NO_PACKETS, PacketIndex
from ...video.source.source import open_source
from ..input.files import InputFile
from ..job.claims import internal_names, reserved
from ..job.record import OptionDigests, record_options
from ..job.resume import Finished
from ..output.manifest import Manifest, ManifestRow, manifest_exists
from ..plan.request import ExportRequest
from ..plan.select import TimeRange
from ..plan.source_plan import SourcePlan, check_collisions, make_plan
from ..terminal.progress import progress_bar
from .frames import ExportWork, clock_of
from .report import ExportReport
from .source import Assembler, Piece, write_pieces

if TYPE_CHECKING:
    from ...video.probe.info import StreamInfo
    from ...video.stream import FirstFrame, FirstPass

__all__ = ["EarlyExport", "export_while_indexing", "provisional_plan"]

_MOST_FRAMES, _MARGIN, _EXTRA_FRAMES = 1 << 20, 1.1, 64
_UNDECLARED_FRAMES = 1 << 15


@dataclass
class EarlyExport:
    """The result of an export that ran while the index was built.

    Attributes:
        input: the video.
        index: the video's index, of its beginning only if no more was needed; or the error of the video.
        rows: the manifest's rows of the written files, by file name.
    """

    input: InputFile
    index: PacketIndex | SeqpipeError
    rows: dict[str, ManifestRow]

    def planned(self, request: ExportRequest) -> tuple[str, SourcePlan | SeqpipeError]:
        """Return the video's path, and its plan or error.

        Raises:
            SeqpipeError: the error, with ``--on-error raise``.
        """
        try:
            if isinstance(self.index, SeqpipeError):
                raise self.index
            return self.input.path, make_plan(self.input, self.index, request)
        except SeqpipeError as error:
            if request.options.on_error == "raise":
                raise
            return self.input.path, error

    def finished(self, plans: Seq[SourcePlan], folder: Path) -> Finished:
        """Compare the files with the plan, and remove files that are not part of it.

        Args:
            plans: the video's plan; empty after an error.
            folder: the output folder.
        """
        if isinstance(self.index, SeqpipeError):
            return Finished([], list(self.rows.values()))
        result, left = Finished([], list(self.rows.values())), dict(self.rows)
        for plan in plans:
            done = np.zeros(len(plan), dtype=bool)
            for file, name in enumerate(plan.names()):
                row = left.pop(name, None)
                if row is not None and row == plan.row(file, status="done", bytes=row.bytes):
                    done[file] = True
                elif row is not None:
                    result.kept.remove(row)
            result.files.append(done)
        for name, row in left.items():
            (folder / name).unlink(missing_ok=True)
            result.kept.remove(row)
        return result


def export_while_indexing(
    request: ExportRequest, report: ExportReport, items: Seq[object]
) -> EarlyExport | None:
    """Export a video without an index, from its first packet on.

    Args:
        request: the checked options.
        report: takes the rows.
        items: the inputs.

    Returns:
        None if nothing was written: there are several inputs, an index exists, or the selected files depend on the
        whole index.

    Raises:
        OutputError: a file cannot be written, or another export writes one of them.
    """
    item = items[0] if len(items) == 1 else None
    if not isinstance(item, InputFile) or not _is_sequential(request):
        return None
    options, rows = request.options, dict[str, ManifestRow]()
    try:
        source = open_source(item.path, stream=options.stream)
        stamp = source.stamp()
        kept = {"cache_dir": options.cache_dir, "register": options.register}
        if stamp is None or index_without_scan(source, stamp, **kept) is not None:
            return None
        from ...video.stream import first_pass  # only now is anything read through

        with ExitStack() as stack:
            threads = options.jobs or available_cores()
            video = stack.enter_context(first_pass(source, output=request.output, threads=threads))
            work = _EarlyWork(request, report, item, video)
            if (plan := work.plan()) is None:
                return None
            stack.enter_context(reserved([plan], request))
            record_options(request.folder, [plan.source], OptionDigests.of(request), replace=False)
            work.write(plan, rows)
            index = video.index(rest=not work.reached_end)
    except OutputError:
        raise
    except SeqpipeError as error:
        # nothing is written yet: the planned export meets and reports the same error
        return EarlyExport(item, error, rows) if rows else None
    if not work.reached_end:
        store_index(stamp, index, cache_dir=options.cache_dir)
    return EarlyExport(item, index, rows)


def _is_sequential(request: ExportRequest) -> bool:
    """Whether the files follow from the frames as they come, into a folder where nothing can be in the way."""
    options, selection = request.options, request.selection
    anywhere = (
        selection.fps,
        selection.frames,
        selection.at,
        selection.num,
        selection.min_motion,
        options.start,
    )
    encoder = request.encoder
    return (
        all(rule is None for rule in anywhere)
        and not (selection.keyframes or encoder.pairs or encoder.streamed)
        # frames of a sequence that does not fit into the video are not exported
        and (encoder.packed or not selection.sequences)
        and not (options.dry_run or options.resume or options.overwrite or options.contact_sheet)
        and all(device.kind == "cpu" for device in request.devices)
        and "pts_ms" not in request.pattern.fields
        and _is_empty(request.folder)
        and (request.manifest is None or not manifest_exists(request.manifest))
    )


def _is_empty(folder: Path) -> bool:
    try:
        return not os.listdir(folder)  # noqa: PTH208  one call, whatever it holds
    except FileNotFoundError:
        return True
    except OSError:  # the planned export reports it
        return False


def provisional_plan(item: InputFile, info: StreamInfo, request: ExportRequest) -> SourcePlan:
    """A plan for the most frames that a video may have according to its header, with placeholders for the times.

    Args:
        item: the video.
        info: the facts of its stream.
        request: the validated options of the command; of its selection only ``every`` and sequences count.

    Raises:
        SeqpipeError: as :func:`seqpipe.cli.plan.source_plan.make_plan`.
    """
    rate, seconds = info.average_rate or info.real_rate, info.duration_s
    declared = info.declared_frames or (0 if rate is None or seconds is None else int(rate * seconds))
    count = min(_MOST_FRAMES, int(declared * _MARGIN) + _EXTRA_FRAMES if declared else _UNDECLARED_FRAMES)
    rule = request.selection
    if rule.sequence_length is not None:  # as many as are quickly named, and one at least
        length, stride = rule.sequence_length, rule.stride or 1
        count = min(count, _MOST_FRAMES // length * (rule.step or length * stride))
        count = max(count, (length - 1) * stride + 1)
    table = replace(
        NO_PACKETS,
        pts=np.arange(count),
        key=np.ones(count, dtype=bool),
        shown=np.ones(count, dtype=bool),
        size=np.ones(count, np.int32),
    )
    index = PacketIndex(info, b"", "", 0, packets=table, dropped_at_start=0, end_s=0.0)
    selection = replace(rule, fps=None, frames=None, at=None, num=None, keyframes=False, within=TimeRange())
    return make_plan(item, index, replace(request, selection=selection))


class _EarlyWork:
    """The export of one video before its plan is known.

    Attributes:
        reached_end: whether the range ended before the video did.
    """

    def __init__(
        self, request: ExportRequest, report: ExportReport, item: InputFile, video: FirstPass
    ) -> None:
        self._request, self._report, self._item, self._video = request, report, item, video
        self.reached_end = False
        self._error: SeqpipeError | None = None

    def plan(self) -> SourcePlan | None:
        """The provisional plan, whose times are filled in later; None if two of its files might have the same name."""
        plan = provisional_plan(self._item, self._video.info, self._request)
        try:
            check_collisions([plan], internal_names(self._request))
        except OutputError:
            return None
        return plan

    def write(self, plan: SourcePlan, rows: dict[str, ManifestRow]) -> None:
        """Write files as frames are decoded, and add their rows to ``rows`` by file name.

        Raises:
            SourceError: the source cannot be read; files of earlier frames are written.
            OutputError: a file cannot be written.
        """
        request = self._request

        def listen(row: ManifestRow) -> None:
            rows[row.output or ""] = row
            self._report.row(row)

        manifest = Manifest(request.manifest, listener=listen)
        try:
            with progress_bar("Exporting", plan.frames.size, "frames", 1) as bar:
                threads = request.options.jobs or available_cores()
                work = ExportWork(request, threads, manifest, bar, threading.Event())
                together = plan.sequence is not None and request.encoder.packed
                assembler = Assembler(plan.frames, together=together)
                pieces = self._pieces(plan, assembler)
                write_pieces(pieces, work, request.devices[0])
        finally:
            manifest.close()
        if self._error is not None:
            raise self._error

    def _pieces(self, plan: SourcePlan, assembler: Assembler) -> Iterator[Piece]:
        """Yield the content of each file after its last frame; set the time of its first frame in the plan."""
        wanted, end, start_s = set(assembler.wanted.tolist()), plan.frames[-1, -1], 0.0
        files = np.argsort(plan.frames[:, 0], kind="stable")
        firsts = plan.frames[files, 0]
        for number, (frame, pts) in enumerate(self._frames()):
            _, time_s = clock_of(frame)
            start_s = start_s if number else time_s
            if self._is_after_range(number, time_s - start_s):
                self.reached_end = True
            if self.reached_end or number > end:
                return
            here = files[np.searchsorted(firsts, number) : np.searchsorted(firsts, number, side="right")]
            plan.pts[here], plan.timestamps[here] = pts, time_s
            if number in wanted:
                for file, content in assembler.add(number, frame):
                    yield Piece(plan, file, content)

    def _frames(self) -> Iterator[FirstFrame]:
        """The frames; an error ends them early, and is kept until all files are written."""
        try:
            yield from self._video.frames()
        except SeqpipeError as error:
            self._error = error

    def _is_after_range(self, number: int, seconds: float) -> bool:
        """Whether a frame is behind the range to be exported, which begins with the first frame."""
        within = self._request.selection.within
        end = within.duration or within.end
        if end is None:
            return False
        return number >= end.value if end.in_frames else seconds >= end.value - EQUAL_S
