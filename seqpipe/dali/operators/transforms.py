"""``fn.transforms.*``: matrices of affine transforms, float32 ``(D, D + 1)``, and their products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ParameterError
from ...ops import DataNode as NativeNode
from ...ops import Run
from ..call import DaliCall
from ..data_node import DataNode, node_of
from ..value import Value

__all__ = ["combined", "transform"]

Matrix = npt.NDArray[np.float64]


def _square(rows: Any) -> Matrix:
    """Append the last row of a homogeneous matrix."""
    matrix = np.asarray(rows, np.float64)
    return np.vstack([matrix, [*[0.0] * (matrix.shape[1] - 1), 1.0]])


def _around(linear: Matrix, center: Any) -> Matrix:
    """Return the matrix of a linear map around a center."""
    size = len(linear)
    fixed = np.zeros(size) if center is None else np.asarray(center, np.float64).reshape(-1)
    return np.column_stack([linear, fixed - linear @ fixed])


def _translation(offset: Any) -> Matrix:
    offsets = np.asarray(offset, np.float64).reshape(-1)
    return np.column_stack([np.eye(len(offsets)), offsets])


def _scale(scale: Any, center: Any = None, ndim: Any = None) -> Matrix:
    factors = np.asarray(scale, np.float64).reshape(-1)
    if len(factors) == 1 and ndim is not None:
        factors = np.repeat(factors, int(ndim))
    return _around(np.diag(factors), center)


def _rotation(angle: Any, axis: Any = None, center: Any = None) -> Matrix:
    turn = np.radians(float(np.asarray(angle).reshape(-1)[0]))
    cos, sin = np.cos(turn), np.sin(turn)
    if axis is None:
        return _around(np.array([[cos, -sin], [sin, cos]]), center)
    x, y, z = (v := np.asarray(axis, np.float64).reshape(-1)) / np.linalg.norm(v)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return _around(np.eye(3) * cos + sin * cross + (1 - cos) * np.outer([x, y, z], [x, y, z]), center)


def _shear(shear: Any = None, angles: Any = None, center: Any = None) -> Matrix:
    arguments = (
        np.tan(np.radians(np.asarray(angles, np.float64))) if shear is None else np.asarray(shear, np.float64)
    )
    if arguments.size == 2:
        x, y = arguments.reshape(-1)
        return _around(np.array([[1.0, x], [y, 1.0]]), center)
    (xy, xz), (yx, yz), (zx, zy) = arguments.reshape(3, 2)
    return _around(np.array([[1.0, xy, xz], [yx, 1.0, yz], [zx, zy, 1.0]]), center)


def _crop(
    from_start: Any = (0.0, 0.0),
    from_end: Any = (1.0, 1.0),
    to_start: Any = (0.0, 0.0),
    to_end: Any = (1.0, 1.0),
    absolute: Any = False,
) -> Matrix:
    points = [np.asarray(one, np.float64).reshape(-1) for one in (from_start, from_end, to_start, to_end)]
    size = max(map(len, points))
    a, b, c, d = (np.repeat(one, size) if len(one) == 1 else one for one in points)
    if np.all(absolute):  # start and end of an axis may be in any order
        (a, b), (c, d) = np.sort([a, b], axis=0), np.sort([c, d], axis=0)
    factor = (d - c) / (b - a)
    return np.column_stack([np.diag(factor), c - factor * a])


_KINDS: dict[str, tuple[Callable[..., Matrix], tuple[str, ...]]] = {
    "translation": (_translation, ("offset",)),
    "scale": (_scale, ("scale", "center", "ndim")),
    "rotation": (_rotation, ("angle", "axis", "center")),
    "shear": (_shear, ("shear", "angles", "center")),
    "crop": (_crop, ("from_start", "from_end", "to_start", "to_end", "absolute")),
}


def transform(name: str) -> Callable[[DaliCall], DataNode]:
    """Return the builder of a transform, which is composed with the input's matrix if there is one."""
    make, known = _KINDS[name]

    def build(call: DaliCall) -> DataNode:
        reverse = bool(call.take("reverse_order", False))
        arguments = {key: call.take(key) for key in known}
        call.done()
        nodes = {key: node_of(one).cpu() for key, one in arguments.items() if isinstance(one, NativeNode)}
        fixed = {key: one for key, one in arguments.items() if one is not None and key not in nodes}
        first = [node.cpu() for node in call.inputs[:1]]

        def matrix(*numbers: Any) -> npt.NDArray[np.float32]:
            result = make(**fixed, **dict(zip(nodes, numbers[len(first) :], strict=True)))
            return _product([numbers[0], result], reverse) if first else result.astype(np.float32)

        def compute(values: list[Value], run: Run) -> Value:
            return _each(values, len(run.index), matrix)

        return call.node(compute, *nodes.values(), summary=f"{fixed} {reverse}", inputs=first)

    return build


def combined(call: DaliCall) -> DataNode:
    """``fn.transforms.combine``: applies the first matrix first, or last with ``reverse_order``."""
    reverse = bool(call.take("reverse_order", False))
    call.done()

    def compute(values: list[Value], run: Run) -> Value:
        return _each(values, len(run.index), lambda *matrices: _product(list(matrices), reverse))

    return call.node(compute, summary=str(reverse))


def _each(values: list[Value], count: int, function: Callable[..., Any]) -> Value:
    """Apply a function to each sample of some values; to each frame if one of them is a parameter by frames."""
    framed = any(value.by_frame for value in values)
    parts = []
    for number in range(count):
        row = [value[number] for value in values]
        frames = sorted({len(one) for one, value in zip(row, values, strict=True) if value.by_frame})
        if len(frames) > 1:
            raise ParameterError(
                f"parameters of {frames[0]} and of {frames[1]} frames",
                source="fn.transforms",
                allowed="as many in each",
            )
        rows = (
            [
                [one[frame] if value.by_frame else one for one, value in zip(row, values, strict=True)]
                for frame in range(frames[0])
            ]
            if framed
            else [row]
        )
        matrices = [function(*one) for one in rows]
        parts.append(np.stack(matrices) if framed else matrices[0])
    return replace(Value.of(parts, "F" if framed else ""), by_frame=framed)


def _product(matrices: list[Any], reverse: bool) -> npt.NDArray[np.float32]:
    """Return the product of matrices; the first is applied first."""
    shapes = {np.shape(matrix) for matrix in matrices}
    if len(shapes) > 1:
        raise ParameterError(
            f"matrices of the shapes {sorted(shapes)}", source="fn.transforms", allowed="one shape"
        )
    product = np.eye(next(iter(shapes))[1])
    for matrix in reversed(matrices) if reverse else matrices:
        product = _square(matrix) @ product
    return product[:-1].astype(np.float32)
