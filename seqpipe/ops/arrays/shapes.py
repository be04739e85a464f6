"""Operators that change the axes of arrays."""

from __future__ import annotations

from math import prod
from typing import Any

from ...array import Array, FloatArray
from ...sequence import Batch, Sequence
from ..core.deferred import or_node
from ..core.parameters import ANY, param
from .base import VOXEL, ArrayOperand, OnAxes, Shaping

__all__ = ["Reshape", "Squeeze", "Transpose"]


class Transpose(Shaping):
    """Permute axes; no value moves in memory.

    In a Sequence the letters of its layout move with the axes, unless ``transpose_layout`` is False: then slices, rows
    and columns are exchanged, and a volume's affine follows. In DALI, ``output_layout`` without ``perm`` reverses all
    axes and only names them.
    """

    perm: tuple[int, ...] | None = param(
        None,
        "input axis of each axis of the result; None reverses the axes",
        kind=int,
        size=ANY,
    )
    transpose_layout: bool = param(True, "whether to permute the layout with the axes", drawn=False)
    output_layout: str | None = param(
        None, "layout of the result; without perm, it determines the order of axes", kind=str
    )

    examples = ({"perm": (2, 0, 1)}, {"output_layout": "FCHW"})

    def shaped(self, operand: ArrayOperand) -> tuple[Array, str]:
        """Return a view with permuted axes."""
        order, letters = self._order(operand)
        return operand.array.transpose(order), letters

    def wrap_result(self, value: Any, array: Array, letters: str) -> Any:
        """See :meth:`Shaping.wrap_result`."""
        if (
            isinstance(value, Batch)
            and value.mask is not None
            and self._moved(self.as_operand(value), letters)
        ):
            raise self.refusal(
                "pixels with other axes than the batch's mask", advice="Pass the batch without its mask"
            )
        return super().wrap_result(value, array, letters)

    def sequence(self, source: Sequence, data: Array, letters: str, **known: Any) -> Sequence:
        """Return a sequence with permuted axes and metadata.

        Raises:
            ParameterError: a sequence cannot have such axes, or its metadata does not fit them.
        """
        moved = self._moved(ArrayOperand(source, source.data, source.layout, 0), letters)
        if set(moved) & {"D", "F"} and (source.frames is not None or source.timestamps is not None):
            raise self.refusal(
                f"frames would be along another axis, {moved}, than frame numbers and timestamps",
                advice="Pass the array of the sequence",
            )
        if source.affine is not None and moved:
            known["affine"] = self._turned(source.affine, moved)
        return super().sequence(source, data, letters, **known)

    def _order(self, operand: ArrayOperand) -> tuple[tuple[int, ...], str]:
        """Return the input axis of each axis of the result, and the layout of the result."""
        layout = self.output_layout
        if layout is not None and (operand.first or isinstance(operand.value, Sequence)):
            layout = layout.removeprefix("N")  # the axis of samples stays first
        axes = self._axes_by_layout(operand, layout) if self.perm is None and layout is not None else None
        names = operand.names if axes is not None else operand.letters
        if axes is None:
            count = operand.array.ndim - operand.first
            perm = tuple(reversed(range(count))) if self.perm is None else self.perm
            axes = self.axes_of(operand, perm, None, "perm")
            if len(axes) != count or (layout is not None and len(layout) != count):
                raise self.refusal(
                    f"perm={perm} and output_layout={self.output_layout!r} for {count} axes",
                    allowed=f"{count} numbers, and as many letters",
                )
        if layout is None:
            layout = operand.letters[operand.first :]
            if layout and self.transpose_layout:
                layout = "".join(operand.letters[axis] for axis in axes)
        return (*range(operand.first), *axes), names[: operand.first] + layout

    def _axes_by_layout(self, operand: ArrayOperand, layout: str) -> tuple[int, ...]:
        """Return the input axis of each letter of a layout."""
        own = operand.names[operand.first :]
        if sorted(own) != sorted(layout):
            raise self.refusal(
                f"output_layout={self.output_layout!r} of an array of layout {operand.names or 'unknown'}",
                allowed="the same letters",
                advice="" if operand.letters else "Pass the layout of arrays",
            )
        return tuple(operand.first + own.index(letter) for letter in layout)

    def _moved(self, operand: ArrayOperand, letters: str) -> dict[str, str]:
        """Return the letters that now name another axis, each with the axis's former letter."""
        order, _ = self._order(operand)
        pairs = zip(letters, (operand.letters[axis] for axis in order), strict=True)
        return {new: old for new, old in pairs if new != old}

    def _turned(self, affine: FloatArray, moved: dict[str, str]) -> FloatArray:
        if not set(moved) | set(moved.values()) <= set(VOXEL):
            raise self.refusal(
                f"axes that change their meaning, {moved}, of a volume with an affine",
                advice="Pass the array without its affine",
            )
        turned = affine.copy()
        for new, old in moved.items():
            turned[:, VOXEL[new]] = affine[:, VOXEL[old]]
        return turned


class Reshape(Shaping):
    """Reshape arrays in memory order.

    A result with as many axes as the input keeps the layout, unless another one is given.
    """

    shape: tuple[int, ...] | None = param(
        None, "extents of the axes; -1 for an axis that follows from the others", kind=int, lo=-1, size=ANY
    )
    rel_shape: tuple[float, ...] | None = param(
        None,
        "the same in parts of the extents that are given, or of those of src_dims; -1 likewise",
        kind=float,
        lo=-1,
        size=ANY,
    )
    src_dims: tuple[int, ...] | None = param(
        None, "input axes whose extents the result takes, -1 for an extent of 1", kind=int, lo=-1, size=ANY
    )
    layout: str | None = param(None, "layout of the result", kind=str)

    examples = ({"shape": (6, -1)}, {"rel_shape": (0.5, 2.0, 1.0)}, {"src_dims": (1, 0, 2), "layout": "HWC"})
    errors = (
        ({}, "reshape: no shape is given; allowed: shape, rel_shape, src_dims or layout"),
        (
            {"shape": (1,), "src_dims": (0,)},
            "shape and src_dims given; allowed: shape, or one or both of rel_shape",
        ),
        ({"shape": (-1, 2, -1)}, r"shape=\(-1, 2, -1\) has -1 more than once; allowed: once"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        others = [name for name in ("rel_shape", "src_dims") if getattr(self, name) is not None]
        if self.shape is None and not others and self.layout is None:
            raise self.refusal("no shape is given", allowed="shape, rel_shape, src_dims or layout")
        if self.shape is not None and others:
            raise self.refusal(
                f"shape and {others[0]} given", allowed="shape, or one or both of rel_shape and src_dims"
            )
        for name in ("shape", "rel_shape"):
            values = getattr(self, name) or ()
            if values.count(-1) > 1:
                raise self.refusal(f"{name}={values} has -1 more than once", allowed="once")

    @or_node
    def __call__(self, x: Any) -> Any:  # type: ignore[override]  # its layout is that of the result, as in DALI
        """Reshape an array.

        Args:
            x: a NumPy, CuPy or torch array, which is one sample, a Sequence, a Batch, or a list of these.

        Returns:
            The result, of the same type as ``x``; it shares memory with ``x`` if the values are contiguous.

        Raises:
            ParameterError: the number of values differs, or a Sequence cannot have such axes.
        """
        return super().__call__(x)

    def shaped(self, operand: ArrayOperand) -> tuple[Array, str]:
        """Return the reshaped array."""
        extents = self._extents(operand.samples)
        count = prod(operand.samples)
        if -1 in extents:
            rest = -prod(extents)
            extents = [count // rest if rest and n == -1 else n for n in extents]
        if prod(extents) != count or min(extents, default=0) < 0:
            raise self.refusal(
                f"{count} values of shape {operand.samples} for the shape {tuple(extents)}",
                allowed="as many values",
            )
        letters = operand.letters[operand.first :] if len(extents) == len(operand.samples) else ""
        if self.layout is not None:
            letters = self.layout.removeprefix("N") if operand.first else self.layout
            if len(set(letters)) != len(extents) or len(letters) != len(extents):
                raise self.refusal(
                    f"layout={self.layout!r} of {len(extents)} axes", allowed="one letter for each"
                )
        shape = (*operand.array.shape[: operand.first], *extents)
        return operand.array.reshape(shape), operand.letters[: operand.first] + letters

    def sequence(self, source: Sequence, data: Array, letters: str, **known: Any) -> Sequence:
        """Return a reshaped sequence.

        Raises:
            ParameterError: a sequence cannot have the axes.
        """
        if source.affine is not None and data.shape != source.data.shape:
            raise self.refusal(
                f"another shape, {tuple(data.shape)}, of a volume with an affine",
                advice="Pass the array without its affine",
            )
        return super().sequence(source, data, letters, **known)

    def _extents(self, shape: tuple[int, ...]) -> list[int]:
        if self.shape is not None:
            return list(self.shape)
        source = range(len(shape)) if self.src_dims is None else self.src_dims
        if max(source, default=-1) >= len(shape):
            raise self.refusal(
                f"src_dims={self.src_dims} of {len(shape)} axes", allowed=f"-1 to {len(shape) - 1}"
            )
        extents = [1 if axis < 0 else shape[axis] for axis in source]
        if self.rel_shape is None:
            return extents
        if len(self.rel_shape) > len(extents):
            raise self.refusal(
                f"rel_shape={self.rel_shape} of {len(extents)} axes", allowed="not more numbers"
            )
        pairs = zip(self.rel_shape, extents, strict=False)
        return [-1 if part == -1 else round(part * n) for part, n in pairs]


class Squeeze(OnAxes, Shaping):
    """Remove axes of length 1."""

    examples = ({"axes": 0}, {"axis_names": "C"})
    errors = (({}, "squeeze: no axes are given; allowed: axes or axis_names"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.axes is None and self.axis_names is None:
            raise self.refusal("no axes are given", allowed="axes or axis_names")

    def shaped(self, operand: ArrayOperand) -> tuple[Array, str]:
        """Return a view without the axes."""
        axes = self.axes_of(operand, self.axes, self.axis_names)
        lengths = [operand.array.shape[axis] for axis in axes]
        if any(length != 1 for length in lengths):
            raise self.refusal(
                f"axes of {lengths} values, of an array of shape {tuple(operand.array.shape)}",
                allowed="axes with one value each",
            )
        letters = "".join(letter for axis, letter in enumerate(operand.letters) if axis not in axes)
        return operand.array.squeeze(axes), letters
