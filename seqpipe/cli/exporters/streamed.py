"""Export of frames as they arrive, in constant memory: each file is written once its last frame has come."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from ...array import FloatArray
from ...errors import DamagedSourceError, SeqpipeError
from ...sampling.windows import RollingWindows, Windows
from ...sequence import Sequence
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...video.probe.info import StreamInfo
from ..manifest import Manifest
from ..messages import progress_bar
from ..record import exists_already
from ..request import ExportRequest
from ..selection import no_sequence
from ..source_plan import SourcePlan, single_frame
from ..stream_selection import StreamSelector, TimedFrame
from ..work import ExportWork, stacked
from .frames import Piece, write_pieces

__all__ = ["StampedFrame", "StreamedFrames", "write_arriving"]

_CPU: Final = Device("cpu")


class StampedFrame(TimedFrame, Protocol):
    """A frame with its timestamp."""

    @property
    def pts(self) -> int:
        """Presentation time in ticks of the stream's time base."""


FrameT = TypeVar("FrameT", bound=StampedFrame)
FrameT_co = TypeVar("FrameT_co", bound=StampedFrame, covariant=True)


@dataclass(frozen=True)
class _Member:
    """A converted frame."""

    pts: int
    number: int
    seconds: float
    sequence: Sequence


class StreamedFrames(Protocol[FrameT_co]):
    """The frames of a video as they arrive."""

    @property
    def info(self) -> StreamInfo:
        """Facts of the stream."""

    @property
    def error(self) -> SeqpipeError | None:
        """The error that has ended the frames early, or None."""

    def frames(self) -> Iterator[FrameT_co]:
        """The frames from the first one on."""

    def upcoming(self, seconds: float) -> FloatArray:
        """The times of the next frames after a time, in seconds, ascending."""


def write_arriving(
    plan: SourcePlan,
    stream: StreamedFrames[FrameT],
    request: ExportRequest,
    manifest: Manifest,
    painted: Callable[[FrameT], Sequence],
    *,
    steps: int | None = None,
) -> SeqpipeError | None:
    """Write the files of a video as its frames arrive, and return the error that has ended it early.

    Args:
        plan: names files; its other values are placeholders.
        stream: the video.
        request: the checked options.
        manifest: the manifest that rows are added to.
        painted: converts a frame.
        steps: number of frames, if it is known.
    """
    with progress_bar("Exporting", steps, "frames", 1) as bar:
        work = ExportWork(request, request.options.jobs or available_cores(), manifest, bar)
        return _StreamedExport(plan, stream, work, painted).write()


class _StreamedExport(Generic[FrameT]):
    """The export of one video as its frames arrive."""

    def __init__(
        self,
        plan: SourcePlan,
        stream: StreamedFrames[FrameT],
        work: ExportWork,
        painted: Callable[[FrameT], Sequence],
    ) -> None:
        self._plan, self._stream, self._work, self._pixels = plan, stream, work, painted
        self._request = work.request
        self._selection, self._encoder = work.request.selection, work.request.encoder
        self._selector = StreamSelector(self._selection, stream.info.source)
        self._error: SeqpipeError | None = None
        self._files = 0

    def write(self) -> SeqpipeError | None:
        """Write all files."""
        if self._encoder.streamed and not self._selection.sequences:
            self._write_video()
        else:
            write_pieces(self._pieces(), self._work, _CPU)
        return self._error or self._stream.error

    def _frames(self) -> Iterator[FrameT]:
        """The selected frames; an error ends them early, and is kept."""
        try:
            yield from self._selector.selected(self._stream.frames(), self._stream)
        except SeqpipeError as error:
            # a stream that ends too early explains every later error
            self._error = self._stream.error or error

    def _members(self) -> Iterator[_Member]:
        """Yield the selected frames, converted; a repeated frame is converted once."""
        last: _Member | None = None
        for frame in self._frames():
            if last is None or last.number != frame.number:
                last = self._painted(frame)
            yield last

    def _painted(self, frame: FrameT) -> _Member:
        """Convert a frame."""
        return _Member(frame.pts, frame.number, frame.seconds, self._pixels(frame))

    def _pieces(self) -> Iterator[Piece]:
        """Yield the files in order."""
        if self._selection.sequences:
            for number, members in enumerate(self._sequences()):
                yield from self._sequence_files(number, members)
        elif self._encoder.pairs:
            yield from (self._piece(pair) for pair in pairwise(self._two_or_more(self._members())))
        else:
            yield from (self._piece([member]) for member in self._members())

    def _sequences(self) -> Iterator[Seq[_Member]]:
        """Yield the frames of each sequence once its last one has come."""
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
        """Yield the files of a sequence."""
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
        """Return the next file."""
        together = len(members) > 1 or (sequence is not None and self._encoder.packed)
        content = stacked([member.sequence for member in members]) if together else members[0].sequence
        numbers = [member.number for member in members]
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
        """Where the one file of a plan is to be written."""
        path = self._request.folder / plan.name(0)
        # before Python 3.14, Path.exists raises without permission; writing reports that error
        if not self._request.options.overwrite and os.path.exists(path):  # noqa: PTH110
            raise exists_already(path, resumable=False)
        return path

    def _write_video(self) -> None:
        """Write one video of all selected frames; none if a frame is damaged."""
        encoder, members = self._encoder, self._members()
        members = self._two_or_more(members) if encoder.pairs else members
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
            start_s, fps = self._selector.begin_s, self._selection.fps
            size = encoder.write_video(path, sequences(), fps=fps, audio=None, start_s=start_s)
        except DamagedSourceError:
            return
        plan = replace(self._planned(first, numbers), first=0)
        self._work.manifest.add(plan.row(0, status="done", bytes=size))
