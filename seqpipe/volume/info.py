"""VolumeInfo: the facts in a volume's header, available without reading voxels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ..array import FloatArray
from ..errors import UnreadableSourceError
from .space import grids_agree, orientation_of, spacing_of

__all__ = ["VolumeInfo", "VolumeLayout", "checked_affine", "checked_shape"]

VolumeLayout: TypeAlias = Literal["DHWC", "FDHWC"]

_MOST_AXIS: Final = 1 << 31
_MOST_MM: Final = 1e9
_LEAST_MM: Final = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class VolumeInfo:
    """The facts of a volume.

    Attributes:
        source: path, URL or description of the origin.
        format: ``"nifti"``, ``"dicom"``, ``"nrrd"``, ``"metaimage"``, ``"npy"``, ``"npz"``, ``"stack"`` or ``"zarr"``.
        shape: shape of the whole array, in the order of ``layout``.
        layout: ``"DHWC"``, or ``"FDHWC"`` for a series of volumes.
        dtype: stored dtype of the voxels, in native byte order.
        affine: 4×4, from (d, h, w) to millimeters, RAS+.
        space: rule that determined the affine, such as ``"sform"``, ``"qform"``, ``"dicom"``; ``"assumed"`` if the file
            has none.
        scale: slope and intercept of the stored values, or None.
        time_step_s: interval between the volumes of a series in seconds; None if the file does not state it.
        compressed: whether the voxels are compressed, so that a window cannot be read without the voxels before it.
        notes: irregularities of the header and the assumptions made, as sentences.
        header: further fields of the file, as JSON values.
        kept: fields of the file that :func:`seqpipe.volume.save` writes again, as JSON values.
    """

    source: str
    format: str
    shape: tuple[int, ...]
    layout: VolumeLayout
    dtype: np.dtype[Any]
    affine: FloatArray
    space: str
    scale: tuple[float, float] | None = None
    time_step_s: float | None = None
    compressed: bool = False
    notes: tuple[str, ...] = ()
    header: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        affine = np.array(self.affine, dtype=np.float64)
        affine.flags.writeable = False
        object.__setattr__(self, "affine", affine)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Slices, rows and columns: D, H and W."""
        depth, height, width = self.shape[-4:-1]
        return depth, height, width

    @property
    def frames(self) -> int:
        """Number of volumes of a series; 1 for a single volume."""
        return self.shape[0] if self.layout == "FDHWC" else 1

    @property
    def channels(self) -> int:
        """Number of values per voxel."""
        return self.shape[-1]

    @property
    def nbytes(self) -> int:
        """Size of all voxels in bytes, decompressed."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        """Distance between neighboring slices, rows and columns in mm."""
        return spacing_of(self.affine)

    @property
    def orientation(self) -> str:
        """Anatomical directions of columns, rows and slices, such as ``"RAS"``."""
        return orientation_of(self.affine)

    def same_grid(self, other: VolumeInfo) -> bool:
        """Return whether both grids have the same voxel positions, within 0.01 voxel."""
        return self.grid == other.grid and grids_agree(self.affine, other.affine, self.grid)

    def with_grid(self, grid: tuple[int, int, int], affine: FloatArray) -> VolumeInfo:
        """Return a copy with another grid and affine."""
        return replace(self, shape=(*self.shape[:-4], *grid, self.shape[-1]), affine=affine)

    def to_json(self) -> dict[str, Any]:
        """Return all facts as JSON values."""
        return {
            "source": self.source,
            "format": self.format,
            "shape": list(self.shape),
            "layout": self.layout,
            "dtype": self.dtype.name,
            "spacing_mm": [round(size, 9) for size in self.spacing_mm],
            "orientation": self.orientation,
            "affine": self.affine.tolist(),
            "space": self.space,
            "scale": None if self.scale is None else list(self.scale),
            "time_step_s": self.time_step_s,
            "compressed": self.compressed,
            "bytes": self.nbytes,
            "notes": list(self.notes),
            "header": dict(self.header),
        }

    def describe(self) -> dict[str, str]:
        """Return the facts as text, without the source: those of every volume, of the header, and notes."""
        scale = "-" if self.scale is None else f"values = stored × {self.scale[0]:g} + {self.scale[1]:g}"
        words = {
            "format": self.format,
            "shape": f"{'×'.join(map(str, self.shape))} {self.layout}",
            "dtype": self.dtype.name,
            "spacing_mm": " × ".join(f"{size:.6g}" for size in self.spacing_mm),
            "orientation": self.orientation,
            "space": self.space,
            "affine": "; ".join(" ".join(f"{value:.4f}" for value in row) for row in self.affine[:3]),
            "scale": scale,
            "time_step_s": "-" if self.time_step_s is None else f"{self.time_step_s:g}",
            "compressed": "yes" if self.compressed else "no",
            "bytes": f"{self.nbytes:,}",
        }
        words |= {name: str(value) for name, value in self.header.items()}
        return words | {f"note {number}": note for number, note in enumerate(self.notes, 1)}

    def where(self) -> str:
        """Describe the grid, for messages."""
        size = "×".join(map(str, self.grid))
        spacing = " × ".join(f"{s:.4g}" for s in self.spacing_mm)
        origin = ", ".join(f"{x:.2f}" for x in self.affine[:3, 3])
        return f"{size} voxels of {spacing} mm, {self.orientation}, from ({origin})"


def checked_shape(shape: tuple[int, ...], source: str) -> tuple[int, ...]:
    """Return the shape that a header states, if it is valid."""
    if any(not 1 <= size < _MOST_AXIS for size in shape):
        raise UnreadableSourceError(
            f"the header states the shape {'×'.join(map(str, shape))}",
            source=source,
            allowed="1 voxel or more along each axis",
            advice="The header is damaged, or does not describe an image",
        )
    return shape


def checked_affine(affine: FloatArray, source: str) -> tuple[FloatArray, tuple[str, ...]]:
    """Return the affine that a header states, with zero columns replaced by 1 mm, and notes on the replacement."""
    affine = np.array(affine, dtype=np.float64)
    if not (np.isfinite(affine).all() and np.abs(affine).max() <= _MOST_MM):
        raise UnreadableSourceError(
            "the affine has values that are NaN or infinite, or beyond a thousand kilometers",
            source=source,
            allowed="a 4×4 matrix of finite numbers",
            advice="Correct the header with the tool that wrote the file",
        )
    notes = []
    empty = [axis for axis in range(3) if np.linalg.norm(affine[:3, axis]) < _LEAST_MM]
    if empty:
        others = [affine[:3, axis] for axis in range(3) if axis not in empty]
        for axis in empty:
            affine[:3, axis] = _perpendicular(others, axis)
            others.append(affine[:3, axis])
        names = ", ".join(["slices", "rows", "columns"][axis] for axis in empty)
        notes.append(f"the header has no spacing of {names}: 1 mm is assumed")
    if abs(np.linalg.det(affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0))) < 1e-6:
        raise UnreadableSourceError(
            "the affine is singular: slices, rows and columns lie in one plane",
            source=source,
            allowed="three independent directions",
            advice="Correct the header with the tool that wrote the file",
        )
    return affine, tuple(notes)


def _perpendicular(others: list[FloatArray], axis: int) -> FloatArray:
    """Return a unit vector perpendicular to the known directions; preferably the axis's own (x for columns)."""
    candidates = [np.eye(3)[2 - axis], *np.eye(3)]
    basis = np.linalg.qr(np.array(others).T)[0] if others else np.zeros((3, 0))
    rests = [candidate - basis @ (basis.T @ candidate) for candidate in candidates]
    best = next(rest for rest in rests if np.linalg.norm(rest) > 0.5)
    result: FloatArray = best / np.linalg.norm(best)
    return result
