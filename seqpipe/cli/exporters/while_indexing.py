"""Export of a video while its index is built: files are written from the first packet on.

The written files are then compared with the plan that follows from the index, as ``--resume`` does with the files of an
earlier run: matching files are kept, others are removed, and missing ones are exported by the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from ...array import FloatArray
from ...errors import OutputError, SeqpipeError
from ...sequence import Sequence
from ...video.engine.engine import available_cores
from ...video.index.open import index_without_scan, store_index
from ...video.packet_index import PacketIndex
from ...video.source.source import open_source
from ..claims import internal_names, reserved
from ..inputs import InputFile
from ..manifest import Manifest, ManifestRow
from ..record import Finished, OptionDigests, record_options
from ..request import ExportRequest
from ..source_plan import SourcePlan, check_collisions, make_plan, provisional_plan
from ..work import ExportReport, clock_of
from .streamed import write_arriving

if TYPE_CHECKING:
    from ...video.stream import FirstPass

__all__ = ["EarlyExport", "export_while_indexing"]


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
        """Return the video's path, and its plan or error."""
        try:
            if isinstance(self.index, SeqpipeError):
                raise self.index
            return self.input.path, make_plan(self.input, self.index, request)
        except SeqpipeError as error:
            if request.options.on_error == "raise":
                raise
            return self.input.path, error

    def finished(self, plans: Seq[SourcePlan], folder: Path) -> Finished:
        """Compare the files with the plan, and remove files that are not part of it."""
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
    request: ExportRequest, report: ExportReport, item: InputFile
) -> EarlyExport | None:
    """Export a video without an index, from its first packet on.

    Returns:
        None if nothing was written, because an index exists.
    """
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

    def plan(self) -> SourcePlan | None:
        """The provisional plan, whose times are placeholders; None if two of its files might have the same name."""
        plan = provisional_plan(self._item, self._video.info, self._request)
        try:
            check_collisions([plan], internal_names(self._request))
        except OutputError:
            return None
        return plan

    def write(self, plan: SourcePlan, rows: dict[str, ManifestRow]) -> None:
        """Write files as frames are decoded, and add their rows to ``rows`` by file name."""
        request = self._request

        def listen(row: ManifestRow) -> None:
            rows[row.output or ""] = row
            self._report.row(row)

        frames = _FirstFrames(self._video, int(plan.frames[-1, -1]))
        with closing(Manifest(request.manifest, listener=listen)) as manifest:
            # what it misses in these frames may follow: the plan that the index gives decides
            write_arriving(
                plan, frames, request, manifest, lambda frame: frame.sequence, steps=plan.frames.size
            )
        if frames.error is not None:
            raise frames.error
        self.reached_end = frames.has_more()


class _Frame(NamedTuple):
    """A decoded frame, as :func:`seqpipe.cli.exporters.streamed.write_arriving` takes it."""

    number: int
    pts: int
    seconds: float
    key: bool
    sequence: Sequence


class _FirstFrames:
    """The frames of a first pass; an error ends them early, and is kept until all files are written.

    Args:
        video: the first pass.
        last: number of the last frame that the plan may hold.

    Attributes:
        info: facts of the stream.
        error: the error, or None.
    """

    def __init__(self, video: FirstPass, last: int) -> None:
        self.info, self.error = video.info, cast("SeqpipeError | None", None)
        self._found, self._last = video.frames(), last

    def frames(self) -> Iterator[_Frame]:
        """The frames from the first one on."""
        try:
            for frame, pts in self._found:
                number, seconds = clock_of(frame)
                yield _Frame(number, pts, seconds, False, frame)
                if number >= self._last:
                    return
        except SeqpipeError as error:
            self.error = error

    def has_more(self) -> bool:
        """Whether frames follow those that were taken."""
        return next(self._found, None) is not None

    def upcoming(self, seconds: float) -> FloatArray:  # noqa: ARG002  rates are not exported early
        """No times are known beforehand."""
        return np.empty(0)
