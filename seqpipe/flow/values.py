"""Validation and conversion of the arguments and results of functions on flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..array import Array, as_native, is_torch, namespace, to_torch
from ..errors import ParameterError
from ..sequence import Sequence

__all__ = ["FIXED_ONE", "FIXED_UNKNOWN", "apply_to", "flow_array", "from_fixed", "layout_of", "to_fixed"]

X = TypeVar("X")


def flow_array(flow: Any, source: str) -> Array:
    """Return flow as a NumPy or CuPy array ``(…, h, w, 2)`` of floats; int16 as S10.5 becomes float32."""
    layout = layout_of(flow)
    array = as_native(flow.data if isinstance(flow, Sequence) else flow)
    if array.ndim < 3 or array.shape[-1] != 2 or layout[-1:] not in ("C", ""):
        raise ParameterError(
            f"an array of shape {tuple(array.shape)}{layout and f' and layout {layout}'} is not a flow",
            source=source,
            allowed="shapes (…, h, w, 2): x and y of each motion",
        )
    if array.dtype == "int16":
        return from_fixed(array)
    if array.dtype.kind != "f":
        raise ParameterError(
            f"a flow of type {array.dtype}",
            source=source,
            allowed="float16, float32, float64, or int16 as S10.5",
        )
    return array


FIXED_ONE = 32
"""The int16 (S10.5) value of one pixel of motion."""
FIXED_UNKNOWN = -32768
"""The int16 value of unknown vectors."""


def layout_of(value: Any) -> str:
    """Return the layout of a Sequence; "" for an array."""
    return value.layout if isinstance(value, Sequence) else ""


def from_fixed(array: Array) -> Array:
    """Convert flow from int16 (S10.5) to float32 pixels; unknown vectors become NaN."""
    result = array.astype("float32") / FIXED_ONE
    result[array == FIXED_UNKNOWN] = float("nan")
    return result


def to_fixed(array: Array) -> Array:
    """Convert flow in pixels to int16 (S10.5): rounded to 1/32 pixel, clipped to ±1023.97 pixels, NaN as unknown."""
    library: Any = namespace(array)
    known = library.isfinite(array)
    scaled = library.rint(library.where(known, array, 0) * FIXED_ONE)
    clipped = library.clip(scaled, FIXED_UNKNOWN + 1, -FIXED_UNKNOWN - 1)
    return library.where(known, clipped, FIXED_UNKNOWN).astype("int16")


def apply_to(value: X, make: Callable[[Array], Array]) -> X:
    """Apply a function of native arrays to an array of any library or a Sequence; return the argument's type."""
    result: Any
    if isinstance(value, Sequence):
        result = replace(value, data=make(value.data))
        return result  # type: ignore[no-any-return]  # of the argument's type
    result = make(as_native(value))
    if is_torch(value):
        result = to_torch(result)
    return result  # type: ignore[no-any-return]  # likewise
