"""``fn.random.*``: random numbers that depend only on seed, epoch and sample index."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...array import Array
from ...errors import ParameterError
from ...ops import REGISTRY, Run
from ...ops import DataNode as NativeNode
from ...random import stream
from ..call import stacked_nodes
from ..data_node import DataNode, node_of
from ..declared import DaliCall, Kind, Seed, built, operator
from ..dtypes import converted
from ..expressions import each_of
from ..value import Value

__all__ = ["random_window"]


@operator("random.coin_flip", "random.normal", "random.uniform", passes=True)
def _random_numbers(call: DaliCall, *, shape: Any = None, dtype: Kind = None) -> DataNode:
    """``fn.random.*``: a number for each sample, or an array of ``shape`` and ``dtype``."""
    name = call.row.name.removeprefix("random.")
    kind = dtype or ("int32" if name == "coin_flip" else "float32")
    if isinstance(shape, (list, tuple)) and any(isinstance(side, NativeNode) for side in shape):
        shape = stacked_nodes(shape)
    by_sample = isinstance(shape, NativeNode)
    wide = None if shape is None or by_sample else tuple(np.atleast_1d(shape).astype(int).tolist())
    like = bool(call.inputs)
    settings, target, scale = _random_settings(call, name)
    op: Any = REGISTRY[target](seed=call.drawing_seed, per_frame=True, **settings)
    nodes = [node_of(node).cpu() for node in scale]
    shape_nodes = [node_of(shape).cpu()] if by_sample else []
    call.done()

    def compute(values: list[Value], run: Run) -> Value:
        indices = [int(item) for item in np.asarray(run.index)]
        if like or by_sample:
            shapes = (
                values[0].shapes()
                if like
                else [tuple(np.ravel(s).astype(int).tolist()) for s in values.pop()]
            )
            pairs = zip(indices, shapes, strict=True)
            arrays = [op.drawn(epoch=run.epoch, index=n, frames=math.prod(s)).reshape(s) for n, s in pairs]
            numbers = Value.of(arrays, values[0].layout if like else "")
        else:
            drawn = op.drawn(epoch=run.epoch, index=indices, frames=math.prod(wide or (1,)))
            numbers = Value(drawn.reshape(len(indices), *(wide or ())))
        if nodes:
            numbers = _stretched(numbers, name, values[1 if like else 0 :])
        return each_of(numbers, partial(converted, kind=kind))

    return call.node(
        compute, *nodes, *shape_nodes, summary=f"{settings} {op.seed} {wide}", inputs=call.inputs[:1]
    )


def _random_settings(call: DaliCall, name: str) -> tuple[dict[str, Any], str, list[Any]]:
    """Return the arguments of seqpipe's distribution, its name, and the nodes that scale the sampled numbers."""
    if name == "uniform":
        if (values := call.take("values")) is not None:
            return {"of": tuple(float(value) for value in values)}, "random.choice", []
        limits = call.take("range", (-1.0, 1.0))
        if isinstance(limits, NativeNode):
            return {"range": (0.0, 1.0)}, "random.uniform", [limits]
        return {"range": tuple(float(bound) for bound in limits)}, "random.uniform", []
    if name == "normal":
        mean, spread = call.take("mean", 0.0), call.take("stddev", 1.0)
        if isinstance(mean, NativeNode) or isinstance(spread, NativeNode):
            return {"mean": 0.0, "stddev": 1.0}, "random.normal", [mean, spread]
        return {"mean": float(mean), "stddev": float(spread)}, "random.normal", []
    if name == "coin_flip":
        chance = call.take("probability", 0.5)
        if isinstance(chance, NativeNode):
            return {"range": (0.0, 1.0)}, "random.uniform", [chance]
        return {"probability": float(chance)}, "random.coin_flip", []
    among, weights = call.take("a"), call.take("p")
    choices = tuple(map(float, range(among) if isinstance(among, int) else among))
    return {"of": choices, "weights": None if weights is None else tuple(weights)}, "random.choice", []


def _stretched(samples: Value, name: str, by: list[Value]) -> Value:
    rows = [value.on_host().stacked().reshape(len(samples), -1) for value in by]

    def computed(number: int) -> Any:
        drawn, at = samples[number], [row[number] for row in rows]
        if name == "uniform":
            return at[0][0] + (at[0][1] - at[0][0]) * drawn
        return at[0][0] + at[1][0] * drawn if name == "normal" else (drawn < at[0][0]).astype(np.float64)

    return Value.of([np.asarray(computed(number)) for number in range(len(samples))], samples.layout)


@operator("random.choice", passes=True, positional=("a",))
def _random_choice(call: DaliCall) -> DataNode:
    """``fn.random.choice``: int32 for integers, otherwise float32; of nodes, their type."""
    among, chances = call.args.get("a"), call.args.get("p")
    if call.inputs or isinstance(chances, NativeNode):
        return _choice_of_nodes(call)
    if among is None:
        raise call.wrong("the elements are missing", allowed="a=5 or a=[1.5, 2.5]")
    whole = np.asarray(among).dtype.kind in "iu"
    call.args["p"] = _chances(_elements(among), chances, 0)
    call.args.setdefault("dtype", "int32" if whole else "float32")
    return built("random.uniform", call)  # type: ignore[no-any-return]  # the distribution follows from the call's name


def _elements(among: Any) -> Any:
    """Return the elements to choose from, of which a number has those from 0."""
    array = np.asarray(among)
    if not array.ndim and array.dtype.kind not in "iu":
        raise ParameterError(
            f"Data type {array.dtype} is not supported for 0D inputs",
            source="fn.random.choice",
            allowed="whole numbers",
        )
    count = len(array) if array.ndim else int(array)
    if count < 1:
        raise ParameterError(
            f"Expected positive number of elements for sampling, got: {count} for sample: 0",
            source="fn.random.choice",
        )
    return array if array.ndim else range(count)


def _chances(elements: Any, chances: Any, sample: int) -> Any:
    """Return the chance of each element; None if they are equal."""
    if chances is None:
        return None
    weights = np.ravel(chances).astype(np.float64)
    if np.size(chances) == 1 and not np.ndim(chances):  # one number stands for all
        weights = np.broadcast_to(weights, (len(elements),))
    fact = ""
    if weights.size != len(elements):
        fact = f'Unexpected shape for argument "p". Expected {{{len(elements)}}}, but got {{{weights.size}}}'
    elif (wrong := np.flatnonzero(~((weights >= 0) & (weights <= 1)))).size:
        first = wrong[0]
        fact = (
            f"Probabilities must be in range [0, 1], but got: {weights[first]:g} for sample: {sample} at index "
            f"{first}"
        )
    elif abs(weights.sum() - 1) > 1e-3:
        fact = f"Sum of probabilities must be 1.0, but got {weights.sum():g} for sample: {sample}"
    if fact:
        raise ParameterError(fact, source="fn.random.choice")
    return weights


def _choice_of_nodes(call: DaliCall) -> DataNode:
    """Choose among the elements of a node along its first axis, or below its number, with the chances of a node.

    The result has the shape of a second input, if there is one.
    """
    among, chances = call.take("a"), call.take("p")
    shape, kind, seed = call.take("shape"), call.take("dtype"), call.drawing_seed
    call.done()
    wide = () if shape is None else tuple(np.atleast_1d(shape).astype(int).tolist())
    nodes = [node_of(among), *call.inputs] if among is not None else list(call.inputs or ())
    like = len(nodes) > 1
    nodes = [*nodes[:2], *([] if chances is None else [node_of(chances)])]

    def compute(values: list[Value], run: Run) -> Value:
        arrays = []
        shapes = values[1].shapes() if like else [wide] * len(values[0])
        for n, (index, sides) in enumerate(zip(run.index, shapes, strict=True)):
            given = np.asarray(values[0].on_host()[n])
            elements = _elements(given)
            weights = _chances(elements, values[-1].on_host()[n] if chances is not None else None, n)
            random = stream(seed, "random.choice", run.epoch, int(index)).random(sides)
            if weights is None:
                chosen = np.floor(random * len(elements)).astype(np.int64)
            else:
                bounds = np.cumsum(weights)
                chosen = np.searchsorted(bounds, random * bounds[-1], side="right")
            arrays.append(np.asarray(chosen, given.dtype) if not given.ndim else given[chosen])
        letters, added = values[0].layout, len(shapes[0])
        result = Value.of(arrays, letters[1:] if not added else letters if added == 1 else "")
        return result if kind is None else result.each(lambda array: converted(array, kind))

    return call.node(compute, inputs=[node.cpu() for node in nodes], summary=f"{wide} {kind} {seed}")


@operator("random.beta", each={"alpha": 1.0, "beta": 1.0})
def _random_beta(call: DaliCall, *, shape: Any = None, dtype: Kind = "float32", seed: Seed) -> Any:
    """``fn.random.beta``: samples of Beta(alpha, beta), float32."""
    wide = () if shape is None else tuple(np.atleast_1d(shape).astype(int).tolist())

    def draw(*like: Array, alpha: Array, beta: Array, rng: Any) -> Any:
        sides = like[0].shape if like else wide
        return np.asarray(rng.beta(float(alpha.reshape(-1)[0]), float(beta.reshape(-1)[0]), sides), dtype)

    return call.by_sample(draw, seed=seed)


@operator("random_crop_generator")
def _random_crop_window(
    call: DaliCall,
    *,
    random_area: Any = (0.08, 1.0),
    random_aspect_ratio: Any = (3 / 4, 4 / 3),
    num_attempts: int = 10,
    seed: Seed,
) -> Any:
    """``fn.random_crop_generator``: anchor and shape of a random window, for images of the input shapes."""

    def applied(shape: Array, *, rng: Any) -> Any:
        drawn = rng.random((num_attempts, 4))
        window = random_window(int(shape[0]), int(shape[1]), random_area, random_aspect_ratio, drawn)
        return np.array(window[:2], np.int32), np.array(window[2:], np.int32)

    call.inputs = [node.cpu() for node in call.inputs]
    return call.by_sample(applied, count=2, seed=seed)


def random_window(height: int, width: int, area: Any, ratio: Any, drawn: Any) -> tuple[int, int, int, int]:
    """Return top, left, rows and columns of the first window that fits, else the largest of an allowed aspect ratio.

    Args:
        height: height of the image.
        width: width of the image.
        area: bounds of the fraction of pixels.
        ratio: bounds of the aspect ratio, columns over rows.
        drawn: random numbers in [0, 1), four for each attempt.
    """
    low, high = (math.log(bound) for bound in ratio)
    for first, second, third, fourth in drawn.tolist():
        pixels = (area[0] + (area[1] - area[0]) * first) * height * width
        shape = math.exp(low + (high - low) * second)
        columns, rows = round(math.sqrt(pixels * shape)), round(math.sqrt(pixels / shape))
        if 0 < columns <= width and 0 < rows <= height:
            return round(third * (height - rows)), round(fourth * (width - columns)), rows, columns
    shape = min(max(width / height, ratio[0]), ratio[1])
    columns, rows = min(width, round(height * shape)), min(height, round(width / shape))
    return (height - rows) // 2, (width - columns) // 2, rows, columns


@operator(
    "roi_random_crop",
    each=dict.fromkeys(("crop_shape", "roi_start", "roi_end", "roi_shape", "in_shape")),
)
def _roi_random_crop(call: DaliCall, *, seed: Seed) -> Any:
    """``fn.roi_random_crop``: start of a window that contains a region, or lies within a larger region."""
    known = call.settings.keys()
    if not {"crop_shape", "roi_start"} <= known:
        raise call.wrong("crop_shape or roi_start is missing")
    if ("roi_end" in known) == ("roi_shape" in known):
        raise call.wrong("the end of the region is not clear", allowed="roi_end or roi_shape")
    call.inputs = call.inputs[:1]

    def made(*data: Array, rng: Any, **settings: Array) -> Any:
        at = {name: np.atleast_1d(number).astype(np.int64) for name, number in settings.items()}
        start, size = at["roi_start"], at["crop_shape"]
        end = at["roi_end"] if "roi_end" in at else start + at["roi_shape"]
        low, high = np.minimum(start, end - size), np.maximum(start, end - size)
        bound = np.asarray(data[0].shape) if data else at.get("in_shape")
        if bound is not None:  # the window lies within the sample as well
            low, high = np.maximum(low, 0), np.minimum(high, np.maximum(bound[: len(size)] - size, 0))
        return rng.integers(low, np.maximum(high, low) + 1)

    return call.by_sample(made, layout="", seed=seed)


@operator("batch_permutation")
def _batch_permutation(
    call: DaliCall, *, allow_repetitions: bool = False, no_fixed_points: bool = False, seed: Seed
) -> DataNode:
    """``fn.batch_permutation``: the numbers of a batch's samples in a random order, or random ones with repetitions.

    The order depends on seed, epoch and the batch's first sample.
    """

    def compute(_: list[Value], run: Run) -> Value:
        indices = np.asarray(run.index)
        count = len(indices)
        rng = stream(seed, "batch_permutation", run.epoch, int(indices[0]))
        moving, own = no_fixed_points and count > 1, np.arange(count)
        if allow_repetitions:
            order = rng.integers(0, count - moving, count)
            # skips the sample's own number
            return Value((order + (moving & (order >= own))).astype(np.int32))
        order = rng.permutation(count)
        # about a third of all permutations have no fixed point, so few attempts are needed
        while moving and (order == own).any():
            order = rng.permutation(count)
        return Value(order.astype(np.int32))

    return call.node(compute)
