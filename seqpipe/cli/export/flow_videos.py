"""Export of flow as videos, one for each source or sequence, which are written while frames are decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ...array import IntArray, distinct
from ...errors import OutputError, SeqpipeError
from ...sequence import Sequence
from ...video.device import Device
from ...video.encode.write import write_mp4
from ...video.engine.engine import available_cores
from ...video.reader import VideoReader
from ...writers.encoders import thumbnail
from ...writers.files import write_whole
from ..output.sheet import THUMBNAIL_WIDTH, Thumbnail
from ..plan.source_plan import SourcePlan
from .flow import FlowEncoder
from .frames import ExportWork, SourceOutcome, clock_of, record_losses, stacked

__all__ = ["export_flow_videos", "flow_colors"]


class _StoppedError(Exception):
    """Another source has stopped the export."""


def export_flow_videos(
    plan: SourcePlan, todo: IntArray, sheet_frames: IntArray, work: ExportWork, device: Device
) -> SourceOutcome:
    """Export the flow videos of one source, as :func:`seqpipe.cli.export.source.export_source` does other files.

    The video of a damaged source is not written.
    """
    outcome, lost = SourceOutcome(), list[int]()
    for file in todo.tolist():
        try:
            with work.open(plan.source, device) as reader:
                video = _FlowVideo(plan, file, sheet_frames, work, outcome)
                path = work.request.folder / plan.name(file)
                colors = video.colors(reader, host=device.kind == "cpu")
                size = write_whole(path, lambda out: write_mp4(out, colors))  # noqa: B023  it is called at once
        except _StoppedError:
            return outcome
        except OutputError:
            raise
        except SeqpipeError as error:
            outcome.error = error
            lost.append(file)
            continue
        work.manifest.add(plan.row(file, status="done", bytes=size))
        work.bar.advance(plan.frames.shape[1])
    record_losses(plan, np.array(lost, np.int64), work, outcome)
    return outcome


def flow_colors(frames: Iterable[Sequence], encoder: FlowEncoder) -> Iterator[Sequence]:
    """The colors of the flow between each frame and the next, in groups."""
    pending = list[Sequence]()
    at_once = max(2, available_cores()) + 1  # one pair for each core
    for frame in frames:
        pending.append(frame)
        if len(pending) == at_once:
            yield encoder.colored(stacked(pending))
            pending = pending[-1:]
    if len(pending) > 1:
        yield encoder.colored(stacked(pending))


class _FlowVideo:
    """One flow video of a plan."""

    def __init__(
        self, plan: SourcePlan, file: int, sheet_frames: IntArray, work: ExportWork, outcome: SourceOutcome
    ) -> None:
        known = {one.frame for one in outcome.thumbnails}
        self._plan, self._work, self._outcome = plan, work, outcome
        self._frames = distinct(plan.frames[file])
        self._shown = set(np.intersect1d(sheet_frames, self._frames).tolist()) - known

    def colors(self, reader: VideoReader, *, host: bool) -> Iterator[Sequence]:
        """The colors of the video's flow, in groups of frames."""
        encoder = self._work.request.encoder
        assert isinstance(encoder, FlowEncoder)
        yield from flow_colors(self._shown_frames(reader.stream(self._frames.tolist(), host=host)), encoder)

    def _shown_frames(self, frames: Iterator[Sequence]) -> Iterator[Sequence]:
        for frame in frames:
            if self._work.stop.is_set():
                raise _StoppedError
            self._show(frame)
            yield frame

    def _show(self, frame: Sequence) -> None:
        number, time_s = clock_of(frame)
        if number in self._shown:
            jpeg = thumbnail(frame.numpy(), THUMBNAIL_WIDTH)
            self._outcome.thumbnails.append(Thumbnail(number, time_s - self._plan.start_s, jpeg))
