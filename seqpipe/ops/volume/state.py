"""Input of operators on volumes: every part as ``(D, H, W, C)`` with its affine, and the conversion back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import numpy as np

from ...array import Array, FloatArray, as_native, device_of, namespace, overlap, to_numpy
from ...errors import ParameterError
from ...parts import Boxes, Flow, Image, Labels, Part, Points, as_part
from ...resampling.mapping import Extent, transformed
from ...sequence import Sequence
from ..call.inputs import like_library
from ..core.spec import MOVED_DTYPES, Spec

__all__ = ["LAYOUTS", "PartState", "SampleState", "VoxelGrid", "check_position", "name_of", "state_of"]

_OF_SAMPLE: Final = ("DHW", "DHWC", "CDHW", "FDHWC")
LAYOUTS: Final = (*_OF_SAMPLE, *(f"N{layout}" for layout in _OF_SAMPLE))
"""Layouts of arrays of volumes; the volumes of a series (F) are channels of one volume to operators."""

# an array's dtype hashes in a tenth of the time that its name takes
_DTYPES: Final = frozenset(map(np.dtype, MOVED_DTYPES))
_SAME_GRID: Final = 0.01  # voxels that corners may be apart


@dataclass(eq=False)
class VoxelGrid:
    """The size and the position of a sample's voxels.

    Attributes:
        size: slices, rows and columns.
        affine: from voxels to mm; None if the volume has none.
    """

    size: Extent
    affine: FloatArray | None = None

    @property
    def spacing_mm(self) -> FloatArray | None:
        """Distance between slices, rows and columns."""
        return None if self.affine is None else np.linalg.norm(self.affine[:3, :3], axis=0)

    def moved(self, matrix: FloatArray, size: Extent) -> VoxelGrid:
        """Return the grid of a result that a matrix maps to this one."""
        return VoxelGrid(size, None if self.affine is None else self.affine @ matrix)

    def corners(self) -> FloatArray:
        """Return the first voxel and the ends of the three axes and of the diagonal, in mm if there is an affine."""
        positions = np.array([[0, 0, 0], *np.diag(self.size), self.size], np.float64)
        return positions if self.affine is None else transformed(self.affine, positions)


@dataclass(eq=False)
class PartState:
    """A part.

    Attributes:
        part: the original part.
        values: ``(D, H, W, C)``, NumPy or CuPy; of points and boxes the numbers, in voxels, float64.
        layout: layout of the original array; empty for points and boxes.
        affine: from voxels to mm, or None.
    """

    part: Part
    values: Array
    layout: str = ""
    affine: FloatArray | None = None

    @property
    def is_image(self) -> bool:
        """Whether operators on intensities change it."""
        return isinstance(self.part, Image)

    def to_part(self) -> Any:
        """Return the original part with new values."""
        original = self.part.data
        if not self.layout:
            values = self.values
            if isinstance(self.part, Points) and self.part.unit == "mm" and self.affine is not None:
                values = transformed(self.affine, values)
            dtype = self.part.array.dtype
            return self.part.with_data(
                like_library(original, values.astype(dtype if dtype.kind == "f" else np.float64))
            )
        before = self.part.array
        known = {"DHW": 1, "FDHWC": before.shape[0] * before.shape[-1]}.get(self.layout)
        if known not in (None, self.values.shape[3]):
            raise ParameterError(
                f"{self.values.shape[3]} channels for an image of the layout {self.layout}",
                allowed="DHWC or CDHW for operators that change channels",
                advice="array[..., None] is DHWC; Prepare(series_as_channels=True) reads a series so",
            )
        array = _of_layout(self._typed(before.dtype), self.layout, before.shape[0])
        if not array.flags.c_contiguous:
            array = namespace(array).ascontiguousarray(array)
        if overlap(array, before):
            array = array.copy()
        if isinstance(original, Sequence):
            return self.part.with_data(original.on_grid(array, self.affine))
        return self.part.with_data(like_library(original, array))

    def _typed(self, dtype: np.dtype[Any]) -> Array:
        """Return labels in their original dtype, unless they are out of its range; images in that of their values."""
        values = self.values
        if values.dtype == dtype or not isinstance(self.part, Labels):
            return values
        if dtype.kind in "iu" and values.dtype.kind in "iu":
            info = np.iinfo(dtype)
            if values.min() < info.min or values.max() > info.max:
                return values
        return values.astype(dtype, copy=False)


@dataclass(eq=False)
class SampleState:
    """A sample while operators are applied to it.

    Attributes:
        parts: by name.
        grid: of the reference, the first image.
        op: name of the called operator, for messages.
    """

    parts: Mapping[str, PartState]
    grid: VoxelGrid
    op: str

    @property
    def reference(self) -> PartState:
        """The first image, or else the first part that has voxels."""
        first = None
        for item in self.parts.values():
            if item.is_image:
                return item
            first = item if first is None and item.layout else first
        assert first is not None  # state_of refuses samples without voxels
        return first

    @property
    def spec(self) -> Spec:
        """Properties of the sample for which parameters are sampled."""
        values = self.reference.values
        return Spec(*self.grid.size, values.shape[3], name_of(values.dtype))

    @property
    def images(self) -> dict[str, PartState]:
        """The images, by name."""
        return {name: item for name, item in self.parts.items() if item.is_image}


def _view(array: Array, layout: str) -> Array:
    """An array of a sample as ``(D, H, W, C)``."""
    if layout == "DHW":
        return array.reshape((*array.shape, 1))  # a view, in a fifth of the time that CuPy takes for an index
    if layout == "FDHWC":
        return array.transpose(1, 2, 3, 0, 4).reshape(*array.shape[1:4], -1)
    return array.transpose(1, 2, 3, 0) if layout == "CDHW" else array


def _of_layout(values: Array, layout: str, frames: int) -> Array:
    """Return values ``DHWC`` in a layout; ``frames`` volumes of a series are in C."""
    if layout == "DHW":
        return values.squeeze(3)
    if layout == "FDHWC":
        return values.reshape(*values.shape[:3], frames, -1).transpose(3, 0, 1, 2, 4)
    return values.transpose(3, 0, 1, 2) if layout == "CDHW" else values


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, which NumPy computes at every access."""
    return dtype.name


def state_of(op: str, sample: Mapping[str, Any], layout: str | None) -> SampleState:
    """Convert a sample for the operators; metadata is omitted, as it does not change."""
    parts = {name: _scaled(as_part(value)) for name, value in sample.items()}
    items: dict[str, PartState] = {}
    grid: VoxelGrid | None = None
    for name, part in parts.items():
        if isinstance(part, (Image, Labels)):
            items[name] = _voxels(op, name, part, layout)
            own = VoxelGrid(items[name].values.shape[:3], items[name].affine)
            grid = _common_grid(op, name, grid, own) if grid else own
    if grid is None:
        raise ParameterError(
            f"a sample of {', '.join(parts) or 'no parts'}", source=op, allowed="one image or labels at least"
        )
    # labels without a space of their own have that of the images
    if grid.affine is not None:
        items = {n: replace(h, affine=grid.affine) if h.affine is None else h for n, h in items.items()}
    for name, part in parts.items():
        if isinstance(part, (Points, Boxes)):
            items[name] = _coordinates(op, name, part, grid)
        if isinstance(part, Flow):
            raise ParameterError(
                f"{name} is flow",
                source=op,
                allowed="images, labels, points, boxes and metadata, which operators on volumes move",
            )
    if len(items) > 1 and len({device_of(item.values) for item in items.values() if item.layout}) > 1:
        raise ParameterError("parts on different devices", source=op, allowed="one for all images and labels")
    return SampleState({name: items[name] for name in parts if name in items}, grid, op)


def _scaled(part: Part) -> Part:
    """Return a part with its scale applied to the stored values."""
    data = part.data
    return part.with_data(data.scaled()) if isinstance(data, Sequence) and data.scale is not None else part


def _voxels(op: str, name: str, part: Part, layout: str | None) -> PartState:
    """Return the voxels of a part and their layout."""
    data = part.data
    array = data.data if isinstance(data, Sequence) else _native_array(op, data)
    letters = data.layout if isinstance(data, Sequence) else layout
    if letters is None:
        letters = {3: "DHW", 4: "DHWC"}.get(array.ndim, "")
    if letters not in _OF_SAMPLE or len(letters) != array.ndim or 0 in array.shape:
        raise ParameterError(
            f"{name} has the shape {tuple(array.shape)} and the layout {letters or layout or 'unknown'}",
            source=op,
            allowed=f"{', '.join(_OF_SAMPLE)} for a sample, of one voxel or more; N in front of it for several",
        )
    if array.dtype not in _DTYPES:
        raise ParameterError(
            f"{name} has the dtype {array.dtype}", source=op, allowed=", ".join(MOVED_DTYPES)
        )
    if isinstance(part, Labels):
        part.check(name)
        array = _whole_numbers(op, name, array)
    return PartState(part, _view(array, letters), letters, part.affine)


def _native_array(op: str, data: Any) -> Array:
    """Return the array of a part."""
    try:
        return as_native(data)
    except ParameterError as error:
        error.source = op
        raise


def _whole_numbers(op: str, name: str, labels: Array) -> Array:
    """Return labels as integers, or refuse them."""
    if labels.dtype.kind != "f":
        return labels
    whole = labels.astype(np.int32)
    if not bool((whole == labels).all()):
        wrong = labels[whole != labels].ravel()[0]
        raise ParameterError(
            f"{name} has the label {wrong}",
            source=op,
            allowed="whole numbers",
            advice="Pass probabilities as Image",
        )
    return whole


def _coordinates(op: str, name: str, part: Part, grid: VoxelGrid) -> PartState:
    """Return the coordinates of a part in voxels."""
    values = to_numpy(part.array).astype(np.float64)
    columns = 3 if isinstance(part, Points) else 6
    if values.shape[-1] != columns:
        raise ParameterError(f"{name} has the shape {values.shape}", source=op, allowed=f"(K, {columns})")
    if isinstance(part, Points) and part.unit == "mm":
        if grid.affine is None:
            raise ParameterError(
                f"{name} is in mm, and the images have no affine",
                source=op,
                advice="Pass the images as Sequence(…, affine=…), or points in voxels",
            )
        values = transformed(np.linalg.inv(grid.affine), values)
    return PartState(part, values, "", grid.affine)


def _common_grid(op: str, name: str, grid: VoxelGrid, own: VoxelGrid) -> VoxelGrid:
    """The grid of a sample to which a part is added."""
    if own.size != grid.size:
        raise ParameterError(
            f"{name} has {' × '.join(map(str, own.size))} voxels, and the part before it "
            f"{' × '.join(map(str, grid.size))}",
            source=op,
            allowed="one grid for all parts",
            advice="seqpipe.volume.align(sample) resamples all parts onto the grid of the first image",
        )
    check_position(op, name, grid, own)
    return own if grid.affine is None and own.affine is not None else grid


def check_position(op: str, name: str, grid: VoxelGrid, own: VoxelGrid) -> None:
    """Check that the voxels of a part are where those of its sample are, as far as both positions are known."""
    if grid.affine is None or own.affine is None or grid.affine is own.affine:
        return
    apart = np.abs(
        transformed(np.linalg.inv(grid.affine), own.corners()) - VoxelGrid(grid.size).corners()
    ).max()
    if apart > _SAME_GRID:
        raise ParameterError(
            f"{name} is shifted by up to {apart:.3g} voxels against the part before it: its affine is\n"
            f"{own.affine}\nnot\n{grid.affine}\n",
            source=op,
            allowed=f"one grid for all parts, to {_SAME_GRID} voxels",
            advice="seqpipe.volume.align(sample) resamples all parts onto the grid of the first image",
        )
