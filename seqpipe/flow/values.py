"""What functions on flow are given: arrays and Sequences, checked, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from ..array import Array, as_native, namespace, to_torch
from ..errors import ParameterError
from ..sequence import Sequence

__all__ = ["FIXED_ONE", "FIXED_UNKNOWN", "apply_to", "flow_array", "from_fixed", "layout_of", "to_fixed"]

X = TypeVar("X")


def flow_array(flow: Any, source: str) -> Array:
    """A flow as a NumPy or CuPy array ``(…, h, w, 2)`` of floats; int16 as S10.5 becomes float32.

    Args:
        flow: an array or a Sequence.
        source: the function, for messages.

    Raises:
        ParameterError: it is no flow.
    """
    layout = layout_of(flow)
    array = as_native(flow.data if isinstance(flow, Sequence) else flow)
    if array.ndim < 3 or array.shape[-1] != 2 or layout[-1:] not in ("C", ""):
        raise ParameterError(
            f"an array of shape {tuple(array.shape)}{layout and f' and layout {layout}'} is no flow",
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
"""What int16 (S10.5) has for a motion of one pixel."""
FIXED_UNKNOWN = -32768
"""What int16 has where floats have NaN."""


def layout_of(value: Any) -> str:
    """The layout of a Sequence; "" of an array, of which it is not known."""
    return value.layout if isinstance(value, Sequence) else ""


def from_fixed(array: Array) -> Array:
    """A flow of int16 (S10.5) in pixels, float32; NaN where it is unknown."""
    made = array.astype("float32") / FIXED_ONE
    made[array == FIXED_UNKNOWN] = float("nan")
    return made


def to_fixed(array: Array) -> Array:
    """A flow in pixels as int16 (S10.5): rounded to 1/32 of a pixel, cut off at ±1023.97 pixels, unknown where NaN."""
    library: Any = namespace(array)
    known = library.isfinite(array)
    scaled = library.rint(library.where(known, array, 0) * FIXED_ONE)
    made = library.clip(scaled, FIXED_UNKNOWN + 1, -FIXED_UNKNOWN - 1)
    return library.where(known, made, FIXED_UNKNOWN).astype("int16")


def apply_to(value: X, make: Callable[[Array], Array]) -> X:
    """A function of arrays on what the user holds: an array of any library, or a Sequence, which keeps its clock."""
    if isinstance(value, Sequence):
        made: Any = replace(value, data=make(value.data))
        return made  # type: ignore[no-any-return]  # of the type of what was given
    result: Any = make(as_native(value))
    if type(value).__module__.partition(".")[0] == "torch":
        result = to_torch(result)
    return result  # type: ignore[no-any-return]  # likewise
