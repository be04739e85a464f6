"""Export of one source as videos, each of which is written while its frames are decoded, with its sound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...array import IntArray
from ...errors import OutputError, SeqpipeError
from ...sequence import Sequence
from ...video.audio.samples import AudioSamples
from ...video.device import Device
from ...video.reader import VideoReader
from ...video.source.source import open_source
from ...writers.files import output_errors
from ..source_plan import SourcePlan
from ..work import ExportWork, SourceOutcome, record_losses
from .frames import shown_frames

if TYPE_CHECKING:
    from ...video.encode.sound import CopiedSound

__all__ = ["export_videos"]

_PIECE_S: Final = 10.0


class _StoppedError(Exception):
    """Another source has stopped the export."""


def export_videos(
    plan: SourcePlan, todo: IntArray, sheet_frames: IntArray, work: ExportWork, device: Device
) -> SourceOutcome:
    """Export the videos of one source, as :func:`seqpipe.cli.exporters.frames.export_frames` does other files.

    A video whose frames are damaged is not written.
    """
    encoder, fps = work.request.encoder, work.request.selection.fps
    outcome, lost = SourceOutcome(), list[int]()
    host = device.kind == "cpu" or not encoder.pairs  # flow is computed where the frames are
    for file in todo.tolist():
        numbers, path = plan.numbers(file), work.request.folder / plan.name(file)
        if (draft := plan.drafts.get(file)) is not None:
            with output_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                draft.touch()  # later than the options are recorded, as --resume expects
                size = draft.replace(path).stat().st_size
            work.manifest.add(plan.row(file, status="done", bytes=size))
            work.bar.advance(len(numbers))
            continue
        wanted, counts = np.unique(numbers, return_counts=True)
        shown = np.intersect1d(sheet_frames, wanted)
        try:
            with work.open(plan.source, device) as reader:
                decoded = shown_frames(reader, wanted.tolist(), plan, shown, outcome, host=host)
                frames = _until_stopped(decoded, counts if fps is not None else np.ones_like(counts), work)
                heard = encoder.sound and reader.info.has_audio and work.request.selection.keeps_times
                with _sound(reader, numbers, encoder.name) if heard else nullcontext() as sound:
                    size = encoder.write_video(path, frames, fps=fps, audio=sound, start_s=plan.start_s)
        except _StoppedError:
            return outcome
        except OutputError:
            raise
        except SeqpipeError as error:
            outcome.error = error
            lost.append(file)
            continue
        work.manifest.add(plan.row(file, status="done", bytes=size))
        work.bar.advance(len(numbers))
    record_losses(plan, np.array(lost, np.int64), work, outcome)
    return outcome


def _until_stopped(frames: Iterable[Sequence], counts: IntArray, work: ExportWork) -> Iterator[Sequence]:
    """Yield each frame as often as a rate above the video's repeats it."""
    for frame, count in zip(frames, counts.tolist(), strict=True):
        if work.stop.is_set():
            raise _StoppedError
        for _ in range(count):
            yield frame


@contextmanager
def _sound(
    reader: VideoReader, numbers: IntArray, ending: str
) -> Iterator[Iterable[AudioSamples] | CopiedSound]:
    """The sound from the first frame to the end of the last one: packets where the format takes them, else samples."""
    from ...video.encode.sound import CopiedSound
    from ...video.encode.write import format_of

    times, after = reader.timestamps, int(numbers[-1]) + 1
    start_s = float(times[numbers[0]])
    end_s = reader.index.end_s if after == len(times) else float(times[after])
    with CopiedSound(open_source(reader.info.source), start_s, end_s) as copied:
        if format_of(Path(f"video.{ending}")).takes(copied):
            yield copied
            return
    yield _decoded(reader.info.source, start_s, end_s)


def _decoded(source: str, start_s: float, end_s: float) -> Iterator[AudioSamples]:
    """Yield the sound of a range in pieces; nothing if there is none then."""
    from ...video.audio.reader import AudioReader

    with AudioReader(source) as sound:
        begin_s, stop_s = sound.range_s()
        at_s, end_s = max(start_s, begin_s), min(end_s, stop_s)
        while at_s < end_s:
            piece = sound.audio(at_s, min(at_s + _PIECE_S, end_s))
            if at_s == begin_s > start_s:  # silence before the sound begins
                missing = round((begin_s - start_s) * piece.sample_rate)
                piece = replace(piece, samples=np.pad(piece.samples, ((0, 0), (missing, 0))))
            yield piece
            at_s += _PIECE_S
