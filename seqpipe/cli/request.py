"""Export request: options checked as far as possible without opening a video."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from ..errors import ParameterError
from ..video.convert.output import OutputSpec, Transfer, transposed
from ..video.device import DecodeChoice, Device, parse_devices
from ..volume.axes import SliceAxis
from ..writers.encoders import Encode, Encoder, check_ending, encoder
from ..writers.pattern import Pattern, default_pattern
from .manifest import manifest_exists, manifest_format
from .options import Mark
from .selection import FrameSelection, TimeRange
from .shard import ShardNumbers, path_of_shard

__all__ = ["ARRAYS", "ExportRequest", "Options"]

ARRAYS: Final = ("npy", "npz", "nii.gz")
"""Formats that hold whole volumes."""

_FLOATS: Final = ("npy", "npz")

_WITHOUT_EFFECT: Final = (
    *("paths", "out", "jobs", "device", "decode", "encode", "manifest", "resume", "overwrite", "on_error"),
    *(
        "contact_sheet",
        "sheet_grid",
        "dry_run",
        "as_json",
        "cache_dir",
        "register",
        "shard",
        "to",
        "per_shard",
    ),
)
"""Options that change neither the content of a file nor its name."""
_BETWEEN: Final = {"size": "x", "montage": "x", "crop": ":"}
"""What stands between the numbers of an option, where it is no comma."""
_VIDEOS_ONLY: Final = (
    *(
        "fps",
        "at",
        "keyframes",
        "sequence_length",
        "stride",
        "step",
        "min_motion",
        "scenes",
        "skip_black",
        "min_sharpness",
        "dedup",
        "codec",
        "gop",
        "transfer",
        "start",
        "end",
        "duration",
    ),
    *("size", "short_side", "max_side", "crop", "contact_sheet", "sheet_grid"),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of ``seqpipe export`` as they were typed; see its help."""

    paths: tuple[str, ...]
    out: str
    fps: float | None
    every: int | None
    frames: tuple[int, ...] | None
    at: tuple[float, ...] | None
    num: int | None
    keyframes: bool
    sequence_length: int | None
    stride: int | None
    step: int | None
    min_motion: float | None
    scenes: bool
    skip_black: bool
    min_sharpness: float | None
    dedup: int | None
    start: Mark | None
    end: Mark | None
    duration: Mark | None
    size: tuple[int, int] | None
    short_side: int | None
    max_side: int | None
    crop: tuple[int, int, int, int] | None
    dtype: Literal["uint8", "uint16"]
    format: str
    quality: int | None
    pattern: str | None
    jobs: int | None
    device: str
    decode: DecodeChoice
    stream: int | None
    encode: Encode
    manifest: str | None
    resume: bool
    overwrite: bool
    on_error: Literal["skip", "raise"]
    contact_sheet: bool
    sheet_grid: tuple[int, int] | None
    dry_run: bool
    as_json: bool
    cache_dir: str | None
    register: str | None = None
    shard: ShardNumbers | None = None
    to: str = "files"
    per_shard: int = 100
    codec: str | None = None
    gop: int | None = None
    transfer: Transfer | None = None
    axis: SliceAxis = "axial"
    window: tuple[float, float] | None = None
    mip: bool = False
    montage: tuple[int, int] | None = None
    time: int | None = None
    series: str | None = None

    takes_volumes: ClassVar[bool] = True

    def typed(self) -> dict[str, str]:
        """The options that decide what the files hold and how they are named, as they were typed, by flag."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            f"--{name.replace('_', '-')}": "" if value is True else _text(name, value)
            for name, value in values.items()
            if name not in _WITHOUT_EFFECT and value is not None and value is not False
        }

    @property
    def one_file(self) -> bool:
        """Whether there is one file for each volume, not for each slice."""
        return self.format in ARRAYS or self.mip or self.montage is not None

    def encoder(self) -> Encoder:
        """The encoder that writes the files."""
        chosen = encoder(
            self.format,
            self.quality,
            dtype=self.dtype,
            encode=self.encode,
            codec=self.codec,
            gop=self.gop,
            grid=self.sheet_grid,
        )
        # a sample of a shard is a whole sequence, whose frames are encoded one by one
        return chosen if self.to == "files" else replace(chosen, packed=True)


@dataclass(frozen=True)
class ExportRequest:
    """A checked request for an export.

    Attributes:
        options: as they were typed.
        selection: the selected frames.
        output: size, crop and type of their pixels.
        encoder: writes the files.
        pattern: names the files.
        folder: takes the files.
        manifest: the manifest's path, or None.
        devices: the devices that decode; sources are assigned in turn.
        volumes: whether the sources are volumes; else videos.
    """

    options: Options
    selection: FrameSelection
    output: OutputSpec
    encoder: Encoder
    pattern: Pattern
    folder: Path
    manifest: Path | None
    devices: tuple[Device, ...]
    volumes: bool = False

    @classmethod
    def of(cls, options: Options, *, volumes: bool = False) -> ExportRequest:
        """Check options for videos, or for volumes."""
        devices = (Device("cpu"),) if volumes else parse_devices(options.device)
        (_check_for_volumes if volumes else _check_for_videos)(options)
        if options.resume and options.overwrite:
            raise ParameterError("--resume and --overwrite exclude one another", allowed="one of them")
        if options.sheet_grid and not options.contact_sheet and options.format != "vtt":
            raise ParameterError(
                "--sheet-grid is for --contact-sheet, which is not given",
                allowed="both, neither of them, or --format vtt",
            )
        if not options.out:  # an empty text, as from an unset variable, would mean the current folder
            raise ParameterError("out='' is empty", allowed="a folder; '.' for the current one")
        if options.out == "-":
            raise ParameterError(
                "out='-' is no folder: files are not written to standard output",
                allowed="a folder; './-' for one of that name",
            )
        selection = _selection(options)
        writer = options.encoder()
        if volumes and writer.streamed:
            raise ParameterError(
                f"--format {writer.name} is for videos", allowed="images and arrays for volumes"
            )
        if options.to != "files" and writer.streamed:
            raise ParameterError(
                f"--to {options.to} and --format {writer.name} exclude one another: shards hold frames",
                allowed="a format of images or arrays, or --to files",
            )
        for device in devices:
            writer.setup(device, 1)  # checked now, so that errors come before any work
        pattern = options.pattern or default_pattern(
            sequences=selection.sequences,
            packed=writer.packed,
            whole=options.one_file if volumes else writer.streamed,
        )
        check_ending(pattern, writer.name)
        manifest = None if options.manifest is None else path_of_shard(Path(options.manifest), options.shard)
        if manifest is not None:
            manifest_format(manifest)
        if options.to == "files" and "://" in options.out:
            raise ParameterError(
                f"out={options.out!r} is no folder, and single files are written into folders",
                allowed="a folder; or a URL, with --to webdataset or parquet",
            )
        if options.contact_sheet and options.shard is not None:
            raise ParameterError(
                "--contact-sheet and --shard exclude one another: the jobs of one folder would share one sheet",
                allowed="one of them",
            )
        return cls(
            options,
            selection,
            _output(options, writer),
            writer,
            Pattern(pattern, sequences=selection.sequences),
            Path(options.out),
            manifest,
            devices,
            volumes,
        )

    @property
    def is_sequential(self) -> bool:
        """Whether the files follow from the frames as they come, into a folder where nothing can be in the way."""
        options, selection, encoder = self.options, self.selection, self.encoder
        anywhere = (
            *(selection.fps, selection.frames, selection.at, selection.num, selection.measures or None),
            options.start,
        )
        return (
            all(rule is None for rule in anywhere)
            and not (selection.keyframes or encoder.pairs or encoder.streamed or self.volumes)
            # frames of a sequence that does not fit into the video are not exported
            and (encoder.packed or not selection.sequences)
            and not (options.dry_run or options.resume or options.overwrite or options.contact_sheet)
            and all(device.kind == "cpu" for device in self.devices)
            and "pts_ms" not in self.pattern.fields
            and self.is_folder_empty
            and (self.manifest is None or not manifest_exists(self.manifest))
        )

    @property
    def is_folder_empty(self) -> bool:
        """Whether the output folder is empty, or not there."""
        try:
            return not os.listdir(self.folder)  # noqa: PTH208  one call, whatever it holds
        except FileNotFoundError:
            return True
        except OSError:  # the export reports it
            return False


def _check_for_videos(options: Options) -> None:
    """Check that no option is for volumes only."""
    in_use = {
        "--axis": options.axis != "axial",
        "--window": options.window is not None,
        "--mip": options.mip,
        "--montage": options.montage is not None,
        "--time": options.time is not None,
        "--series": options.series is not None,
        "--format nii.gz": options.format == "nii.gz",
    }
    if misplaced := [name for name, value in in_use.items() if value]:
        raise ParameterError(
            f"{', '.join(misplaced)} means nothing for videos", advice="Remove it, or name volumes"
        )


def _check_for_volumes(options: Options) -> None:
    """Check that no option is for videos only, and that those for volumes agree."""
    misplaced = [name for name in _VIDEOS_ONLY if getattr(options, name) not in (None, False)]
    if misplaced:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in misplaced)
        raise ParameterError(
            f"{names} {'is' if len(misplaced) == 1 else 'are'} for videos",
            allowed="--axis, --window, --mip, --montage, --time, --series, --every, --frames, --num for volumes",
        )
    if options.mip and options.montage:
        raise ParameterError("--mip and --montage exclude one another", allowed="one of them")
    pictures = options.mip, options.montage, options.window, options.every, options.frames, options.num
    if options.format in ARRAYS and not {*pictures} <= {None, False}:
        raise ParameterError(
            f"--format {options.format} writes the whole volume as it is",
            allowed="--mip, --montage, --window and a choice of slices with jpg, png, tiff and webp",
        )


def _selection(options: Options) -> FrameSelection:
    """Return the selection of frames."""
    within = TimeRange(options.start or TimeRange.start, options.end, options.duration)
    return FrameSelection(
        fps=options.fps,
        every=options.every,
        frames=options.frames,
        at=options.at,
        num=options.num,
        keyframes=options.keyframes,
        sequence_length=options.sequence_length,
        stride=options.stride,
        step=options.step,
        min_motion=options.min_motion,
        scenes=options.scenes,
        skip_black=options.skip_black,
        min_sharpness=options.min_sharpness,
        dedup=options.dedup,
        within=within,
    )


def _output(options: Options, encoder: Encoder) -> OutputSpec:
    """Return size, crop and type of the pixels."""
    linear = options.transfer == "linear"
    if linear and (options.format not in _FLOATS or options.to != "files"):
        raise ParameterError(
            f"--transfer linear gives float32, which {options.format} does not hold",
            allowed=f"the formats {' and '.join(_FLOATS)}",
        )
    sized = {options.size, options.short_side, options.max_side} != {None}
    return OutputSpec(
        encoder.color,
        dtype="float32" if linear else options.dtype,
        transfer=options.transfer or "coded",
        crop=transposed(options.crop),
        size=transposed(options.size),
        short_side=options.short_side,
        max_side=options.max_side if sized else encoder.max_side,
    )


def _text(name: str, value: Any) -> str:
    """The value of an option as it is typed."""
    values = value if isinstance(value, tuple) else (value,)
    return _BETWEEN.get(name, ",").join(str(number).removesuffix(".0") for number in values)
