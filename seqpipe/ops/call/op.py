"""Op and Ranged: base classes of operators on images, with the call."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ..core.blocks import constant_of
from ..core.declaration import Declaration
from ..core.deferred import node_of
from ..core.distributions import Percentiles
from ..core.intensity import (
    Intensities,
    IntensityRange,
    intensities,
    limits_of,
    missing_range_error,
    range_param,
)
from ..core.nodes import DataNode
from ..core.spec import Spec, ValueMap
from ..core.types import Type
from .dispatch import apply
from .inputs import CallInput, check_value_type

__all__ = ["Op", "Ranged"]

X = TypeVar("X")


class Op(Declaration, register=False):
    """Base class of operators on images.

    A subclass becomes a frozen dataclass and is registered by the name of its function (``class GammaCurve`` is
    ``fn.gamma_curve``), unless it is declared with ``register=False``. :func:`seqpipe.ops.param` declares its
    parameters; :class:`seqpipe.ops.Declaration` has the methods and traits to define. :mod:`seqpipe.ops` explains how
    to write an operator.
    """

    def value_map(self) -> ValueMap | None:
        """Return the affine map of values of an operator whose trait ``converted`` has ``"values"``."""
        return None

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`."""
        first = inputs[0]
        check_value_type(self, first)
        sides: dict[str, int | None] = {}
        if (count := first.side("C")) is not None:
            sides["C"] = self.result_channels(count)
        if not (self.traits.keeps_size and self.traits.keeps_frames):
            frames, rows, columns = self._extent_of(first)
            sides |= {} if self.traits.keeps_frames else {"D" if "D" in (first.layout or "") else "F": frames}
            sides |= {} if self.traits.keeps_size else {"H": rows, "W": columns}
        dtype = None if first.dtype is None else self.result_dtype(first.dtype)
        layout = None if first.layout is None else self.result_layout(first.layout)
        return (replace(first.resized(layout, sides), kind="images", dtype=dtype),)

    def _extent_of(self, value_type: Type) -> tuple[int | None, int | None, int | None]:
        """Return frames, rows and columns of the results; None if they are sampled or unknown."""
        if self.nodes:
            return None, None, None
        if value_type.spec is not None and self.is_constant and not self.needs_pixels:
            return constant_of(self, value_type.spec).extent
        return (None, *(self.fixed_size or (None, None)))

    def __call__(self, x: X, *, layout: str | None = None, epoch: int = 0, index: Any = None) -> X:
        """Apply the operator to images, a sequence, a volume or a batch.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence, a Batch; a mapping of names to parts (see
                :mod:`seqpipe.parts`), to which the same sampled parameters apply; a list of these; or a DataNode.
            layout: layout of arrays; by default HW, HWC, FHWC or NFHWC, by the number of axes.
            epoch: the epoch that parameters are sampled for.
            index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it. By
                default the indices of a Batch, else 0, 1, ….

        Returns:
            The result, of the same type and on the same device as ``x``, in its own memory. A DataNode, if ``x`` or a
            parameter is one; the graph is then called with epoch and index.

        Raises:
            ParameterError: the operator does not accept the layout, dtype, number of channels or size.
            BackendError: the data is on a GPU that cannot be used.
        """
        if type(x) is not np.ndarray and isinstance(x, Mapping):
            sample: X = apply(self, x, layout=layout, epoch=epoch, index=index)
            return sample
        # the type first: for an array this test takes almost no time
        if (type(x) is not np.ndarray and isinstance(x, DataNode)) or self.pending:
            options = {"layout": layout, **({"epoch": epoch} if epoch else {})}
            options |= {} if index is None else {"index": index}
            node: X = node_of(Op.__call__, self, (x,), options)
            return node
        result: X = apply(self, x, layout=layout, epoch=epoch, index=index)
        return result


class Ranged(Op, register=False):
    """Base of operators that use the intensities of dark and full."""

    range: IntensityRange = range_param()

    @property
    def needs_range(self) -> bool:
        """Whether the range affects the result with these parameters."""
        return True

    @property
    def needs_pixels(self) -> bool:
        """Whether the range depends on the values of the sample."""
        return self.range == "minmax" or isinstance(self.range, Percentiles)

    def check_sample(self, spec: Spec) -> None:
        """Check that a volume has a range.

        Raises:
            ParameterError: it has none.
        """
        if spec.volume and self.range is None and self.needs_range:
            raise missing_range_error(self.name)

    def specs_of(self, part: CallInput) -> list[Spec]:
        """Return the specs of the samples, with the limits of their values if the range depends on them."""
        specs = [part.form.spec] * part.form.samples
        wanted: Any = self.range
        if wanted is None or not self.needs_pixels:
            return specs
        if part.view.is_series:
            result = [limits_of(part.nfhwc, wanted)] * len(specs)
        else:
            result = [limits_of(one, wanted) for one in part.nfhwc]
        return [spec._replace(limits=limits) for spec, limits in zip(specs, result, strict=True)]

    def intensities(self, spec: Spec, dtype: str = "") -> Intensities:
        """Return the range for a sample; see :func:`seqpipe.ops.core.intensity.intensities`."""
        return intensities(self.range, spec, dtype)
