"""Geometry: operators that move pixels. Each states its mapping once; pixels, metadata and kernels follow it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, namespace
from ...cached import cached_property
from ...errors import ParameterError
from ..call.backends import on_device_of, run
from ..call.inputs import naming
from ..call.op import Op
from ..core.blocks import Block, values_of, values_of_each
from ..core.body import Body
from ..core.spec import MOVED, Spec
from ..core.traits import Traits
from ..cuda.kernel import Item
from .mapping import Mapping, Mappings, scaling, spacing_of

__all__ = ["WHOLE_PIXELS", "Geometry", "GeometryTraits", "Interpolated", "Nearest", "PartRead", "check_sides"]

_ANY_SIZE: Final = (120, 200)  # rows and columns to try a mapping with
_LONGEST: Final = 1 << 23  # rows or columns whose centers float32 has, which are halves


class Interpolated(NamedTuple):
    """How an operator that is one mapping makes pixels; operators that agree on it can be one mapping together.

    Attributes:
        interp_type: between which pixels it interpolates.
        fill_value: the level outside of the images.
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
"""Of operators that only move whole pixels, and agree with any other."""


@dataclass(frozen=True, kw_only=True)
class GeometryTraits(Traits):
    """What operators that move pixels state about themselves, besides what all do.

    Attributes:
        whole_pixels: whether every pixel of the result is a pixel of the source, never one from outside, and neighbors
            stay neighbors in a row or a column; a text of the body then changes its values, as that of a ``"value"``
            body does.
        maps_rows: whether :meth:`mapping` also takes parameters with a value for each of some rows, and then states a
            matrix for each; otherwise it is asked row by row. It is stated anew wherever ``mapping`` is.
        resamples: whether it has ``moved_rows``, by which the kernel makes pixels of its result wherever the operators
            after it move them.
    """

    whole_pixels: bool = False
    maps_rows: bool = False
    resamples: bool = False


class Geometry(Op, register=False):
    """An operator that moves pixels, and with them boxes, points, masks and a volume's space.

    It states :meth:`mapping`. If that sends every pixel to a whole pixel, the kernel needs no body.
    """

    traits: ClassVar[GeometryTraits] = GeometryTraits()

    dtypes: ClassVar[tuple[str, ...]] = MOVED
    values: ClassVar[Literal["computed", "moved"]] = "moved"
    body: ClassVar[Body | None] = Body("gather")

    @abstractmethod
    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """Where the pixels of the result come from.

        Args:
            p: the parameters of one image or sequence, as attributes.
            height: rows of what is given.
            width: columns of what is given.
        """

    @property
    def interpolation(self) -> Interpolated | None:
        """How it makes pixels, where each is interpolated at one place; None where it is not, or that varies."""
        return WHOLE_PIXELS if self.traits.whole_pixels and self.traits.values == "moved" else None

    def specs_of(self, part: Any) -> list[Spec]:
        """What the operator is told of each sample: also the spacing of its voxels, where an affine says it."""
        specs = [part.form.spec] * part.form.samples
        if not part.affines:
            return specs
        with naming(self):
            return [
                spec if affine is None else spec._replace(spacing=spacing_of(affine))
                for spec, affine in zip(specs, part.affines, strict=True)
            ]

    def moved_spacing(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[float, float, float] | None:
        """The spacing of the result of one sample."""
        if spec.spacing is None:
            return None
        slices, down, across = spec.spacing
        matrix = self.mappings(rows, spec).matrices[0]
        moved = np.hypot(*(matrix[:2, :2] / matrix[2, 2] * [[across], [down]])).tolist()
        return slices, moved[1], moved[0]

    def mappings(self, rows: npt.NDArray[Any], spec: Spec) -> Mappings:
        """The mapping of each row of a block; where the operator does not act, that which changes nothing."""
        height, width = spec.height, spec.width
        place = rows.tobytes(), height, width
        last, found = self.__dict__.get("_last", (None, None))
        if found is None or last != place:  # a call asks for the sizes first, and then for the matrices
            found = (self._together if self.traits.maps_rows else self._one_by_one)(rows, height, width)
            self.__dict__["_last"] = place, found
        made: Mappings = found
        return made

    def _one_by_one(self, rows: npt.NDArray[Any], height: int, width: int) -> Mappings:
        unmoved = Mapping.identity(height, width)
        found = [self.mapping(p, height, width) if p.acts else unmoved for p in values_of_each(rows)]
        return Mappings(np.array([one.matrix for one in found]), [(one.height, one.width) for one in found])

    def _together(self, rows: npt.NDArray[Any], height: int, width: int) -> Mappings:
        p = SimpleNamespace(**{name: rows[name] for name in rows.dtype.names or ()})
        found = self.mapping(p, height, width)
        matrices, size, acts = found.matrix, (found.height, found.width), p.acts.tolist()
        if all(acts):
            return Mappings(matrices, [size] * len(rows))
        matrices[p.acts == 0] = np.eye(3)
        return Mappings(matrices, [size if one else (height, width) for one in acts])

    def result_size(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int]:
        """Rows and columns of the result of one sample.

        Raises:
            ParameterError: the results of its frames have different sizes.
        """
        sizes = set(self.mappings(rows, spec).sizes)
        if len(sizes) > 1:
            raise ParameterError(
                f"frames of different sizes, {sorted(sizes)}, in one sequence",
                source=self.name,
                advice="Give p and what decides the size once for each sequence",
            )
        return sizes.pop()

    def extents(self, block: Block, samples: range, spec: Spec) -> set[tuple[int, int, int]]:
        """Those of some samples; of the mappings of all rows at once, if they make one size."""
        rows = block.of_all(samples.start, samples.stop, spec.frames)
        sizes = set(self.mappings(rows, spec).sizes)
        return {(spec.frames, *sizes.pop())} if len(sizes) == 1 else super().extents(block, samples, spec)

    def part_taken(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[slice, slice] | None:
        """Rows and columns of what is given, if the results of all these parameters are nothing but them."""
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
        return super()._is_identity or (self.is_constant and self._stays())

    def _stays(self) -> bool:
        """Whether constant parameters leave every pixel where it is, whatever is given together, and as it is."""
        changes = self.result_dtype("uint8") != "uint8" or bool(self.traits.body and self.traits.body.text)
        if changes or type(self).among is not Geometry.among:
            return False
        height, width = _ANY_SIZE
        try:
            mapping = self.mapping(values_of(self.template[0]), height, width)
        except Exception:  # what it takes for granted, its own checks may yet refuse, which come after this
            return False
        return (mapping.height, mapping.width) == _ANY_SIZE and bool((mapping.matrix == np.eye(3)).all())

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """The matrix of the mapping."""
        return np.dtype([("matrix", np.float32, (3, 3))])

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """The matrices of a block's rows.

        Raises:
            ParameterError: the images are longer than a matrix of float32 leads to every pixel of.
        """
        check_sides(self, spec.height, spec.width)
        made = np.zeros(len(rows), self.kernel_dtype())
        made["matrix"] = self.mappings(rows, spec).matrices
        return made

    def moved_affine(self, rows: npt.NDArray[Any], spec: Spec, affine: FloatArray) -> FloatArray:
        """The affine of a volume's result.

        Raises:
            ParameterError: its slices are moved by different mappings, or with perspective: the result has no grid.
        """
        mappings = self.mappings(rows, spec)
        if (mappings.matrices != mappings.matrices[0]).any():
            raise ParameterError(
                "each slice of a volume with an affine would be moved otherwise",
                source=self.name,
                advice="Give one value for all slices, or the array without its affine",
            )
        with naming(self):
            return mappings.each()[0].affine(affine)

    def nearest(self) -> Geometry:
        """The same for labels: every pixel the nearest, of any type."""
        return Nearest.of(self)

    def moved_mask(self, mask: Array, specs: Seq[Spec], block: Block) -> Array:
        """Masks ``(N, F, H, W, C)`` moved as their images are, every pixel the nearest; 0 outside.

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


class Nearest(Geometry, register=False):
    """A geometry that takes the nearest value, whatever its operator does in between; for masks."""

    @classmethod
    def of(cls, op: Geometry) -> Nearest:
        """That with the mapping of an operator, for the operator's parameters."""
        made = cls()
        made.__dict__["_op"] = op
        return made

    def _stays(self) -> bool:
        """It is told by its operator, once it is made."""
        return False

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """That of the operator."""
        op: Geometry = self.__dict__["_op"]
        check_sides(op, height, width)
        return op.mapping(p, height, width)

    def reference(self, x: Array, p: Any) -> Array:
        """Images moved."""
        return self.mapping(p, *x.shape[1:3]).nearest(x)


def check_sides(op: Geometry, height: int, width: int) -> None:
    """See that an operator that moves whole pixels can do it by a matrix of float32.

    Raises:
        ParameterError: the images are longer.
    """
    if op.traits.whole_pixels and max(height, width) > _LONGEST:
        raise ParameterError(
            f"images of {height}×{width} pixels",
            source=op.name,
            allowed=f"up to {_LONGEST} rows and columns, for masks and on a GPU",
        )
