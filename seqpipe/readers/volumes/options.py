"""Options of volumes: what is taken of each, how they are prepared, and where they are cached."""

from __future__ import annotations

import os
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from ...core.keywords import refuses_unknown_fields
from ...core.padding import PAD_MODES, PadMode
from ...core.param import Brief, Param, check_fields, choice
from ...errors import ParameterError
from ...resampling.gather import Interpolation
from ...video.device import THREADS
from ...volume.disk import CACHE_COMPRESSION, CacheCompression
from ...volume.regrid import INTERP, spacing_of_three
from ...volume.space import check_orientation

__all__ = ["Around", "Cache", "Grid", "Patch", "Prepare", "VolumeTake", "Whole"]

Around: TypeAlias = Literal["uniform", "balanced", "classes", "weighted"]

_MOST_AXIS: Final = 1 << 20
_AROUND: Final = choice(
    "around",
    "Positions of patches: anywhere, around foreground, around voxels of classes, or by a map of weights",
    ("uniform", "balanced", "classes", "weighted"),
)
_PER_VOLUME: Final = Param(name="per_volume", doc="Patches of each volume in an epoch", lo=1, hi=1_000_000)
_FOREGROUND: Final = Param(
    name="foreground", doc="Share of patches around labeled voxels", kind=float, lo=0, hi=1
)
_IGNORE: Final = Param(name="ignore", doc="Label of voxels without annotation", optional=True)
_PAD: Final = choice(
    "pad", "How a volume smaller than a patch is padded on both sides; 'none' refuses it", PAD_MODES
)
_FILL: Final = Param(name="fill", doc="Value of padded voxels of images", kind=float)
_MIX: Final = Param(
    name="mix", doc="Volumes in memory whose patches are shuffled", lo=1, hi=4096, unit="volumes"
)
_MARGIN: Final = Param(name="margin", doc="Voxels on each side of a patch whose output is left out", lo=0)
_OVERLAP: Final = Param(
    name="overlap", doc="Fraction of a patch that it shares with its neighbor", kind=float, lo=0, hi=0.99
)
_ALIGN: Final = choice(
    "align",
    "Parts on different grids: refuse them, or resample them to the grid of the first part",
    ("none", "first"),
)
_CROP_ABOVE: Final = Param(
    name="crop_above", doc="Crop volumes to the box of the voxels above this value", kind=float, optional=True
)
_DTYPE: Final = choice("dtype", "Dtype of images", ("int16", "float16", "float32"), optional=True)
_ANTIALIAS: Final = Param(name="antialias", doc="Whether images are smoothed first", kind=bool)
_CHANNELS: Final = Param(
    name="series_as_channels", doc="Whether the volumes of a 4-D file are channels", kind=bool
)
_GIB: Final = Param(
    name="gib", doc="Memory for volumes that are cached between epochs", kind=float, lo=0, unit="GiB"
)
_DEVICE: Final = choice("device", "Memory that holds volumes", ("cpu", "cuda"))
_DIR_GIB: Final = Param(
    name="dir_gib", doc="Largest size of the folder of cached volumes", kind=float, lo=0, unit="GiB"
)


@refuses_unknown_fields()
@dataclass(frozen=True, repr=False)
class Whole(Brief):
    """All of each volume, video, or part of a video that a manifest gives: one sample each.

    Sequences of videos have different lengths: batches of them are lists, or are padded by ``batch(ragged="pad")``.

    Attributes:
        stride: for videos: distance between frames; with ``fps``, in frames of that rate.
        fps: for videos: target frame rate in Hz, by timestamps.
        max_frames: for videos: the largest number of frames of a sequence. A longer one is an error, which
            ``on_error="skip"`` leaves out with an entry in the report.
        repeats: for videos: number of times that each sample occurs in an epoch.
        fill: value of what ``batch(ragged="pad")`` adds.
    """

    names: ClassVar[Mapping[str, str]] = {"repeats": "repeats", "fill_value": "fill"}
    patch: ClassVar[None] = None
    per_volume: ClassVar[int] = 1
    around: ClassVar[Around] = "uniform"
    pad: ClassVar[PadMode] = "none"
    mix: ClassVar[int] = 4
    stride: int = 1
    fps: float | None = None
    max_frames: int | None = None
    repeats: int = 1
    fill: float = 0


class _Sized(Brief):
    """Patches of one size."""

    size: Any

    @property
    def patch(self) -> tuple[int, int, int]:
        """Slices, rows and columns of a patch."""
        slices, rows, columns = self.size
        return slices, rows, columns


@refuses_unknown_fields({"patch_size": "Write Patch(size=…)"})
@dataclass(frozen=True, repr=False)
class Patch(_Sized):
    """Patches of each volume.

    =============== ========================================================================================
    ``around``      positions
    =============== ========================================================================================
    ``"uniform"``   anywhere
    ``"balanced"``  a share ``foreground`` of the patches around labeled voxels, with the classes of the volume
                    equally often; the rest anywhere. Labels of 0 and below, such as -1 for "ignore", are not
                    classes
    ``"classes"``   around a voxel of a class, drawn by ``class_weights`` from the classes of the volume
    ``"weighted"``  around a voxel drawn by the map in the part ``weights``
    =============== ========================================================================================

    Labels of several channels are regions that may overlap, such as those of BraTS; the classes are then their numbers,
    from 1.

    Attributes:
        size: (slices, rows, columns), or one number for all axes; ``(5, 256, 256)`` makes stacks of 5 slices.
        per_volume: patches of each volume in every epoch.
        around: where patches are cut.
        foreground: for "balanced": share of patches that are centered on foreground.
        class_weights: for "classes": weight of each class; all classes alike by default.
        weights: for "weighted": name of the part that holds weights of voxels.
        pad: padding of volumes smaller than a patch, on both sides: "constant", "edge", "reflect", "symmetric" or
            "wrap"; "none" refuses them.
        fill: value of padded voxels of images for "constant"; labels are padded with 0.
        mix: number of volumes in memory whose patches are shuffled among each other; up to twice as many while the next
            ones are read.
        ignore: for "balanced" and "classes": label of voxels without annotation, which is no class; the rest of
            "balanced" is then centered on voxels that have one of the other labels, as in nnU-Net.

    Raises:
        ParameterError: a field is out of bounds, or fields exclude one another.
    """

    size: int | Seq[int]
    per_volume: int = 1
    around: Around = "uniform"
    foreground: float = 1 / 3
    class_weights: Mapping[int, float] | None = None
    weights: str | None = None
    pad: PadMode = "none"
    fill: float = 0
    mix: int = 4
    ignore: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _three_sizes(self.size))
        check_fields(self, _PER_VOLUME, _AROUND, _FOREGROUND, _IGNORE, _PAD, _FILL, _MIX)
        object.__setattr__(self, "class_weights", _class_weights(self.class_weights))
        if self.class_weights and self.around != "classes":
            raise ParameterError(
                "class_weights are for around='classes'", advice=f"Here around is {self.around!r}"
            )
        if self.ignore is not None and self.around not in ("balanced", "classes"):
            raise ParameterError(
                "ignore is for around='balanced' and 'classes'", advice=f"Here around is {self.around!r}"
            )
        if (self.around == "weighted") != (self.weights is not None):
            raise ParameterError(
                f"around={self.around!r} and weights={self.weights!r} do not go together",
                allowed="around='weighted' with weights, the name of a part",
            )


@refuses_unknown_fields({"patch_size": "Write Grid(size=…)"})
@dataclass(frozen=True, repr=False)
class Grid(_Sized):
    """Overlapping patches that cover each volume, for inference; see :class:`seqpipe.Aggregate`.

    Attributes:
        size: (slices, rows, columns), or one number for all axes.
        overlap: least share of a patch, without its margin, that neighbors have in common, below 1; one for all axes,
            or one for each.
        pad: padding of volumes that are smaller than a patch, and of the margin; "none" refuses them.
        margin: voxels on each side of a patch whose output is left out, for networks that know less there; one number,
            or one for each axis. Outputs may be smaller than patches by their margins.

    Raises:
        ParameterError: a field is out of bounds.
    """

    per_volume: ClassVar[int] = 1
    around: ClassVar[Around] = "uniform"
    fill: ClassVar[float] = 0
    mix: ClassVar[int] = 1
    size: int | Seq[int]
    overlap: float | Seq[float] = 0.25
    pad: PadMode = "none"
    margin: int | Seq[int] = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _three_sizes(self.size))
        check_fields(self, _PAD)
        for name, values in (("overlap", self.overlaps), ("margin", self.margins)):
            if len(values) != 3:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} is not valid", allowed="one number, or one for each axis"
                )
        if any(2 * margin >= side for margin, side in zip(self.margins, self.patch, strict=True)):
            raise ParameterError(
                f"margin={self.margin!r} leaves nothing of a patch of {self.patch}",
                allowed="less than half of a patch",
            )
        if any(self.margins) and self.pad == "none":
            raise ParameterError(
                f"margin={self.margin!r} and pad='none' exclude one another",
                advice="Choose how volumes are padded, such as pad='edge'",
            )

    @property
    def margins(self) -> tuple[int, ...]:
        """Margin along each axis."""
        sides = self.margin if isinstance(self.margin, (list, tuple)) else (self.margin,) * 3
        return tuple(int(_MARGIN.check(side)) for side in sides)

    @property
    def overlaps(self) -> tuple[float, ...]:
        """Share along each axis."""
        shares = self.overlap if isinstance(self.overlap, (list, tuple)) else (self.overlap,) * 3
        return tuple(_OVERLAP.check(share) for share in shares)


VolumeTake: TypeAlias = Whole | Patch | Grid


@refuses_unknown_fields()
@dataclass(frozen=True, repr=False)
class Prepare(Brief):
    """How volumes are prepared before patches are cut.

    Attributes:
        orientation: directions of columns, rows and slices, such as "RAS"; None keeps the file's.
        spacing_mm: distance of voxels in mm, (slices, rows, columns) or one number; None keeps the file's.
        align: "first" resamples all parts of a case to the grid of the first; "none" requires one grid.
        interp: interpolation of images on another grid: "linear", "cubic", "bspline" or "nearest"; labels by vote.
        antialias: whether images are smoothed by a Gaussian first, along the axes that get coarser.
        crop_above: crop each volume to the box around the voxels of its first part above this value, such as -500 for
            the body in CT or 0 for a brain; the box is widened to a patch where the volume allows it, and is the whole
            volume where no voxel is above it. None disables it.
        dtype: dtype of images; by default that of the values after slope and intercept. A batch has one dtype, the
            smallest for all its samples; integers beside float32 become float32.
        series_as_channels: whether the volumes of a 4-D file, such as the modalities of a brain, become the channels of
            one volume ``DHWC``; else they are a series ``FDHWC``.

    Raises:
        ParameterError: a field is out of bounds.
    """

    orientation: str | None = None
    spacing_mm: float | Seq[float] | None = None
    align: str = "none"
    interp: Interpolation = "linear"
    antialias: bool = True
    crop_above: float | None = None
    dtype: str | None = None
    series_as_channels: bool = False

    def __post_init__(self) -> None:
        if self.orientation is not None:
            object.__setattr__(self, "orientation", check_orientation(self.orientation))
        if self.spacing_mm is not None:
            object.__setattr__(self, "spacing_mm", spacing_of_three(self.spacing_mm))
        check_fields(self, _ALIGN, INTERP, _ANTIALIAS, _CROP_ABOVE, _DTYPE, _CHANNELS)


@refuses_unknown_fields()
@dataclass(frozen=True, repr=False)
class Cache(Brief):
    """Caches of volumes between epochs.

    Attributes:
        gib: memory for volumes beyond those whose patches are mixed.
        device: "cpu", or "cuda" for the memory of the data set's GPU, which then cuts the patches. Volumes that are
            resampled stay in main memory.
        dir: folder of decompressed and oriented volumes, keyed by the size and modification time of their files; None
            for no cache on disk.
        dir_gib: limit of that folder; the least recently used volumes are deleted first.
        compression: "none": plain arrays, from which patches are read directly; "lz4": about a third of the bytes, but
            whole volumes are decompressed; requires the extra ``blosc2``.
        threads: threads that read and cut; by default one for each core that the process may use.

    Raises:
        ParameterError: a field is out of bounds.
    """

    gib: float = 0
    device: Literal["cpu", "cuda"] = "cpu"
    dir: str | os.PathLike[str] | None = None
    dir_gib: float = 100
    compression: CacheCompression = "none"
    threads: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, _GIB, _DEVICE, _DIR_GIB, CACHE_COMPRESSION, THREADS)


def _three_sizes(size: Any) -> tuple[int, int, int]:
    """Return slices, rows and columns of a patch."""
    try:
        sizes = (size,) * 3 if isinstance(size, (int, np.integer)) else tuple(size)
    except TypeError:
        sizes = ()
    if len(sizes) != 3 or not all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) and 1 <= n <= _MOST_AXIS for n in sizes
    ):
        raise ParameterError(
            f"size={size!r} is not valid",
            allowed="a whole number of at least 1, or three: slices, rows and columns",
        )
    return int(sizes[0]), int(sizes[1]), int(sizes[2])


def _class_weights(weights: Mapping[int, float] | None) -> dict[int, float] | None:
    """Return weights of classes in the order of the classes."""
    if weights is None:
        return None
    pairs = {int(number): float(weight) for number, weight in sorted(dict(weights).items())}
    if not pairs or any(not weight >= 0 for weight in pairs.values()) or not any(pairs.values()):
        raise ParameterError(
            f"class_weights={weights!r} is not valid",
            allowed="classes → weights of at least 0, one of them above 0",
        )
    return pairs
