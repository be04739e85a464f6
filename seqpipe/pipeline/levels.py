"""Levels: the affine map of values that operators add up to, as dtype, mean and std of an OutputSpec."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ..ops.core.value_map import ValueMap
from ..video.convert.output import STD, OutputSpec

__all__ = ["Levels"]

_SAMPLED: Final = frozenset((*ValueMap._fields, "std"))  # parameters that maps of values depend on
_PEAKS: Final = {"uint8": 255, "uint16": 65535}


@dataclass(frozen=True)
class Levels:
    """``out = gain * in + offset`` for each channel.

    Attributes:
        gain: factor of each channel.
        offset: offset of each channel.
        dtype: dtype of the result.
        plain: dtype of the reader's values.
    """

    gain: tuple[float, ...]
    offset: tuple[float, ...]
    dtype: str
    plain: str

    @classmethod
    def of(cls, output: OutputSpec) -> Levels:
        """Return the identity, for the output of a reader."""
        return cls((1.0,) * output.channels, (0.0,) * output.channels, output.dtype, output.dtype)

    @property
    def changed(self) -> bool:
        """Whether values or their dtype differ from the reader's."""
        return self != replace(
            self, gain=(1.0,) * len(self.gain), offset=(0.0,) * len(self.gain), dtype=self.plain
        )

    def unknown(self, op: Any) -> str:
        """Return why the map of an operator is not constant, as a clause; "" if it is."""
        sampled = [q.name for q, _, _ in op.distributions if q.name in _SAMPLED]
        if sampled:
            return f"its {sampled[0]} is sampled"
        made: ValueMap | None = op.value_map()
        if made is None:
            return "it computes statistics of its input"
        counts = {len(made.mean), len(made.stddev)}
        if not counts <= {1, len(self.gain)}:
            return f"its mean and std are not those of {len(self.gain)} channels"
        return ""

    def after(self, op: Any) -> Levels:
        """Return the map with that of an operator applied after it."""
        made: ValueMap = op.value_map()
        mean, stddev = (np.resize(values, len(self.gain)) for values in (made.mean, made.stddev))
        factor = float(made.scale) / np.sqrt(np.square(stddev) + made.epsilon)
        gain = factor * self.gain
        offset = (np.array(self.offset) - mean) * factor + float(made.shift)
        return replace(self, gain=_numbers(gain), offset=_numbers(offset), dtype=made.dtype)

    def refusal(self, op: Any, output: OutputSpec) -> str:
        """Return why a conversion cannot apply an operator after this map, as a clause; "" if it can.

        Args:
            op: an operator whose map is constant.
            output: the reader's output.
        """
        made = self.after(op)
        if output.color == "YCbCr":
            return "the conversion does not normalize YCbCr"
        if self.plain not in _PEAKS:
            return "the reader's values are floats already"
        if made.dtype not in ("float16", "float32"):
            return f"its result is {made.dtype}, and the conversion gives changed values as floats"
        if self.dtype == "float16":
            return "another operator has rounded values to float16"
        least = 1 / (_PEAKS[self.plain] * float(STD.lo or 1e-6))
        if not all(0 < gain <= least for gain in made.gain):
            return "its factor is not in the range of the conversion"
        return ""

    def fields(self, output: OutputSpec) -> dict[str, Any]:
        """Return the fields of an output specification that apply this map.

        Args:
            output: the reader's output.
        """
        if not self.changed:
            return {"dtype": output.dtype}
        peak = _PEAKS[self.plain]
        pairs = list(zip(self.gain, self.offset, strict=True))
        mean = tuple(-offset / (gain * peak) for gain, offset in pairs)
        return {"dtype": self.dtype, "mean": mean, "std": tuple(1 / (gain * peak) for gain, _ in pairs)}


def _numbers(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
