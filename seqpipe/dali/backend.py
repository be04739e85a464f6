"""``nvidia.dali.backend``: the classes of outputs, the number of GPUs, and the release of CUDA."""

from __future__ import annotations

from .device import gpu_count as GetCUDADeviceCount  # noqa: N812  DALI's name
from .tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU

__all__ = ["GetCUDADeviceCount", "TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU"]

__cuda_version__ = 13000
"""Release of CUDA that kernels are written for, times 1000."""
