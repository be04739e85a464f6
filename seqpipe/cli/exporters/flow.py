"""Optical flow: options of ``seqpipe flow``, and encoders (flo, KITTI's png, npz, colors as jpg and mp4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final

from ...errors import ParameterError
from ...sequence import Sequence
from ...video.device import Device
from ...video.engine.engine import available_cores
from ...writers.encoders import Content, Encoder, EncoderSetup, write_jpeg
from ...writers.files import write_whole
from ..request import Options
from ..work import stacked

if TYPE_CHECKING:
    from ...ops import OpticalFlow

__all__ = ["FORMATS", "FlowEncoder", "FlowOptions", "flow_colors"]

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
        from ...ops import OpticalFlow

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
        from ...flow.nvofa import MOST_IDLE, engine_caps

        if self.operator.backend == "nvofa":
            engine_caps(device.number, self.operator.name)
        threads = (
            threads if device.kind == "cpu" else min(threads, MOST_IDLE)
        )  # each thread has a session of its own
        return EncoderSetup(device.kind == "cpu", 1, threads, self._contents)

    def _contents(self, sequences: Seq[Sequence]) -> list[Content]:
        """Return what writes the file of each sequence."""
        return [partial(self, sequence) for sequence in sequences]

    def write_video(self, path: Path, frames: Iterable[Sequence], **_: object) -> int:
        """Write the colors of the flow between frames as a video; see :class:`Encoder`."""
        from ...video.encode.write import write_into

        return write_whole(path, lambda file: write_into(file, "mp4", flow_colors(frames, self)))

    def colored(self, frames: Sequence) -> Sequence:
        """The colors of the flow between frames."""
        return _colored(frames, self.operator, self.max_motion)


def _colored(frames: Sequence, operator: OpticalFlow, max_motion: float | None) -> Sequence:
    """Return the colors of the flow between frames."""
    from ...flow import to_rgb

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
        from ...flow import encode

        file.write(encode(operator(frames), name))
    elif name == "jpg":
        write_jpeg(_colored(frames, operator, max_motion).numpy()[0], file, quality)
    else:
        from ...video.encode.write import write_into

        write_into(file, "mp4", [_colored(frames, operator, max_motion)])


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
