"""``fn.transforms.*``: matrices of affine transforms, float32 ``(D, D + 1)``, and their products."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import FloatArray
from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ...ops.geometry import matrices
from ..data_node import DataNode, node_of
from ..declared import DaliCall, operator
from ..value import Value

__all__: list[str] = []


_MAKERS: Final[dict[str, Callable[..., FloatArray]]] = {
    "crop": matrices.between_regions,
    "rotation": matrices.rotation,
    "scale": matrices.scale,
    "shear": matrices.shear,
    "translation": matrices.translation,
}


@operator(
    "transforms.crop",
    "transforms.rotation",
    "transforms.scale",
    "transforms.shear",
    "transforms.translation",
    passes=True,
)
def _transform(call: DaliCall, *, reverse_order: bool = False) -> DataNode:
    """A transform, which is composed with the input's matrix if there is one."""
    make = _MAKERS[call.row.name.rpartition(".")[2]]
    arguments = {name: call.take(name) for name in inspect.signature(make).parameters}
    call.done()
    nodes = {
        key: node_of(argument).cpu()
        for key, argument in arguments.items()
        if isinstance(argument, NativeNode)
    }
    fixed = {key: item for key, item in arguments.items() if item is not None and key not in nodes}
    first = [node.cpu() for node in call.inputs[:1]]

    def matrix(*numbers: Any) -> npt.NDArray[np.float32]:
        result = make(**fixed, **dict(zip(nodes, numbers[len(first) :], strict=True)))
        return matrices.product([numbers[0], result], reverse_order) if first else result.astype(np.float32)

    def compute(values: list[Value], run: Run) -> Value:
        return _each(values, len(run.index), matrix)

    return call.node(compute, *nodes.values(), summary=f"{fixed}", inputs=first)


@operator("transforms.combine")
def _combined(call: DaliCall, *, reverse_order: bool = False) -> DataNode:
    """``fn.transforms.combine``: applies the first matrix first, or last with ``reverse_order``."""

    def compute(values: list[Value], run: Run) -> Value:
        return _each(values, len(run.index), lambda *each: matrices.product(list(each), reverse_order))

    return call.node(compute)


def _each(values: list[Value], count: int, function: Callable[..., Any]) -> Value:
    """Apply a function to each sample of some values; to each frame if one of them is a parameter by frames."""
    framed = any(value.by_frame for value in values)
    arrays = []
    for number in range(count):
        row = [value[number] for value in values]
        frames = sorted({len(item) for item, value in zip(row, values, strict=True) if value.by_frame})
        if len(frames) > 1:
            raise ParameterError(
                f"parameters of {frames[0]} and of {frames[1]} frames",
                source="fn.transforms",
                allowed="as many in each",
            )
        made = [
            function(
                *(entry[frame] if value.by_frame else entry for entry, value in zip(row, values, strict=True))
            )
            for frame in range(frames[0] if framed else 1)
        ]
        arrays.append(np.stack(made) if framed else made[0])
    return replace(Value.of(arrays, "F" if framed else ""), by_frame=framed)
