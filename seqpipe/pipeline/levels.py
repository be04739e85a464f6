"""Levels: what becomes of a reader's values when operators normalize and cast them; as an OutputSpec says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ..ops import Cast, CropMirrorNormalize, Normalize
from ..video.convert.output import STD, OutputSpec

__all__ = ["Levels"]

_PEAKS: Final = {"uint8": 255, "uint16": 65535}


@dataclass(frozen=True)
class Levels:
    """Each value times a factor and with an offset, for each channel.

    Attributes:
        gain: the factors.
        offset: what is added to the product.
        dtype: of the result.
        plain: of the reader's values.
    """

    gain: tuple[float, ...]
    offset: tuple[float, ...]
    dtype: str
    plain: str

    @classmethod
    def of(cls, output: OutputSpec) -> Levels:
        """Those of what a reader delivers."""
        return cls((1.0,) * output.channels, (0.0,) * output.channels, output.dtype, output.dtype)

    @property
    def changed(self) -> bool:
        """Whether they are another type, or other values."""
        return self != replace(
            self, gain=(1.0,) * len(self.gain), offset=(0.0,) * len(self.gain), dtype=self.plain
        )

    def unknown(self, op: Any) -> str:
        """Why it is not known beforehand what an operator does to values, in a clause; empty if it is."""
        drawn = [
            q.name for q, _, _ in op.distributions if q.name in ("mean", "std", "stddev", "scale", "shift")
        ]
        if drawn:
            return f"its {drawn[0]} is drawn"
        if type(op) is Normalize and (op.mean is None or op.stddev is None):
            return "it computes statistics of what it is given"
        counts = {len(values) for values in _statistics(op)}
        if not counts <= {1, len(self.gain)}:
            return f"its mean and std are not those of {len(self.gain)} channels"
        return ""

    def after(self, op: Any) -> Levels:
        """These and then an operator, of which it is known what it does."""
        if type(op) is Cast:
            return replace(self, dtype=op.dtype)
        mean, std = (np.resize(values, len(self.gain)) for values in _statistics(op))
        factor = float(op.scale) / np.sqrt(np.square(std) + getattr(op, "epsilon", 0.0))
        gain = factor * self.gain
        offset = (np.array(self.offset) - mean) * factor + float(op.shift)
        return replace(self, gain=_numbers(gain), offset=_numbers(offset), dtype=op.dtype)

    def refusal(self, op: Any, output: OutputSpec) -> str:
        """Why a conversion cannot do what an operator does to these, in a clause; empty if it can.

        Args:
            op: one of which it is known what it does.
            output: of the reader.
        """
        made = self.after(op)
        if output.color == "YCbCr":
            return "code values of YCbCr are no colors"
        if self.plain not in _PEAKS:
            return "the reader gives floats already"
        if made.dtype not in ("float16", "float32"):
            return f"its result is {made.dtype}, and conversions make floats of changed values"
        if self.dtype == "float16":
            return "values are rounded to float16 before it"
        least = 1 / (_PEAKS[self.plain] * float(STD.lo or 1e-6))
        if not all(0 < gain <= least for gain in made.gain):
            return "its factor is none that a conversion has"
        return ""

    def fields(self, output: OutputSpec) -> dict[str, Any]:
        """The fields of an output that makes such values.

        Args:
            output: of the reader.
        """
        if not self.changed:
            return {"dtype": output.dtype}
        peak = _PEAKS[self.plain]
        pairs = list(zip(self.gain, self.offset, strict=True))
        mean = tuple(-offset / (gain * peak) for gain, offset in pairs)
        return {"dtype": self.dtype, "mean": mean, "std": tuple(1 / (gain * peak) for gain, _ in pairs)}


def _statistics(op: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and the standard deviation of an operator, one number or one for each channel."""
    if type(op) is Normalize:
        return op.mean or (0.0,), op.stddev or (1.0,)
    return (op.mean, op.std) if type(op) is CropMirrorNormalize else ((0.0,), (1.0,))


def _numbers(values: Iterable[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
