"""VolumeSource: one volume file behind one protocol, and the boxes of voxels that are read from it."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DamagedSourceError, ParameterError
from ..video.source.source import Origin, Source, open_source
from .info import VolumeInfo

__all__ = ["AnyArray", "Box", "Origin", "Source", "VolumeSource", "chosen_times", "damaged", "open_source"]

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Box:
    """A window of a volume, half-open along each axis.

    Attributes:
        d: first slice and the slice after the last one.
        h: the same of rows.
        w: the same of columns.
    """

    d: tuple[int, int]
    h: tuple[int, int]
    w: tuple[int, int]

    @classmethod
    def whole(cls, grid: Seq[int]) -> Box:
        """All of a grid of D, H and W voxels."""
        return cls((0, grid[0]), (0, grid[1]), (0, grid[2]))

    @property
    def ranges(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """The three ranges."""
        return self.d, self.h, self.w

    @property
    def start(self) -> tuple[int, int, int]:
        """The first voxel."""
        return self.d[0], self.h[0], self.w[0]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Slices, rows and columns."""
        return self.d[1] - self.d[0], self.h[1] - self.h[0], self.w[1] - self.w[0]

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """For an array ``DHW…``."""
        return slice(*self.d), slice(*self.h), slice(*self.w)

    def shifted(self, by: Seq[int]) -> Box:
        """A box of the same size that begins so many slices, rows and columns later."""
        d, h, w = ((start + n, stop + n) for (start, stop), n in zip(self.ranges, by, strict=True))
        return Box(d, h, w)

    def checked(self, info: VolumeInfo) -> Box:
        """The box, if it lies inside of a volume and holds a voxel.

        Raises:
            ParameterError: it does not.
        """
        for name, (start, stop), size in zip("dhw", self.ranges, info.grid, strict=True):
            if not 0 <= start < stop <= size:
                raise ParameterError(
                    f"the window {start}:{stop} along {name} is not in the volume",
                    source=info.source,
                    allowed=f"0 ≤ start < stop ≤ {size}",
                )
        return self


class VolumeSource(Protocol):
    """A volume whose header was read.

    Attributes:
        info: the facts.
    """

    info: VolumeInfo

    @property
    def sources(self) -> Seq[Source]:
        """The files that hold the voxels; empty where they are too many to be looked at, as chunks of Zarr."""

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Voxels as they are stored, in the machine's byte order; ``DHWC``, or ``FDHWC`` for a series.

        Args:
            box: which voxels.
            times: which volumes of a series, in any order; None for all of them.

        Raises:
            SourceError: they cannot be read.
            DamagedSourceError: the file ends too early, or its compressed data is damaged.
        """

    def close(self) -> None:
        """Give back files and memory; reading opens them again."""


def chosen_times(info: VolumeInfo, times: Seq[int] | None) -> list[int]:
    """The volumes of a series that are asked for, as numbers from 0 on.

    Raises:
        ParameterError: one of them is not in the series.
    """
    if times is None:
        return list(range(info.frames))
    chosen = []
    for time in times:
        if (
            isinstance(time, bool)
            or not isinstance(time, (int, np.integer))
            or not -info.frames <= time < info.frames
        ):
            raise ParameterError(
                f"times={list(times)!r} names the volume {time!r}",
                source=info.source,
                allowed=f"whole numbers from 0 to {info.frames - 1}, or from {-info.frames} on",
            )
        chosen.append(int(time) % info.frames)
    return chosen


def damaged(source: str, fact: str) -> DamagedSourceError:
    """The error for voxels that are not there or not sound."""
    return DamagedSourceError(fact, source=source, advice="Fetch, copy or write the file again")
