"""``nvidia.dali.plugin.pytorch``: iterators that give torch's tensors, on the device where outputs are."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Final

from ...array import to_torch
from ...errors import ParameterError
from ...pipeline.value import Value
from ..pipeline import Pipeline
from .base_iterator import DALIIterator, LastBatchPolicy

__all__ = [
    "DALIClassificationIterator",
    "DALIGenericIterator",
    "DALIRaggedIterator",
    "LastBatchPolicy",
    "feed_ndarray",
]


class DALIGenericIterator(DALIIterator):
    """Batches as dictionaries of torch's tensors; see :class:`seqpipe.dali.plugin.base_iterator.DALIIterator`."""

    def converted(self, value: Value, name: str) -> Any:
        """A tensor ``(N, …)``.

        Raises:
            ParameterError: the samples have different shapes.
        """
        try:
            return to_torch(value.stacked(f"the output {name}"))
        except ParameterError as error:
            error.advice = f"{error.advice}; DALIRaggedIterator gives lists of tensors"
            raise


class DALIClassificationIterator(DALIGenericIterator):
    """The same with two outputs, ``data`` and ``label``."""

    def __init__(
        self, pipelines: Pipeline | Seq[Pipeline], size: int = -1, *args: Any, **options: Any
    ) -> None:
        super().__init__(pipelines, ["data", "label"], size, *args, **options)


class DALIRaggedIterator(DALIIterator):
    """The same for samples of different shapes: lists of tensors, sparse tensors, or one tensor.

    Args:
        pipelines: one, or a list.
        output_map: a name for each output.
        size: as in :class:`DALIGenericIterator`, and so are all others.
        *args: as in :class:`DALIGenericIterator`.
        output_types: for each output DENSE_TAG, SPARSE_LIST_TAG or SPARSE_COO_TAG; by default all are dense.
        **options: as in :class:`DALIGenericIterator`.
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
        kinds = list(output_types) if output_types is not None else [self.DENSE_TAG] * len(output_map)
        known = (self.DENSE_TAG, self.SPARSE_LIST_TAG, self.SPARSE_COO_TAG)
        if len(kinds) != len(output_map) or any(kind not in known for kind in kinds):
            raise ParameterError(
                f"output_types={kinds!r}",
                source="DALIRaggedIterator",
                allowed=f"{len(output_map)} of {', '.join(known)}",
            )
        self._kinds = dict(zip(output_map, kinds, strict=True))
        super().__init__(pipelines, output_map, size, *args, **options)

    def converted(self, value: Value, name: str) -> Any:
        """What the tag of the output says."""
        kind = self._kinds[name.partition(" ")[0]]
        if kind == self.DENSE_TAG:
            return to_torch(value.stacked(f"the output {name}"))
        tensors = [to_torch(part) for part in value.data]
        if kind == self.SPARSE_LIST_TAG:
            return tensors
        import torch

        return [tensor.to_sparse() if isinstance(tensor, torch.Tensor) else tensor for tensor in tensors]


def feed_ndarray(dali_tensor: Any, arr: Any, cuda_stream: Any = None) -> Any:  # noqa: ARG001  it is in order
    """Copy a tensor of a pipeline's outputs into a torch tensor of the same shape and type; returns that."""
    import torch

    found = (
        torch.from_dlpack(dali_tensor)
        if not hasattr(dali_tensor, "as_tensor")
        else torch.from_dlpack(dali_tensor.as_tensor())
    )
    return arr.copy_(found)
