"""Operators that convert values: dtype and lookup table."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ..call.op import Op
from ..core.distributions import Number
from ..core.parameters import ANY, param
from ..core.spec import COMPUTED_DTYPES, Spec, ValueMap
from ..core.traits import Body

__all__ = ["Cast", "LookupTable"]

_KEYS: Final = 256


class Cast(Op):
    """Convert values to another dtype.

    Integers are rounded half to even and saturate, as all results are. DALI rounds halves away from 0 on CPUs.
    """

    dtype: str = param("float32", "dtype of the result", choices=COMPUTED_DTYPES)

    pointwise = True
    converted = ("values",)
    examples = ({"dtype": "uint8"}, {"dtype": "float32"}, {"dtype": "int16"})

    def result_dtype(self, dtype: str) -> str:  # noqa: ARG002  a parameter states it
        """Return the parameter ``dtype``."""
        return self.dtype

    def value_map(self) -> ValueMap:
        """See :meth:`Op.value_map`."""
        return ValueMap(self.dtype)

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  only the dtype changes
        """Return the values."""
        return x

    body = Body("value")


class LookupTable(Op):
    """Replace values by entries of a table.

    ``out = values[i]`` where ``in`` is ``keys[i]``, else ``default_value``, as in DALI; keys are integers up to 255.
    """

    keys: tuple[int, ...] | None = param(
        None,
        "values to replace, each once; None for 0, 1, 2 and so on",
        kind=int,
        lo=0,
        hi=_KEYS - 1,
        size=ANY,
    )
    values: tuple[float, ...] | None = param(None, "output value for each key", kind=float, size=ANY)
    default_value: Number = param(0.0, "output for all other values")
    dtype: str = param("float32", "dtype of the result", choices=COMPUTED_DTYPES)

    pointwise = True
    derived = (("table", _KEYS),)
    examples = (
        {"keys": (0, 3, 255), "values": (9.0, 1.5, 0.0), "default_value": 77.0, "dtype": "uint8"},
        {"values": (3.0, 2.0, 1.0), "default_value": (4.0, 200.0), "seed": 1},
    )
    errors = (
        ({"keys": (1, 2), "values": (5.0,)}, "2 keys and 1 values; allowed: as many values as keys"),
        ({"keys": (7, 7), "values": (1.0, 2.0)}, r"keys=\(7, 7\) are not different; allowed: each key once"),
        ({}, "no values are given; allowed: from 1 to 256 values"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is None or len(self.values) > _KEYS:
            count = "no" if self.values is None else len(self.values)
            raise self.refusal(f"{count} values are given", allowed=f"from 1 to {_KEYS} values")
        keys = range(len(self.values)) if self.keys is None else self.keys
        if len(keys) != len(self.values):
            raise self.refusal(
                f"{len(keys)} keys and {len(self.values)} values", allowed="as many values as keys"
            )
        if len(set(keys)) < len(keys):
            raise self.refusal(f"keys={self.keys} are not different", allowed="each key once")

    def result_dtype(self, dtype: str) -> str:  # noqa: ARG002  a parameter states it
        """Return the parameter ``dtype``."""
        return self.dtype

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  independent of the spec
        """Compute the table of all 256 values."""
        values = self.values or ()
        table = np.repeat(rows["default_value"][:, None], _KEYS, axis=1)
        table[:, range(len(values)) if self.keys is None else self.keys] = values
        return {"table": table}

    def reference(self, x: Array, p: Any) -> Array:
        """Look up integers from 0 to 255; other values become the default."""
        library = namespace(x)
        known = (x >= 0) & (x < _KEYS) & (x == library.floor(x))
        return library.where(known, p.table[library.where(known, x, 0).astype(np.int32)], p.default_value)

    body = Body(
        "value",
        f"const bool known = value.v >= 0.0f && value.v < {_KEYS}.0f && value.v == floorf(value.v);\n"
        "    value = known ? row.table[(int)value.v] : row.default_value;",
    )
