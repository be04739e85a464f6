"""Scaled: the base of operators that resample images along rows and columns."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray
from ...errors import ParameterError
from ..core.blocks import values_of_each
from ..core.body import Body
from ..core.parameters import param
from ..core.spec import COMPUTED, RANGES, Spec
from ..geometry.base import Geometry, Interpolated, Nearest
from ..geometry.mapping import Mapping
from ..geometry.resampling import COMPAT, FILTERS, Axes, Compat, FilterName, SampledAxis, resampled, taps_of
from .cpu import picked, quickly_resampled

__all__ = ["Scaled"]

_ROW: Final = np.dtype(
    [
        ("begin", np.int32, 4),  # two numbers of 64 bits; and likewise the next ones
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
"""The same, with numbers of 64 bits as such."""


class Scaled(Geometry, register=False):
    """An operator that resamples images along rows and columns, as its mapping says.

    Pixel centers are at half integers. A filter that is widened to shrink leaves out what lies beyond the border, as
    Pillow's and torch's do; one that is not repeats the pixels there, as OpenCV does. Where a window goes so far beyond
    the images that the centers of some pixels are there, all filters repeat the border along that axis, as DALI's do:
    nothing would be left of such pixels.

    ``compat`` takes the conventions of a library that a model was trained with. ``"pillow"`` has those above.
    ``"opencv"`` has no antialias, a cubic with ``a = -3/4`` and not -1/2, and as the nearest pixel ``floor(i * step)``,
    which is not that at the center; its area is ours unless one side grows and the other shrinks. ``"tf1"`` is
    ``resize_images`` of TensorFlow 1 with neither aligned corners nor half pixels: as OpenCV, all places being
    ``i * step``. Pixels alone follow it; boxes, points, masks and space go by the sizes. These libraries round on their
    way: Pillow and OpenCV levels between rows and columns, TensorFlow 1 the places of a cubic to 1/1024 of a pixel.
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
        "library whose conventions are used; opencv and tf1 do not support antialias, pillow always antialiases",
        choices=tuple(COMPAT),
    )
    dtype: str | None = param(None, "dtype of the result; None for that of the input", choices=COMPUTED)

    dtypes: ClassVar[tuple[str, ...]] = COMPUTED
    values: ClassVar[Literal["computed", "moved"]] = "computed"
    keeps_size: ClassVar[bool] = False
    resamples: ClassVar[bool] = True
    body: ClassVar[Body | None] = Body("resample")
    takes_raw: ClassVar[bool] = True
    derived: ClassVar[tuple[str | tuple[str, int], ...]] = ("whole",)
    derived_from: ClassVar[tuple[str, ...] | None] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compat is None:
            return
        filters = COMPAT[self.compat]
        if self.interp_type not in filters:
            raise ParameterError(
                f"interp_type={self.interp_type!r} with compat={self.compat!r}",
                source=self.name,
                allowed=", ".join(map(repr, filters)),
            )
        if self.compat == "pillow" and not self.antialias:
            raise ParameterError("antialias=False with compat='pillow'", source=self.name, allowed="True")

    @property
    def interpolation(self) -> Interpolated | None:
        """That of its filter; None where it is antialiased: one place cannot be the mean of many pixels."""
        kind = "linear" if self.interp_type == "triangular" else self.interp_type
        smooth = self.antialias and kind != "nearest"
        return None if smooth or kind not in ("nearest", "linear", "cubic") else Interpolated(kind, None)

    def result_dtype(self, dtype: str) -> str:
        """The type that is asked for."""
        return self.dtype or dtype

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the same for all rows
        """Whether the results are whole numbers."""
        return {"whole": self.result_dtype(spec.dtype) in RANGES}

    @property
    def may_leave(self) -> bool:
        """Whether pixels may lie beyond the images."""
        return False

    def leaves(self, p: Any, height: int, width: int) -> tuple[bool, bool]:  # noqa: ARG002  those who may have an own
        """Whether the centers of some columns, and of some rows, lie beyond the images, before any are cut off.

        Asked only of those that may.

        Args:
            p: the parameters of one image or sequence.
            height: rows of the images.
            width: their columns.
        """
        return False, False

    def axes(self, mapping: Mapping) -> tuple[SampledAxis, SampledAxis]:
        """How columns and rows are made."""
        (across, _, left), (_, down, top), _ = (
            mapping.matrix.tolist()
        )  # Python's numbers are quicker one by one
        how: dict[str, Any] = {"kind": self.interp_type, "antialias": self.antialias, "compat": self.compat}
        return SampledAxis.of(left, across, **how), SampledAxis.of(top, down, **how)

    def _all_axes(self, rows: npt.NDArray[Any], spec: Spec) -> Axes:
        """Those of a block's rows ``(R, 2)``; where the operator does not act, each pixel of the one that it is."""
        matrices = self.mappings(rows, spec).matrices
        made = Axes.of(
            *_along_and_down(matrices), self.interp_type, antialias=self.antialias, compat=self.compat
        )
        if self.may_leave:
            leaving = [self.leaves(p, spec.height, spec.width) for p in values_of_each(rows)]
            made = made._replace(cut=made.cut & ~np.array(leaving))
        acts = rows["acts"]
        return made if 0 not in acts.tolist() else made.where(acts[:, None] != 0, _all_nearest(matrices))

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """Both axes: of columns, then of rows."""
        return _ROW

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """The axes of a block's rows."""
        return _rows_of(self._all_axes(rows, spec)).view(_ROW)

    def moved_rows(self, rows: npt.NDArray[Any], spec: Spec, moves: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The same for results whose pixels are then moved, and perhaps mirrored, but neither turned nor scaled.

        Args:
            rows: a block of parameters of one sample, or of some of one size.
            spec: the sample.
            moves: ``(R, 3, 3)``, the matrices of what comes after; one for all rows, or one for each.

        Returns:
            As many rows as there are of either, with numbers of 64 bits as such.
        """
        offset, direction = _along_and_down(moves)
        axes = self._all_axes(rows, spec)
        return _rows_of(axes.moved(direction.astype(np.int64), offset.astype(np.int64)))

    def reference(self, x: Array, p: Any) -> Array:
        """Weighted sums down the columns, then along the rows."""
        along, down, mapping = self._taps(x, p)
        return resampled(
            x, taps_of(down, mapping.height, x.shape[1]), taps_of(along, mapping.width, x.shape[2])
        )

    def cpu(self, x: Array, p: Any) -> Array:
        """The same in C; of whole numbers that stay as they are, the pixels themselves."""
        along, down, mapping = self._taps(x, p)
        height, width = mapping.height, mapping.width
        if p.whole and x.dtype.kind != "f" and down.picks and along.picks:
            pixels = picked(x, taps_of(down, height, x.shape[1]), taps_of(along, width, x.shape[2]))
            return pixels if self.dtype in (None, x.dtype.name) else pixels.astype(np.float32)
        made = x.dtype if self.dtype is None else np.dtype(self.dtype)
        return quickly_resampled(x, (down, height), (along, width), made)

    def nearest(self) -> Geometry:
        """The same for labels, whose places must be those of pixels to the last bit."""
        return _Picked.of(self)

    def _taps(self, x: Array, p: Any) -> tuple[SampledAxis, SampledAxis, Mapping]:
        mapping = self.mapping(p, *x.shape[1:3])
        along, down = self.axes(mapping)
        if self.may_leave:
            pairs = zip((along, down), self.leaves(p, *x.shape[1:3]), strict=True)
            along, down = (axis._replace(cut=axis.cut and not leaves) for axis, leaves in pairs)
        return along, down, mapping


class _Picked(Nearest, register=False):
    """The nearest pixel, found by whole numbers: right between two pixels float32 and float64 may differ."""

    keeps_size: ClassVar[bool] = False
    body: ClassVar[Body | None] = Body("pick")

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """Both axes: of columns, then of rows."""
        return _ROW

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """The axes of a block's rows."""
        return _rows_of(_all_nearest(self.mappings(rows, spec).matrices)).view(_ROW)

    def reference(self, x: Array, p: Any) -> Array:
        """Rows and columns, some of them several times."""
        mapping = self.mapping(p, *x.shape[1:3])
        along, down = _nearest_axes(mapping)
        rows = taps_of(down, mapping.height, x.shape[1]).places[0]
        return x[:, rows][:, :, taps_of(along, mapping.width, x.shape[2]).places[0]]


def _nearest_axes(mapping: Mapping) -> tuple[SampledAxis, SampledAxis]:
    matrix = mapping.matrix.tolist()
    along, down = (SampledAxis.of(matrix[i][2], matrix[i][i], "nearest", antialias=False) for i in (0, 1))
    return along, down


def _all_nearest(matrices: FloatArray) -> Axes:
    return Axes.of(*_along_and_down(matrices), "nearest", antialias=False)


def _along_and_down(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where maps ``(R, 3, 3)`` along both axes begin, and their steps: of columns, then of rows ``(R, 2)``."""
    return matrices[:, :2, 2], matrices.diagonal(0, 1, 2)[:, :2]


def _rows_of(axes: Axes) -> npt.NDArray[Any]:
    """Axes ``(R, 2)`` as kernels are given them, with numbers of 64 bits as such."""
    made = np.empty(len(axes.begin), _WIDE)
    for name, values in zip(axes._fields, axes, strict=True):
        made[name] = values
    return made
