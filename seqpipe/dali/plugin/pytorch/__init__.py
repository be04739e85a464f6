"""``nvidia.dali.plugin.pytorch``: iterators that return torch tensors, and Python functions of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Final

from ....array import to_torch
from ....errors import ParameterError
from ... import ops
from ...pipeline import Pipeline
from ...value import Value
from ..base_iterator import DALIIterator, LastBatchPolicy
from . import fn

__all__ = [
    "DALIClassificationIterator",
    "DALIGenericIterator",
    "DALIRaggedIterator",
    "LastBatchPolicy",
    "TorchPythonFunction",
    "feed_ndarray",
    "fn",
]

TorchPythonFunction = ops.TorchPythonFunction
"""The class of ``fn.torch_python_function``."""


class DALIGenericIterator(DALIIterator):
    """Batches as dictionaries of torch tensors; see :class:`seqpipe.dali.plugin.base_iterator.DALIIterator`."""

    def converted(self, value: Value, name: str, title: str) -> Any:  # noqa: ARG002  the base class'
        """Return a tensor ``(N, …)``.

        Raises:
            ParameterError: the samples have different shapes.
        """
        try:
            return to_torch(value.stacked(title))
        except ParameterError as error:
            error.advice = f"{error.advice}; DALIRaggedIterator returns lists of tensors"
            raise


class DALIClassificationIterator(DALIGenericIterator):
    """A :class:`DALIGenericIterator` with two outputs, ``data`` and ``label``."""

    def __init__(
        self, pipelines: Pipeline | Seq[Pipeline], size: int = -1, *args: Any, **options: Any
    ) -> None:
        super().__init__(pipelines, ["data", "label"], size, *args, **options)


class DALIRaggedIterator(DALIIterator):
    """Batches whose samples may differ in shape, as lists of tensors or of sparse tensors.

    Args:
        pipelines: one pipeline, or a list.
        output_map: a name for each output.
        size: see :class:`DALIGenericIterator`.
        *args: further arguments of :class:`DALIGenericIterator`.
        output_types: DENSE_TAG, SPARSE_LIST_TAG or SPARSE_COO_TAG for each output; by default all are dense.
        **options: arguments of :class:`DALIGenericIterator` by name.
    """

    DENSE_TAG: Final = "dense"
    SPARSE_LIST_TAG: Final = "sparse_list"
    SPARSE_COO_TAG: Final = "sparse_coo"

    def __init__(
        self,
        pipelines: Pipeline | Seq[Pipeline],
        output_map: Seq[str],
        size: int = -1,
        *args: Any,
        output_types: Seq[str] | None = None,
        **options: Any,
    ) -> None:
        tags = list(output_types) if output_types is not None else [self.DENSE_TAG] * len(output_map)
        allowed = (self.DENSE_TAG, self.SPARSE_LIST_TAG, self.SPARSE_COO_TAG)
        if len(tags) != len(output_map) or any(tag not in allowed for tag in tags):
            raise ParameterError(
                f"output_types={tags!r}",
                source="DALIRaggedIterator",
                allowed=f"{len(output_map)} of {', '.join(allowed)}",
            )
        self._tags = dict(zip(output_map, tags, strict=True))
        super().__init__(pipelines, output_map, size, *args, **options)

    def converted(self, value: Value, name: str, title: str) -> Any:
        """Return a tensor, a list of tensors or a list of sparse tensors, by the tag of the output."""
        tag = self._tags[name]
        if tag == self.DENSE_TAG:
            return to_torch(value.stacked(title))
        tensors = [to_torch(array) for array in value.data]
        return tensors if tag == self.SPARSE_LIST_TAG else [tensor.to_sparse() for tensor in tensors]


def feed_ndarray(dali_tensor: Any, arr: Any, cuda_stream: Any = None) -> Any:  # noqa: ARG001  DALI's signature
    """Copy an output tensor of a pipeline into a torch tensor of the same shape and dtype, and return the latter."""
    import torch

    dense = dali_tensor.as_tensor() if hasattr(dali_tensor, "as_tensor") else dali_tensor
    return arr.copy_(torch.from_dlpack(dense))
