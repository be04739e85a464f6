"""Arithmetic of arrays with DALI's rules for the dtype of the result.

Python integers are int32 (int64 if they do not fit), Python floats are float32. Floats take precedence over integers,
and wider types over narrower ones; a signed and an unsigned type become the smallest signed type that holds both. ``/``
of integers is float32, comparisons are bool. So uint8 times 2 is int32; float64, such as random numbers, stays float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from ...array import Array, namespace
from ...errors import ParameterError

__all__ = ["cast_array", "computed", "number_of", "result_type"]

_COMPARISONS: Final = ("<", "<=", ">", ">=", "==", "!=")
_BITS: Final = ("&", "|", "^", "<<", ">>")


def number_of(value: Any) -> Any:
    """Return a Python number as an array without axes: an integer as int32 or int64, a float as float32."""
    if isinstance(value, (np.generic, np.ndarray)):
        return np.asarray(value)
    if isinstance(value, bool):
        return np.asarray(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ParameterError(f"the integer {value}", allowed="integers of 64 bits")
        return np.asarray(value, np.int32 if -(2**31) <= value < 2**31 else np.int64)
    return np.asarray(value, np.float32)


def result_type(sign: str, before: Any, behind: Any) -> np.dtype[Any]:
    """Return the dtype of a result."""
    before, behind = _dtype_of(before), _dtype_of(behind)
    if sign in _COMPARISONS:
        return np.dtype(bool)
    common = _common(before, behind)
    if sign in _BITS:
        if common.kind == "f":
            raise ParameterError(f"{before} {sign} {behind}", allowed="integers and bools")
        return common
    if common.kind == "b" and sign != "*":
        common = np.dtype(np.int32)
    if sign == "/" and common.kind != "f":
        return np.dtype(np.float32)
    return common


def _dtype_of(operand: Any) -> np.dtype[Any]:
    return np.dtype(operand) if isinstance(operand, (str, np.dtype)) else number_of(operand).dtype


def _common(before: np.dtype[Any], behind: np.dtype[Any]) -> np.dtype[Any]:
    kinds = {before.kind, behind.kind}
    if "f" in kinds and len(kinds) > 1:
        return before if before.kind == "f" else behind
    if kinds == {"u", "i"}:
        unsigned, signed = (before, behind) if before.kind == "u" else (behind, before)
        size = max(signed.itemsize, min(2 * unsigned.itemsize, 8))
        return np.dtype(f"i{size}")
    if "b" in kinds and len(kinds) > 1:
        return before if before.kind != "b" else behind
    return before if before.itemsize >= behind.itemsize else behind


def _quotient(xp: Any, before: Array, behind: Array) -> Array:
    """Divide integers, truncated towards 0; floats divide exactly, as in DALI."""
    if before.dtype.kind == "f":
        return xp.true_divide(before, behind)
    result = xp.floor_divide(before, behind)
    if before.dtype.kind == "u":
        return result
    return result + ((result * behind != before) & ((before < 0) != (behind < 0))).astype(result.dtype)


def _power(xp: Any, before: Array, behind: Array) -> Array:
    """Raise integers to powers; negative ones are truncated towards 0, as in DALI."""
    result = xp.power(before, xp.maximum(behind, 0))
    inverse = xp.where(abs(before) == 1, xp.power(before, behind & 1), 0)
    return xp.where(behind < 0, inverse, result)


_UFUNCS: Final = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "true_divide",
    "%": "fmod",
    "**": "power",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "left_shift",
    ">>": "right_shift",
}
"""Names of NumPy's and CuPy's functions; ``//`` uses :func:`_quotient`."""


def computed(sign: str, before: Any, behind: Any) -> Array:
    """Apply an operator in the dtype of :func:`result_type`; integers wrap, as in NumPy."""
    types = [
        _dtype_of(operand.dtype if hasattr(operand, "dtype") else operand) for operand in (before, behind)
    ]
    kind = result_type(sign, *types)
    inner = _common(*types) if sign in _COMPARISONS else kind
    xp = namespace(before if getattr(before, "ndim", 0) else behind)
    if sign == "**" and kind.kind == "i":
        function: Any = partial(_power, xp)
    else:
        function = partial(_quotient, xp) if sign == "//" else getattr(xp, _UFUNCS[sign])
    with np.errstate(all="ignore"):  # an integer divided by 0 is 0
        result: Array = function(*(xp.asarray(operand).astype(inner) for operand in (before, behind)))
    return result.astype(kind, copy=False)


def cast_array(array: Array, kind: str, *, away: bool = False) -> Array:
    """Convert values to another dtype; floats are rounded for integers, and all values saturate."""
    target = np.dtype(kind)
    if array.dtype == target:
        return array
    xp = namespace(array)
    if target.kind == "b":
        return array != 0
    if target.kind in "iu" and array.dtype.kind in "iuf":
        bounds = np.iinfo(target)
        if array.dtype.kind == "f":
            exact = array.astype(np.float64)
            wide = _rounded_away(xp, exact) if away else xp.rint(exact)
            low, high = xp.maximum(wide, bounds.min), xp.minimum(wide, bounds.max)
            result = xp.where(wide < bounds.min, low, high)
            result = xp.nan_to_num(result, nan=0.0)
            return xp.where(wide >= float(bounds.max), bounds.max, result.astype(target)).astype(target)
        own = np.iinfo(array.dtype)
        if own.min < bounds.min:
            array = xp.maximum(array, max(own.min, bounds.min))
        if own.max > bounds.max:
            array = xp.minimum(array, bounds.max)
    return array.astype(target)


def _rounded_away(xp: Any, values: Array) -> Array:
    """Return the nearest integers of float64 numbers, halves away from zero."""
    whole = xp.trunc(values)
    return xp.where(xp.abs(values - whole) == 0.5, whole + xp.copysign(1, values), xp.rint(values))
