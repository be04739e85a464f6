"""VolumeReader: windows of one volume, in any orientation and on any grid."""

from __future__ import annotations

import operator
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..array import Array, FloatArray, scaled_values, to_cupy
from ..core.closing import Closing
from ..core.keywords import refuses_unknown
from ..errors import FrameRangeError, ParameterError
from ..resampling.gather import Interpolation
from ..sequence import Sequence
from ..video.device import parse_device
from .formats.open import open_volume, stamp_of
from .info import VolumeInfo
from .regrid import TargetGrid, grid_of, resampled_window
from .source import AnyArray, Box, Origin, chosen_times
from .space import Turn, moved, turn_to

__all__ = ["VolumeReader"]


class VolumeReader(Closing):
    """One volume, or a series of volumes: any window of it, with its affine.

    Indices select slices, rows and columns: ``volume[10]`` is one slice ``HWC``, ``volume[10:20]`` a stack and
    ``volume[z0:z1, y0:y1, x0:x1]`` a window ``DHWC`` (``FDHWC`` for a series). Steps must be 1. Values are scaled: the
    file's slope and intercept are applied to the voxels that are read. Integers remain integers, if slope and intercept
    are; see :meth:`seqpipe.Sequence.scaled`.

    :meth:`reorient`, :meth:`to_canonical` and :meth:`resample` return readers of the same file. They read and compute
    only what a window needs, if the format allows it. A reader must be used by one thread at a time; copies and
    unpickled readers open the volume again.

    Args:
        origin: a path, a URL, the bytes of a file, a file object, a folder (a DICOM series, a Zarr array, images), or
            a list of files of one volume.
        device: device of the windows: ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or ``"auto"``.
        series: for DICOM, the SeriesInstanceUID if a folder has several series.
        key: for NPZ, the name of the array; for Zarr, its path in the group.
        stored: whether windows hold the values as stored in the file, with slope and intercept in ``.scale``.

    Raises:
        SourceNotFoundError: the file does not exist.
        UnreadableSourceError: it is not a supported volume.
        BackendError: the format needs a package that is not installed, or the device is not available.
    """

    @refuses_unknown("VolumeReader")
    def __init__(
        self,
        origin: Origin | Seq[Any],
        *,
        device: str = "cpu",
        series: str | None = None,
        key: str | None = None,
        stored: bool = False,
    ) -> None:
        again: Callable[..., VolumeReader] = type(self)
        self._again = partial(again, origin, device=device, series=series, key=key, stored=stored)
        self._origin, self._chosen, self._stored = origin, [series, key], bool(stored)
        self._device = parse_device(device)
        self._source = open_volume(origin, series=series, key=key)
        self._turn = Turn()
        self._grid: TargetGrid | None = None

    @property
    def info(self) -> VolumeInfo:
        """Facts of the volume after reorienting and resampling: shape, spacing, orientation, dtype, header notes."""
        stored = self._source.info
        grid = self._turn.shape(stored.grid)
        turned = stored.with_grid(grid, self._turn.affine(stored.affine, stored.grid))
        return turned if self._grid is None else turned.with_grid(self._grid.shape, self._grid.affine)

    @property
    def affine(self) -> FloatArray:
        """4×4, from (slice, row, column) to millimeters, RAS+."""
        return self.info.affine

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        """Distance between neighboring slices, rows and columns in mm."""
        return self.info.spacing_mm

    @property
    def orientation(self) -> str:
        """Anatomical directions of columns, rows and slices, such as ``"RAS"``."""
        return self.info.orientation

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array, ``DHWC`` or ``FDHWC``."""
        return self.info.shape

    def __len__(self) -> int:
        """The number of slices."""
        return self.info.grid[0]

    def __repr__(self) -> str:
        info = self.info
        series = f"{info.frames} × " if info.layout == "FDHWC" else ""
        scale = f", scaled by {info.scale[0]:.6g} + {info.scale[1]:.6g}" if info.scale else ""
        channels = f" × {info.channels}" if info.channels > 1 else ""
        return f"VolumeReader({info.source!r}, {series}{info.where()}, {info.dtype.name}{channels}{scale})"

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> Sequence:
        """Read one slice, or a window: ``[d]``, ``[d0:d1]`` or ``[d0:d1, h0:h1, w0:w1]``.

        An integer in place of a range selects one slice, row or column; negative ones count from the end. ``[d]`` alone
        returns ``HWC``; all other indices keep all axes.

        Raises:
            FrameRangeError: an index is out of range.
            ParameterError: a range is empty, or has a step other than 1.
        """
        indices = index if isinstance(index, tuple) else (index,)
        info = self.info
        if len(indices) > 3:
            raise ParameterError(
                f"{len(indices)} ranges are too many", source=info.source, allowed="[d0:d1, h0:h1, w0:w1]"
            )
        full = [*indices, *[slice(None)] * (3 - len(indices))]
        ranges = [_range(p, size, info) for p, size in zip(full, info.grid, strict=True)]
        window = self.sequence(Box(ranges[0], ranges[1], ranges[2]))
        if isinstance(index, (slice, tuple)) or info.layout == "FDHWC":
            return window
        return replace(window, data=window.data[0], layout="HWC")

    def sequence(
        self, box: Box | None = None, *, times: Seq[int] | int | None = None, stored: bool | None = None
    ) -> Sequence:
        """Read a window as a sequence; the whole volume by default.

        Args:
            box: the window.
            times: for a series, indices of its volumes, in any order; all by default. An integer selects one volume:
                ``times=3`` returns ``DHWC``.
            stored: whether values are those stored in the file, with ``.scale``; by default as the reader was opened.

        Raises:
            ParameterError: the window or an index is out of range.
            SourceError: the file cannot be read.
            DamagedSourceError: the file is truncated, or its compressed data is damaged.
        """
        info = self.info
        box = Box.whole(info.grid) if box is None else box
        box.checked(info)
        chosen = [times] if isinstance(times, (int, np.integer)) else times
        stored = self._stored if stored is None else stored
        interpolated = not stored and self._grid is not None  # scaled before; else at the end, on the device
        data: Array = self._window(
            box, None if chosen is None else chosen_times(info, chosen), scaled=interpolated
        )
        if chosen is not times and info.layout == "FDHWC":
            data = data[0]
        numbers = np.array(chosen_times(info, chosen)) if data.ndim == 5 else None
        step = info.time_step_s
        window = Sequence(
            to_cupy(data, self._device.number) if self._device.kind == "cuda" else data,
            "DHWC" if data.ndim == 4 else "FDHWC",
            info.source,
            affine=moved(info.affine, box.start),
            frames=numbers,
            timestamps=None if numbers is None or step is None else numbers * step,
            scale=None if interpolated else info.scale,
            header=info.kept,
        )
        return window if stored else window.scaled()

    def reorient(self, orientation: str) -> VolumeReader:
        """Return a reader of the same volume with permuted and reversed axes; exact.

        Args:
            orientation: anatomical directions of columns, rows and slices, such as ``"LPS"``.

        Raises:
            ParameterError: ``orientation`` is invalid.
        """
        if self._grid is not None:
            turn = turn_to(self._grid.affine, orientation)
            grid = TargetGrid(turn.shape(self._grid.shape), turn.affine(self._grid.affine, self._grid.shape))
            return self._like(self._turn, self._grid.on(grid))
        stored = self._source.info
        return self._like(turn_to(stored.affine, orientation), None)

    def to_canonical(self) -> VolumeReader:
        """Return a reader of the volume in ``"RAS"``: columns to the right, rows to the front, slices to the head."""
        return self.reorient("RAS")

    def resample(
        self,
        spacing_mm: float | Seq[float] | None = None,
        *,
        like: Any = None,
        interp: Interpolation = "linear",
        antialias: bool = True,
        fill_value: float | None = None,
    ) -> VolumeReader:
        """Return a reader of the same volume on another grid.

        Args:
            spacing_mm: distance between slices, rows and columns of the result, or one number for all; the extent of
                the volume is preserved within one voxel.
            like: instead, the owner of the target grid: a reader, a sequence with an affine, or a :class:`VolumeInfo`.
            interp: ``"linear"``, ``"nearest"``, ``"cubic"``, ``"bspline"``, or ``"vote"`` for labels; see
                :func:`seqpipe.volume.resample`.
            antialias: whether a Gaussian of σ = (factor - 1) / 2 voxels is applied first along axes that get coarser;
                never for ``"nearest"`` and ``"vote"``.
            fill_value: value outside the volume; None repeats the edge.

        Raises:
            ParameterError: an argument is out of bounds.
        """
        grid = grid_of(self.info, spacing_mm, like, interp=interp, antialias=antialias, fill_value=fill_value)
        return self._like(self._turn, grid)

    @property
    def grid(self) -> TargetGrid | None:
        """The grid that the volume is resampled to; None for its stored grid."""
        return self._grid

    def stamp(self) -> list[Any] | None:
        """Return what identifies the current content of all its files, as JSON values.

        It is None if unknown, as for bytes and Zarr arrays.
        """
        stamp = stamp_of(self._origin, self._source)
        return None if stamp is None else [stamp, self._chosen, *self._source.info.shape]

    def on_own_grid(self) -> VolumeReader:
        """Return a reader of the same volume without resampling, in the orientation before resampling."""
        return self._like(self._turn, None)

    def close(self) -> None:
        """Close files and release memory; reading opens them again."""
        self._source.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._again, self._turn, self._grid)

    def _like(self, turn: Turn, grid: TargetGrid | None) -> VolumeReader:
        """Return a reader of the same file with another view."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__, _turn=turn, _grid=grid)
        return view

    def _window(self, box: Box, times: Seq[int] | None, *, scaled: bool) -> AnyArray:
        """Read a box on the reader's grid."""
        if self._grid is None:
            return self._turned(box, times, scaled=scaled)
        stored = self._source.info
        turned = stored.with_grid(
            self._turn.shape(stored.grid), self._turn.affine(stored.affine, stored.grid)
        )
        return resampled_window(self._grid, box, turned, partial(self._turned, times=times, scaled=scaled))

    def _turned(self, box: Box, times: Seq[int] | None, *, scaled: bool) -> AnyArray:
        """Read a box in the reader's orientation."""
        stored = self._source.info
        d, h, w = self._turn.box(box.ranges, stored.grid)
        data: AnyArray = self._source.read(Box(d, h, w), times)
        if scaled and stored.scale is not None:
            data = scaled_values(data, *stored.scale)
        turned: AnyArray = self._turn.array(data, data.ndim - 4)
        return turned


def _restored(again: Any, turn: Turn, grid: TargetGrid | None) -> VolumeReader:
    """Restore a pickled reader."""
    reader: VolumeReader = again()
    return reader._like(turn, grid)


def _range(index: Any, size: int, info: VolumeInfo) -> tuple[int, int]:
    """Return the half-open range of an integer or a slice."""
    if isinstance(index, slice):
        try:
            start, stop, step = index.indices(size)
        except TypeError:
            start, stop, step = 0, 0, 0
        if step != 1 or start >= stop:
            raise ParameterError(
                f"the range {index.start}:{index.stop}:{index.step} is not valid",
                source=info.source,
                allowed=f"integers, a step of 1, and at least one index from 0 to {size - 1}",
            )
        return start, stop
    try:
        number = operator.index(index)
    except TypeError:
        raise ParameterError(
            f"{index!r} is not an index of a volume", source=info.source, allowed="integers and ranges"
        ) from None
    if not -size <= number < size:
        raise FrameRangeError(
            f"index {number} is out of range", source=info.source, allowed=f"{-size} to {size - 1}"
        )
    return number % size, number % size + 1
