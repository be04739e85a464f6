"""SampledParameters: an operator's parameters for one sample, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core.blocks import resolve, values_of, values_of_each, with_acts
from ..core.declaration import Declaration
from ..core.spec import Spec

__all__ = ["SampledParameters", "sampled_parameters"]


class SampledParameters(SimpleNamespace):
    """An operator's parameters for one sample, as attributes; ``acts`` is whether it changes the sample."""

    @classmethod
    def of(cls, op: Declaration, values: dict[str, Any], *, acts: bool) -> SampledParameters:
        """Return the result of :meth:`Declaration.sample` with the constant parameters, in the dtypes of a block.

        Args:
            op: the operator.
            values: by name.
            acts: whether it acts on the sample; overridden if the values are such that it changes nothing.
        """
        rows = op.template.copy()
        for name, value in values.items():
            rows[name] = value
        return cls(**vars(values_of(with_acts(op, rows, np.array([acts]))[0])))

    @classmethod
    def from_json(cls, op: Declaration, values: dict[str, Any]) -> SampledParameters:
        """Restore the parameters from the result of :meth:`to_json`, bit for bit.

        Args:
            op: the operator.
            values: by name.
        """
        rows = np.zeros(1, op.block_dtype())
        for name, value in values.items():
            rows[name] = np.nan if value is None else value
        return cls(**vars(values_of(rows[0])))

    def to_json(self) -> dict[str, Any]:
        """Return the values as JSON values; missing ones are None."""
        result = {}
        for name, value in vars(self).items():
            plain = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
            several = plain if isinstance(plain, list) else [plain]
            result[name] = None if any(number != number for number in several) else plain
        return result


def sampled_parameters(
    op: Declaration, specs: Seq[Spec], epoch: int, indices: Seq[int]
) -> list[SampledParameters]:
    """Return the parameters of an operator for some samples; those of a constant operator are shared.

    Args:
        op: the operator.
        specs: the samples.
        epoch: the epoch that draws are for.
        indices: of the samples.

    Raises:
        ParameterError: the epoch is not one, or a table has not one value for each sample.
    """
    block = resolve(op, specs, epoch, indices)
    if block.constants:
        shared = {id(constant): SampledParameters(**vars(constant.p)) for constant in block.constants}
        return [shared[id(constant)] for constant in block.constants]
    return values_of_each(block.rows, SampledParameters)
