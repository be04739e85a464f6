"""Geometry: base of operators that move pixels, and operators that place images on a canvas."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace
from ...core.cached import cached_property
from ...core.padding import FILL_MODES, FillMode, source_indices
from ..call.backends import on_device_of, run
from ..call.inputs import error_source
from ..call.op import Op, OutputDtype
from ..core.blocks import Block, values_of, values_of_each
from ..core.parameters import levels
from ..core.spec import COMPUTED_DTYPES, MOVED_DTYPES, RANGES, Spec, typed
from ..core.traits import Body, Traits
from ..cuda.kernel import Item
from .mapping import Mapping, Mappings, scaling, spacing_of

__all__ = [
    "MAX_OFFSET",
    "WHOLE_PIXELS",
    "Canvas",
    "CanvasWindow",
    "Geometry",
    "GeometryTraits",
    "Interpolated",
    "Nearest",
    "PartRead",
    "Resampled",
    "check_sides",
]

_ANY_SIZE: Final = (120, 200)  # height and width of a test of the mapping
_MAX_EXACT_SIDE: Final = 1 << 23  # up to so many rows or columns, float32 is exact for pixel centers


class Interpolated(NamedTuple):
    """Interpolation of an operator with one mapping; operators with equal interpolation can be composed into one.

    Attributes:
        interp_type: interpolation.
        fill_value: value outside of the images.
    """

    interp_type: Any
    fill_value: Any


class PartRead(NamedTuple):
    """The window of images that an operator reads, and what it does to that.

    Attributes:
        rows: of the images.
        columns: of the images.
        matrix: of the mapping of the window.
    """

    rows: slice
    columns: slice
    matrix: FloatArray


WHOLE_PIXELS: Final = Interpolated(None, None)
"""Interpolation of operators that only move whole pixels; it is compatible with any other."""


@dataclass(frozen=True, kw_only=True)
class GeometryTraits(Traits):
    """Traits of operators that move pixels.

    Attributes:
        whole_pixels: whether every pixel of the result is a pixel of the source, and neighbors stay neighbors in a row
            or a column; a text of the body then changes its values, like that of a ``"value"`` body.
        maps_rows: whether :meth:`mapping` also accepts parameters with a value for each of several rows, and then
            returns a matrix for each; otherwise it is called for each row. A class that overrides ``mapping`` states it
            again.
        resamples: whether it defines ``moved_rows``, by which the kernel computes pixels where later operators move
            them.
    """

    whole_pixels: bool = False
    maps_rows: bool = False
    resamples: bool = False


class Geometry(Op, register=False):
    """Base of operators that move pixels, and with them boxes, points, masks and a volume's affine.

    A subclass defines :meth:`mapping`. If that maps every pixel to a whole pixel, the kernel needs no body.
    """

    traits: ClassVar[GeometryTraits] = GeometryTraits()

    dtypes: ClassVar[tuple[str, ...]] = MOVED_DTYPES
    values: ClassVar[Literal["computed", "moved"]] = "moved"
    geometric = True
    body: ClassVar[Body | None] = Body("gather")
    kernel_row: ClassVar[np.dtype[Any] | None] = np.dtype([("matrix", np.float32, (3, 3))])
    perspective: ClassVar[bool] = False
    warps: ClassVar[bool] = False
    smooths: ClassVar[bool] = False

    @abstractmethod
    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """Return the mapping from the result to the source.

        Args:
            p: parameters of one image or sequence, as attributes.
            height: rows of the input.
            width: columns of the input.
        """

    @property
    def interpolation(self) -> Interpolated | None:
        """Interpolation, if each pixel is interpolated at one point; None if it is not, or if that varies."""
        return WHOLE_PIXELS if self.traits.whole_pixels and self.traits.values == "moved" else None

    @property
    def composable(self) -> Interpolated | None:
        """Interpolation, if the operator can be composed with others into one mapping; else None.

        An antialiased result averages many pixels, so a mapping of points cannot express it. An operator without a body
        is not composed, because it may replace the reference of the base whose mapping it inherits.
        """
        changes = self.traits.body is None or getattr(self, "dtype", None) is not None
        return None if changes else self.interpolation

    @cached_property
    def gather_settings(self) -> dict[str, Any] | None:
        """Settings that operators on volumes must share to be composed with this one; None if it is not composed.

        With ``fill_value=None`` it is not: it repeats the edges of images alone, and operators on volumes also those of
        labels.
        """
        how = None if self.perspective or self.is_by_frame else self.composable
        if how is None or how is WHOLE_PIXELS:
            return None if how is None else {}
        fill = how.fill_value
        return None if fill is None else {"interp": how.interp_type, "fill_value": fill, "label_fill": 0}

    def moved(self, mapping: Any, p: Any, grid: Any) -> Any:
        """Append this operator, on every slice of a volume, to a mapping; see :meth:`VolumeGeometry.moved`."""
        depth, height, width = grid.size
        in_slice = self.mapping(p, height, width)
        return mapping.then(in_slice.affine(np.eye(4)), (depth, in_slice.height, in_slice.width))

    def specs_of(self, part: Any) -> list[Spec]:
        """Return the specs of the samples, with the voxel spacing where an affine is known."""
        specs = [part.form.spec] * part.form.samples
        if not part.affines:
            return specs
        with error_source(self):
            return [
                spec if affine is None else spec._replace(spacing=spacing_of(affine))
                for spec, affine in zip(specs, part.affines, strict=True)
            ]

    def moved_spacing(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[float, float, float] | None:
        """Return the spacing of the result of one sample."""
        if spec.spacing is None:
            return None
        slices, down, across = spec.spacing
        matrix = self.mappings(rows, spec).matrices[0]
        moved = np.hypot(*(matrix[:2, :2] / matrix[2, 2] * [[across], [down]])).tolist()
        return slices, moved[1], moved[0]

    def mappings(self, rows: npt.NDArray[Any], spec: Spec) -> Mappings:
        """Return the mapping of each row of parameters; the identity where the operator does not act."""
        height, width = spec.height, spec.width
        key = rows.tobytes(), height, width
        last, mappings = self.__dict__.get("_last", (None, None))
        if mappings is None or last != key:  # a call asks for the sizes first, and then for the matrices
            mappings = (self._all_rows if self.traits.maps_rows else self._row_by_row)(rows, height, width)
            self.__dict__["_last"] = key, mappings
        result: Mappings = mappings
        return result

    def _row_by_row(self, rows: npt.NDArray[Any], height: int, width: int) -> Mappings:
        unmoved = Mapping.identity(height, width)
        result = [self.mapping(p, height, width) if p.acts else unmoved for p in values_of_each(rows)]
        return Mappings(
            np.array([mapping.matrix for mapping in result]),
            [(mapping.height, mapping.width) for mapping in result],
        )

    def _all_rows(self, rows: npt.NDArray[Any], height: int, width: int) -> Mappings:
        p = SimpleNamespace(**{name: rows[name] for name in rows.dtype.names or ()})
        mapping = self.mapping(p, height, width)
        matrices, size, acts = mapping.matrix, (mapping.height, mapping.width), p.acts.tolist()
        if all(acts):
            return Mappings(matrices, [size] * len(rows))
        matrices[p.acts == 0] = np.eye(3)
        return Mappings(matrices, [size if act else (height, width) for act in acts])

    def result_size(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int]:
        """Return height and width of the result of one sample.

        Raises:
            ParameterError: the results of its frames have different sizes.
        """
        sizes = set(self.mappings(rows, spec).sizes)
        if len(sizes) > 1:
            raise self.refusal(
                f"frames of different sizes, {sorted(sizes)}, in one sequence",
                advice="Use one p, and one value of what determines the size, for all frames of a sequence",
            )
        return sizes.pop()

    def extents(self, block: Block, samples: range, spec: Spec) -> set[tuple[int, int, int]]:
        """See :meth:`Declaration.extents`; from the mappings of all rows at once, if they have one size."""
        rows = block.of_all(samples.start, samples.stop, spec.frames)
        sizes = set(self.mappings(rows, spec).sizes)
        return {(spec.frames, *sizes.pop())} if len(sizes) == 1 else super().extents(block, samples, spec)

    def crop_window(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[slice, slice] | None:
        """See :meth:`Declaration.crop_window`."""
        if not self.traits.whole_pixels or (self.traits.body is not None and self.traits.body.text):
            return None
        matrices, sizes = self.mappings(rows, spec)
        left, top = (int(number) for number in matrices[0, :2, 2])
        if (matrices != scaling(left, 1, top, 1)).any():
            return None
        height, width = sizes[0]
        return slice(top, top + height), slice(left, left + width)

    def part_read(self, rows: npt.NDArray[Any], spec: Spec) -> PartRead | None:
        """The rows and columns that the results of all these parameters are made of; None if that is not known.

        It is known of maps that move whole pixels, mirrored or not, alike for all rows.
        """
        if not self.traits.whole_pixels:
            return None
        matrices, sizes = self.mappings(rows, spec)
        matrix, (height, width) = matrices[0], sizes[0]
        across, down = matrix[0, 0], matrix[1, 1]
        plain = scaling(matrix[0, 2], across, matrix[1, 2], down)
        if (matrices != plain).any() or abs(across) != 1 or abs(down) != 1:
            return None
        left = int(matrix[0, 2]) - (width if across < 0 else 0)
        top = int(matrix[1, 2]) - (height if down < 0 else 0)
        moved = scaling(-left, 1, -top, 1) @ matrix
        return PartRead(slice(top, top + height), slice(left, left + width), moved)

    @cached_property
    def _is_identity(self) -> bool:
        return super()._is_identity or (self.is_constant and self._keeps_pixels())

    def _keeps_pixels(self) -> bool:
        """Return whether constant parameters leave every pixel of any input unchanged."""
        changes = self.result_dtype("uint8") != "uint8" or bool(self.traits.body and self.traits.body.text)
        if changes or type(self).for_inputs is not Geometry.for_inputs:
            return False
        height, width = _ANY_SIZE
        try:
            mapping = self.mapping(values_of(self.template[0]), height, width)
        except Exception:  # parameters may be invalid here: the checks of the subclass run later
            return False
        return (mapping.height, mapping.width) == _ANY_SIZE and bool((mapping.matrix == np.eye(3)).all())

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the matrices of the rows.

        Raises:
            ParameterError: the images have more rows or columns than float32 matrices support.
        """
        check_sides(self, spec.height, spec.width)
        result = np.zeros(len(rows), self.kernel_dtype())
        result["matrix"] = self.mappings(rows, spec).matrices
        return result

    def moved_affine(self, rows: npt.NDArray[Any], spec: Spec, affine: FloatArray) -> FloatArray:
        """Return the affine of a volume's result.

        Raises:
            ParameterError: the mappings of slices differ or have perspective, so that the result has no affine.
        """
        mappings = self.mappings(rows, spec)
        if (mappings.matrices != mappings.matrices[0]).any():
            raise self.refusal(
                "different mappings for the slices of a volume with an affine",
                advice="Use one value for all slices, or pass the array without its affine",
            )
        with error_source(self):
            return mappings.each()[0].affine(affine)

    def nearest(self) -> Geometry:
        """Return the operator for labels: the nearest pixel, of any dtype."""
        return Nearest.of(self)

    def moved_mask(self, mask: Array, specs: Seq[Spec], block: Block) -> Array:
        """Apply the motion of the images to masks ``(N, F, H, W, C)``, by the nearest pixel; 0 outside.

        Args:
            mask: of any type, in main memory or on a GPU.
            specs: the samples.
            block: their parameters.
        """
        size = self.result_size(block.of(0, specs[0].frames), specs[0])
        with on_device_of(mask):
            out = namespace(mask).empty((*mask.shape[:2], *size, mask.shape[4]), mask.dtype)
            run(self.nearest(), [Item(mask, out, 0)], specs, block)
        return out


class Resampled(OutputDtype, Geometry, register=False):
    """Base of operators that compute the pixels of a result from several pixels."""

    dtypes: ClassVar[tuple[str, ...]] = COMPUTED_DTYPES
    values: ClassVar[Literal["computed", "moved"]] = "computed"
    keeps_size: ClassVar[bool] = False
    takes_raw: ClassVar[bool] = True
    derived: ClassVar[tuple[str | tuple[str, int], ...]] = ("whole",)
    derived_from: ClassVar[tuple[str, ...] | None] = ()

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  equal for all rows
        """Derive whether results are integers."""
        return {"whole": self.result_dtype(spec.dtype) in RANGES}


class Nearest(Geometry, register=False):
    """Nearest-pixel variant of another geometric operator, for masks."""

    @classmethod
    def of(cls, op: Geometry) -> Nearest:
        """Return the variant of an operator; it takes the operator's parameters."""
        result = cls()
        result.__dict__["_op"] = op
        return result

    def _keeps_pixels(self) -> bool:
        """Return False: the wrapped operator is not known yet when this is called."""
        return False

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """Return the mapping of the wrapped operator."""
        op: Geometry = self.__dict__["_op"]
        check_sides(op, height, width)
        return op.mapping(p, height, width)

    def reference(self, x: Array, p: Any) -> Array:
        """Move images by the nearest pixel."""
        return self.mapping(p, *x.shape[1:3]).nearest(x)


def check_sides(op: Geometry, height: int, width: int) -> None:
    """Check that float32 matrices support the size, for an operator that moves whole pixels."""
    if op.traits.whole_pixels and max(height, width) > _MAX_EXACT_SIDE:
        raise op.refusal(
            f"images of {height}×{width} pixels",
            allowed=f"up to {_MAX_EXACT_SIDE} rows and columns, for masks and on a GPU",
        )


_MAX_FILL_CHANNELS: Final = 16  # most channels with fill values of their own
MAX_OFFSET: Final = 1 << 30  # greatest distance of a window from the images
_ROW: Final = np.dtype(
    [
        ("top", np.int32),
        ("left", np.int32),
        ("border", np.int32),
        ("fill", np.int32, (2 * _MAX_FILL_CHANNELS,)),
    ]
)


class CanvasWindow(NamedTuple):
    """A window in pixels; it may extend beyond the images."""

    top: int
    left: int
    height: int
    width: int


class Canvas(Geometry, register=False):
    """Base of operators that crop a window, and fill pixels outside of the images.

    Subclasses define :meth:`window`, :attr:`beyond` and the parameter ``fill_value``.
    """

    keeps_size: ClassVar[bool] = False
    fill_value: tuple[float, ...] = levels("value outside of the images")
    body: ClassVar[Body | None] = Body("canvas")
    kernel_row = _ROW

    def __post_init__(self) -> None:
        super().__post_init__()
        # checked for all inputs of this object, not only where a window reaches outside
        count = len(self.fill_value)
        if count > 1:
            self.override_traits(channels=(count,), channels_from="fill_value")

    @abstractmethod
    def window(self, p: Any, height: int, width: int) -> CanvasWindow:
        """Return the window for images of some rows and columns."""

    @property
    def beyond(self) -> FillMode:
        """How pixels outside of the images are filled."""
        return "constant"

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`."""
        top, left, rows, columns = self.window(p, height, width)
        return Mapping(scaling(left, 1, top, 1), rows, columns)

    def nearest(self) -> Geometry:
        """The same operator with ``fill_value=0``."""
        return type(self)(**{**self.settings(), "fill_value": (0.0,)})

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows; the whole image where the operator does not act."""
        result = np.zeros(len(rows), _ROW)
        result["fill"] = _bits_of(self._fill_values(spec.channels, np.dtype(spec.dtype)))
        matrices = self.mappings(rows, spec).matrices
        result["top"], result["left"] = matrices[:, 1, 2], matrices[:, 0, 2]
        result["border"] = np.where(rows["acts"], FILL_MODES.index(self.beyond), 0)
        return result

    def reference(self, x: Array, p: Any) -> Array:
        """Gather the source row and column of each pixel, and the fill value where there is none."""
        library = namespace(x)
        window = self.window(p, *x.shape[1:3])
        rows = library.asarray(source_indices(window.top, window.height, x.shape[1], self.beyond))
        columns = library.asarray(source_indices(window.left, window.width, x.shape[2], self.beyond))
        outside = (rows < 0)[:, None] | (columns < 0)
        fill = library.asarray(self._fill_values(x.shape[3], x.dtype))
        return library.where(outside[..., None], fill, x[:, rows[:, None], columns])

    def cpu(self, x: Array, p: Any) -> Array:
        """Copy the part inside of the images, and fill the rest."""
        height, width = x.shape[1:3]
        window, fill = self.window(p, height, width), self._fill_values(x.shape[3], x.dtype)
        top, left = max(window.top, 0), max(window.left, 0)
        bottom, right = min(window.top + window.height, height), min(window.left + window.width, width)
        if (top, left, bottom - top, right - left) == window:
            return x[:, top:bottom, left:right]
        if self.beyond != "constant" and (bottom - top, right - left) != (height, width):
            return self.reference(x, p)
        out = np.empty((len(x), window.height, window.width, x.shape[3]), x.dtype)
        if self.beyond != "constant":
            return _surrounded(x, out, window, self.beyond)
        out[...] = fill
        if bottom > top and right > left:
            shown = x[:, top:bottom, left:right]
            out[:, top - window.top : bottom - window.top, left - window.left : right - window.left] = shown
        return out

    def checked(self, window: Seq[int]) -> CanvasWindow:
        """Return a window after checking its size and position."""
        result = CanvasWindow(*window)
        if min(result.height, result.width) < 1 or min(result) <= -MAX_OFFSET or max(result) >= MAX_OFFSET:
            raise self.refusal(
                f"a window of {result.height}×{result.width} pixels from row {result.top} and column {result.left}",
                allowed=f"windows of one pixel or more, less than {MAX_OFFSET} pixels away",
            )
        return result

    def _fill_values(self, channels: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return the fill value of each channel in a dtype, or one for all."""
        fill_value = self.fill_value
        if len(fill_value) > _MAX_FILL_CHANNELS:
            raise self.refusal(
                f"fill_value has {len(fill_value)} values for {channels} channels",
                allowed=f"one, or one for each of up to {_MAX_FILL_CHANNELS} channels",
            )
        cached: dict[np.dtype[Any], npt.NDArray[Any]] = self.__dict__.setdefault("_fill_cache", {})
        values = cached.get(dtype)
        if values is None:
            values = cached[dtype] = typed(np.asarray(fill_value, np.float64), dtype)
            values.flags.writeable = False
        return values


def _bits_of(fill: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the bits of the fill value of each channel, 64 for each, padded with zeros."""
    bits = np.zeros((_MAX_FILL_CHANNELS, 8), np.uint8)
    bits[:, : fill.itemsize] = (
        np.resize(fill, _MAX_FILL_CHANNELS).view(np.uint8).reshape(_MAX_FILL_CHANNELS, -1)
    )
    return bits.reshape(-1).view(np.int32)


def _surrounded(x: Array, out: Array, window: CanvasWindow, mode: FillMode) -> Array:
    """Write images and their padding, columns first."""
    height, width = x.shape[1:3]
    lines = out[:, -window.top : height - window.top]
    lines[:, :, -window.left : width - window.left] = x
    for into, start, length, source, axis in (
        (lines, window.left, width, x, 2),
        (out, window.top, height, lines, 1),
    ):
        indices = source_indices(start, into.shape[axis], length, mode)
        beyond = np.flatnonzero(indices != np.arange(start, start + len(indices)))
        at = (slice(None),) * axis
        into[(*at, beyond)] = source[(*at, indices[beyond])]
    return out
