"""Operators that change what values are, and of which type, rather than how an image looks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..array import Array, namespace
from ..errors import ParameterError
from ._body import Body
from ._distribution import Number
from ._op import Op
from ._param import ANY, param
from ._spec import COMPUTED, Spec

__all__ = ["Cast", "LookupTable", "Normalize"]

_KEYS: Final = 256
_CHANNELS: Final = 16
_TINY: Final = float(np.finfo(np.float64).tiny)


class Cast(Op):
    """Change the type of values.

    Whole numbers are rounded half to even and saturate, as all results are. DALI rounds halves away from 0 on CPUs.
    """

    dtype: str = param("float32", "type of the result", choices=COMPUTED)

    pointwise = True
    examples = ({"dtype": "uint8"}, {"dtype": "float32"}, {"dtype": "int16"})
    errors = (({"dtype": "int64"}, "dtype='int64' is not valid; allowed: 'uint8', 'uint16'"),)

    def result_dtype(self, dtype: str) -> str:  # noqa: ARG002  it is asked for
        """The type that is asked for."""
        return self.dtype

    def reference(self, x: Array, p: Any) -> Array:  # noqa: ARG002  the type of the result is all there is
        """The values."""
        return x

    body = Body("value")


class LookupTable(Op):
    """Replace values by those of a table.

    ``out = values[i]`` where ``in`` is ``keys[i]``, else ``default_value``, as in DALI; keys are whole numbers up to
    255.
    """

    keys: tuple[int, ...] | None = param(
        None,
        "what is replaced, each once; None for 0, 1, 2 and so on",
        kind=int,
        lo=0,
        hi=_KEYS - 1,
        size=ANY,
    )
    # DALI's name; that it is also one of Declaration's, which is then neither of its words, makes it computed
    values: tuple[float, ...] | None = param(  # type: ignore[misc,assignment]  # a field here, as said above
        None, "by what, a value for each key", kind=float, size=ANY
    )
    default_value: Number = param(0.0, "what all else becomes")
    dtype: str = param("float32", "type of the result", choices=COMPUTED)

    pointwise = True
    derived = (("table", _KEYS),)
    examples = (
        {"keys": (0, 3, 255), "values": (9.0, 1.5, 0.0), "default_value": 77.0, "dtype": "uint8"},
        {"values": (3.0, 2.0, 1.0), "default_value": (4.0, 200.0), "seed": 1},
    )
    errors = (
        ({"keys": (1, 2), "values": (5.0,)}, "2 keys and 1 values; allowed: as many values as keys"),
        ({"keys": (7, 7), "values": (1.0, 2.0)}, r"keys=\(7, 7\) are not different; allowed: each key once"),
        ({"keys": (256,), "values": (1.0,)}, "keys=256 is not valid; allowed: a whole number from 0 to 255"),
        ({}, "no values are given; allowed: from 1 to 256 values"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is None or len(self.values) > _KEYS:
            given = "no" if self.values is None else len(self.values)
            raise ParameterError(
                f"{given} values are given", source=self.name, allowed=f"from 1 to {_KEYS} values"
            )
        keys = range(len(self.values)) if self.keys is None else self.keys
        if len(keys) != len(self.values):
            raise ParameterError(
                f"{len(keys)} keys and {len(self.values)} values",
                source=self.name,
                allowed="as many values as keys",
            )
        if len(set(keys)) < len(keys):
            raise ParameterError(
                f"keys={self.keys} are not different", source=self.name, allowed="each key once"
            )

    def result_dtype(self, dtype: str) -> str:  # noqa: ARG002  it is asked for
        """The type that is asked for."""
        return self.dtype

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  it is the same for all
        """What each of the levels becomes."""
        values = self.values or ()
        table = np.repeat(rows["default_value"][:, None], _KEYS, axis=1)
        table[:, range(len(values)) if self.keys is None else self.keys] = values
        return {"table": table}

    def reference(self, x: Array, p: Any) -> Array:
        """Where a value is one that the table has, that of the table."""
        library = namespace(x)
        known = (x >= 0) & (x < _KEYS) & (x == library.floor(x))
        return library.where(known, p.table[library.where(known, x, 0).astype(np.int32)], p.default_value)

    body = Body(
        "value",
        f"const bool known = value.v >= 0.0f && value.v < {_KEYS}.0f && value.v == floorf(value.v);\n"
        "    value = known ? row.table[(int)value.v] : row.default_value;",
    )


class Normalize(Op):
    """Remove the mean and divide by the standard deviation.

    ``out = scale * (in - mean) / sqrt(stddev ** 2 + epsilon) + shift``, as in DALI. Both may be given, as a number or
    as one for each channel; what is not given is computed, of each frame by itself, over the axes that are named. Where
    there is nothing to divide by, because all values are the same, the result is ``shift``.
    """

    mean: tuple[float, ...] | None = param(
        None,
        "what is removed: a number, or one for each of up to 16 channels; None computes it",
        kind=float,
        size=ANY,
    )
    stddev: tuple[float, ...] | None = param(
        None,
        "what is divided by: a number, or one for each of up to 16 channels; None computes it, around the mean",
        kind=float,
        size=ANY,
        lo=0,
    )
    axis_names: str = param(
        "HWC", "what is computed over: a frame, or each channel of it", choices=("HW", "HWC")
    )
    scale: Number = param(1.0, "factor of the result")
    shift: Number = param(0.0, "what is added to the result")
    epsilon: float = param(0.0, "added to the variance", lo=0, drawn=False)
    ddof: int = param(0, "by which the number of values is lowered for the variance", lo=0, drawn=False)
    dtype: str = param("float32", "type of the result", choices=COMPUTED)

    derived = (("means", _CHANNELS), ("factors", _CHANNELS))
    examples = (
        {
            "mean": (120.0, 115.0, 100.0),
            "stddev": (60.0, 55.0, 50.0),
            "scale": 64,
            "shift": 128,
            "dtype": "uint8",
        },
        {"axis_names": "HW", "epsilon": 1e-3, "dtype": "float32"},
        {"mean": 128.0, "stddev": 64.0, "shift": (-0.5, 0.5), "seed": 1},
    )
    errors = (
        ({"mean": (1.0,) * 17}, "mean has 17 values; allowed: 1, or one for each of up to 16 channels"),
        ({"mean": (1.0, 2.0), "stddev": (1.0, 2.0, 3.0)}, "mean has 2 values and stddev 3; allowed: as many"),
        ({"stddev": 0.0}, r"stddev=\(0.0,\) divides by 0; allowed: numbers above 0, or an epsilon above 0"),
        ({"axis_names": "C"}, "axis_names='C' is not valid; allowed: 'HW', 'HWC'"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        mean, stddev = self.mean or (), self.stddev or ()
        for name, values in (("mean", mean), ("stddev", stddev)):
            if len(values) > _CHANNELS:
                raise ParameterError(
                    f"{name} has {len(values)} values",
                    source=self.name,
                    allowed=f"1, or one for each of up to {_CHANNELS} channels",
                )
        counts = {len(values) for values in (mean, stddev) if len(values) > 1}
        if len(counts) > 1:
            raise ParameterError(
                f"mean has {len(mean)} values and stddev {len(stddev)}",
                source=self.name,
                allowed="as many, or one",
            )
        if 0 in stddev and not self.epsilon:
            raise ParameterError(
                f"stddev={self.stddev} divides by 0",
                source=self.name,
                allowed="numbers above 0, or an epsilon above 0",
            )
        # of this object alone: what its parameters ask for
        self.__dict__["channels"] = tuple(counts)
        if self.mean is None or self.stddev is None:
            self.__dict__["body"] = None

    def result_dtype(self, dtype: str) -> str:  # noqa: ARG002  it is asked for
        """The type that is asked for."""
        return self.dtype

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  the type does not matter
        """What is given, for each channel."""
        variance = np.square(self.stddev or 1.0) + self.epsilon
        factors = rows["scale"][:, None] / np.sqrt(variance)
        return {"means": _for_channels(self.mean or (0.0,)), "factors": _for_channels(factors)}

    def reference(self, x: Array, p: Any) -> Array:
        """The formula; statistics in double precision."""
        library = namespace(x)
        at = library.minimum(library.arange(x.shape[-1]), _CHANNELS - 1)
        means, factors = p.means[at], p.factors[at]
        if self.mean is None or self.stddev is None:
            means, factors = self._computed(x, means, factors, p.scale)
        out = x - means.astype(np.float32)
        out *= factors.astype(np.float32)
        out += p.shift
        return out

    def _computed(self, x: Array, means: Array, factors: Array, scale: Any) -> tuple[Array, Array]:
        """Means and factors where they are not given, ``(F, 1, 1, C)``, or C is 1."""
        library, frames = namespace(x), len(x)
        count = x.shape[-1] if self.axis_names == "HW" else 1
        # each in memory of its own, for sums are quick there
        planes = library.ascontiguousarray(x.reshape(frames, -1, count).transpose(0, 2, 1))
        if self.mean is None:
            means = planes.mean(2, np.float64).reshape(frames, 1, 1, count)
        if self.stddev is None:
            about = means.astype(np.float64)
            distances = x - about if about.shape[-1] > count else planes - about.reshape(-1, count, 1)
            squares = library.square(distances, out=distances).reshape(frames, count, -1)
            freedom = max(squares.shape[2] - self.ddof, 1)
            deviation = library.sqrt(squares.sum(2) / freedom + self.epsilon)
            inverse = library.where(deviation > 0, 1 / library.maximum(deviation, _TINY), 0)
            factors = scale * inverse.reshape(frames, 1, 1, count)
        return means, factors

    body = Body(
        "value",
        f"const int at = channel < {_CHANNELS} ? channel : {_CHANNELS - 1};\n"
        "    value = (value - row.means[at]) * row.factors[at] + row.shift;",
    )


def _for_channels(values: Any) -> npt.NDArray[Any]:
    """A value for each channel that a row has room for, the last one for all that follow."""
    given = np.asarray(values, np.float64)
    at = np.minimum(np.arange(_CHANNELS), given.shape[-1] - 1)
    return np.asarray(given[..., at])
