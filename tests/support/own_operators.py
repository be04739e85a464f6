"""Operators that only tests have, so that what is derived is derived for every kind of parameter and of body."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqpipe.ops import Body, Number, Op, param

__all__ = ["Shift", "Soften"]


class Shift(Op):
    """Add what is drawn for each channel, and a whole number."""

    level: Number = param((0.0, 0.0, 0.0), "for each channel", kind=float, size=3, identity=(0.0, 0.0, 0.0))
    steps: Number = param(0, "added to all", lo=-5, hi=5, identity=0)
    mode: str = param("add", "which way", choices=("add", "take"))

    channels = (3,)
    examples = (
        {"steps": 3},
        {"level": ((-9.0, 9.0), 0.0, (1.5, 2.5)), "steps": (-5, 5), "seed": 8},
        {"level": (1.5, 2.5, -30.0), "mode": "take"},
    )

    def reference(self, x: Any, p: Any) -> Any:
        sign = np.float32(1 if self.mode == "add" else -1)
        return x + (p.level + np.float32(p.steps)) * sign

    def derive(self, rows: Any, spec: Any) -> dict[str, Any]:  # noqa: ARG002  it follows from mode alone
        return {"sign": 1 if self.mode == "add" else -1}

    derived = ("sign",)
    body = Body(
        "pixel",
        "for (int c = 0; c < CHANNELS; c++) pixel[c] = pixel[c] + (row.level[c] + Real(row.steps)) * row.sign;",
    )


class Soften(Op):
    """Halve what is above a level; it has no kernel."""

    level: Number = param(100.0, "that is left alone", lo=0)

    pointwise = True
    examples = ({"level": 50.0}, {"level": (0.0, 200.0), "p": 0.7})

    def reference(self, x: Any, p: Any) -> Any:
        return np.where(x > p.level, p.level + (x - p.level) * np.float32(0.5), x)
