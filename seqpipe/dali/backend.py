"""``nvidia.dali.backend``: the classes of outputs."""

from __future__ import annotations

from .tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]
