"""Act: a step of a policy for one sample, with its parameters for each backend."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.cached import cached_property
from ..call.backends import run_same_shape
from ..core.blocks import constant_of, derives_anew, values_of_all
from ..core.declaration import Declaration
from ..core.spec import Spec

__all__ = ["Act"]


class Act:
    """An operator with its parameters for one sample.

    Attributes:
        op: the operator.
        values: parameters that differ from the operator's own.
    """

    def __init__(self, op: Declaration, values: dict[str, Any], spec: Spec) -> None:
        self.op = op
        self.values = values
        self._spec = spec

    @cached_property
    def rows(self) -> npt.NDArray[Any]:
        """All parameters, as a block of one row."""
        constant = constant_of(self.op, Spec(1, 1, 1, self._spec.channels, self._spec.dtype))
        rows = constant.rows.copy()
        rows["acts"] = 1
        for name, value in self.values.items():
            rows[name] = value
        if self.op.traits.derived and derives_anew(self.op, self.values.keys()):
            for name, value in self.op.derive(rows, self._spec).items():
                rows[name] = value
        return rows

    @cached_property
    def p(self) -> SimpleNamespace:
        """All parameters, as attributes."""
        return values_of_all(self.rows)

    @cached_property
    def table(self) -> npt.NDArray[np.uint8] | None:
        """Table of results for uint8, if the operator is pointwise and treats all channels alike."""
        if not self.op.traits.pointwise or self._spec.dtype != "uint8":
            return None
        values = np.arange(256, dtype=np.uint8).reshape(1, 1, 256, 1)
        found: npt.NDArray[np.uint8] = run_same_shape(
            self.op, self.op.cpu, values, self.p, fast=True
        ).reshape(256)
        return found

    @cached_property
    def row(self) -> bytes:
        """The row of parameters for the operator's kernel."""
        return self.op.kernel_rows(self.rows, self._spec).tobytes()
