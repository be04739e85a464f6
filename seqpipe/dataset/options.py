"""Options of sources: how videos are decoded, and how volumes are prepared and cached."""

from __future__ import annotations

import os
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Literal

from ..video.device import DecodeChoice
from ..volume.disk import CacheCompression
from ..volume.resampling.regrid import RegridInterpolation

__all__ = ["Cache", "Decode", "Prepare"]

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Decode:
    """How videos are decoded.

    Attributes:
        backend: for a GPU: "auto" (NVDEC, and the CPU for streams that NVDEC does not support), "nvdec" (only NVDEC),
            "mixed" (both at the same time) or "cpu" (the CPU, with an upload).
        stream: number of the stream in the container; by default the best video stream, as ffmpeg chooses.
        threads: CPU threads that decode; by default one for each core that the process may use.
        cache_dir: folder of the indexes; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache folder.
        register: a file of indexes that several users share; by default ``seqpipe.register`` in the folder of videos.
    """

    backend: DecodeChoice = "auto"
    stream: int | None = None
    threads: int | None = None
    cache_dir: _Path | None = None
    register: _Path | None = None


@dataclass(frozen=True)
class Prepare:
    """How volumes are prepared before patches are cut.

    Attributes:
        orientation: directions of columns, rows and slices, such as "RAS"; None keeps the file's.
        spacing_mm: distance of voxels in mm, (slices, rows, columns) or one number; None keeps the file's.
        align: "first" resamples all parts of a case to the grid of the first; "none" requires one grid.
        interp: interpolation of images.
        antialias: whether images are smoothed before they are resampled to fewer voxels.
        crop_above: volumes are cropped to the voxels above this intensity, such as -500 for the body in CT.
        dtype: dtype of images; None keeps that of the scaled values.
        series_as_channels: whether the volumes of a 4-D file are channels.
    """

    orientation: str | None = None
    spacing_mm: float | Seq[float] | None = None
    align: str = "none"
    interp: RegridInterpolation = "linear"
    antialias: bool = True
    crop_above: float | None = None
    dtype: str | None = None
    series_as_channels: bool = False


@dataclass(frozen=True)
class Cache:
    """Caches of volumes between epochs.

    Attributes:
        gib: memory for volumes beyond those whose patches are mixed.
        device: "cpu", or "cuda" for the memory of the data set's GPU.
        dir: folder of decompressed volumes; None for no cache on disk.
        dir_gib: limit of that folder.
        compression: compression of its files.
        threads: threads that read; by default one for each core that the process may use.
    """

    gib: float = 0
    device: Literal["cpu", "cuda"] = "cpu"
    dir: _Path | None = None
    dir_gib: float = 100
    compression: CacheCompression = "none"
    threads: int | None = None
