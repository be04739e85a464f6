"""Optical flow: options of ``seqpipe flow``, encoders (flo, KITTI's png, npz, colors as jpg and mp4), and videos.

The videos of flow, one for each source or sequence, are written while frames are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

import numpy as np

from ..array import IntArray, distinct
from ..errors import OutputError, ParameterError, SeqpipeError
from ..sequence import Sequence
from ..video.device import Device
from ..video.engine.engine import available_cores
from ..writers.encoders import Content, Encoder, EncoderSetup, write_jpeg
from ..writers.files import write_whole
from .request import Options
from .source_plan import SourcePlan
from .videos import shown_frames
from .work import ExportWork, SourceOutcome, record_losses, stacked

if TYPE_CHECKING:
    from ..ops import OpticalFlow

__all__ = ["FORMATS", "FlowEncoder", "FlowOptions", "export_flow_videos", "flow_colors"]

_FIELDS: Final = ("flo", "png", "npz")  # formats that hold vectors
_PICTURES: Final = ("jpg", "mp4")  # formats that hold colors
FORMATS: Final = (*_FIELDS, *_PICTURES)
_SHARE: Final = 1 / 40  # default motion of full color, as a fraction of the longer side


@dataclass(frozen=True, kw_only=True)
class FlowOptions(Options):
    """The options of ``seqpipe flow`` as they were typed; see its help."""

    preset: str
    output_grid: int
    direction: str
    backend: str
    max_motion: float | None

    takes_volumes: ClassVar[bool] = False

    def encoder(self) -> FlowEncoder:
        """The encoder that computes flow and writes it."""
        from ..ops import OpticalFlow

        if self.quality is not None and self.format != "jpg":
            raise ParameterError(
                f"quality={self.quality} means nothing for {self.format}", allowed="jpg with a quality"
            )
        if self.max_motion is not None and self.format in _FIELDS:
            raise ParameterError(
                f"max_motion={self.max_motion} means nothing for {self.format}, which holds the vectors",
                allowed=" or ".join(_PICTURES),
            )
        operator = OpticalFlow(
            preset=self.preset,
            output_grid=self.output_grid,
            direction=self.direction,
            backend=self.backend,
        )
        encoder = FlowEncoder(
            name=self.format,
            write=partial(_write, name=self.format, operator=operator, max_motion=self.max_motion),
            packed=self.format in ("npz", "mp4"),
            lossy=self.format == "jpg",
            largest=65_500 if self.format == "jpg" else None,
            pairs=True,
            streamed=self.format == "mp4",
            color="GRAY",  # flow needs only luma, which the decoded surface contains
            settings=f"{operator!r}, {self.max_motion}",
            operator=operator,
            max_motion=self.max_motion,
        )
        return encoder if self.quality is None else replace(encoder, quality=self.quality)


@dataclass(frozen=True, kw_only=True)
class FlowEncoder(Encoder):
    """Computes the flow between frames and writes it in one format.

    Attributes:
        operator: computes the flow.
        max_motion: the length in pixels that has full color; None for a 40th of the longer side.
    """

    operator: OpticalFlow
    max_motion: float | None

    def shape(self, width: int, height: int) -> tuple[int, int]:
        """(columns, rows) of the flow between frames of (columns, rows)."""
        grid = self.operator.output_grid
        return -(-width // grid), -(-height // grid)

    def setup(self, device: Device, threads: int) -> EncoderSetup:
        """The encoder's set-up for a device; flow is computed where the frames are."""
        from ..flow.nvofa import MOST_IDLE, engine_caps

        if self.operator.backend == "nvofa":
            engine_caps(device.number, self.operator.name)
        threads = (
            threads if device.kind == "cpu" else min(threads, MOST_IDLE)
        )  # each thread has a session of its own
        return EncoderSetup(device.kind == "cpu", 1, threads, self._contents)

    def _contents(self, sequences: Seq[Sequence]) -> list[Content]:
        return [partial(self, one) for one in sequences]

    def colored(self, frames: Sequence) -> Sequence:
        """The colors of the flow between frames."""
        return _colored(frames, self.operator, self.max_motion)


def _colored(frames: Sequence, operator: OpticalFlow, max_motion: float | None) -> Sequence:
    from ..flow import to_rgb

    longest = max_motion or _SHARE * max(frames.shape[1:3])
    colored: Sequence = to_rgb(operator(frames), longest)
    return colored


def _write(
    frames: Sequence,
    file: BinaryIO,
    quality: int,
    *,
    name: str,
    operator: OpticalFlow,
    max_motion: float | None,
) -> None:
    """Write the flow between two frames, or between those of a sequence."""
    if name in _FIELDS:
        from ..flow import encode

        file.write(encode(operator(frames), name))
    elif name == "jpg":
        write_jpeg(_colored(frames, operator, max_motion).numpy()[0], file, quality)
    else:
        from ..video.encode.write import write_mp4

        write_mp4(file, [_colored(frames, operator, max_motion)])


class _StoppedError(Exception):
    """Another source has stopped the export."""


def export_flow_videos(
    plan: SourcePlan, todo: IntArray, sheet_frames: IntArray, work: ExportWork, device: Device
) -> SourceOutcome:
    """Export the flow videos of one source, as :func:`seqpipe.cli.videos.export_source` does other files.

    The video of a damaged source is not written.
    """
    from ..video.encode.write import write_mp4

    encoder = work.request.encoder
    assert isinstance(encoder, FlowEncoder)
    outcome, lost = SourceOutcome(), list[int]()
    for file in todo.tolist():
        wanted = distinct(plan.frames[file])
        shown = np.intersect1d(sheet_frames, wanted)
        try:
            with work.open(plan.source, device) as reader:
                frames = shown_frames(
                    reader, wanted.tolist(), plan, shown, outcome, host=device.kind == "cpu"
                )
                colors = flow_colors(_until_stopped(frames, work), encoder)
                path = work.request.folder / plan.name(file)
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


def _until_stopped(frames: Iterable[Sequence], work: ExportWork) -> Iterator[Sequence]:
    for frame in frames:
        if work.stop.is_set():
            raise _StoppedError
        yield frame


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
