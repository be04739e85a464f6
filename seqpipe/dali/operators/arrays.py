"""DALI's operators on arbitrary arrays: casts, shapes, concatenation, padding, constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError
from ...ops import REGISTRY, Run
from ...ops import DataNode as NativeNode
from ..call import DaliCall, check_known, plain
from ..data_node import Constant, DataNode, node_of, outputs_of
from ..dtypes import converted, dtype_name
from ..sources.mapped import views
from ..value import Value

__all__ = [
    "axes_of",
    "cast",
    "cast_like",
    "constant",
    "copy",
    "element_extract",
    "expand_dims",
    "full",
    "full_like",
    "get_property",
    "joined",
    "lookup_table",
    "one_hot",
    "pad",
    "per_frame",
    "permute_batch",
    "reduction",
    "reinterpret",
    "sequence_rearrange",
    "shapes",
    "squeeze",
    "transpose",
]


def cast(call: DaliCall) -> DataNode:
    """``fn.cast``: halves are rounded away from zero."""
    kind = dtype_name(call.take("dtype"))
    call.done()
    return call.each(lambda part: converted(part, kind), summary=kind)


def cast_like(call: DaliCall) -> DataNode:
    """``fn.cast_like``."""
    call.done()
    return call.node(lambda v, _: v[0].each(lambda part: converted(part, v[1].dtype.name)))


def copy(call: DaliCall) -> DataNode:
    """``fn.copy``."""
    call.done()
    return call.each(lambda part: part.copy())


def shapes(call: DaliCall) -> DataNode:
    """``fn.shapes``: int64."""
    kind = call.take("dtype")
    call.done()
    return call.input().shape(dtype=kind)


def get_property(call: DaliCall) -> DataNode:
    """``fn.get_property``: the source or the layout of each sample, as bytes."""
    key = call.take("key")
    call.done()
    return call.input().property(key)


def constant(call: DaliCall) -> DataNode:
    """``fn.constant``."""
    integers, floats = call.take("idata"), call.take("fdata")
    shape, kind, layout = call.take("shape"), call.take("dtype"), call.take("layout", "")
    call.done()
    data = integers if integers is not None else floats
    if data is None:
        raise call.wrong("neither idata nor fdata is given")
    array = np.asarray(
        data, dtype_name(kind) if kind is not None else "int32" if integers is not None else "float32"
    )
    if shape is None:  # as in DALI, a scalar becomes an array of one axis
        array = np.atleast_1d(array)
    if shape is not None:
        wanted = tuple(np.atleast_1d(shape).tolist())
        array = array.reshape(wanted) if array.size > 1 else np.broadcast_to(array.reshape(-1)[0], wanted)
    return Constant(array, array.dtype, layout=layout, device=call.device)  # type: ignore[no-any-return]


def full(value: float | None) -> Callable[[DaliCall], DataNode]:
    """``fn.zeros``, ``fn.ones`` and ``fn.full``."""

    def build(call: DaliCall) -> DataNode:
        shape, kind, layout = call.take("shape", ()), call.take("dtype"), call.take("layout", "")
        level_of_all = call.take("fill_value") if value is None else value
        call.done()
        if level_of_all is None:
            level = call.input()
        elif isinstance(level_of_all, DataNode):
            level = level_of_all
        else:
            default = None if value is None else "int32"
            level = node_of(
                np.asarray(level_of_all, None if kind is None is default else dtype_name(kind or default))
            )
        nodes = [level, *([shape] if isinstance(shape, DataNode) else [])]
        fixed = None if len(nodes) > 1 else tuple(np.atleast_1d(shape).astype(int).tolist())

        def compute(values: list[Value], _: Run) -> Value:
            sizes = [fixed] * len(values[0]) if fixed is not None else [tuple(map(int, s)) for s in values[1]]
            parts = [np.broadcast_to(a, s).copy() for a, s in zip(values[0], sizes, strict=True)]
            if layout and len(layout) != parts[0].ndim:
                raise ParameterError(
                    f"Layout {layout!r} has {len(layout)} dimensions but output shape has {parts[0].ndim}",
                    source=f"fn.{call.row.name}",
                )
            result = Value.of(parts, layout)
            return result if kind is None else result.each(lambda part: converted(part, kind))

        return call.node(compute, inputs=nodes, summary=f"{fixed} {kind}")

    return build


def full_like(value: float | None) -> Callable[[DaliCall], DataNode]:
    """``fn.zeros_like``, ``fn.ones_like`` and ``fn.full_like``."""

    def build(call: DaliCall) -> DataNode:
        kind = call.take("dtype")
        call.done()

        def one(part: Array, level: Any) -> Array:
            result = (
                namespace(part).broadcast_to(namespace(part).asarray(level), part.shape).astype(part.dtype)
            )
            return result if kind is None else converted(result, kind)

        def compute(values: list[Value], _: Run) -> Value:
            levels = values[1] if value is None else [value] * len(values[0])
            return Value.of([one(a, b) for a, b in zip(values[0], levels, strict=True)], values[0].layout)

        return call.node(compute, summary=f"{value} {kind}")

    return build


def reinterpret(call: DaliCall) -> DataNode:
    """``fn.reinterpret`` and ``fn.reshape``: another shape, dtype or layout of the same bytes."""
    shape, layout, kind = call.take("shape"), call.take("layout"), call.take("dtype")
    relative, places = call.take("rel_shape"), call.take("src_dims")
    call.done()
    nodes = list(call.inputs)
    if isinstance(shape, DataNode):
        nodes.append(shape.cpu())
    by_node = len(nodes) > 1

    def one(part: Array, wanted: Any) -> Array:
        array = part if kind is None else part.copy(order="C").view(dtype_name(kind))
        if relative is not None or places is not None:
            axes = range(array.ndim) if places is None else places
            factors = relative if relative is not None else [1.0] * len(axes)
            if places is None and any(f >= 0 for f in factors[len(axes) :]):
                raise ParameterError(
                    f"`rel_shape` has more elements ({len(factors)}) than there are dimensions in the input "
                    f"({len(axes)})",
                    source=f"fn.{call.row.name}",
                    advice="To name the axes, with -1 for a new one, use `src_dims`",
                )
            if places is not None and len(places) != len(factors):
                raise ParameterError(
                    f"`src_dims` and `rel_shape` have different lengths: {len(places)} vs {len(factors)}",
                    source=f"fn.{call.row.name}",
                )
            if beyond := [axis for axis in axes if axis >= array.ndim]:
                raise ParameterError(
                    f"src_dims has {beyond[0]}, which is out of bounds for samples of {array.ndim} axes",
                    source=f"fn.{call.row.name}",
                    allowed=f"-1 to {array.ndim - 1}",
                )
            axes = [*axes, *[-1] * (len(factors) - len(axes))]
            wanted = [
                -1 if f < 0 else 1 if axis < 0 else round(array.shape[axis] * f)
                for axis, f in zip(axes, factors, strict=False)
            ]
        if wanted is None:
            return array
        wanted = np.atleast_1d(np.asarray(wanted)).astype(int).tolist()
        try:
            return array.reshape(wanted)
        except ValueError as error:
            raise ParameterError(_shape_fact(array.shape, wanted), source=f"fn.{call.row.name}") from error

    def compute(values: list[Value], _: Run) -> Value:
        wanted = values[1].on_host() if by_node else [shape] * len(values[0])
        parts = [one(a, b) for a, b in zip(values[0], wanted, strict=True)]
        kept = values[0].layout if parts and parts[0].ndim == values[0].ndim else ""
        return views(parts, kept if layout is None else layout, values[0].sources)

    summary = f"{None if by_node else shape} {layout} {kind} {relative} {places}"
    return call.node(compute, inputs=nodes, summary=summary)


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


def transpose(call: DaliCall) -> DataNode:
    """``fn.transpose``."""
    perm, keeps, output = call.take("perm"), call.take("transpose_layout", True), call.take("output_layout")
    call.done()

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        order = tuple(range(value.ndim))[::-1] if perm is None else tuple(perm)
        letters = "".join(value.layout[axis] for axis in order) if value.layout and keeps else value.layout
        data = (
            value.data.transpose(0, *(axis + 1 for axis in order))
            if value.dense
            else [part.transpose(order) for part in value.data]
        )
        return value.with_data(data, output if output is not None else letters)

    return call.node(compute, summary=f"{perm} {output}")


def axes_of(value: Value, axes: Any, names: str | None, source: str) -> tuple[int, ...]:
    """Return the numbers of axes from letters or numbers; negative ones count from the end.

    Raises:
        ParameterError: the layout lacks an axis.
    """
    if names is not None:
        missing = [letter for letter in names if letter not in value.layout]
        if missing:
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


def squeeze(call: DaliCall) -> DataNode:
    """``fn.squeeze``."""
    axes, names = call.take("axes"), call.take("axis_names")
    call.done()
    if axes is not None and names is not None:
        raise call.wrong("Provided both ``axes`` and ``axis_names`` arguments", allowed="one of them")

    def compute(values: list[Value], _: Run) -> Value:
        value, parts = values[0], []
        drop = axes_of(value, axes, names, "fn.squeeze")
        if len(set(drop)) < len(drop):
            raise ParameterError("Specified at least twice same dimension to remove", source="fn.squeeze")
        for part in value:
            sides = [side for n, side in enumerate(part.shape) if n not in drop]
            if math.prod(sides) != part.size:
                raise ParameterError(
                    f"Requested a shape with {math.prod(sides)} elements but the original shape has {part.size} "
                    "elements",
                    source="fn.squeeze",
                    advice="Give axes of length 1",
                )
            parts.append(part.reshape(sides))
        return views(parts, "".join(c for n, c in enumerate(value.layout) if n not in drop), value.sources)

    return call.node(compute, summary=f"{axes} {names}")


def expand_dims(call: DaliCall) -> DataNode:
    """``fn.expand_dims``."""
    axes, names = call.args.pop("axes", None), call.take("new_axis_names", "")
    call.done()
    if isinstance(axes, NativeNode):
        raise call.wrong("axes should not be a 'DataNode'", allowed="whole numbers")
    places = np.atleast_1d(axes).astype(int).tolist()
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
            raise ParameterError(
                "Specifying ``new_axis_names`` requires an input with a proper layout",
                source="fn.expand_dims",
            )
        letters, sides = list(value.layout), [list(shape) for shape in value.shapes()]
        for place, letter in order:
            if place > len(sides[0]):
                raise ParameterError(
                    "Data has not enough dimensions to add new axes at specified indices",
                    source="fn.expand_dims",
                )
            letters.insert(place, letter)
            for shape in sides:
                shape.insert(place, 1)
        known = "".join(letters) if names or not places else ""
        parts = (part.reshape(shape) for part, shape in zip(value, sides, strict=True))
        return views(parts, known, value.sources)

    return call.node(compute, summary=f"{axes} {names}")


def joined(stacks: bool) -> Callable[[DaliCall], DataNode]:
    """``fn.stack`` and ``fn.cat``."""

    def build(call: DaliCall) -> DataNode:
        axis, name = call.take("axis", 0), call.take("axis_name")
        call.done()

        def compute(values: list[Value], _: Run) -> Value:
            first = values[0]
            position, letters = int(axis), first.layout
            if not stacks and name is not None:
                (position,) = axes_of(first, None, name, "fn.cat")
            if stacks:
                position %= first.ndim + 1
                known = name is not None and (letters or not first.ndim)
                letters = letters[:position] + name + letters[position:] if known else ""
            rows = zip(*values, strict=True)
            try:
                join: Any = "stack" if stacks else "concatenate"
                parts = [getattr(namespace(row[0]), join)(row, axis=position) for row in rows]
            except ValueError as error:
                raise ParameterError(
                    f"samples cannot be joined: {error}", source=f"fn.{call.row.name}"
                ) from error
            return Value.of(parts, letters, first.sources)

        return call.node(compute, summary=f"{axis} {name}")

    return build


def reduction(call: DaliCall) -> DataNode:
    """``fn.reductions.*``."""
    axes, names = call.take("axes"), call.take("axis_names")
    keeps = bool(call.take("keep_dims", False))
    options = {name: plain(name, value) for name, value in call.args.items() if value is not None}
    cls: Any = REGISTRY[call.row.name]
    check_known(call, *(q.name for q in cls.parameters))

    def compute(values: list[Value], _: Run) -> Value:
        if not values[0].ndim:  # one number for each sample is its own reduction
            values = [value.each(lambda part: part.reshape(1), "") for value in values]
        value = values[0]
        drop = (
            tuple(range(value.ndim))
            if axes is None and names is None
            else axes_of(value, axes, names, cls.name)
        )
        reduced, kept_axes = values, keeps
        if not drop:  # each value is reduced by itself
            drop, kept_axes = (value.ndim,), False
            reduced = [one.with_data([part[..., None] for part in one]) for one in values]
        op = cls(axes=drop, keep_dims=kept_axes, **options)
        letters = value.layout if keeps else "".join(c for n, c in enumerate(value.layout) if n not in drop)
        parts = [op(part, *more) for part, *more in zip(*reduced, strict=True)]
        return Value.of(
            [np.asarray(one) if np.isscalar(one) else one for one in parts], letters, value.sources
        )

    return call.node(compute, summary=f"{axes} {names} {keeps} {options}")


def one_hot(call: DaliCall) -> DataNode:
    """``fn.one_hot``."""
    kind = dtype_name(call.take("dtype", "float32"))
    axis, name = call.take("axis", -1), call.take("axis_name")
    count, on, off = call.take("num_classes", 0), call.take("on_value", 1.0), call.take("off_value", 0.0)
    call.done()
    op: Any = REGISTRY["one_hot"](
        num_classes=count, axis=axis, on_value=on, off_value=off, dtype=kind, axis_name=name
    )

    def one(part: Array) -> Array:
        if part.dtype.kind == "f":
            part = part.astype(np.int64)
        return op(part) if part.ndim else op(part.reshape(1)).reshape(-1)

    def compute(values: list[Value], _: Run) -> Value:
        labels = values[0]
        if set(labels.shapes()) == {(1,)}:  # as in DALI, arrays of one label are scalars if all are
            labels = labels.each(lambda part: part.reshape(()), "")
        return labels.each(one, "")

    return call.node(compute, summary=f"{count} {axis} {on} {off} {kind}")


def permute_batch(call: DaliCall) -> DataNode:
    """``fn.permute_batch``."""
    indices = call.take("indices")
    call.done()
    if isinstance(indices, DataNode):
        return call.node(lambda v, _: _picked(v[0], v[1].on_host().stacked().reshape(-1)), indices)
    return call.node(lambda v, _: _picked(v[0], np.asarray(indices)), summary=str(indices))


def _picked(value: Value, places: Any) -> Value:
    data = value.data[list(map(int, places))] if value.dense else [value.data[int(n)] for n in places]
    sources = tuple(value.sources[int(n)] for n in places) if value.sources else ()
    return Value(data, value.layout, sources)


def per_frame(call: DaliCall) -> DataNode:
    """``fn.per_frame``: a parameter with one number for each frame."""
    replace = call.take("replace", False)
    call.done()

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
            raise ParameterError(fact, source="fn.per_frame", advice="replace=True sets the first letter")
        letters = "F" + (value.layout[1:] if value.layout else "*" * (value.ndim - 1))
        return Value(value.data, letters, value.sources, by_frame=True)

    return call.node(compute)


def pad(call: DaliCall) -> DataNode:
    """``fn.pad``: to a shape, to multiples of it, or to the largest shape of the batch; all may differ by sample."""
    axes, names = call.take("axes"), call.take("axis_names")
    settings = [call.take("shape", -1), call.take("align", 1), call.take("fill_value", 0)]
    call.done()
    by_sample = isinstance(axes, DataNode)
    if by_sample:
        settings.append(axes)

    def compute(values: list[Value], _: Run) -> Value:
        value = values[0]
        every = tuple(range(value.ndim))

        def places_of(numbers: Any) -> tuple[int, ...]:
            if names is None and (numbers is None or not np.size(numbers)):
                return every
            return axes_of(value, numbers, names, "fn.pad")

        largest = np.array(value.shapes()).reshape(len(value), -1).max(axis=0).tolist()

        def padded(part: Array, shape: Any, align: Any, fill: Any, numbers: Any = None) -> Array:
            places = places_of(numbers if by_sample else axes)
            widths = [(0, 0)] * part.ndim
            sides, steps = (np.broadcast_to(one.reshape(-1), len(places)) for one in (shape, align))
            if (steps <= 0).any():
                raise ParameterError("Values of `align` argument must be positive", source="fn.pad")
            for axis, side, step in zip(places, sides.tolist(), steps.tolist(), strict=True):
                length = max(part.shape[axis], int(largest[axis] if side < 0 else side))
                widths[axis] = (0, -(-length // int(step)) * int(step) - part.shape[axis])
            return namespace(part).pad(part, widths, constant_values=fill.item())

        return Value.of([padded(*row) for row in zip(*values, strict=True)], value.layout, value.sources)

    return call.node(compute, *(node_of(one).cpu() for one in settings), summary=f"{axes} {names}")


def element_extract(call: DaliCall) -> Any:
    """``fn.element_extract``: one output for each element."""
    elements = np.atleast_1d(call.take("element_map")).astype(int).tolist()
    call.done()
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
            raise ParameterError(fact, source="fn.element_extract")
        letters = value.layout[1:]
        if value.dense:
            return tuple(value.with_data(value.data[:, index], letters) for index in elements)
        return tuple(value.with_data([part[index] for part in value], letters) for index in elements)

    result = outputs_of(call.node(compute, summary=str(elements)), len(elements))
    return result[0] if len(result) == 1 else result


def sequence_rearrange(call: DaliCall) -> DataNode:
    """``fn.sequence_rearrange``: frames in an order, for all samples or, as a node, for each."""
    order = call.take("new_order")
    call.done()
    each = isinstance(order, NativeNode)
    if not each and not np.size(order):
        raise call.wrong("Empty result sequences are not allowed")

    def compute(values: list[Value], _: Run) -> Value:
        value, parts = values[0], []
        if value.layout and value.layout[0] != "F":
            raise ParameterError(
                "Expected sequence as the input, where outermost dimension represents frames dimension `F`, got data "
                f'with layout = "{value.layout}"',
                source="fn.sequence_rearrange",
            )
        for n, part in enumerate(value):
            frames, fact = np.asarray(values[1].on_host()[n] if each else order), ""
            wrong = [k for k, one in enumerate(frames.ravel()) if not 0 <= one < len(part)]
            if frames.ndim != 1:
                fact = f"Input with dimension {frames.ndim} cannot be converted to dimension 1"
            elif not frames.size:
                fact = f"Empty `new_order` for sample {n} is not allowed"
            elif wrong:
                fact = (
                    f"new_order[{wrong[0]}] must be between 0 and input_sequence_length = {len(part)} for sample {n}, "
                    f"but it is: {frames[wrong[0]]}"
                )
            if fact:
                raise ParameterError(fact, source="fn.sequence_rearrange")
            parts.append(part[frames.astype(np.int64)])
        return Value.of(parts, value.layout, value.sources)

    return call.node(compute, *([node_of(order).cpu()] if each else []), summary="" if each else f"{order}")


def lookup_table(call: DaliCall) -> DataNode:
    """``fn.lookup_table``: maps integers of any shape to values."""
    keys = np.atleast_1d(call.take("keys", [])).astype(np.int64)
    values = np.atleast_1d(call.take("values", []))
    default, kind = call.take("default_value", 0.0), dtype_name(call.take("dtype", "float32"))
    call.done()
    if len(keys) != len(values) or (len(keys) and keys.min() < 0):
        raise call.wrong(
            f"{len(keys)} keys and {len(values)} values", allowed="one value for each key of at least 0"
        )
    table = np.full(int(keys.max(initial=-1)) + 2, default, np.float64)
    table[keys] = values

    def one(part: Array) -> Array:
        if part.dtype.kind not in "iu":
            raise ParameterError(
                f"keys of type {part.dtype}", source="fn.lookup_table", allowed="whole numbers"
            )
        xp = namespace(part)
        known = (part >= 0) & (part < len(table) - 1)
        # the last entry is the default value of keys that are not in the table
        return converted(xp.asarray(table)[xp.where(known, part, len(table) - 1)], kind)

    return call.each(one, summary=f"{keys.tolist()} {values.tolist()} {default} {kind}")
