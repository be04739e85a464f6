"""VolumeSource: the protocol of volume files, and boxes of voxels to read from them."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import DamagedSourceError, ParameterError
from ..video.source.source import Origin, Read, Source, Stamp, open_source
from .info import VolumeInfo

__all__ = [
    "AnyArray",
    "Box",
    "Origin",
    "Read",
    "Source",
    "Stamp",
    "VolumeSource",
    "chosen_times",
    "damaged",
    "open_source",
]

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True)
class Box:
    """A window of a volume, half-open along each axis.

    Attributes:
        d: first slice and the slice after the last one.
        h: first row and the row after the last one.
        w: first column and the column after the last one.
    """

    d: tuple[int, int]
    h: tuple[int, int]
    w: tuple[int, int]

    @classmethod
    def whole(cls, grid: Seq[int]) -> Box:
        """Return the box of a whole grid of D, H and W voxels."""
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
        """Index of the box in an array ``DHW…``."""
        return slice(*self.d), slice(*self.h), slice(*self.w)

    def shifted(self, by: Seq[int]) -> Box:
        """Return a box of the same size, shifted by a number of slices, rows and columns."""
        d, h, w = ((start + n, stop + n) for (start, stop), n in zip(self.ranges, by, strict=True))
        return Box(d, h, w)

    def checked(self, info: VolumeInfo) -> Box:
        """Return the box, if it is not empty and inside a volume.

        Raises:
            ParameterError: it is empty, or not inside the volume.
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
    """An open volume, whose header has been read.

    Attributes:
        info: the facts.
    """

    info: VolumeInfo

    @property
    def sources(self) -> Seq[Source]:
        """The files with the voxels; empty if there are too many to check, as for chunks of Zarr."""

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype and native byte order; ``DHWC``, or ``FDHWC`` for a series."""

    def close(self) -> None:
        """Close files and release memory; reading opens them again."""


def chosen_times(info: VolumeInfo, times: Seq[int] | None) -> list[int]:
    """Return the requested volumes of a series, as indices from 0."""
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
                f"times={list(times)!r} contains {time!r}",
                source=info.source,
                allowed=f"integers from {-info.frames} to {info.frames - 1}",
            )
        chosen.append(int(time) % info.frames)
    return chosen


def damaged(source: str, fact: str) -> DamagedSourceError:
    """Return the error for voxels that are missing or damaged."""
    return DamagedSourceError(fact, source=source, advice="Fetch, copy or write the file again")
