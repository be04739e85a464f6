"""Export of volumes: slices, projections and montages as images, or whole volumes as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ...array import IntArray
from ...errors import OutputError, ParameterError, SeqpipeError, printable
from ...sequence import Sequence
from ...video.device import Device
from ...volume.axes import AXES
from ...volume.formats.write import content
from ...volume.reader import VolumeReader
from ...volume.slice_images import as_real, montage, slice_image, slice_size, window_of, windowed
from ...writers.encoders import Encoder
from ...writers.files import write_whole
from ...writers.pattern import Pattern
from ..inputs import InputFile
from ..manifest import ManifestRow
from ..messages import say
from ..request import ARRAYS, ExportRequest, Options
from ..source_plan import SourcePlan
from ..work import ExportWork, SourceOutcome

if TYPE_CHECKING:
    from ...volume.info import VolumeInfo
    from ...volume.source import AnyArray

__all__ = ["VolumePlan", "export_volume", "plan_volume"]

_LOOKED_AT = 5
"""Volumes of a series that determine the window of all."""


@dataclass(frozen=True, eq=False, kw_only=True)
class VolumePlan(SourcePlan):
    """The files of one volume.

    ``frames`` has the slice of each file; for projections, montages and whole volumes the first. ``sequence`` has the
    volume of each file of a series; None for a file of all its volumes, and without a series.

    Attributes:
        time_step_s: interval between the volumes of a series in seconds, if it is known.
    """

    time_step_s: float | None = None

    def _values(self, file: int) -> dict[str, str | int]:
        """Return the fields of the pattern, with the volume in place of the sequence."""
        values = super()._values(file)
        return {**values, "volume": values["sequence"], "sequence": 0}

    def row(self, file: int, **outcome: Any) -> ManifestRow:
        """See :class:`SourcePlan`; slices have no time."""
        return replace(super().row(file, **outcome), pts=None, pts_s=None)


def plan_volume(item: InputFile, request: ExportRequest) -> VolumePlan:
    """Plan the export of one volume."""
    options, pattern = request.options, request.pattern
    with VolumeReader(item.path, series=options.series) as reader:
        info = reader.info
        _check_time(info, options)
        turned = _reoriented(reader, options)
        slices, shown = _slices(len(turned), options, item.path), turned.info
    volumes: list[int] | None = None
    if info.layout == "FDHWC" and options.time is not None:
        volumes = [options.time % info.frames]
    elif info.layout == "FDHWC" and options.format not in ARRAYS:
        volumes = [*range(info.frames)]
    if volumes is not None and len(volumes) > 1 and options.pattern is None:
        text = "{stem}_{volume:03d}.{ext}" if options.one_file else "{stem}/{volume:03d}_{frame:06d}.{ext}"
        pattern = Pattern(text, sequences=False)
    if options.format not in ARRAYS and (note := _note_on_channels(info.channels)):
        say(f"{printable(item.path)}: {note}")
    height, width = _file_size(shown, options)
    request.encoder.check_size(width, height, item.path)
    slices = slices[:1] if options.one_file else slices
    files = len(slices) * len(volumes or [0])
    return VolumePlan(
        input=item,
        pattern=pattern,
        ending=request.encoder.name,
        frames=np.tile(np.array(slices, np.int64), len(volumes or [0]))[:, None],
        sequence=None if volumes is None else np.repeat(volumes, len(slices)),
        position=np.zeros(files, np.int64),
        pts=np.zeros(files, np.int64),
        timestamps=np.zeros(files),
        start_s=0.0,
        width=width,
        height=height,
        facts="",
        cut="",
        time_step_s=info.time_step_s,
    )


def _note_on_channels(channels: int) -> str:
    """Return which of a voxel's values pictures show, if these are not all; else ""."""
    if channels in (1, 3):
        return ""
    shown = "the first is shown" if channels == 2 else "the first three are shown as red, green and blue"
    return f"voxels have {channels} values; {shown}"


def _check_time(info: VolumeInfo, options: Options) -> None:
    """Check that a 4-D volume has the time step of ``--time``."""
    if options.time is None or info.layout != "FDHWC":
        return
    count = info.shape[0]
    if not -count <= options.time < count:
        raise ParameterError(
            f"there is no time step {options.time}", source=info.source, allowed=f"{-count} to {count - 1}"
        )


def _reoriented(reader: VolumeReader, options: Options) -> VolumeReader:
    """Return a view of a volume whose slices lie along the chosen axis."""
    if options.format in ARRAYS or options.axis == "stored":
        return reader
    return reader.reorient(AXES[options.axis])


def _file_size(info: VolumeInfo, options: Options) -> tuple[int, int]:
    """Return the rows and columns of each file."""
    grid = info.shape[-3], info.shape[-2]
    if options.format in ARRAYS:
        return grid
    height, width = slice_size(grid, info.spacing_mm[1:])
    columns, rows = options.montage or (1, 1)
    return height * rows, width * columns


def _slices(count: int, options: Options, source: str) -> list[int]:
    """The selected slices; a montage without a selection shows as many as it has cells, spread evenly."""
    number = options.num
    if number is None and options.montage and options.every is None and options.frames is None:
        number = min(count, options.montage[0] * options.montage[1])
    if number is not None:
        return sorted({int(center) for center in (np.arange(number) + 0.5) * count / number})
    if options.frames is not None:
        bad = [number for number in options.frames if not -count <= number < count]
        if bad:
            raise ParameterError(
                f"there is no slice {bad[0]}", source=source, allowed=f"0 to {count - 1}, or from {-count} on"
            )
        return [number % count for number in options.frames]
    return list(range(0, count, options.every or 1))


def export_volume(
    plan: SourcePlan,
    todo: IntArray,
    sheet_frames: IntArray,  # noqa: ARG001  volumes have no contact sheet
    work: ExportWork,
    device: Device,  # noqa: ARG001  volumes are read on the CPU
) -> SourceOutcome:
    """Export the files of one volume, which is held in memory, as ``export_frames`` does those of videos."""
    assert isinstance(plan, VolumePlan)
    request, outcome = work.request, SourceOutcome()
    try:
        for file, image in _images(plan, todo.tolist(), request.options):
            if work.stop.is_set():
                break
            write = partial(_write, image, request.encoder, plan.time_step_s)
            size = write_whole(request.folder / plan.name(file), write)
            work.manifest.add(plan.row(file, status="done", bytes=size))
            work.bar.advance(1)
    except OutputError:
        raise
    except SeqpipeError as error:
        outcome.error = error
        work.manifest.add(ManifestRow(source=plan.source, status="failed", error=error.fact))
    return outcome


def _images(plan: VolumePlan, todo: Seq[int], options: Options) -> Iterator[tuple[int, Sequence]]:
    """The files of a volume or a series: their numbers within the plan, and their content."""
    if not todo:
        return

    def time_of(file: int) -> int | None:
        return None if plan.sequence is None else int(plan.sequence[file])

    with VolumeReader(plan.source, series=options.series) as reader:
        turned = _reoriented(reader, options)
        if options.format in ARRAYS:
            # NIfTI keeps a scale; the values are those of the other formats
            yield todo[0], turned.sequence(times=time_of(0), stored=options.format == "nii.gz")
            return
        window: tuple[float, float] | None = None
        for volume, files in groupby(todo, time_of):
            values = as_real(turned.sequence(times=volume).data)
            window = window or _window(turned, values, plan, options)
            for file, pixels in _pictures(values, turned.info, window, plan, list(files), options):
                yield file, Sequence(pixels, "HWC", plan.source)


def _window(
    reader: VolumeReader, values: AnyArray, plan: VolumePlan, options: Options
) -> tuple[float, float]:
    """Return the lower and upper end of what pictures show; all volumes of a series share them."""
    if options.window is not None:
        return options.window[0] - options.window[1] / 2, options.window[0] + options.window[1] / 2
    volumes = [0] if plan.sequence is None else list(dict.fromkeys(plan.sequence.tolist()))
    if len(volumes) == 1 or reader.info.header.get("window"):
        return window_of(values, reader.info)
    spread = [volumes[int((n + 0.5) * len(volumes) / _LOOKED_AT)] for n in range(_LOOKED_AT)]
    step = max(1, _LOOKED_AT * values.size >> 20)
    samples = [
        as_real(reader.sequence(times=volume).data).ravel()[::step] for volume in dict.fromkeys(spread)
    ]
    return window_of(np.concatenate(samples))


def _pictures(
    values: AnyArray,
    info: VolumeInfo,
    window: tuple[float, float],
    plan: VolumePlan,
    files: Seq[int],
    options: Options,
) -> Iterator[tuple[int, AnyArray]]:
    """The pictures of one volume: their numbers within the plan, and their pixels."""
    colors = (
        info.channels >= 3 and values.dtype == np.uint8 and options.dtype == "uint8" and not options.window
    )

    def shown(part: AnyArray) -> AnyArray:
        return slice_image(part if colors else windowed(part, window, options.dtype), info.spacing_mm[1:])

    if options.mip:
        yield files[0], shown(values.max(axis=0))
    elif options.montage is not None:
        chosen = _slices(len(values), options, plan.source)
        yield files[0], montage([shown(values[number]) for number in chosen], *options.montage)
    else:
        for file in files:
            yield file, shown(values[plan.frames[file, 0]])


def _write(frame: Sequence, writer: Encoder, time_step_s: float | None, file: BinaryIO) -> None:
    """Write a picture, or a volume as it is."""
    if writer.name in ARRAYS:
        step = time_step_s if frame.layout == "FDHWC" else None
        file.write(content(frame, f".{writer.name}", time_step_s=step))
    else:
        writer(frame, file)
