"""DALI's operators on arbitrary arrays: casts, shapes, concatenation, padding, constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import REGISTRY, Run
from ...ops import DataNode as NativeNode
from ..call import check_known, plain
from ..data_node import Constant, DataNode, node_of
from ..declared import DaliCall, Kind, operator
from ..dtypes import converted
from ..sources.mapped import views
from ..value import Value

__all__ = ["axes_of"]


@operator("cast")
def _cast(call: DaliCall, *, dtype: Kind) -> DataNode:
    """``fn.cast``: halves are rounded away from zero."""
    return call.each(partial(converted, kind=dtype))


@operator("cast_like")
def _cast_like(call: DaliCall) -> DataNode:
    return call.node(lambda v, _: v[0].each(partial(converted, kind=v[1].dtype.name)))


@operator("copy")
def _copy(call: DaliCall) -> DataNode:
    return call.each(lambda array: array.copy())


@operator("shapes")
def _shapes(call: DaliCall, *, dtype: Any = None) -> DataNode:
    return call.input().shape(dtype=dtype)


@operator("get_property")
def _get_property(call: DaliCall, *, key: Any = None) -> DataNode:
    return call.input().property(key)


@operator("constant")
def _constant(
    call: DaliCall,
    *,
    idata: Any = None,
    fdata: Any = None,
    shape: Any = None,
    dtype: Kind = None,
    layout: Any = "",
) -> DataNode:
    data = idata if idata is not None else fdata
    if data is None:
        raise call.wrong("neither idata nor fdata is given")
    array = np.asarray(data, dtype or ("int32" if idata is not None else "float32"))
    if shape is None:  # as in DALI, a scalar becomes an array of one axis
        array = np.atleast_1d(array)
    else:
        wanted = tuple(np.atleast_1d(shape).tolist())
        array = array.reshape(wanted) if array.size > 1 else np.broadcast_to(array.reshape(-1)[0], wanted)
    return Constant(array, array.dtype, layout=layout, device=call.device)  # type: ignore[no-any-return]


@operator("full", "ones", "zeros")
def _full(
    call: DaliCall, *, shape: Any = (), dtype: Kind = None, layout: Any = "", fill_value: Any = None
) -> DataNode:
    fixed = {"ones": 1, "zeros": 0}.get(call.row.name)
    if fixed is not None and fill_value is not None:
        raise call.wrong("there is no argument 'fill_value'")
    level = fill_value if fixed is None else fixed
    if level is None:
        level = call.input()
    elif not isinstance(level, DataNode):
        level = node_of(np.asarray(level, dtype or (None if fixed is None else "int32")))
    by_sample = isinstance(shape, DataNode)
    sides: Any = () if by_sample else tuple(np.atleast_1d(shape).astype(int).tolist())

    def compute(values: list[Value], _: Run) -> Value:
        wanted = [tuple(map(int, item)) for item in values[1]] if by_sample else [sides] * len(values[0])
        arrays = [np.broadcast_to(a, s).copy() for a, s in zip(values[0], wanted, strict=True)]
        if layout and len(layout) != arrays[0].ndim:
            raise call.fault(
                f"Layout {layout!r} has {len(layout)} dimensions but output shape has {arrays[0].ndim}"
            )
        result = Value.of(arrays, layout)
        return result if dtype is None else result.each(partial(converted, kind=dtype))

    return call.node(compute, inputs=[level, *([shape] if by_sample else [])])


@operator("full_like", "ones_like", "zeros_like")
def _full_like(call: DaliCall, *, dtype: Kind = None) -> DataNode:
    fixed = {"ones_like": 1, "zeros_like": 0}.get(call.row.name)

    def computed(array: Array, *levels: Any) -> Array:
        xp, level = namespace(array), levels[0] if fixed is None else fixed
        result = xp.broadcast_to(xp.asarray(level), array.shape).astype(array.dtype)
        return result if dtype is None else converted(result, dtype)

    return call.by_sample(computed)  # type: ignore[no-any-return]


@operator("reinterpret", "reshape")
def _reinterpret(
    call: DaliCall,
    *,
    shape: Any = None,
    layout: Any = None,
    dtype: Kind = None,
    rel_shape: Any = None,
    src_dims: Any = None,
) -> DataNode:
    """Another shape, dtype or layout of the same bytes."""
    nodes = [*call.inputs, *([shape.cpu()] if isinstance(shape, DataNode) else [])]
    by_node = len(nodes) > 1

    def result(sample: Array, wanted: Any) -> Array:
        array = sample if dtype is None else sample.copy(order="C").view(dtype)
        if rel_shape is not None or src_dims is not None:
            wanted = _relative_shape(call, array.shape, rel_shape, src_dims)
        if wanted is None:
            return array
        wanted = np.atleast_1d(np.asarray(wanted)).astype(int).tolist()
        try:
            return array.reshape(wanted)
        except ValueError as error:
            raise call.fault(_shape_fact(array.shape, wanted)) from error

    def compute(values: list[Value], _: Run) -> Value:
        wanted = values[1].on_host() if by_node else [shape] * len(values[0])
        arrays = [result(a, b) for a, b in zip(values[0], wanted, strict=True)]
        kept = values[0].layout if arrays and arrays[0].ndim == values[0].ndim else ""
        return views(arrays, kept if layout is None else layout, values[0].sources)

    return call.node(compute, inputs=nodes)


def _relative_shape(call: DaliCall, shape: tuple[int, ...], relative: Any, places: Any) -> list[int]:
    """Return a shape by factors of the sides of another one; -1 is the side that follows from the others."""
    axes = range(len(shape)) if places is None else places
    factors = relative if relative is not None else [1.0] * len(axes)
    if places is None and any(f >= 0 for f in factors[len(axes) :]):
        raise call.fault(
            f"`rel_shape` has more elements ({len(factors)}) than there are dimensions in the input ({len(axes)})",
            advice="To name the axes, with -1 for a new one, use `src_dims`",
        )
    if places is not None and len(places) != len(factors):
        raise call.fault(
            f"`src_dims` and `rel_shape` have different lengths: {len(places)} vs {len(factors)}"
        )
    if beyond := [axis for axis in axes if axis >= len(shape)]:
        raise call.fault(
            f"src_dims has {beyond[0]}, which is out of bounds for samples of {len(shape)} axes",
            allowed=f"-1 to {len(shape) - 1}",
        )
    axes = [*axes, *[-1] * (len(factors) - len(axes))]
    pairs = zip(axes, factors, strict=False)
    return [-1 if f < 0 else 1 if axis < 0 else round(shape[axis] * f) for axis, f in pairs]


def _shape_fact(shape: tuple[int, ...], wanted: Sequence[int]) -> str:
    """Return why samples of a shape cannot have another one."""
    if -1 in wanted and not math.prod(side for side in wanted if side != -1):
        return (
            f"Cannot infer dimension {wanted.index(-1)} when the volume of the other dimensions is 0. Input shape: "
            f"{' x '.join(map(str, shape))}"
        )
    return (
        "The volume of the new shape should match the one of the original shape. Requested a shape with "
        f"{abs(math.prod(wanted))} elements but the original shape has {math.prod(shape)} elements"
    )


@operator("transpose")
def _transpose(
    call: DaliCall, *, perm: Any = None, transpose_layout: Any = True, output_layout: Any = None
) -> DataNode:
    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        order = tuple(range(value.ndim))[::-1] if perm is None else tuple(perm)
        letters = value.layout
        if letters and transpose_layout:
            letters = "".join(letters[axis] for axis in order)
        data = (
            value.data.transpose(0, *(axis + 1 for axis in order))
            if value.dense
            else [array.transpose(order) for array in value.data]
        )
        return value.with_data(data, output_layout if output_layout is not None else letters)

    return call.node(compute)


def axes_of(value: Value, axes: Any, names: str | None, source: str) -> tuple[int, ...]:
    """Return the numbers of axes from letters or numbers; negative ones count from the end.

    Raises:
        ParameterError: the layout lacks an axis.
    """
    if names is not None:
        if missing := [letter for letter in names if letter not in value.layout]:
            raise ParameterError(
                f"Axis {missing[0]!r} is not present in the input layout {value.layout!r}",
                source=source,
                allowed=value.layout or "axes",
            )
        return tuple(value.layout.index(letter) for letter in names)
    numbers = [int(axis) for axis in np.atleast_1d(axes)]
    count = max(value.ndim, 1)
    if wrong := [axis for axis in numbers if not -count <= axis < count]:
        raise ParameterError(
            f"Axis {wrong[0]} out of range. Expected range is [{-count}, {count - 1}] for a {value.ndim}D input",
            source=source,
        )
    return tuple(axis % count for axis in numbers)


@operator("squeeze")
def _squeeze(call: DaliCall, *, axes: Any = None, axis_names: Any = None) -> DataNode:
    if axes is not None and axis_names is not None:
        raise call.wrong("Provided both ``axes`` and ``axis_names`` arguments", allowed="one of them")

    def compute(values: list[Value], _: Run) -> Value:
        value, arrays = values[0], []
        drop = axes_of(value, axes, axis_names, "fn.squeeze")
        if len(set(drop)) < len(drop):
            raise call.fault("Specified at least twice same dimension to remove")
        for array in value:
            sides = [side for n, side in enumerate(array.shape) if n not in drop]
            if math.prod(sides) != array.size:
                raise call.fault(
                    f"Requested a shape with {math.prod(sides)} elements but the original shape has {array.size} "
                    "elements",
                    advice="Give axes of length 1",
                )
            arrays.append(array.reshape(sides))
        return views(arrays, "".join(c for n, c in enumerate(value.layout) if n not in drop), value.sources)

    return call.node(compute)


@operator("expand_dims")
def _expand_dims(call: DaliCall, *, axes: Any = None, new_axis_names: Any = "") -> DataNode:
    if isinstance(axes, NativeNode):
        raise call.wrong("axes should not be a 'DataNode'", allowed="whole numbers")
    places, names = np.atleast_1d(axes).astype(int).tolist(), new_axis_names
    if any(place < 0 for place in places):
        raise call.wrong(f"Axis value can't be negative: {axes}")
    if names and len(names) != len(places):
        raise call.wrong(
            f"Specified {len(places)} new dimensions, but layout contains only {len(names)} new dimension names"
        )
    order = sorted(zip(places, names or [""] * len(places), strict=True))
    if len(set(places)) < len(places):
        raise call.wrong(f"axes {places}", allowed="different axes")

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        if names and value.ndim and not value.layout:
            raise call.fault("Specifying ``new_axis_names`` requires an input with a proper layout")
        letters, sides = list(value.layout), [list(shape) for shape in value.shapes()]
        for place, letter in order:
            if place > len(sides[0]):
                raise call.fault("Data has not enough dimensions to add new axes at specified indices")
            letters.insert(place, letter)
            for shape in sides:
                shape.insert(place, 1)
        known = "".join(letters) if names or not places else ""
        arrays = (array.reshape(shape) for array, shape in zip(value, sides, strict=True))
        return views(arrays, known, value.sources)

    return call.node(compute)


@operator("cat", "stack")
def _joined(call: DaliCall, *, axis: Any = 0, axis_name: Any = None) -> DataNode:
    stacks = call.row.name == "stack"

    def compute(values: list[Value], _: Run) -> Value:
        first = values[0]
        position, letters = int(axis), first.layout
        if not stacks and axis_name is not None:
            (position,) = axes_of(first, None, axis_name, "fn.cat")
        if stacks:
            position %= first.ndim + 1
            known = axis_name is not None and (letters or not first.ndim)
            letters = letters[:position] + axis_name + letters[position:] if known else ""
        join = "stack" if stacks else "concatenate"
        try:
            arrays = [
                getattr(namespace(row[0]), join)(row, axis=position) for row in zip(*values, strict=True)
            ]
        except ValueError as error:
            raise call.fault(f"samples cannot be joined: {error}") from error
        return Value.of(arrays, letters, first.sources)

    return call.node(compute)


@operator(
    *(
        f"reductions.{name}"
        for name in ("max", "mean", "mean_square", "min", "rms", "std_dev", "sum", "variance")
    ),
    passes=True,
)
def _reduction(
    call: DaliCall, *, axes: Any = None, axis_names: Any = None, keep_dims: bool = False
) -> DataNode:
    options = {name: plain(name, value) for name, value in call.args.items() if value is not None}
    cls: Any = REGISTRY[call.row.name]
    check_known(call, *(q.name for q in cls.parameters))

    def compute(values: list[Value], _: Run) -> Value:
        if not values[0].ndim:  # one number for each sample is its own reduction
            values = [value.each(lambda sample: sample.reshape(1), "") for value in values]
        value, drop = values[0], tuple(range(values[0].ndim))
        if axes is not None or axis_names is not None:
            drop = axes_of(value, axes, axis_names, cls.name)
        reduced, kept_axes = values, keep_dims
        if not drop:  # each value is reduced by itself
            drop, kept_axes = (value.ndim,), False
            reduced = [item.with_data([sample[..., None] for sample in item]) for item in values]
        op = cls(axes=drop, keep_dims=kept_axes, **options)
        letters = "".join(c for n, c in enumerate(value.layout) if keep_dims or n not in drop)
        arrays = [op(sample, *more) for sample, *more in zip(*reduced, strict=True)]
        return Value.of(
            [np.asarray(array) if np.isscalar(array) else array for array in arrays], letters, value.sources
        )

    return call.node(compute, summary=f"{options}")


@operator("one_hot")
def _one_hot(
    call: DaliCall,
    *,
    dtype: Kind = "float32",
    axis: Any = -1,
    axis_name: Any = None,
    num_classes: Any = 0,
    on_value: Any = 1.0,
    off_value: Any = 0.0,
) -> DataNode:
    op: Any = REGISTRY["one_hot"](
        num_classes=num_classes,
        axis=axis,
        on_value=on_value,
        off_value=off_value,
        dtype=dtype,
        axis_name=axis_name,
    )

    def applied(array: Array) -> Array:
        if array.dtype.kind == "f":
            array = array.astype(np.int64)
        return op(array) if array.ndim else op(array.reshape(1)).reshape(-1)

    def compute(values: list[Value], _: Run) -> Value:
        labels = values[0]
        if set(labels.shapes()) == {(1,)}:  # as in DALI, arrays of one label are scalars if all are
            labels = labels.each(lambda array: array.reshape(()), "")
        return labels.each(applied, "")

    return call.node(compute)


@operator("permute_batch")
def _permute_batch(call: DaliCall, *, indices: Any = None) -> DataNode:
    nodes = [indices] if isinstance(indices, DataNode) else []

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        places = np.ravel(values[1].on_host().stacked() if nodes else indices).astype(int).tolist()
        data = value.data[places] if value.dense else [value.data[n] for n in places]
        return Value(data, value.layout, tuple(value.sources[n] for n in places) if value.sources else ())

    return call.node(compute, *nodes)


@operator("per_frame")
def _per_frame(call: DaliCall, *, replace: Any = False) -> DataNode:
    """``fn.per_frame``: a parameter with one number for each frame."""

    def compute(values: list[Value], _: Run) -> Value:
        value, fact = values[0], ""
        if not value.ndim:
            fact = "Cannot mark zero-dimensional input as a sequence"
        elif value.layout and value.layout[0] != "F" and not replace:
            fact = (
                "Per-frame argument input must be a sequence. The input layout should start with 'F', got "
                f"{value.layout!r}"
            )
        if fact:
            raise call.fault(fact, advice="replace=True sets the first letter")
        letters = "F" + (value.layout[1:] if value.layout else "*" * (value.ndim - 1))
        return Value(value.data, letters, value.sources, by_frame=True)

    return call.node(compute)


@operator("pad", each={"shape": -1, "align": 1, "fill_value": 0})
def _pad(call: DaliCall, *, axes: Any = None, axis_names: Any = None) -> DataNode:
    """``fn.pad``: to a shape, to multiples of it, or to the largest shape of the batch; all may differ by sample."""
    nodes = [axes.cpu()] if isinstance(axes, DataNode) else []

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        largest = np.array(value.shapes()).reshape(len(value), -1).max(axis=0).tolist()

        def padded(array: Array, shape: Any, align: Any, fill: Any, numbers: Any = axes) -> Array:
            every = axis_names is None and (numbers is None or not np.size(numbers))
            places = axes_of(
                value, range(value.ndim) if every else numbers, None if every else axis_names, "fn.pad"
            )
            widths = [(0, 0)] * array.ndim
            sides, steps = (np.broadcast_to(item.reshape(-1), len(places)) for item in (shape, align))
            if (steps <= 0).any():
                raise call.fault("Values of `align` argument must be positive")
            for axis, side, step in zip(places, sides.tolist(), steps.tolist(), strict=True):
                length = max(array.shape[axis], int(largest[axis] if side < 0 else side))
                widths[axis] = (0, -(-length // int(step)) * int(step) - array.shape[axis])
            return namespace(array).pad(array, widths, constant_values=fill.item())

        return Value.of([padded(*row) for row in zip(*values, strict=True)], value.layout, value.sources)

    return call.node(compute, *nodes)


@operator("element_extract")
def _element_extract(call: DaliCall, *, element_map: Any = None) -> Any:
    """``fn.element_extract``: one output for each element."""
    elements = np.atleast_1d(element_map).astype(int).tolist()
    if (least := min(elements, default=0)) < 0:
        raise call.wrong(f"Negative indices in `element_map` are not allowed, found: {least}")

    def compute(values: list[Value], _: Run) -> tuple[Value, ...]:
        value, fact = values[0], ""
        longest = max(elements)
        if value.ndim < 2:
            fact = "Input must have at least two dimensions - outermost for sequence and at least one for data elements"
        elif value.layout and value.layout[0] != "F":
            fact = f"Input layout must describe a sequence - it must start with 'F', got '{value.layout}' instead"
        elif (shortest := min(shape[0] for shape in value.shapes())) <= longest:
            fact = (
                f"Index `{longest}` from `element_map` is out of bounds for sample with sequence length equal "
                f"`{shortest}`"
            )
        if fact:
            raise call.fault(fact)
        every = [value.data[:, n] if value.dense else [array[n] for array in value] for n in elements]
        return tuple(value.with_data(data, value.layout[1:]) for data in every)

    result = call.outputs(compute, len(elements))
    return result[0] if len(result) == 1 else result


@operator("sequence_rearrange")
def _sequence_rearrange(call: DaliCall, *, new_order: Any = None) -> DataNode:
    """``fn.sequence_rearrange``: frames in an order, for all samples or, as a node, for each."""
    each = isinstance(new_order, NativeNode)
    if not each and not np.size(new_order):
        raise call.wrong("Empty result sequences are not allowed")

    def compute(values: list[Value], _: Run) -> Value:
        value, arrays = values[0], []
        if value.layout and value.layout[0] != "F":
            raise call.fault(
                "Expected sequence as the input, where outermost dimension represents frames dimension `F`, got data "
                f'with layout = "{value.layout}"'
            )
        for n, array in enumerate(value):
            frames, fact = np.asarray(values[1].on_host()[n] if each else new_order), ""
            wrong = [k for k, item in enumerate(frames.ravel()) if not 0 <= item < len(array)]
            if frames.ndim != 1:
                fact = f"Input with dimension {frames.ndim} cannot be converted to dimension 1"
            elif not frames.size:
                fact = f"Empty `new_order` for sample {n} is not allowed"
            elif wrong:
                fact = (
                    f"new_order[{wrong[0]}] must be between 0 and input_sequence_length = {len(array)} for sample {n}, "
                    f"but it is: {frames[wrong[0]]}"
                )
            if fact:
                raise call.fault(fact)
            arrays.append(array[frames.astype(np.int64)])
        return Value.of(arrays, value.layout, value.sources)

    return call.node(compute, *([node_of(new_order).cpu()] if each else []))


@operator("lookup_table")
def _lookup_table(
    call: DaliCall, *, keys: Any = (), values: Any = (), default_value: Any = 0.0, dtype: Kind = "float32"
) -> DataNode:
    """``fn.lookup_table``: maps integers of any shape to values."""
    keys, values = np.atleast_1d(keys).astype(np.int64), np.atleast_1d(values)
    if len(keys) != len(values) or (len(keys) and keys.min() < 0):
        raise call.wrong(
            f"{len(keys)} keys and {len(values)} values", allowed="one value for each key of at least 0"
        )
    table = np.full(int(keys.max(initial=-1)) + 2, default_value, np.float64)
    table[keys] = values

    def made(array: Array) -> Array:
        if array.dtype.kind not in "iu":
            raise call.fault(f"keys of type {array.dtype}", allowed="whole numbers")
        xp = namespace(array)
        known = (array >= 0) & (array < len(table) - 1)
        # the last entry is the default value of keys that are not in the table
        return converted(xp.asarray(table)[xp.where(known, array, len(table) - 1)], dtype)

    return call.each(made)
