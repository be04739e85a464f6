"""Export of one video as files of frames: decode in order, encode, write, and record the result of each file."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Final, NamedTuple

import numpy as np

from ...array import BoolArray, IntArray, distinct
from ...errors import SeqpipeError
from ...sequence import Sequence
from ...video.device import Device
from ...video.reader import VideoReader
from ...writers.encoders import Encoder
from ...writers.files import write_whole
from ...writers.parallel import grouped, mapped
from ..manifest import ManifestRow
from ..source_plan import SourcePlan
from ..work import ExportWork, SourceOutcome, clock_of, record_losses, stacked

__all__ = ["Assembler", "Piece", "assembler_of", "decoded", "export_frames", "shown_frames", "write_pieces"]

_NO_FRAMES: Final = np.empty(0, np.int64)


class Piece(NamedTuple):
    """A file to be written.

    Attributes:
        plan: the plan that it is part of.
        file: its number in the plan.
        content: the frames of the file.
    """

    plan: SourcePlan
    file: int
    content: Sequence


def export_frames(
    plan: SourcePlan, todo: IntArray, sheet_frames: IntArray, work: ExportWork, device: Device
) -> SourceOutcome:
    """Export the files of one video."""
    outcome = SourceOutcome()
    encoder = work.request.encoder
    assembler = assembler_of(plan, todo, encoder)
    host = encoder.setup(device, work.threads).host
    pieces = decoded(plan, assembler, work, outcome, device, host=host, sheet_frames=sheet_frames)
    write_pieces((Piece(plan, int(todo[number]), content) for number, content in pieces), work, device)
    if not work.stop.is_set():
        record_losses(plan, todo[~assembler.delivered], work, outcome)
    return outcome


def write_pieces(pieces: Iterator[Piece], work: ExportWork, device: Device) -> None:
    """Encode and write files, and add their rows to the manifest."""
    request = work.request
    setup = request.encoder.setup(device, work.threads)

    def write(group: Seq[Piece]) -> list[tuple[Piece, ManifestRow]]:
        rows = []
        contents = setup.contents([piece.content for piece in group])
        for piece, content in zip(group, contents, strict=True):
            size = write_whole(request.folder / piece.plan.name(piece.file), content)
            rows.append((piece, piece.plan.row(piece.file, status="done", bytes=size)))
        return rows

    # A packed file is as large as its sequence, so only one at a time is kept in memory.
    long = request.selection.sequences and request.encoder.packed
    for piece, row in mapped(write, grouped(pieces, setup.together), 1 if long else setup.threads):
        work.manifest.add(row)
        work.bar.advance(len(piece.plan.numbers(piece.file)))


class Assembler:
    """Collects frames, which arrive in ascending order, into the contents of files.

    Args:
        frames: the frame numbers of each file, ``(files, frames in a file)``, -1 behind them in shorter ones.
        together: whether a file holds a sequence ``FHWC``; else it holds one frame ``HWC``.

    Attributes:
        delivered: which files got all of their frames.
    """

    def __init__(self, frames: IntArray, *, together: bool) -> None:
        self._frames, self._together = frames, together
        self._last = frames.max(axis=1, initial=-1)
        self._order = np.argsort(self._last, kind="stable").tolist()
        self._next = 0
        self._buffered: dict[int, Sequence] = {}
        self._needed_until = _last_uses(frames, self._last) if frames.shape[1] > 1 else {}
        self.wanted: IntArray = distinct(frames[frames >= 0])
        self.delivered: BoolArray = np.zeros(len(frames), dtype=bool)

    def add(self, number: int, frame: Sequence) -> Iterator[tuple[int, Sequence]]:
        """Yield the positions of the files that this frame completes, each with its content."""
        self._buffered[number] = frame
        while self._next < len(self._order) and self._last[self._order[self._next]] <= number:
            file = self._order[self._next]
            self._next += 1
            numbers = self._frames[file][self._frames[file] >= 0].tolist()
            members = [self._buffered[n] for n in numbers if n in self._buffered]
            if len(members) == len(numbers):
                self.delivered[file] = True
                yield file, stacked(members) if self._together else members[0]
        self._buffered = {
            n: buffered for n, buffered in self._buffered.items() if self._needed_until.get(n, n) > number
        }


def assembler_of(plan: SourcePlan, todo: IntArray, encoder: Encoder) -> Assembler:
    """Return the assembler of some files of a plan."""
    together = (plan.sequence is not None and encoder.packed) or encoder.pairs
    return Assembler(plan.frames[todo], together=together)


def decoded(
    plan: SourcePlan,
    assembler: Assembler,
    work: ExportWork,
    outcome: SourceOutcome,
    device: Device,
    *,
    host: bool,
    sheet_frames: IntArray = _NO_FRAMES,
) -> Iterator[tuple[int, Sequence]]:
    """Decode, and yield each file's position and content as soon as its last frame is decoded.

    An error of the source ends the iteration early; damage ends it after all sound frames. The error is kept in the
    outcome.
    """
    wanted = distinct(np.concatenate([assembler.wanted, sheet_frames])).tolist()
    if not wanted:
        return
    try:
        with work.open(plan.source, device) as reader:
            for frame in shown_frames(reader, wanted, plan, sheet_frames, outcome, host=host):
                if work.stop.is_set():
                    return
                yield from assembler.add(clock_of(frame)[0], frame)
    except SeqpipeError as error:
        outcome.error = error


def shown_frames(
    reader: VideoReader,
    wanted: list[int],
    plan: SourcePlan,
    sheet_frames: IntArray,
    outcome: SourceOutcome,
    *,
    host: bool,
) -> Iterator[Sequence]:
    """Decode frames in order, and add those of the contact sheet that it lacks to the outcome."""
    shown = set(sheet_frames.tolist()) - {thumbnail.frame for thumbnail in outcome.thumbnails}
    for frame in reader.stream(wanted, host=host):
        if clock_of(frame)[0] in shown:
            outcome.show(frame, plan.start_s)
        yield frame


def _last_uses(frames: IntArray, last: IntArray) -> dict[int, int]:
    """For each frame, the last frame of the last file that holds it; the frame is kept until then."""
    numbers, inverse = np.unique(frames, return_inverse=True)
    uses = np.zeros(len(numbers), dtype=np.int64)
    np.maximum.at(uses, inverse.ravel(), np.repeat(last, frames.shape[1]))
    return dict(zip(numbers.tolist(), uses.tolist(), strict=True))
