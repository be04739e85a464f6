"""Space: affines, orientations, and their conventions in file formats.

seqpipe has one convention. Arrays are ``DHWC`` (slices, rows, columns, channels), and an affine applies to indices in
the order of the array's axes: ``affine @ (d, h, w, 1)`` is the center of that voxel in millimeters, RAS+ (x to the
right, y to the front, z to the head). An orientation names columns first, as in other programs: ``"RAS"`` means that
columns go to the right, rows to the front, slices to the head.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..array import Array, FloatArray
from ..errors import ParameterError
from ..sequence import orientation_of, spacing_of

__all__ = [
    "LPS_TO_RAS",
    "Turn",
    "check_orientation",
    "from_axes",
    "from_file_order",
    "grids_agree",
    "in_file_order",
    "moved",
    "orientation_of",
    "quaternion_matrix",
    "spacing_of",
    "to_axes",
    "turn_to",
]

LPS_TO_RAS: Final = np.diag([-1.0, -1.0, 1.0, 1.0])
LPS_TO_RAS.flags.writeable = False

_SIDES: Final = ("LR", "PA", "IS")
_REVERSED: Final = [2, 1, 0, 3]
_SAME_GRID: Final = 0.01
"""Maximum distance in voxels of corners that count as equal."""


def from_file_order(matrix: Any) -> FloatArray:
    """Convert an affine over (i, j, k), where i is the fastest index of a file, to one over (d, h, w)."""
    affine: FloatArray = np.asarray(matrix, dtype=np.float64)[:, _REVERSED]
    return affine


def in_file_order(affine: Any) -> FloatArray:
    """Convert an affine over (d, h, w) to one over (i, j, k), fastest index first."""
    return from_file_order(affine)


def from_axes(axes: Any, origin: Any, *, lps: bool) -> FloatArray:
    """Return the affine of a file that states a step along each axis and the position of the first voxel."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = axes, origin
    return from_file_order(LPS_TO_RAS @ matrix if lps else matrix)


def to_axes(affine: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Decompose an affine into the fields of DICOM, ITK and NRRD."""
    matrix = LPS_TO_RAS @ in_file_order(affine)
    spacing = np.linalg.norm(matrix[:3, :3], axis=0)
    safe = np.where(spacing > 0, spacing, 1.0)
    return matrix[:3, :3] / safe, spacing, matrix[:3, 3]


def quaternion_matrix(
    quaternion: Seq[float], spacing: Seq[float], offset: Seq[float], qfac: float
) -> FloatArray:
    """Return a NIfTI qform over (i, j, k): a rotation by a unit quaternion, spacing, and an offset."""
    b, c, d = (float(part) for part in quaternion)
    a = np.sqrt(max(0.0, 1.0 - (b * b + c * c + d * d)))
    if a < 1e-7:  # a rotation by 180 degrees: rounding may make the stored parts longer than 1; as nibabel
        a, length = 0.0, np.sqrt(b * b + c * c + d * d)
        b, c, d = b / length, c / length, d / length
    rotation = [
        [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
        [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
        [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c],
    ]
    matrix = np.eye(4)
    matrix[:3, :3] = np.array(rotation) * [spacing[0], spacing[1], spacing[2] * (-1.0 if qfac < 0 else 1.0)]
    matrix[:3, 3] = offset
    return matrix


def moved(affine: Any, start: Seq[float], step: Seq[float] = (1, 1, 1)) -> FloatArray:
    """Return the affine of a part of a volume."""
    local = np.diag([*map(float, step), 1.0])
    local[:3, 3] = start
    result: FloatArray = np.asarray(affine, dtype=np.float64) @ local
    return result


def grids_agree(one: Any, other: Any, shape: Seq[int]) -> bool:
    """Return whether two affines map the corners of a volume to the same positions, within 0.01 voxel."""
    corners = np.array(
        [[d, h, w, 1] for d in (0, shape[0] - 1) for h in (0, shape[1] - 1) for w in (0, shape[2] - 1)]
    )
    apart = np.abs(((np.asarray(one) - np.asarray(other)) @ corners.T)[:3]).max()
    voxel = spacing_of(one)
    positive = [size for size in voxel if size > 0]
    return bool(apart <= _SAME_GRID * (min(positive) if positive else 1.0))


def check_orientation(codes: Any) -> str:
    """Return a valid orientation, such as ``"RAS"`` or ``"LPS"``, in upper case."""
    allowed = "three letters for columns, rows and slices, one each of L or R, P or A, I or S, such as 'RAS'"
    if not isinstance(codes, str):
        raise ParameterError(f"orientation={codes!r} is not valid", allowed=allowed)
    upper = codes.upper()
    axes = [next((n for n, pair in enumerate(_SIDES) if letter in pair), None) for letter in upper]
    if len(upper) != 3 or sorted(axes, key=str) != [0, 1, 2]:
        raise ParameterError(f"orientation={codes!r} is not valid", allowed=allowed)
    return upper


@dataclass(frozen=True)
class Turn:
    """A change of orientation: permuted and reversed axes; exact, and a view of the array.

    Attributes:
        axes: axis of the original, 0, 1 or 2, for d, h and w of the result.
        flips: whether d, h and w of the result are reversed.
    """

    axes: tuple[int, int, int] = (0, 1, 2)
    flips: tuple[bool, bool, bool] = (False, False, False)

    def shape(self, shape: Seq[int]) -> tuple[int, int, int]:
        """Return D, H and W of the result, from those of the original."""
        return shape[self.axes[0]], shape[self.axes[1]], shape[self.axes[2]]

    def affine(self, affine: Any, shape: Seq[int]) -> FloatArray:
        """Return the affine of the result."""
        local = np.zeros((4, 4))
        local[3, 3] = 1.0
        for new, (old, flip) in enumerate(zip(self.axes, self.flips, strict=True)):
            local[old, new] = -1.0 if flip else 1.0
            local[old, 3] = shape[old] - 1 if flip else 0.0
        result: FloatArray = np.asarray(affine, dtype=np.float64) @ local
        return result

    def array(self, array: Array, first: int) -> Array:
        """Return a view of an array in the new orientation."""
        axes = [*range(first), *(first + axis for axis in self.axes), *range(first + 3, array.ndim)]
        cut = [slice(None)] * array.ndim
        for number, flip in enumerate(self.flips):
            cut[first + number] = slice(None, None, -1) if flip else slice(None)
        return array.transpose(axes)[tuple(cut)]

    def box(self, ranges: Seq[tuple[int, int]], shape: Seq[int]) -> tuple[tuple[int, int], ...]:
        """Return the half-open ranges of the original for those of the result."""
        turned = [(0, 0)] * 3
        for (start, stop), old, flip in zip(ranges, self.axes, self.flips, strict=True):
            turned[old] = (shape[old] - stop, shape[old] - start) if flip else (start, stop)
        return tuple(turned)


def turn_to(affine: Any, orientation: str) -> Turn:
    """Return the change of a volume to an orientation."""
    have, want = orientation_of(affine)[::-1], check_orientation(orientation)[::-1]  # slices, rows, columns
    axes, flips = [], []
    for letter in want:
        pair = next(pair for pair in _SIDES if letter in pair)
        old = next(axis for axis, code in enumerate(have) if code in pair)
        axes.append(old)
        flips.append(have[old] != letter)
    return Turn((axes[0], axes[1], axes[2]), (flips[0], flips[1], flips[2]))
