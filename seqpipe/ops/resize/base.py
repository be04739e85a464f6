"""Scaled: base of operators that resample images along rows and columns."""

from __future__ import annotations

import ctypes
from array import array
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, IntArray
from ...core.native import load_functions
from ..core.blocks import values_of_each
from ..core.parameters import param
from ..core.spec import Spec
from ..core.traits import Body
from ..geometry.base import Geometry, Interpolated, Nearest, Resampled
from ..geometry.mapping import Mapping
from ..geometry.resampling import (
    COMPAT,
    FILTERS,
    Axes,
    Compat,
    FilterName,
    SampledAxis,
    Taps,
    resampled,
    taps_of,
)

__all__ = ["Scaled", "picked", "resample_cpu"]

_LANES: Final = 4  # values that the second pass of resample.c reads and writes at a time
_INPUTS: Final = tuple(map(np.dtype, ("uint8", "uint16", "int16", "float32")))
_FLOATS: Final = np.dtype(np.float32)
# number of each pair of input and output dtype in resample.c
_KINDS: Final = {
    pair: number
    for number, pair in enumerate(
        (given, made) for given in _INPUTS for made in dict.fromkeys((given, _FLOATS))
    )
}


def picked(x: npt.NDArray[Any], rows: Taps, columns: Taps) -> npt.NDArray[Any]:
    """Return images whose pixels are each a pixel of the source."""
    row_indices, indices = _source_indices(rows), _source_indices(columns)
    if isinstance(row_indices, slice) or isinstance(indices, slice):
        result: npt.NDArray[Any] = x[:, row_indices][:, :, indices]
    else:
        result = x[:, row_indices[:, None], indices]
    return result


def _source_indices(taps: Taps) -> IntArray | slice:
    """Return the source index of each pixel, as a slice if the indices are consecutive."""
    indices: IntArray = taps.indices[taps.weights.argmax(0), np.arange(len(taps.total))]
    first, count = int(indices[0]), len(indices)
    return (
        slice(first, first + count) if np.array_equal(indices, np.arange(first, first + count)) else indices
    )


def resample_cpu(
    x: npt.NDArray[Any], rows: tuple[SampledAxis, int], columns: tuple[SampledAxis, int], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Compute :func:`resampled` in C if there is a C compiler."""
    native = _native()
    if native is None:
        taps = taps_of(*rows, x.shape[1]), taps_of(*columns, x.shape[2])
        made_of: npt.NDArray[Any] = resampled(x.astype(np.float32), *taps)
        return made_of
    if x.dtype not in _INPUTS:
        x = x.astype(np.float32)
    frames, height, width, channels = x.shape
    if x.strides[2:] != (channels * x.itemsize, x.itemsize):
        x = np.ascontiguousarray(x)
    result = x.dtype if x.dtype == dtype else _FLOATS
    out = np.empty((frames, rows[1], columns[1], channels), result)
    down, across = _packed(*rows, height, 1), _packed(*columns, width, channels)
    values = width * channels
    between = np.zeros(values + columns[1] * channels + 2 * _LANES, np.float32)
    sums = _address(between)
    line = sums + (values + _LANES) * between.itemsize
    call = array(
        "q",
        (
            *(_address(x), *x.strides[:2], values, channels, rows[1], columns[1]),
            *(down.taps, across.taps, down.indices, across.indices, down.weights, across.weights),
            *(down.totals, across.totals, _address(out), sums, line),
        ),
    )
    native.seqpipe_resample(call.buffer_info()[0], frames, _KINDS[x.dtype, result])
    return out


class _Packed(NamedTuple):
    """Addresses of the arrays of an axis for ``resample.c``, which are contiguous for each pixel.

    Attributes:
        taps: source pixels of each pixel.
        indices: address of their indices.
        weights: address of their weights.
        totals: address of the sums of weights.
        arrays: the arrays, which must stay alive.
    """

    taps: int
    indices: int
    weights: int
    totals: int
    arrays: tuple[npt.NDArray[Any], ...]


@lru_cache(maxsize=256)
def _packed(axis: SampledAxis, size: int, length: int, values: int) -> _Packed:
    """See :class:`_Packed`; ``values`` is the number of values of a source pixel, ``length`` the number of pixels."""
    indices, weights, total = taps_of(axis, size, length)
    arrays = np.ascontiguousarray(indices.T * values), np.ascontiguousarray(weights.T), total
    packed, shares, sums = map(_address, arrays)
    return _Packed(len(indices), packed, shares, sums, arrays)


def _address(values: npt.NDArray[Any]) -> int:
    address: int = values.__array_interface__["data"][0]
    return address


@cache
def _native() -> Any:
    """Return the functions of ``resample.c``; None without a C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    return load_functions(__package__, "resample.c", {"resample": (pointer, count, count)})


_ROW: Final = np.dtype(
    [
        ("begin", np.int32, 4),  # two 64-bit integers; likewise the next fields
        ("step", np.int32, 4),
        ("reach", np.int32, 4),
        ("taps", np.int32, 2),
        ("filter", np.int32, 2),
        ("cut", np.int32, 2),
        ("scale", np.float32, 2),
    ]
)

_WIDE: Final = np.dtype(
    [
        (name, np.int64, 2) if name in ("begin", "step", "reach") else (name, _ROW[name])
        for name in _ROW.names or ()
    ]
)
"""The same row, with 64-bit integers as int64."""


class Scaled(Resampled, register=False):
    """Base of operators that resample images along rows and columns by their mapping.

    Pixel centers are at half integers. A filter that is widened when shrinking leaves out pixels outside of the source,
    like Pillow's and torch's; other filters repeat edge pixels, like OpenCV's. Where a window extends so far beyond the
    images that the centers of some pixels are outside, all filters repeat edge pixels along that axis, like DALI's,
    because no source pixels would be left.

    ``compat`` selects the conventions of the library that a model was trained with. ``"pillow"`` has those above.
    ``"dali"`` repeats edge pixels with every filter, also with one that is widened.
    ``"opencv"`` has no antialiasing, a cubic with ``a = -3/4`` instead of -1/2, and as the nearest pixel
    ``floor(i * step)``, which is not that at the center; its area filter equals ours unless one side grows and the
    other shrinks. ``"tf1"`` is ``resize_images`` of TensorFlow 1 with neither aligned corners nor half pixel centers:
    like OpenCV, with all coordinates ``i * step``. Only pixels follow these conventions; boxes, points, masks and
    affines follow the sizes. These libraries round intermediate values: Pillow and OpenCV between rows and columns,
    TensorFlow 1 the coordinates of a cubic to 1/1024 of a pixel.
    """

    interp_type: FilterName = param(
        "linear",
        "resampling filter; triangular is linear, area averages the source pixels that an output pixel covers",
        choices=FILTERS,
    )
    antialias: bool = param(
        True, "whether filters are widened when shrinking; nearest never is, area always", drawn=False
    )
    compat: Compat | None = param(
        None,
        "library whose conventions are used; opencv and tf1 do not support antialias, pillow always antialiases;"
        " dali repeats edge pixels",
        choices=tuple(COMPAT),
    )
    resamples: ClassVar[bool] = True
    body: ClassVar[Body | None] = Body("resample")
    kernel_row = _ROW

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compat is None:
            return
        filters = COMPAT[self.compat]
        if self.interp_type not in filters:
            raise self.refusal(
                f"interp_type={self.interp_type!r} with compat={self.compat!r}",
                allowed=", ".join(map(repr, filters)),
            )
        if self.compat == "pillow" and not self.antialias:
            raise self.refusal("antialias=False with compat='pillow'", allowed="True")

    @property
    def interpolation(self) -> Interpolated | None:
        """See :attr:`Geometry.interpolation`; None with antialiasing, because one point cannot average many pixels."""
        kind = "linear" if self.interp_type == "triangular" else self.interp_type
        smooth = self.antialias and kind != "nearest"
        return None if smooth or kind not in ("nearest", "linear", "cubic") else Interpolated(kind, None)

    @property
    def may_leave(self) -> bool:
        """Whether the window may extend beyond the images."""
        return False

    def leaves(self, p: Any, height: int, width: int) -> tuple[bool, bool]:  # noqa: ARG002  for overrides
        """Return whether the centers of some columns, and of some rows, of the whole result are outside of the images.

        Called only if :attr:`may_leave`.
        """
        return False, False

    def axes(self, mapping: Mapping) -> tuple[SampledAxis, SampledAxis]:
        """Return the resampling of columns and rows."""
        (across, _, left), (_, down, top), _ = mapping.matrix.tolist()
        options: dict[str, Any] = {
            "kind": self.interp_type,
            "antialias": self.antialias,
            "compat": self.compat,
        }
        return SampledAxis.of(left, across, **options), SampledAxis.of(top, down, **options)

    def _all_axes(self, rows: npt.NDArray[Any], spec: Spec) -> Axes:
        """Return the axes of the rows ``(R, 2)``; the nearest pixel where the operator does not act."""
        matrices = self.mappings(rows, spec).matrices
        result = Axes.of(
            *_along_and_down(matrices), self.interp_type, antialias=self.antialias, compat=self.compat
        )
        if self.may_leave:
            leaving = [self.leaves(p, spec.height, spec.width) for p in values_of_each(rows)]
            result = result._replace(cut=result.cut & ~np.array(leaving))
        acts = rows["acts"]
        return result if 0 not in acts.tolist() else result.where(acts[:, None] != 0, _all_nearest(matrices))

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the axes of the rows."""
        return _rows_of(self._all_axes(rows, spec)).view(_ROW)

    def moved_rows(self, rows: npt.NDArray[Any], spec: Spec, moves: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the axes for results that later operators shift or mirror by whole pixels.

        Args:
            rows: parameters of one sample, or of several of one size.
            spec: the sample.
            moves: ``(R, 3, 3)``, matrices of the later operators; one for all rows, or one for each.

        Returns:
            As many rows as the larger of both, with 64-bit integers as int64.
        """
        offset, direction = _along_and_down(moves)
        axes = self._all_axes(rows, spec)
        return _rows_of(axes.moved(direction.astype(np.int64), offset.astype(np.int64)))

    def reference(self, x: Array, p: Any) -> Array:
        """Compute weighted sums down the columns, then along the rows."""
        along, down, mapping = self._taps(x, p)
        return resampled(
            x, taps_of(down, mapping.height, x.shape[1]), taps_of(along, mapping.width, x.shape[2])
        )

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute the same in C; copy pixels if integers stay unchanged."""
        along, down, mapping = self._taps(x, p)
        height, width = mapping.height, mapping.width
        if p.whole and x.dtype.kind != "f" and down.picks and along.picks:
            pixels = picked(x, taps_of(down, height, x.shape[1]), taps_of(along, width, x.shape[2]))
            return pixels if self.dtype in (None, x.dtype.name) else pixels.astype(np.float32)
        result = x.dtype if self.dtype is None else np.dtype(self.dtype)
        return resample_cpu(x, (down, height), (along, width), result)

    def nearest(self) -> Geometry:
        """Return the operator for labels, whose coordinates must be exact at pixel borders."""
        return _Picked.of(self)

    def _taps(self, x: Array, p: Any) -> tuple[SampledAxis, SampledAxis, Mapping]:
        mapping = self.mapping(p, *x.shape[1:3])
        along, down = self.axes(mapping)
        if self.may_leave:
            pairs = zip((along, down), self.leaves(p, *x.shape[1:3]), strict=True)
            along, down = (axis._replace(cut=axis.cut and not leaves) for axis, leaves in pairs)
        return along, down, mapping


class _Picked(Nearest, register=False):
    """Nearest pixel by integer arithmetic, because float32 and float64 may differ at pixel borders."""

    keeps_size: ClassVar[bool] = False
    body: ClassVar[Body | None] = Body("pick")
    kernel_row = _ROW

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the axes of the rows."""
        return _rows_of(_all_nearest(self.mappings(rows, spec).matrices)).view(_ROW)

    def reference(self, x: Array, p: Any) -> Array:
        """Select rows and columns."""
        mapping = self.mapping(p, *x.shape[1:3])
        along, down = _nearest_axes(mapping)
        rows = taps_of(down, mapping.height, x.shape[1]).indices[0]
        return x[:, rows][:, :, taps_of(along, mapping.width, x.shape[2]).indices[0]]


def _nearest_axes(mapping: Mapping) -> tuple[SampledAxis, SampledAxis]:
    matrix = mapping.matrix.tolist()
    along, down = (SampledAxis.of(matrix[i][2], matrix[i][i], "nearest", antialias=False) for i in (0, 1))
    return along, down


def _all_nearest(matrices: FloatArray) -> Axes:
    return Axes.of(*_along_and_down(matrices), "nearest", antialias=False)


def _along_and_down(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return start and step of maps ``(R, 3, 3)`` along both axes: of columns, then of rows ``(R, 2)``."""
    return matrices[:, :2, 2], matrices.diagonal(0, 1, 2)[:, :2]


def _rows_of(axes: Axes) -> npt.NDArray[Any]:
    """Return axes ``(R, 2)`` as kernel rows, with 64-bit integers as int64."""
    result = np.empty(len(axes.begin), _WIDE)
    for name, values in zip(axes._fields, axes, strict=True):
        result[name] = values
    return result
