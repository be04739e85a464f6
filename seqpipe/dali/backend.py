"""``nvidia.dali.backend``: the classes of outputs, and the number of GPUs."""

from __future__ import annotations

from .device import gpu_count as GetCUDADeviceCount  # noqa: N812  DALI's name
from .tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

__all__ = ["GetCUDADeviceCount", "TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]
