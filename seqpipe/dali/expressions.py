"""Expressions of nodes, evaluated on the values of a batch: arithmetic, and subscripts of every sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import EllipsisType
from typing import Any, Final

import numpy as np

from ..errors import ParameterError
from ..ops.core.arithmetic import computed
from .value import Value

__all__ = [
    "InputIndex",
    "NewAxis",
    "combined",
    "each_of",
    "index_text",
    "inverse",
    "matching",
    "negative",
    "newaxis",
    "numpy_index",
    "remaining_layout",
    "resolved",
]


_NO_BOOLS: Final = ("+", "-", "/", "//", "%", "**")


def negative(array: Any) -> Any:
    """Return the opposite numbers."""
    if array.dtype.kind == "b":
        raise ParameterError("-x of truth values", source="DataNode", advice="Write ~x for the opposite")
    return -array


def inverse(array: Any) -> Any:
    """Return the opposite bits."""
    if array.dtype.kind == "f":
        raise ParameterError(
            f"~x of {array.dtype}", source="DataNode", allowed="whole numbers and truth values"
        )
    return ~array


def each_of(value: Value, function: Callable[[Any], Any]) -> Value:
    """Return a value with a function applied to its arrays."""
    return value.with_data(function(value.data) if value.dense else [function(array) for array in value.data])


def combined(sign: str, operands: list[Any]) -> Value:
    """Return the result of a binary operation on values and arrays; axes are aligned from the last one.

    Raises:
        ParameterError: one value is on the CPU and the other on a GPU.
    """
    values = [operand for operand in operands if isinstance(operand, Value)]
    if len({value.on_gpu for value in values}) > 1:
        if all(value.on_gpu or not value.ndim for value in values):  # only single numbers are on the CPU
            operands = [entry.on_device() if isinstance(entry, Value) else entry for entry in operands]
        else:
            raise ParameterError(
                f"{sign!r} of a value on the CPU and one on a GPU",
                allowed="both on one device",
                advice="Use x.gpu()",
            )
    values = [item for item in operands if isinstance(item, Value)]
    if sign in _NO_BOOLS and all(element.dtype == np.bool_ for element in operands):
        raise ParameterError(
            f"Inputs to arithmetic operator `{sign}` cannot be booleans",
            source="DataNode",
            advice="Consider using bitwise operators",
        )
    layout = max((value.layout for value in values), key=len, default="")
    if wrong := [value.layout for value in values if not layout.endswith(value.layout)]:
        raise ParameterError(
            f"the layouts {layout!r} and {wrong[0]!r} of operands. They must be equal or one must be a suffix of the "
            "other",
            source=f"{sign!r}",
        )
    sources = next((value.sources for value in values if value.sources), ())
    with matching(sign, values):
        return _combined(sign, operands, values, layout, sources)


@contextmanager
def matching(sign: str, values: Iterable[Value]) -> Iterator[None]:
    """A context of an operation on pairs of samples, whose shapes must match.

    Raises:
        ParameterError: they do not.
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, ParameterError):
            raise
        shapes = " and ".join(", ".join(map(str, dict.fromkeys(value.shapes()))) for value in values)
        raise ParameterError(
            f"{sign!r} of samples of the shapes {shapes}", allowed="axes of the same length, or of length 1"
        ) from error


def _combined(
    sign: str, operands: list[Any], values: list[Value], layout: str, sources: tuple[str, ...]
) -> Value:
    if all(value.dense for value in values):
        axes = max(value.ndim for value in values)
        arrays = [_aligned(operand, axes) if isinstance(operand, Value) else operand for operand in operands]
        return Value(computed(sign, *arrays), layout, sources)
    count = len(values[0])
    samples = [[item[n] if isinstance(item, Value) else item for item in operands] for n in range(count)]
    return Value.of([computed(sign, *sample) for sample in samples], layout, sources)


def _aligned(value: Value, axes: int) -> Any:
    """Return an array whose samples have a number of axes, with axes of length 1 in front."""
    shape = value.data.shape
    return value.data.reshape(shape[0], *(1,) * (axes - value.ndim), *shape[1:])


class NewAxis:
    """A new axis of length 1 in a subscript: ``x[newaxis]``, or with a letter ``x[newaxis("F")]``.

    Args:
        name: the letter of the axis.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __call__(self, name: str) -> NewAxis:
        """Return a new axis with a letter."""
        return NewAxis(name)

    def __repr__(self) -> str:
        return f"newaxis({self.name!r})" if self.name else "newaxis"


newaxis = NewAxis()
"""A new axis without a letter, for subscripts of nodes."""


class InputIndex:
    """An index that is the value of an input.

    Args:
        number: number of the input.
    """

    def __init__(self, number: int) -> None:
        self.number = number


def resolved(key: Any, values: list[Value], sample: int) -> Any:
    """Return an index of a sample, with the values of inputs in it."""
    if isinstance(key, InputIndex):
        return int(values[key.number].on_host()[sample].reshape(-1)[0])
    if isinstance(key, slice):
        return slice(*(resolved(item, values, sample) for item in (key.start, key.stop, key.step)))
    return key


def index_text(key: Any) -> str:
    """Return an index as text."""
    if isinstance(key, InputIndex):
        return f"node {key.number}"
    if isinstance(key, slice):
        return ":".join("" if item is None else index_text(item) for item in (key.start, key.stop, key.step))
    return "..." if isinstance(key, EllipsisType) else str(key)


def numpy_index(key: Any) -> Any:
    """Return NumPy's index for one of a node."""
    return None if isinstance(key, NewAxis) else key


def remaining_layout(value: Value, keys: tuple[Any, ...]) -> str:
    """Return the letters of the remaining axes; "" if a new axis has no letter."""
    added = [key.name for key in keys if isinstance(key, NewAxis)]
    if not (value.layout or not value.ndim) or "" in added:
        return ""
    named = sum(not isinstance(key, (EllipsisType, NewAxis)) for key in keys)
    rest, layout = value.layout, ""  # letters of the axes that no key has used yet, and of the result
    unnamed = len(rest) - named
    for key in keys:
        if isinstance(key, NewAxis):
            layout += key.name
        elif isinstance(key, EllipsisType):
            layout, rest = layout + rest[:unnamed], rest[unnamed:]
        else:
            layout, rest = layout + (rest[:1] if isinstance(key, slice) else ""), rest[1:]
    return layout + rest
