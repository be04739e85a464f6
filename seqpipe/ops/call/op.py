"""Op: a declaration that can be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from ..core.declaration import Declaration
from ..core.deferred import node_of
from ..core.nodes import DataNode
from ..core.value_map import ValueMap
from .dispatch import apply

__all__ = ["Op"]

X = TypeVar("X")


class Op(Declaration, register=False):
    """An operator: what it does to images, with which parameters.

    A class that derives from this one is a frozen dataclass, and known by the name of its function from then on
    (``class GammaCurve`` is ``fn.gamma_curve``); ``class GammaCurve(Op, register=False)`` is not. Its fields are
    declared by :func:`seqpipe.ops.param`; what else it states are attributes and methods of
    :class:`seqpipe.ops.Declaration`. :mod:`seqpipe.ops` says how to write one.
    """

    def value_map(self) -> ValueMap | None:
        """Return the affine map of values, if that is what the operator applies, and ``"levels"`` is converted."""
        return None

    def __call__(self, x: X, *, layout: str | None = None, epoch: int = 0, index: Any = None) -> X:
        """The result for images, a sequence, a volume, or a batch.

        Args:
            x: a NumPy, CuPy or torch array, a Sequence, a Batch, or a list of such with one shape each; a mapping of
                names to parts (see :mod:`seqpipe.parts`), which one draw moves together; or a DataNode.
            layout: of arrays; by default HW, HWC, FHWC or NFHWC, by the number of axes.
            epoch: the epoch that random parameters are drawn for.
            index: the index of the first sample within its dataset, or of each one; draws depend on it. By default
                those that a Batch knows, else from 0 on.

        Returns:
            What came in, of the same type and on the same device, in memory of its own. A DataNode, if x or a
            parameter is one; a seqpipe.pipeline.Graph is then given the epoch and the index.

        Raises:
            ParameterError: the layout, the type, the number of channels or the size is not one that it takes.
            BackendError: the data is on a GPU that cannot be used.
        """
        if type(x) is not np.ndarray and isinstance(x, Mapping):
            sample: X = apply(self, x, layout=layout, epoch=epoch, index=index)
            return sample
        # looked at first, for this way the question costs an array next to nothing
        if (type(x) is not np.ndarray and isinstance(x, DataNode)) or self.awaited:
            options = {"layout": layout, **({"epoch": epoch} if epoch else {})}
            options |= {} if index is None else {"index": index}
            node: X = node_of(Op.__call__, self, (x,), options)
            return node
        result: X = apply(self, x, layout=layout, epoch=epoch, index=index)
        return result
