"""Operators on points."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace
from ...errors import ParameterError
from ..call.backends import on_device_of
from ..call.dispatch import indices_of
from ..call.inputs import as_array, check_not_empty, like_container, like_library
from ..core.blocks import resolve, values_of
from ..core.declaration import Declaration, Takes
from ..core.deferred import or_node
from ..core.distributions import Number, PerFrame
from ..core.parameters import param
from ..core.spec import MOVED_DTYPES, Spec, cast_coordinates

__all__ = ["CoordTransform"]

X = TypeVar("X")

_MATRICES: Final = {"M": (2, 2), "MT": (2, 3)}


class CoordTransform(Declaration):
    """Transform points by an affine map: ``out = M in + T``, as in DALI.

    ``MT`` combines ``M`` and, as its last column, ``T``. Matrices are arrays, or their rows one after the other; a
    number is that multiple of the identity, and for ``T`` the same translation along both axes.
    """

    M: Number | None = param(None, "the matrix, 2×2; None for the identity", kind=float, size=4)
    T: Number | None = param(None, "translation; None for 0", kind=float, size=2)
    MT: Number | None = param(
        None, "matrix and translation in one 2×3 matrix, instead of M and T", kind=float, size=6
    )
    dtype: str | None = param(
        "float32", "dtype of the result; None for that of the input", choices=MOVED_DTYPES[1:], optional=True
    )

    takes: ClassVar[Takes] = "points"
    dtypes: ClassVar[tuple[str, ...]] = MOVED_DTYPES[1:]
    examples = (
        {"T": (1.5, -2.0)},
        {"M": ((0.9, 1.1), (-0.1, 0.1), (-0.1, 0.1), (0.9, 1.1)), "p": 0.5, "seed": 2},
        {"MT": ((0.0, -1.0, 10.0), (1.0, 0.0, 0.0))},
    )
    errors = (
        (
            {"M": (1.0, 2.0)},
            r"coord_transform: M .* of shape \(2,\); allowed: 4 values|M=.*; allowed: 4 values",
        ),
        ({"M": 2.0, "MT": 2.0}, "coord_transform: M and MT given; allowed: M and T, or MT"),
        ({"T": (1.0, 2.0), "MT": 1.0}, "coord_transform: T and MT given; allowed: M and T, or MT"),
        ({"dtype": "complex64"}, "dtype='complex64' is not valid; allowed: 'int8'"),
    )

    def __post_init__(self) -> None:
        for name, (rows, columns) in _MATRICES.items():
            object.__setattr__(self, name, _in_a_row(getattr(self, name), rows, columns))
        shift: Any = self.T
        if isinstance(shift, (int, float)) and not isinstance(shift, bool):
            object.__setattr__(self, "T", (shift, shift))
        super().__post_init__()
        present = [name for name in ("M", "T") if getattr(self, name) is not None]
        if present and self.MT is not None:
            raise ParameterError(f"{present[0]} and MT given", source=self.name, allowed="M and T, or MT")

    @or_node
    def __call__(self, points: X, *, epoch: int = 0, index: Any = None) -> X:
        """Transform points.

        Args:
            points: ``(…, 2)`` of one sample, x and y, a NumPy, CuPy or torch array; the first axis counts frames if
                parameters differ between frames. Or a list with an array for each sample.
            epoch: epoch that random parameters are sampled for.
            index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it.

        Returns:
            The points, of the same type and in their own memory.

        Raises:
            ParameterError: the array does not hold points.
        """
        values: Any = points
        many = isinstance(values, (list, tuple))
        parts = list(values) if many else [values]
        check_not_empty(self, parts)
        arrays = [self._points(part) for part in parts]
        specs = [Spec(len(array) if array.ndim > 1 else 1, 1, 1, 2, array.dtype.name) for array in arrays]
        block = resolve(self, specs, epoch, indices_of(self, index, len(parts)))
        moved = []
        for n, (part, array, spec) in enumerate(zip(parts, arrays, specs, strict=True)):
            with on_device_of(array):
                moved.append(like_library(part, self._moved(array, block.of(n, spec.frames))))
        result: Any = like_container(values, moved) if many else moved[0]
        return result  # type: ignore[no-any-return]  # of the type of the input

    def _moved(self, array: Array, rows: npt.NDArray[Any]) -> Array:
        """Transform the points of a sample, by one map or by one for each frame."""
        parts = [array] if len(rows) == 1 else array
        moved = [self.reference(x, values_of(row)) for x, row in zip(parts, rows, strict=True)]
        whole = moved[0] if len(rows) == 1 else namespace(array).stack(moved)
        return self._typed(whole.reshape(array.shape), array)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula in double precision."""
        if not p.acts:
            return x.astype(np.float64)
        library = namespace(x)
        matrix, shift = (library.asarray(part) for part in self._map(p))
        return x @ matrix.T + shift

    def _map(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return the matrix and the translation."""
        if self.MT is not None:
            both = np.asarray(p.MT, np.float64).reshape(2, 3)
            return both[:, :2], both[:, 2]
        matrix = np.eye(2) if self.M is None else np.asarray(p.M, np.float64).reshape(2, 2)
        return matrix, np.zeros(2) if self.T is None else np.asarray(p.T, np.float64)

    def _points(self, points: Any) -> Array:
        array = as_array(self, points)
        if array.dtype.name not in self.traits.dtypes or not array.ndim or array.shape[-1] != 2:
            raise ParameterError(
                f"points of {array.dtype} of shape {tuple(array.shape)}",
                source=self.name,
                allowed="numbers (…, 2)",
            )
        return array

    def _typed(self, values: Array, points: Array) -> Array:
        return cast_coordinates(values, np.dtype(self.dtype or points.dtype))


def _in_a_row(value: Any, rows: int, columns: int) -> Any:
    """Return a matrix with its rows one after the other; any other value unchanged."""
    if isinstance(value, PerFrame):
        return PerFrame(_in_a_row(value.values, rows, columns))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return tuple(value if one else 0.0 for one in np.eye(rows, columns).ravel())
    if (
        isinstance(value, (tuple, list))
        and len(value) == rows
        and all(np.size(row) == columns for row in value)
    ):
        return tuple(part for row in value for part in row)
    if isinstance(getattr(value, "shape", None), tuple) and tuple(value.shape[-2:]) == (rows, columns):
        return value.reshape(*value.shape[:-2], rows * columns)
    return value
