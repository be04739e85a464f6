"""Drawn: an operator's parameters for one sample, and as JSON."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core.blocks import values_of
from ..core.declaration import Declaration

__all__ = ["Drawn"]


class Drawn(SimpleNamespace):
    """An operator's parameters for one sample, as attributes; ``acts`` says whether it does anything."""

    @classmethod
    def from_json(cls, op: Declaration, values: dict[str, Any]) -> Drawn:
        """What :meth:`to_json` was called for, to the last bit.

        Args:
            op: the operator.
            values: by name.
        """
        rows = np.zeros(1, op.block_dtype())
        for name, value in values.items():
            rows[name] = np.nan if value is None else value
        return cls(**vars(values_of(rows[0])))

    def to_json(self) -> dict[str, Any]:
        """The values as JSON has them; what is not given is None."""
        found = {}
        for name, value in vars(self).items():
            plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
            several = plain if isinstance(plain, list) else [plain]
            found[name] = None if any(number != number for number in several) else plain
        return found
